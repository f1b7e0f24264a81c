"""Problems of a robot are collected and told together, each with its place: one look at a file finds them all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from spacearm.errors import ModelError, shown_path


class ModelErrors(ModelError):
    """Several problems of one robot, in :attr:`problems`; the text shows them all, those with one remedy together."""

    def __init__(self, problems: Iterable[ModelError]) -> None:
        self.problems = tuple(problems)
        super().__init__(f"{len(self.problems)} problems")

    def __str__(self) -> str:
        head = f"{shown_path(self.file)}: {self.message}" if self.file else self.message
        groups: dict[str, list[str]] = {}
        for each in self.problems:
            groups.setdefault(each.hint, []).append(f"{each.place}: {each.message}" if each.place else each.message)
        lines = [head]
        for hint, texts in groups.items():
            lines += [f"  {text}" for text in texts[:-1]]
            lines.append(f"  {texts[-1]} ({hint})" if hint else f"  {texts[-1]}")
        return "\n".join(lines)


@contextmanager
def located(place: str = "", file: str | Path | None = None) -> Iterator[None]:
    """Errors met inside say where they were met, unless they know better."""
    try:
        yield
    except ModelError as error:
        if place and not error.place:
            error.place = place
        if file is not None and error.file is None:
            error.file = Path(file)
        raise


class Problems:
    """Collects the errors of a robot; :meth:`tell` raises them, one as itself and several as :class:`ModelErrors`."""

    def __init__(self) -> None:
        self.found: list[ModelError] = []

    @contextmanager
    def collected(self, place: str = "") -> Iterator[None]:
        """An error inside ends the block and is kept, with this place unless it knows a better one."""
        try:
            with located(place):
                yield
        except ModelErrors as errors:
            self.found += errors.problems
        except ModelError as error:
            self.found.append(error)

    def add(self, message: str, *, place: str = "", hint: str = "") -> None:
        """Keep a problem."""
        self.found.append(ModelError(message, place=place, hint=hint))

    def tell(self) -> None:
        """Raise what was found, each once, if anything."""
        found = list({(each.place, each.message): each for each in reversed(self.found)}.values())[::-1]
        if len(found) == 1:
            raise found[0]
        if found:
            raise ModelErrors(found)
