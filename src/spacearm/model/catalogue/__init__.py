"""Robots as data files: those of the papers, with the source of each number and what was corrected, and a servicer."""

from __future__ import annotations

from functools import cache
from importlib import resources

from spacearm import checks
from spacearm.errors import ModelError, error_context
from spacearm.model.robot import Robot

__all__ = ["load", "names", "text"]


@cache
def names() -> tuple[str, ...]:
    """Names of the robots in the catalogue."""
    files = (entry.name for entry in resources.files(__name__).iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml")))


def text(name: str) -> str:
    """The robot file of this catalogue entry, with its comments on sources and corrections."""
    checks.check_name(name, names(), "robot", of="the catalogue", error=ModelError)
    return resources.files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8")


@cache
def load(name: str) -> Robot:
    """The catalogue's robot of this name."""
    from spacearm.model.toml_read import robot_from_toml

    found = text(name)
    with error_context(file=f"{name}.toml"):
        return robot_from_toml(found)
