"""Control laws as they are written: an expression that is compiled, or a plain Python function; sampled or continuous.

:class:`Law` is given by the user: a function that writes commands over a plant, with period, delay, resolution,
references and sensors. :class:`~spacearm.mechanics.law.LawProgram` is that function compiled for one robot; what a run
makes of it for a phase is a :class:`~spacearm.simulate.prepared_law.PreparedLaw`.

A sampled law is evaluated at ticks and held between them; a continuous one in every stage of every step, its memory
integrated with the state and its saturation monitored as events. Several laws of a system become one program, in which
each may use the commands of the others at the same instant (a linear system, solved once symbolically).

Compiling takes far longer than running, so programs are shared by content: laws whose code, enclosed values and robot
structure agree use one kernel, and gains are inputs (``constants``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations
from types import FunctionType
from typing import Any

import casadi as ca
import numpy as np

from spacearm.checks import integer, number, numbers, positive
from spacearm.engine.noise import channel_key
from spacearm.errors import InputError, error_context, quote_text
from spacearm.mechanics.law import MOST_LATE, Commands, LawProgram, law_program
from spacearm.mechanics.law import combine_commands as joined_commands
from spacearm.mechanics.motion import LoadFrame
from spacearm.mechanics.plant import Plant
from spacearm.mechanics.sensors import ForceTorque, Sensor, apply_sensors
from spacearm.mechanics.structure import Keyed, structure
from spacearm.model import Robot
from spacearm.simulate.checks import check_mapping
from spacearm.simulate.overrides import robot_parameters
from spacearm.simulate.signals import Signal, as_signal
from spacearm.simulate.state import State
from spacearm.typing import Array

#: Parameters of a robot that a law's model has.
_MODEL = ("inertia", "rotor", "stiffness", "rest", "damping", "coupling")


#: Fields of a law that :attr:`Law.fixed_key` is made of.
_FIXED = frozenset({"build", "constants", "delay", "resolution", "limited", "sensors", "given"})


@dataclass(frozen=True, eq=False)
class Law:
    """A control law that acts in a phase.

    Args:
        build: function of a :class:`~spacearm.mechanics.plant.Plant` that returns :class:`Commands`, or a mapping from
            degrees of freedom to forces.
        period: s between ticks, at which the law is evaluated; commands are held between them. None: continuous.
        delay: s from tick to action, a multiple of the period.
        resolution: smallest step of the commands, for all or by name (quantisation).
        references: name to a signal or several, which the law follows.
        limited: whether commands are limited to what the actuators give; saturation is an event.
        model: the robot model that the law assumes; by default the robot that moves.
        system: system of the law, in a world of several.
        name: name in events and errors.
        constants: name to numbers that ``build`` reads from its plant: laws that differ in them share compiled code.
        closed: ``build`` depends on its plant, on names and geometry of the plant's robot and on its closure, and on
            nothing else: laws for which these are equal share compiled code.
        sensors: sensors that the law reads in place of the true state.
        seed: seed of their random numbers, which depend on the seed, the system, the sensor's name and the time of the
            run.
        draw: which of the many random sequences of a seed is used; sample ``i`` of a batch or of roll-outs takes ``draw
            + i``.
        suspect: function of the robot, times and flat states of a failed phase; returns a cause as text, or "".
        given: degrees of freedom that the phase locks, drives along a path or accelerates; set by the phase. The
            accelerations of the latter two are references, ``acceleration of NAME``.
        origin: the law before the phase set ``given``.
    """

    build: Callable[[Plant], Commands | Mapping[str, Any]]
    period: float | None = 0.01
    delay: float = 0.0
    resolution: float | Mapping[str, float] | None = None
    references: Mapping[str, Any] = field(default_factory=dict)
    limited: bool = True
    model: Robot | None = None
    system: str = ""
    name: str = "law"
    constants: Mapping[str, Array] = field(default_factory=dict)
    closed: bool = False
    sensors: Sequence[Sensor] = ()
    seed: int = 0
    draw: int = 0
    suspect: Callable[[Robot, Array, Array], str] | None = None
    given: tuple[str, ...] = ()
    origin: Law | None = None

    def __post_init__(self) -> None:
        with error_context(self.place):
            constants = {name: np.atleast_1d(numbers(value, name)) for name, value in self.constants.items()}
            object.__setattr__(self, "constants", constants)
            if not callable(self.build):
                raise InputError(f"is built by {quote_text(self.build)}", hint="expected a function of a Plant")
            number(self.delay, "delay", least=0.0)
            if self.period is not None:
                positive(self.period, "period", unit="s", hint="expected seconds above zero, None for continuous")
                # A delay is a shift register of whole ticks in the law's memory.
                late = self.delay / self.period
                if late > MOST_LATE:
                    raise InputError(
                        f"the delay of {self.delay:g} s is {late:.3g} periods of {self.period:g} s",
                        hint=f"expected at most {MOST_LATE}",
                    )
                if abs(late - round(late)) > 1e-9:
                    raise InputError(
                        f"the delay of {self.delay:g} s is not a multiple of the period of {self.period:g} s"
                    )
            elif self.delay or self.resolution:
                raise InputError("a continuous law has no delay and no resolution", hint="give it a period")
            check_mapping(self.references, "references", "name to signals")
            given_sensors = (self.sensors,) if isinstance(self.sensors, Sensor) else tuple(self.sensors)
            object.__setattr__(self, "sensors", given_sensors)
            for sensor in given_sensors:
                if not isinstance(sensor, Sensor):
                    raise InputError(f"has the sensor {quote_text(sensor)}", hint="expected Encoder(...), Gyro(...)")
            integer(self.seed, "seed", least=0, most=2**63 - 1)
            integer(self.draw, "draw", least=0, most=2**52)
            given = self.resolution if isinstance(self.resolution, Mapping) else {"": self.resolution or 1.0}
            for step in given.values():
                positive(step, "resolution")

    @property
    def place(self) -> str:
        return f"law {self.name!r}"

    def replace(self, **changes: Any) -> Law:
        """A copy with some fields replaced."""
        if changes.keys() == {"references"}:  # all else is checked already
            with error_context(self.place):
                check_mapping(changes["references"], "references", "name to signals")
            found = object.__new__(type(self))
            found.__dict__.update({name: getattr(self, name) for name in self.__dataclass_fields__} | changes)
        else:
            found = replace(self, **changes)
        if "references" not in changes and "signals" in self.__dict__:
            found.__dict__["signals"] = self.signals  # checked already
        if "build" not in changes and "build_key" in self.__dict__:
            found.__dict__["build_key"] = self.build_key
        if not _FIXED & changes.keys() and "fixed_key" in self.__dict__:
            found.__dict__["fixed_key"] = self.fixed_key
        return found

    @cached_property
    def build_key(self) -> Hashable:
        """Key of what ``build`` does; a TypeError if that may change."""
        return closure_key(self.build)

    @cached_property
    def fixed_key(self) -> Keyed[None]:
        """Key of what its program depends on besides references, period and model; a TypeError as for ``build_key``."""
        constants = tuple((name, value.size) for name, value in self.constants.items())
        sensors = closure_key(self.sensors)
        settings = self.delay, repr(self.resolution), self.limited, self.given
        return Keyed((self.build_key, constants, sensors, settings), None)

    def prescribe_dofs(self, robot: Robot, given: Sequence[str], accelerations: Mapping[str, Signal]) -> Law:
        """The law in a phase that locks, drives and accelerates these degrees of freedom."""
        if not given or not self.program(robot).reacts:
            return self
        known = {f"acceleration of {name}": signal for name, signal in accelerations.items()}
        return self.replace(given=tuple(given), references={**self.references, **known}, origin=self)

    @cached_property
    def signals(self) -> dict[str, tuple[Signal, ...]]:
        """Entries of each reference, as signals."""
        found: dict[str, tuple[Signal, ...]] = {}
        for name, given in self.references.items():
            several = isinstance(given, list | tuple | np.ndarray | Sequence) and not isinstance(given, str)
            entries = [*given] if several else [given]
            place = f"{self.place}, reference {name!r}"
            found[name] = tuple(as_signal(entry, place) for entry in entries)
            if not all(signal.finite for signal in found[name]):
                raise InputError("holds numbers that are not finite", place=place)
        return found

    def channels(self) -> list[tuple[Array, Array]]:
        """Breaks and coefficients of every reference: values, rates, accelerations of its entries."""
        columns = []
        for entries in self.signals.values():
            rates = [signal.derivative() for signal in entries]
            columns += [*entries, *rates, *(rate.derivative() for rate in rates)]
        return [(signal.breaks, signal.coefficients) for signal in columns]

    def program(self, robot: Robot, wrench_frames: tuple[LoadFrame, ...] = ()) -> LawProgram:
        """The law of this robot as a program, made once; its force/torque sensors measure wrenches on these frames."""
        bodies = {robot.frame(sensor.frame).body for sensor in self.sensors if isinstance(sensor, ForceTorque)}
        return _program(self, robot, tuple(load for load in wrench_frames if robot.frame(load.frame).body in bodies))

    def numbers(self, robot: Robot) -> Array:
        """Parameters of the model that it assumes, then its constants, as one vector."""
        own = robot_parameters(self.model or robot)
        return np.concatenate([*(own[name] for name in _MODEL), *self.constants.values()])

    def random_channels(self, robot: Robot) -> Any:
        """(numbers, 2) int64: channel of each of its random numbers, and whether it is drawn once."""
        keys = [(channel_key(self.system, owner, k), once) for owner, k, once in self.program(robot).random_numbers]
        return np.array(keys, dtype=np.int64).reshape(-1, 2)

    def commands_of(self, robot: Robot) -> tuple[str, ...]:
        return self.program(robot).levels

    def frames(self, robot: Robot) -> tuple[LoadFrame, ...]:
        """Frames on which its thrusters act."""
        return tuple(dict.fromkeys(what for kind, what, _ in self.program(robot).actions if kind == "wrench"))

    def acceleration_dofs(self, robot: Robot) -> tuple[str, ...]:
        """Degrees of freedom whose acceleration it commands."""
        return tuple(what for kind, what, _ in self.program(robot).actions if kind == "drive")


@dataclass(frozen=True, eq=False)
class CombinedLaw(Law):
    """Several laws as one, each with its own sensors."""


@dataclass(frozen=True, eq=False)
class PythonLaw(Law):
    """A law that is a plain Python function, called at each tick, for laws that cannot be written as an expression.

    ``build`` is called with the time (s since the phase's start), the :class:`State` and the references (name to value,
    rate and acceleration), and returns degree of freedom to force. It manages its own memory.

    Args:
        forces: the degrees of freedom that it commands.
    """

    build: Callable[[float, State, Mapping[str, tuple[Array, ...]]], Mapping[str, float]]  # type: ignore[assignment]
    forces: Sequence[str] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        with error_context(self.place):
            if self.period is None or self.delay:
                raise InputError("a Python function is called at a period, and implements its own delay")
            if self.sensors:
                raise InputError("a Python function gets the true state", hint="let the function model its own sensors")
            if isinstance(self.forces, str) or not self.forces:
                raise InputError("commands nothing", hint="expected forces=[names of degrees of freedom]")

    def program(self, robot: Robot, wrench_frames: tuple[LoadFrame, ...] = ()) -> LawProgram:
        """Its commands as references: only the limits of the actuators remain to be compiled."""
        del wrench_frames
        return _python_program(self, robot)

    def channels(self) -> list[tuple[Array, Array]]:
        """None: the solver evaluates no reference."""
        return []

    def ask(self, time: float, state: State) -> Array:
        """Its commands at this time (s since the phase's start) and state, in the order of ``forces``."""
        references = {
            name: tuple(np.array([signal(time) for signal in order]) for order in orders)
            for name, orders in self._orders.items()
        }
        with error_context(f"{self.place} at t = {time:.9g} s"):
            given = dict(self.build(time, state, references))
            if {*given} != {*self.forces}:
                raise InputError(f"commands {', '.join(map(str, given)) or 'nothing'}", hint=f"expected {self.forces}")
            return np.array([number(given[name], f"command of {name!r}") for name in self.forces])

    @cached_property
    def _orders(self) -> dict[str, list[list[Signal]]]:
        found = {}
        for name, entries in self.signals.items():
            rates = [entry.derivative() for entry in entries]
            found[name] = [[*entries], rates, [rate.derivative() for rate in rates]]
        return found


def common_period(periods: Sequence[float | None], place: str) -> tuple[float | None, list[int]]:
    """The shortest period (None: all are continuous), and the multiple of it that each law has."""
    given = [period for period in periods if period is not None]
    shortest = min(given, default=None)
    if shortest is None:
        return None, [1] * len(periods)
    # 1e-9: periods are decimal numbers, whose quotient is whole only to rounding.
    every = [round(period / shortest) for period in given]
    fits = all(abs(period / shortest - k) <= 1e-9 * k for period, k in zip(given, every, strict=True))
    if len(given) < len(periods) or not fits:
        raise InputError(
            "have periods that are not multiples", place=place, hint="expected whole multiples of the shortest"
        )
    return shortest, every


@lru_cache(maxsize=64)
def combine_laws(laws: tuple[Law, ...]) -> Law:
    """Several laws of one system as one: at the shortest of their periods, of which the others are multiples."""
    if len(laws) == 1:
        return laws[0]
    place = "laws " + ", ".join(repr(law.name) for law in laws)
    shortest, every = common_period([law.period for law in laws], place)
    alike = {(law.model, law.system, law.limited, law.delay, repr(law.resolution), law.seed, law.draw) for law in laws}
    if any(isinstance(law, PythonLaw) for law in laws) or len(alike) > 1:
        raise InputError(
            "cannot act together",
            place=place,
            hint="expected expressions with the same model, limits, delay, resolution, seed",
        )

    def build_sum(plant: Plant) -> Commands:
        programs = [law.program(plant.robot) for law in laws]
        for a, b in combinations(range(len(laws)), 2):
            for name in {*programs[a].levels} & {*programs[b].levels}:
                names = f"{laws[a].name!r} and {laws[b].name!r}"
                raise InputError(
                    f"{names} both command {name!r}", hint="expected one law for each actuator: joints=..."
                )
        kinds = [{what: kind for kind, what, _ in own.actions if kind != "wrench"} for own in programs]
        for k, own in enumerate(programs):  # a held force acts unchanged, whatever was expected at its tick
            kinds[k] |= dict.fromkeys(own.expected if every[k] == 1 else (), "drive")
        # Placeholders for the commands of the other laws; joined_commands solves for them.
        unknown = {name: ca.SX.sym(f"{kind} of {name}") for own in kinds for name, kind in own.items()}
        dofs = plant.robot.dof_names
        measured = {k: ca.SX.sym(f"measured {k}", len(dofs)) for k, own in enumerate(programs) if own.measures}
        found = []
        for k, law in enumerate(laws):
            view, others = plant.view(f"{k}.", law.period), [own for own in kinds if own is not kinds[k]]
            # Each law sees the others' commands as symbols: forces act, accelerations are given.
            view.other_forces = {name: unknown[name] for own in others for name in own if own[name] == "force"}
            view.known_accelerations = {
                name: unknown[name] for own in others for name in own if own[name] == "drive"
            } | plant.known_accelerations
            for own_force in (force for other, force in measured.items() if other != k):
                view.measured_force = own_force + (0.0 if view.measured_force is None else view.measured_force)
            given = apply_sensors(view, law.sensors, law.build)
            found.append((f"{k}.", every[k], given if isinstance(given, Commands) else Commands(given)))
        forces = [ca.vertcat(*(found[k][2].measured.get(name, 0.0) for name in dofs)) for k in measured]
        known = [(prefix, count, own.substitute([*measured.values()], forces)) for prefix, count, own in found]
        return joined_commands(plant, known, unknown)

    def explain_end(robot: Robot, times: Array, states: Array) -> str:
        return "".join(law.suspect(robot, times, states) for law in laws if law.suspect is not None)

    references = {f"{k}.{name}": given for k, law in enumerate(laws) for name, given in law.references.items()}
    constants = {f"{k}.{name}": given for k, law in enumerate(laws) for name, given in law.constants.items()}
    common = {name: getattr(laws[0], name) for name in ("delay", "resolution", "limited", "model", "system")}
    return CombinedLaw(
        build_sum,
        shortest,
        references=references,
        constants=constants,
        name=" and ".join(law.name for law in laws),
        closed=all(law.closed for law in laws),
        sensors=[sensor for law in laws for sensor in law.sensors],
        seed=laws[0].seed,
        draw=laws[0].draw,
        suspect=explain_end,
        **common,
    )


@lru_cache(maxsize=64)
def _program(law: Law, robot: Robot, wrench_frames: tuple[LoadFrame, ...]) -> LawProgram:
    model = law.model or robot
    if (model.dof_names, model.thrusters) != (robot.dof_names, robot.thrusters):
        raise InputError("its model has other joints or thrusters than the robot", place=law.place)
    try:
        key = _key(law, model)
    except TypeError:  # its closure may change
        return _write_program(law, model, wrench_frames)[0]
    # Which frames a law uses is known only after it is written; their placements belong to the key of its program. So
    # it is written once to learn them, and that program is used if none is kept for these placements.
    made: list[LawProgram] = []
    if key not in _frames_used:
        program, _frames_used[key] = _write_program(law, model)
        made.append(program)
    frames = tuple(model.frame(name) for name in _frames_used[key])
    return _build_program(Keyed((key, frames), lambda: made[0] if made else _write_program(law, model)[0]))


@lru_cache(maxsize=64)
def _build_program(made: Keyed[Callable[[], LawProgram]]) -> LawProgram:
    return made.value()


#: The frames that laws refer to, by all that tells them apart but the placements of these.
_frames_used: dict[Hashable, tuple[str, ...]] = {}


def _key(law: Law, model: Robot) -> Hashable:
    """Everything that the program of a closed law depends on, except the placements of frames; a TypeError for other
    laws.
    """
    if not law.closed or any(isinstance(sensor, ForceTorque) for sensor in law.sensors):
        raise TypeError
    sizes = tuple((name, len(entries)) for name, entries in law.signals.items())
    return law.fixed_key, sizes, law.period, _model_key(model)


@lru_cache(maxsize=64)
def _model_key(model: Robot) -> Keyed[None]:
    """What the program of a law depends on of its model."""
    # Limits are compiled into the saturation of the commands.
    limits = tuple((joint.limits, joint.rotor) for joint in model.joints)
    return Keyed((structure(model), limits, model.wheel_names, model.mode_names, model.thrusters), None)


def closure_key(value: Any) -> Hashable:
    """Key of a function's behaviour from its code and closure; a TypeError if these may change."""
    # Code objects compare by content: two functions from the same source with equal closures are one law.
    if isinstance(value, FunctionType):
        cells = tuple(closure_key(cell.cell_contents) for cell in value.__closure__ or ())
        return value.__code__, closure_key(value.__defaults__ or ()), cells
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return tuple(map(closure_key, value))
    if isinstance(value, Law) and value.closed:
        return closure_key(value.build), value.period, closure_key(value.sensors)
    if isinstance(value, Sensor):
        return type(value), tuple(closure_key(getattr(value, each.name)) for each in fields(value))
    if isinstance(value, Robot):  # the law's own model: its relevant parameters are in the key
        return value.structure
    if is_dataclass(value) and not isinstance(value, type) and type(value).__hash__ is not object.__hash__:
        return type(value), tuple(closure_key(getattr(value, each.name)) for each in fields(value))
    if value is None or isinstance(value, bool | int | float | str | type):
        return type(value), value
    raise TypeError


def _write_program(
    law: Law, model: Robot, wrench_frames: tuple[LoadFrame, ...] = ()
) -> tuple[LawProgram, tuple[str, ...]]:
    """The program of a law over this robot, and the frames that it refers to."""
    sizes = {name: len(entries) for name, entries in law.signals.items()}
    plant = _plant(law, model, sizes, wrench_frames)
    with error_context(law.place):
        try:
            given = law.build(plant) if isinstance(law, CombinedLaw) else apply_sensors(plant, law.sensors, law.build)
        except (RuntimeError, NotImplementedError) as error:  # CasADi's own
            raise InputError(f"cannot be built: {str(error).strip().splitlines()[-1].split(': ', 1)[-1]}") from error
        if not isinstance(given, Commands):
            check_mapping(given, law.place, "degree of freedom to force")
            given = Commands(given)
        periods = 0 if law.period is None else round(law.delay / law.period)
        found = law_program(
            plant, given, delay=periods, resolution=_command_resolution(law, given), limited=law.limited
        )
        return found, tuple(plant.used)


def _plant(law: Law, model: Robot, references: Mapping[str, int], wrench_frames: tuple[LoadFrame, ...] = ()) -> Plant:
    own = robot_parameters(model)
    parameters = {name: own[name].size for name in _MODEL}
    constants = {name: own.size for name, own in law.constants.items()}
    plant = Plant(model, parameters, references, law.period, constants, wrench_frames)
    # Locked degrees of freedom have no reference: their acceleration is zero.
    known = {name: plant.references.get(f"acceleration of {name}") for name in law.given}
    plant.known_accelerations = {name: ca.SX(0) if found is None else found[0] for name, found in known.items()}
    return plant


def _command_resolution(law: Law, commands: Commands) -> Mapping[str, float]:
    """Quantisation step of each command."""
    if law.resolution is None or isinstance(law.resolution, Mapping):
        return law.resolution or {}
    return dict.fromkeys((*commands.forces, *commands.accelerations), float(law.resolution))


@lru_cache(maxsize=64)
def _python_program(law: PythonLaw, robot: Robot) -> LawProgram:
    plant = _plant(law, robot, {"command": len(law.forces)})
    commands = Commands(plant.values_by_name(plant.reference("command").value, law.forces))
    with error_context(law.place):
        return law_program(plant, commands, resolution=_command_resolution(law, commands), limited=law.limited)
