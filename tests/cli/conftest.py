"""A robot, its file, and modules in place of the real ones."""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from spacearm import Body, Frame, Inertia, Joint, Robot
from spacearm.model import Friction, Rotor, Spring, Thruster
from spacearm.model.files import save


@pytest.fixture
def robot() -> Robot:
    return Robot(
        "two [red]arms[/red]",  # names may look like markup
        (
            Body("hub", Inertia(100.0, np.zeros(3), 10.0 * np.eye(3))),
            Body("arm", Inertia(5.0, [0.5, 0.0, 0.0], np.eye(3))),
            Body("slide", Inertia(2.5, np.zeros(3), 0.1 * np.eye(3))),
        ),
        (
            Joint("shoulder", "revolute", "hub", "arm", friction=Friction(2.0, 1.0), rotor=Rotor(1e-4, 100.0)),
            Joint("rail", "prismatic", "arm", "slide", spring=Spring(100.0), damping=3.0),
        ),
        (Frame("hand", "slide"),),
        (Thruster("jet", "hub", np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0]), 22.0),),
        configurations={"home": np.array([0.1, 0.2])},
    )


@pytest.fixture
def robot_file(robot: Robot, tmp_path: Path) -> Path:
    return save(robot, tmp_path / "robot.toml")


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts a module of this name and these functions in place of the real one."""

    def put(name: str, **functions: object) -> None:
        module = types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        for key, function in functions.items():
            setattr(module, key, function)
        package, _, own = name.rpartition(".")
        monkeypatch.setattr(importlib.import_module(package), own, module, raising=False)  # may import the real one
        monkeypatch.setitem(sys.modules, name, module)

    return put
