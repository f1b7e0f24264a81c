"""spacearm: dynamics of robot arms on free-floating satellites.

The public names live in the packages (``spacearm.model``, ``spacearm.mechanics``, ``spacearm.engine``,
``spacearm.simulate``, ...). Names and packages are fetched on first use, so that ``import spacearm`` costs next to
nothing and yet suffices: ``spacearm.State``, ``spacearm.impact``. ``spacearm.simulate`` is a function, with the names
of its package as attributes::

    import spacearm as sa

    robot = sa.load("arm.urdf")
    run = sa.simulate(robot, sa.State.at_rest(robot), 10.0)
    sa.show(run)
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spacearm import campaign as campaign
    from spacearm import capture as capture
    from spacearm import checks as checks
    from spacearm import connect as connect
    from spacearm import control as control
    from spacearm import deadline as deadline
    from spacearm import ejection as ejection
    from spacearm import engine as engine
    from spacearm import errors as errors
    from spacearm import export as export
    from spacearm import figure_files as figure_files
    from spacearm import figures as figures
    from spacearm import identify as identify
    from spacearm import impact as impact
    from spacearm import measure as measure
    from spacearm import mechanics as mechanics
    from spacearm import mission as mission
    from spacearm import model as model
    from spacearm import motion as motion
    from spacearm import optimise as optimise
    from spacearm import papers as papers
    from spacearm import report as report
    from spacearm import result as result
    from spacearm import scene as scene
    from spacearm import study as study
    from spacearm import text_format as text_format
    from spacearm import typing as typing
    from spacearm import validation as validation
    from spacearm import worker_process as worker_process
    from spacearm.deadline import time_limit as time_limit
    from spacearm.engine import Mechanics as Mechanics
    from spacearm.errors import EngineError as EngineError
    from spacearm.errors import InputError as InputError
    from spacearm.errors import ModelError as ModelError
    from spacearm.errors import SimulationError as SimulationError
    from spacearm.errors import SpacearmError as SpacearmError
    from spacearm.errors import TimeLimitError as TimeLimitError
    from spacearm.model import Body as Body
    from spacearm.model import Frame as Frame
    from spacearm.model import Inertia as Inertia
    from spacearm.model import Joint as Joint
    from spacearm.model import Pose as Pose
    from spacearm.model import Robot as Robot
    from spacearm.model import catalogue as catalogue
    from spacearm.model import load as load
    from spacearm.model import save as save
    from spacearm.result import Result as Result
    from spacearm.scene import scene_of as scene_of
    from spacearm.scene import show as show
    from spacearm.simulate import RK4 as RK4
    from spacearm.simulate import Dopri853 as Dopri853
    from spacearm.simulate import Event as Event
    from spacearm.simulate import Load as Load
    from spacearm.simulate import Phase as Phase
    from spacearm.simulate import Run as Run
    from spacearm.simulate import Simulator as Simulator
    from spacearm.simulate import State as State
    from spacearm.simulate import VectorSimulator as VectorSimulator
    from spacearm.simulate import World as World
    from spacearm.simulate import compare as compare
    from spacearm.simulate import cross_check as cross_check
    from spacearm.simulate import load_run as load_run
    from spacearm.simulate import simulate as simulate
    from spacearm.simulate import simulate_batch as simulate_batch
    from spacearm.simulate import spline as spline
    from spacearm.simulate.ensemble.rollout import rollout as rollout


__version__ = "0.2.0"

__all__ = [
    "RK4",
    "Body",
    "Dopri853",
    "EngineError",
    "Event",
    "Frame",
    "Inertia",
    "InputError",
    "Joint",
    "Load",
    "Mechanics",
    "ModelError",
    "Phase",
    "Pose",
    "Result",
    "Robot",
    "Run",
    "SimulationError",
    "Simulator",
    "SpacearmError",
    "State",
    "TimeLimitError",
    "VectorSimulator",
    "World",
    "__version__",
    "catalogue",
    "compare",
    "cross_check",
    "load",
    "load_run",
    "rollout",
    "save",
    "scene_of",
    "show",
    "simulate",
    "simulate_batch",
    "spline",
    "time_limit",
]

#: Where each public name lives. The imports above say the same to type checkers; a test compares the three lists.
_HOME = {
    "time_limit": "spacearm.deadline",
    "Mechanics": "spacearm.engine",
    "EngineError": "spacearm.errors",
    "InputError": "spacearm.errors",
    "ModelError": "spacearm.errors",
    "SimulationError": "spacearm.errors",
    "SpacearmError": "spacearm.errors",
    "TimeLimitError": "spacearm.errors",
    "Body": "spacearm.model",
    "Frame": "spacearm.model",
    "Inertia": "spacearm.model",
    "Joint": "spacearm.model",
    "Pose": "spacearm.model",
    "Robot": "spacearm.model",
    "catalogue": "spacearm.model",
    "load": "spacearm.model",
    "save": "spacearm.model",
    "Result": "spacearm.result",
    "RK4": "spacearm.simulate",
    "Dopri853": "spacearm.simulate",
    "Event": "spacearm.simulate",
    "Load": "spacearm.simulate",
    "Phase": "spacearm.simulate",
    "State": "spacearm.simulate",
    "rollout": "spacearm.simulate.ensemble.rollout",
    "simulate_batch": "spacearm.simulate",
    "Run": "spacearm.simulate",
    "Simulator": "spacearm.simulate",
    "VectorSimulator": "spacearm.simulate",
    "World": "spacearm.simulate",
    "compare": "spacearm.simulate",
    "load_run": "spacearm.simulate",
    "spline": "spacearm.simulate",
    "scene_of": "spacearm.scene",
    "show": "spacearm.scene",
    "cross_check": "spacearm.simulate",
}
#: The packages, and the modules that all of them use.
_PACKAGES = (
    "campaign",
    "capture",
    "checks",
    "connect",
    "control",
    "deadline",
    "figure_files",
    "ejection",
    "engine",
    "errors",
    "export",
    "figures",
    "worker_process",
    "identify",
    "impact",
    "measure",
    "mechanics",
    "mission",
    "model",
    "motion",
    "optimise",
    "papers",
    "report",
    "result",
    "scene",
    "simulate",
    "study",
    "typing",
    "text_format",
    "validation",
)
#: Modules that the packages use and nobody else needs.
_INTERNAL_MODULES = ("checks", "deadline", "figure_files", "worker_process", "typing", "text_format")


class _Package(ModuleType):
    """This package. Importing the package of its name would hide the function ``simulate``: it stays a function."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value.simulate if name == "simulate" and isinstance(value, ModuleType) else value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        import_module(f"spacearm.{name}")  # importing it also puts it here
        return globals()[name]
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module 'spacearm' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_PACKAGES} - {*_INTERNAL_MODULES})
