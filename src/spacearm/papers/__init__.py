"""The five papers: which they are, and the modules that reproduce them.

A paper's module ``spacearm.papers.<name>`` has one function that the command line calls::

    def reproduce(*, cross_check: bool, progress: Callable[[float, str], None] | None) -> Result: ...

``progress`` takes the fraction done (0 to 1) and what is being done. The registry imports a module only when its paper
is run.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files

from spacearm.errors import InputError, did_you_mean, quote_text
from spacearm.result import Result

__all__ = [
    "select",
]

Progress = Callable[[float, str], None]


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper and its reproduction."""

    name: str
    authors: str
    year: int
    title: str
    topic: str

    @property
    def module(self) -> str:
        return f"spacearm.papers.{self.name}"

    def reproduce(self, *, cross_check: bool = False, progress: Progress | None = None) -> Result:
        """Run the paper's cases."""
        result: Result = import_module(self.module).reproduce(cross_check=cross_check, progress=progress)
        return result


#: The papers by name, as on the command line.
PAPERS = {
    name: Paper(name, **entry)
    for name, entry in tomllib.loads((files(__name__) / "papers.toml").read_text(encoding="utf-8")).items()
}


def select(names: Iterable[str]) -> list[Paper]:
    """The papers of these names, each once, in the order given; ``all`` stands for every one."""
    chosen: dict[str, Paper] = {}
    for name in names:
        if name == "all":
            chosen.update(PAPERS)
        elif name in PAPERS:
            chosen[name] = PAPERS[name]
        else:
            raise InputError(f"there is no paper {quote_text(name)}", hint=did_you_mean(name, (*PAPERS, "all")))
    if not chosen:
        raise InputError("no paper is named", hint="expected 'all' or some of " + ", ".join(PAPERS))
    return list(chosen.values())
