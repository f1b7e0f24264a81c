"""Problems of a robot are collected and reported together, each with its place: one look at a file finds them all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from spacearm.errors import ModelError, error_context

#: An error shows no more problems than this: a file that is no robot at all shall not fill the screen.
MOST_SHOWN = 100


class ModelErrors(ModelError):
    """Several problems of one robot, in :attr:`problems`; the text shows them all, those with one remedy together."""

    def __init__(self, problems: Iterable[ModelError]) -> None:
        self.problems = tuple(problems)
        super().__init__(f"{len(self.problems)} problems")

    @classmethod
    def from_problems(cls, problems: Iterable[ModelError]) -> ModelError:
        """Each problem once: one as itself, several as one error."""
        found = list({(each.place, each.message): each for each in reversed(list(problems))}.values())[::-1]
        return found[0] if len(found) == 1 else cls(found)

    def __str__(self) -> str:
        head = super().__str__()
        if len(self.problems) > MOST_SHOWN:
            head += f", of which these are the first {MOST_SHOWN}"
        groups: dict[str, list[str]] = {}
        for each in self.problems[:MOST_SHOWN]:
            groups.setdefault(each.hint, []).append(f"{each.place}: {each.message}" if each.place else each.message)
        lines = [head]
        for hint, texts in groups.items():
            if len(texts) == 1 and hint:
                lines.append(f"  {texts[0]} ({hint})")
            else:
                lines += [f"  {text}" for text in texts] + ([f"    ({hint})"] if hint else [])
        return "\n".join(lines)


class Problems:
    """Collects the errors of a robot; :meth:`raise_all` raises them, one as itself and several as
    :class:`ModelErrors`."""

    def __init__(self) -> None:
        self.found: list[ModelError] = []

    @contextmanager
    def collect_errors(self, place: str = "") -> Iterator[None]:
        """An error inside ends the block and is kept, with this place unless it knows a better one."""
        try:
            with error_context(place, fallback=True):
                yield
        except ModelErrors as errors:
            self.found += errors.problems
        except ModelError as error:
            self.found.append(error)

    def add(self, message: str, *, place: str = "", hint: str = "") -> None:
        """Add a problem to those that are reported together."""
        self.found.append(ModelError(message, place=place, hint=hint))

    def raise_all(self) -> None:
        """Raise what was found, if anything."""
        if self.found:
            raise ModelErrors.from_problems(self.found)
