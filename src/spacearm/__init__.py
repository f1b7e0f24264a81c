"""spacearm: dynamics of robot arms on free-floating satellites.

The public names live in the rooms (``spacearm.model``, ``spacearm.mechanics``, ``spacearm.engine``,
``spacearm.simulate``, ...) and are fetched from there on first use, so that ``import spacearm`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spacearm.engine import Kernel as Kernel
    from spacearm.engine import Mechanics as Mechanics
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
    from spacearm.model import load as load
    from spacearm.model import save as save
    from spacearm.report import write_result as write_result
    from spacearm.result import Check as Check
    from spacearm.result import Figure as Figure
    from spacearm.result import Result as Result
    from spacearm.result import Row as Row
    from spacearm.result import Verdict as Verdict

__version__ = "0.1.0"

__all__ = [
    "Body",
    "Check",
    "Coupling",
    "EngineError",
    "Figure",
    "Frame",
    "Friction",
    "Inertia",
    "InputError",
    "Joint",
    "Kernel",
    "Limits",
    "Mechanics",
    "ModelError",
    "Pose",
    "Result",
    "Robot",
    "Rotor",
    "Row",
    "SimulationError",
    "SpacearmError",
    "Spring",
    "Thruster",
    "Verdict",
    "__version__",
    "load",
    "save",
    "write_result",
]

#: Where each public name lives. The imports above say the same to type checkers; a test compares the three lists.
_HOME = {
    "Kernel": "spacearm.engine",
    "Mechanics": "spacearm.engine",
    "EngineError": "spacearm.errors",
    "InputError": "spacearm.errors",
    "ModelError": "spacearm.errors",
    "SimulationError": "spacearm.errors",
    "SpacearmError": "spacearm.errors",
    "Body": "spacearm.model",
    "Coupling": "spacearm.model",
    "Frame": "spacearm.model",
    "Friction": "spacearm.model",
    "Inertia": "spacearm.model",
    "Joint": "spacearm.model",
    "Limits": "spacearm.model",
    "Pose": "spacearm.model",
    "Robot": "spacearm.model",
    "Rotor": "spacearm.model",
    "Spring": "spacearm.model",
    "Thruster": "spacearm.model",
    "load": "spacearm.model",
    "save": "spacearm.model",
    "write_result": "spacearm.report",
    "Check": "spacearm.result",
    "Figure": "spacearm.result",
    "Result": "spacearm.result",
    "Row": "spacearm.result",
    "Verdict": "spacearm.result",
}


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module 'spacearm' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
