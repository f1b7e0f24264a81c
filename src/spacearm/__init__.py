"""spacearm: dynamics of robot arms on free-floating satellites.

The public names live in the rooms (``spacearm.model``, ``spacearm.mechanics``, ``spacearm.engine``,
``spacearm.simulate``, ...) and are fetched from there on first use, so that ``import spacearm`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spacearm.errors import EngineError as EngineError
    from spacearm.errors import InputError as InputError
    from spacearm.errors import ModelError as ModelError
    from spacearm.errors import SimulationError as SimulationError
    from spacearm.errors import SpacearmError as SpacearmError
    from spacearm.model import Body as Body
    from spacearm.model import Coupling as Coupling
    from spacearm.model import Frame as Frame
    from spacearm.model import Friction as Friction
    from spacearm.model import Inertia as Inertia
    from spacearm.model import Joint as Joint
    from spacearm.model import Limits as Limits
    from spacearm.model import Pose as Pose
    from spacearm.model import Robot as Robot
    from spacearm.model import Rotor as Rotor
    from spacearm.model import Spring as Spring
    from spacearm.model import Thruster as Thruster
    from spacearm.report import write_result as write_result
    from spacearm.result import Check as Check
    from spacearm.result import Figure as Figure
    from spacearm.result import Result as Result
    from spacearm.result import Row as Row
    from spacearm.result import Verdict as Verdict

__version__ = "0.1.0"

#: Where each public name lives. The imports above say the same to type checkers; a test compares the two.
_HOME = {
    "spacearm.errors": ("EngineError", "InputError", "ModelError", "SimulationError", "SpacearmError"),
    "spacearm.model": (
        "Body",
        "Coupling",
        "Frame",
        "Friction",
        "Inertia",
        "Joint",
        "Limits",
        "Pose",
        "Robot",
        "Rotor",
        "Spring",
        "Thruster",
    ),
    "spacearm.report": ("write_result",),
    "spacearm.result": ("Check", "Figure", "Result", "Row", "Verdict"),
}
_NAMES = {name: module for module, names in _HOME.items() for name in names}

__all__ = ["__version__", *sorted(_NAMES)]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    module = _NAMES.get(name)
    if module is None:
        raise AttributeError(f"module 'spacearm' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
