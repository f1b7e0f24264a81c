"""Control laws in a run: an expression that is compiled, or a plain Python function; sampled or continuous.

Three layers. :class:`Law` is what a user gives: a function that writes commands over a plant, with period, delay,
resolution, references and sensors. :class:`~spacearm.mechanics.law.LawProgram` is that function compiled for one robot.
:class:`PreparedLaw` adds where its inputs and outputs stand in the solver's buffers for one phase.

A sampled law is evaluated at ticks and held between them; a continuous one in every stage of every step, its memory
integrated with the state and its saturation watched as events. Several laws of a system become one program, in which
each may count on what the others command at the same instant (a linear system, solved once in symbols).

Compiling takes far longer than running, so programs are shared by content: laws whose code, enclosed values and robot
structure agree use one kernel, and gains are inputs (``constants``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations
from types import FunctionType
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from spacearm.checks import number, numbers, positive, whole
from spacearm.engine import Kernel
from spacearm.engine import law as engine
from spacearm.engine.noise import channel_key
from spacearm.engine.signals import Signals
from spacearm.errors import InputError, at, quoted
from spacearm.mechanics import LoadFrame
from spacearm.mechanics.law import MOST_LATE, Commands, LawProgram, law_program
from spacearm.mechanics.law import together as joined_commands
from spacearm.mechanics.plant import Plant
from spacearm.mechanics.sensors import ForceTorque, Sensor, sensed
from spacearm.mechanics.structure import Keyed, structure
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.model.robot import BASE_DOFS
from spacearm.simulate.checks import mapping
from spacearm.simulate.overrides import robot_parameters
from spacearm.simulate.signals import Signal, as_signal
from spacearm.simulate.state import State
from spacearm.typing import Array

#: Parameters of a robot that a law's model has.
_MODEL = ("inertia", "rotor", "stiffness", "rest", "damping", "coupling")
#: Numbers that the answers of one phase may take: 400 MB.
MOST_ANSWERS = 50_000_000
#: Times between ticks, in one phase, at which drives met their rate limits.
MOST_CUTS = 1_000_000
#: Share of a period within which a tick and the start of a phase are the same instant.
SAME_INSTANT = 1e-9


@dataclass(frozen=True, eq=False)
class Law:
    """A control law that acts in a phase.

    Args:
        build: gets a :class:`~spacearm.mechanics.plant.Plant`, gives :class:`Commands`, or a mapping from degrees of
            freedom to forces.
        period: s between ticks, at which the law is asked; commands are held between them. None: continuous.
        delay: s from tick to action, a whole number of periods.
        resolution: smallest step of the commands, for all or by name (quantisation).
        references: name to a signal or several, which the law follows.
        limited: whether commands are held within what the actuators give; where they are, that is an event.
        model: the robot that the law believes in; the one that moves unless given.
        system: whose law it is, in a world of several.
        name: in events and errors.
        constants: name to numbers that ``build`` asks its plant for: laws that differ in them share compiled code.
        closed: ``build`` depends on its plant, on names and geometry of the plant's robot and on what it encloses, and
            on nothing else: laws in which these are equal share compiled code.
        sensors: what the law reads in place of the true state.
        seed: of their random numbers, which belong to the seed, the system, the sensor's name and the time of the run.
        draw: which of the many courses of random numbers that a seed has; sample ``i`` of a batch or of roll-outs takes
            ``draw + i``.
        suspect: gets the robot, times and flat states of a phase that broke down; gives a cause in words, or "".
        given: degrees of freedom that are locked, follow a path or are accelerated by the phase, which fills this in;
            the accelerations of the latter two are references, ``acceleration of NAME``.
        origin: the law as it was before the phase filled in ``given``.
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
        with at(self.place):
            constants = {name: np.atleast_1d(numbers(value, name)) for name, value in self.constants.items()}
            object.__setattr__(self, "constants", constants)
            if not callable(self.build):
                raise InputError(f"is built by {quoted(self.build)}", hint="expected a function of a Plant")
            number(self.delay, "delay", least=0.0)
            if self.period is not None:
                positive(self.period, "period", unit="s", hint="expected seconds above zero, None for continuous")
                late = self.delay / self.period
                if late > MOST_LATE:
                    raise InputError(
                        f"the delay of {self.delay:g} s is {late:.3g} periods of {self.period:g} s",
                        hint=f"expected at most {MOST_LATE}",
                    )
                if abs(late - round(late)) > 1e-9:
                    raise InputError(
                        f"the delay of {self.delay:g} s is no whole number of periods of {self.period:g} s"
                    )
            elif self.delay or self.resolution:
                raise InputError("a continuous law has no delay and no resolution", hint="give it a period")
            mapping(self.references, "references", "name to signals")
            given_sensors = (self.sensors,) if isinstance(self.sensors, Sensor) else tuple(self.sensors)
            object.__setattr__(self, "sensors", given_sensors)
            for sensor in given_sensors:
                if not isinstance(sensor, Sensor):
                    raise InputError(f"has the sensor {quoted(sensor)}", hint="expected Encoder(...), Gyro(...)")
            whole(self.seed, "seed", least=0, most=2**63 - 1)
            whole(self.draw, "draw", least=0, most=2**52)
            given = self.resolution if isinstance(self.resolution, Mapping) else {"": self.resolution or 1.0}
            for step in given.values():
                positive(step, "resolution")

    @property
    def place(self) -> str:
        return f"law {self.name!r}"

    def replace(self, **changes: Any) -> Law:
        """A copy with other fields."""
        return replace(self, **changes)

    def beside(self, robot: Robot, given: Sequence[str], accelerations: Mapping[str, Signal]) -> Law:
        """The same where a phase locks, drives and accelerates these degrees of freedom, some of them so."""
        if not given or not self.program(robot).reacts:
            return self
        known = {f"acceleration of {name}": signal for name, signal in accelerations.items()}
        return self.replace(given=tuple(given), references={**self.references, **known}, origin=self)

    @cached_property
    def signals(self) -> dict[str, tuple[Signal, ...]]:
        """Entries of each reference, as signals."""
        found: dict[str, tuple[Signal, ...]] = {}
        for name, given in self.references.items():
            several = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
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

    def program(self, robot: Robot, felt: tuple[LoadFrame, ...] = ()) -> LawProgram:
        """The law of this robot as a program, made once; its force/torque sensors feel wrenches on these frames."""
        bodies = {robot.frame(sensor.frame).body for sensor in self.sensors if isinstance(sensor, ForceTorque)}
        return _program(self, robot, tuple(load for load in felt if robot.frame(load.frame).body in bodies))

    def numbers(self, robot: Robot) -> Array:
        """Parameters of the model that it assumes, then its constants, as one vector."""
        own = robot_parameters(self.model or robot)
        return np.concatenate([*(own[name] for name in _MODEL), *self.constants.values()])

    def drawn(self, robot: Robot) -> Any:
        """(numbers, 2) int64: channel of each of its random numbers, and whether it is drawn once."""
        keys = [(channel_key(self.system, owner, k), once) for owner, k, once in self.program(robot).drawn]
        return np.array(keys, dtype=np.int64).reshape(-1, 2)

    def commands_of(self, robot: Robot) -> tuple[str, ...]:
        return self.program(robot).levels

    def frames(self, robot: Robot) -> tuple[LoadFrame, ...]:
        """Frames that its thrusters push."""
        return tuple(dict.fromkeys(what for kind, what, _ in self.program(robot).actions if kind == "wrench"))

    def driven(self, robot: Robot) -> tuple[str, ...]:
        """Degrees of freedom whose acceleration it gives."""
        return tuple(what for kind, what, _ in self.program(robot).actions if kind == "drive")


@dataclass(frozen=True, eq=False)
class Together(Law):
    """Several laws as one, each with its own sensors."""


@dataclass(frozen=True, eq=False)
class PythonLaw(Law):
    """A law that is a plain Python function, called at each tick: for what cannot be written as an expression.

    ``build`` is called with the time (s since the phase's start), the :class:`State` and the references (name to value,
    rate and acceleration), and gives degree of freedom to force. What it remembers is its own affair.

    Args:
        forces: the degrees of freedom that it commands.
    """

    build: Callable[[float, State, Mapping[str, tuple[Array, ...]]], Mapping[str, float]]  # type: ignore[assignment]
    forces: Sequence[str] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        with at(self.place):
            if self.period is None or self.delay:
                raise InputError("a Python function is called at a period, and delays by itself")
            if self.sensors:
                raise InputError("a Python function gets the true state", hint="let it measure by itself")
            if isinstance(self.forces, str) or not self.forces:
                raise InputError("commands nothing", hint="expected forces=[names of degrees of freedom]")

    def program(self, robot: Robot, felt: tuple[LoadFrame, ...] = ()) -> LawProgram:
        """Its commands as references: what remains to be compiled are the limits of the actuators."""
        del felt
        return _python_program(self, robot)

    def channels(self) -> list[tuple[Array, Array]]:
        """None that the solver evaluates."""
        return []

    def answer(self, prepared: PreparedLaw, law: engine.Law) -> None:
        """Ask the function, and let its answer through the limits."""
        size = law.size
        state, time = State.from_vector(law.inp[:size]), float(law.inp[size])
        references = {
            name: tuple(np.array([signal(time) for signal in order]) for order in orders)
            for name, orders in self._orders.items()
        }
        with at(f"{self.place} at t = {time:.9g} s"):
            given = dict(self.build(time, state, references))
            if {*given} != {*self.forces}:
                raise InputError(f"commands {', '.join(map(str, given)) or 'nothing'}", hint=f"expected {self.forces}")
            values = np.array([number(given[name], f"command of {name!r}") for name in self.forces])
        inp = np.concatenate([law.inp[: size + 1], np.pad(values, (0, 2 * values.size)), prepared.numbers])
        law.out[:] = np.concatenate([*_outputs(prepared.kernel, inp)])

    @cached_property
    def _orders(self) -> dict[str, list[list[Signal]]]:
        found = {}
        for name, entries in self.signals.items():
            rates = [entry.derivative() for entry in entries]
            found[name] = [[*entries], rates, [rate.derivative() for rate in rates]]
        return found


def _outputs(kernel: Kernel, inp: Array) -> list[Array]:
    given = {name: inp[place] for name, place in kernel.inputs.items() if place.stop > place.start}
    return [np.ravel(value) for value in kernel(given).values()]


def common_period(periods: Sequence[float | None], place: str) -> tuple[float | None, list[int]]:
    """The shortest period (None: all are continuous), and how many of it each takes."""
    given = [period for period in periods if period is not None]
    shortest = min(given, default=None)
    if shortest is None:
        return None, [1] * len(periods)
    # 1e-9: periods are decimal numbers, whose quotient is whole only to rounding.
    every = [round(period / shortest) for period in given]
    fits = all(abs(period / shortest - k) <= 1e-9 * k for period, k in zip(given, every, strict=True))
    if len(given) < len(periods) or not fits:
        raise InputError("have periods that do not fit", place=place, hint="expected whole multiples of the shortest")
    return shortest, every


@lru_cache(maxsize=64)
def together(laws: tuple[Law, ...]) -> Law:
    """Several laws of one system as one: at the shortest of their periods, of which the others are whole multiples."""
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

    def build(plant: Plant) -> Commands:
        programs = [law.program(plant.robot) for law in laws]
        for a, b in combinations(range(len(laws)), 2):
            for name in {*programs[a].levels} & {*programs[b].levels}:
                names = f"{laws[a].name!r} and {laws[b].name!r}"
                raise InputError(
                    f"{names} both command {name!r}", hint="expected one law for each actuator: joints=..."
                )
        kinds = [{what: kind for kind, what, _ in own.actions if kind != "wrench"} for own in programs]
        for k, own in enumerate(programs):  # a held force gives what it gives, whatever was expected at its tick
            kinds[k] |= dict.fromkeys(own.expected if every[k] == 1 else (), "drive")
        unknown = {name: ca.SX.sym(f"{kind} of {name}") for own in kinds for name, kind in own.items()}
        found = []
        for k, law in enumerate(laws):
            view, others = plant.view(f"{k}.", law.period), [own for own in kinds if own is not kinds[k]]
            # Each law sees the others' commands as symbols: forces act, accelerations are given.
            view.acting = {name: unknown[name] for own in others for name in own if own[name] == "force"}
            view.given = {name: unknown[name] for own in others for name in own if own[name] == "drive"} | plant.given
            given = sensed(view, law.sensors, law.build)
            found.append((f"{k}.", every[k], given if isinstance(given, Commands) else Commands(given)))
        return joined_commands(plant, found, unknown)

    def suspect(robot: Robot, times: Array, states: Array) -> str:
        return "".join(law.suspect(robot, times, states) for law in laws if law.suspect is not None)

    references = {f"{k}.{name}": given for k, law in enumerate(laws) for name, given in law.references.items()}
    constants = {f"{k}.{name}": given for k, law in enumerate(laws) for name, given in law.constants.items()}
    common = {name: getattr(laws[0], name) for name in ("delay", "resolution", "limited", "model", "system")}
    return Together(
        build,
        shortest,
        references=references,
        constants=constants,
        name=" and ".join(law.name for law in laws),
        closed=all(law.closed for law in laws),
        sensors=[sensor for law in laws for sensor in law.sensors],
        seed=laws[0].seed,
        draw=laws[0].draw,
        suspect=suspect,
        **common,
    )


@lru_cache(maxsize=64)
def _program(law: Law, robot: Robot, felt: tuple[LoadFrame, ...]) -> LawProgram:
    model = law.model or robot
    if (model.dof_names, model.thrusters) != (robot.dof_names, robot.thrusters):
        raise InputError("its model has other joints or thrusters than the robot", place=law.place)
    try:
        key = _key(law, model)
    except TypeError:  # it encloses what may change
        return _written(law, model, felt)[0]
    # Which frames a law uses is known only after it is written; their placements belong to the key of its program. So
    # it is written once to learn them, and that program is used if none is kept for these placements.
    made: list[LawProgram] = []
    if key not in _frames_used:
        program, _frames_used[key] = _written(law, model)
        made.append(program)
    frames = tuple(model.frame(name) for name in _frames_used[key])
    return _kept(Keyed((key, frames), lambda: made[0] if made else _written(law, model)[0]))


@lru_cache(maxsize=64)
def _kept(made: Keyed[Callable[[], LawProgram]]) -> LawProgram:
    return made.value()


#: The frames that laws refer to, by all that tells them apart but the placements of these.
_frames_used: dict[Hashable, tuple[str, ...]] = {}


def _key(law: Law, model: Robot) -> Hashable:
    """All that the program of a closed law depends on but the placements of frames; a TypeError for other laws."""
    if not law.closed or any(isinstance(sensor, ForceTorque) for sensor in law.sensors):
        raise TypeError
    sizes = tuple((name, len(entries)) for name, entries in law.signals.items())
    constants = tuple((name, value.size) for name, value in law.constants.items())
    settings = law.period, law.delay, repr(law.resolution), law.limited, enclosed(law.sensors), law.given
    limits = tuple((joint.limits, joint.rotor) for joint in model.joints)
    return enclosed(law.build), sizes, constants, settings, structure(model), limits, model.wheel_names, model.thrusters


def enclosed(value: Any) -> Hashable:
    """What a function does, as its code and what it encloses say; a TypeError where these may change."""
    if isinstance(value, FunctionType):
        cells = tuple(enclosed(cell.cell_contents) for cell in value.__closure__ or ())
        return value.__code__, enclosed(value.__defaults__ or ()), cells
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return tuple(map(enclosed, value))
    if isinstance(value, Law) and value.closed:
        return enclosed(value.build), value.period, enclosed(value.sensors)
    if isinstance(value, Sensor):
        return type(value), tuple(enclosed(getattr(value, each.name)) for each in fields(value))
    if isinstance(value, Robot):  # the law's own model: its numbers that matter are in the key
        return value.structure
    if is_dataclass(value) and not isinstance(value, type) and type(value).__hash__ is not object.__hash__:
        return type(value), tuple(enclosed(getattr(value, each.name)) for each in fields(value))
    if value is None or isinstance(value, bool | int | float | str | type):
        return type(value), value
    raise TypeError


def _written(law: Law, model: Robot, felt: tuple[LoadFrame, ...] = ()) -> tuple[LawProgram, tuple[str, ...]]:
    """The program of a law over this robot, and the frames that it refers to."""
    sizes = {name: len(entries) for name, entries in law.signals.items()}
    plant = _plant(law, model, sizes, felt)
    with at(law.place):
        try:
            given = law.build(plant) if isinstance(law, Together) else sensed(plant, law.sensors, law.build)
        except (RuntimeError, NotImplementedError) as error:  # CasADi's own
            raise InputError(f"cannot be built: {str(error).strip().splitlines()[-1].split(': ', 1)[-1]}") from error
        if not isinstance(given, Commands):
            mapping(given, law.place, "degree of freedom to force")
            given = Commands(given)
        periods = 0 if law.period is None else round(law.delay / law.period)
        found = law_program(plant, given, delay=periods, resolution=_rounding(law, given), limited=law.limited)
        return found, tuple(plant.used)


def _plant(law: Law, model: Robot, references: Mapping[str, int], felt: tuple[LoadFrame, ...] = ()) -> Plant:
    own = robot_parameters(model)
    parameters = {name: own[name].size for name in _MODEL}
    constants = {name: own.size for name, own in law.constants.items()}
    plant = Plant(model, parameters, references, law.period, constants, felt)
    known = {name: plant.references.get(f"acceleration of {name}") for name in law.given}
    plant.given = {name: ca.SX(0) if found is None else found[0] for name, found in known.items()}
    return plant


def _rounding(law: Law, commands: Commands) -> Mapping[str, float]:
    """Smallest step of each command."""
    if law.resolution is None or isinstance(law.resolution, Mapping):
        return law.resolution or {}
    return dict.fromkeys((*commands.forces, *commands.accelerations), float(law.resolution))


@lru_cache(maxsize=64)
def _python_program(law: PythonLaw, robot: Robot) -> LawProgram:
    plant = _plant(law, robot, {"command": len(law.forces)})
    commands = Commands(plant.named(plant.reference("command").value, law.forces))
    with at(law.place):
        return law_program(plant, commands, resolution=_rounding(law, commands), limited=law.limited)


@lru_cache(maxsize=64)
def law_kernel(program: LawProgram) -> Kernel:
    return Kernel(program.program)


class Carried(NamedTuple):
    """What a law takes from one of its phases to the next."""

    memory: Array
    answer: Array  # to the last tick
    tick: float  # s since the run's start, when the next one is due
    end: float  # s, when the phase ended

    def held(self, time: float) -> bool:
        """Whether the answer still acts: the next phase follows at once."""
        return self.end == time


@dataclass(frozen=True, eq=False)
class PreparedLaw:
    """A law in the solver's terms; the same for all samples of a batch."""

    law: Law
    own: LawProgram
    kernel: Kernel
    first: int  # of its system's state
    size: int
    target: Any  # int64: places in the motion kernel's input
    reference: Signals
    ticks: int  # in the phase
    numbers: Array  # of its model
    felt: Any  # int64: places in the motion kernel's input of the wrenches that it feels
    drawn: Any  # (numbers, 2) int64: channels of its random numbers, and whether they are drawn once
    bounds: Any  # (levels,) int64: the action whose rate limit a watched level is, or -1
    members: tuple[PreparedLaw, ...] = ()  # laws of several systems, of which it is made
    system: str = ""  # of a member: whose it is,
    among: Mapping[str, Any] = field(default_factory=dict)  # where its actions, levels ... stand among those of all,
    count: int | None = None  # and in the memory of all its tick, where not each of theirs is one of its own,
    every: int = 1  # but one of so many

    @property
    def alone(self) -> tuple[PreparedLaw, ...]:
        """The law of each system."""
        return self.members or (self,)

    def places(self, kind: str) -> Any:
        """Where its own numbers of a kind (action, level, margin of a level, reading, memory) stand among all."""
        if kind in self.among:
            return self.among[kind]
        own = self.own
        sizes = {"level": own.levels, "margin": own.limited, "reading": own.readings, "action": own.actions}
        return np.arange(own.memory.size if kind == "memory" else len(sizes[kind]))

    @property
    def slow(self) -> Any:
        """(actions, 4) int64: ticks in a period of each action's own law; in the memory its tick, action and level."""
        table = np.tile([1, -1, -1, -1], (self.target.size, 1)).astype(np.int64)
        for part in self.members:
            if part.count is not None:
                first = part.count + 1
                for k, number in enumerate(part.places("action")):
                    table[number] = part.every, part.count, first + k, first + part.target.size + k
        return table

    @property
    def key(self) -> Hashable:
        """What tells it from other laws in other phases."""
        own = tuple(part.law.origin or part.law for part in self.alone)
        return own if self.members else own[0]

    def recall(self, remembered: Mapping[Hashable, Carried], time: float) -> Carried | None:
        """What it brings along to a phase that begins at this time; laws that were not together before tick at once."""
        whole = remembered.get(self.key)
        if not self.members or (whole is not None and whole.held(time)):
            return whole
        found = [remembered.get(part.key) for part in self.members]
        if not any(found):
            return None
        memory = self.own.memory.copy()
        for part, own in zip(self.members, found, strict=True):
            if own is not None:
                memory[part.places("memory")] = own.memory
        return Carried(memory, np.zeros(0), time, -np.inf)

    def remember(self, remembered: dict[Hashable, Carried], carried: Carried) -> None:
        """Keep what it brings along to phases to come, as a whole and law by law."""
        remembered[self.key] = carried
        for part in self.members:
            memory = carried.memory[part.places("memory")]
            remembered[part.key] = carried._replace(memory=memory, answer=np.zeros(0))

    @property
    def pushes(self) -> bool:
        """Whether it acts on the robot from outside: on the base, or by thrusters."""
        return any(kind == "wrench" or what in BASE_DOFS for kind, what, _ in self.own.actions)

    @property
    def channels(self) -> list[tuple[int, Array, Array]]:
        """References as channels into the kernel's input."""
        first = self.kernel.inputs["reference"].start
        return [(first + k, *channel) for k, channel in enumerate(self.law.channels())]

    @property
    def asked(self) -> list[tuple[int, bool]]:
        """What the solver watches: margins and events of a continuous law."""
        if self.law.period is not None:
            return []
        return [(0, False)] * len(self.own.limited) + [(0, True)] * len(self.own.events)

    @property
    def labels(self) -> list[tuple[str, str, str]]:
        """Kind, name and what ends, of each of these."""
        if self.law.period is not None:
            return []
        found = [("saturation", name, "nothing") for name in self.own.limited]
        return found + [("law", name, "phase") for name in self.own.events]

    @property
    def integrated(self) -> int:
        """Numbers of memory that are integrated with the state."""
        return self.own.memory.size if self.law.period is None else 0

    def enter(self, carried: Carried | None, time: float = 0.0, sample: int = 0, kept: int = 0) -> engine.Law:
        """For a phase that begins at this time of the run, with what the law brings along from a phase before.

        A law of the phase just before keeps its ticks. After a pause it ticks at once, and what is momentary of its
        memory (of sensors, delays and pulses) begins anew.
        ``kept``: where memory that is integrated stands in the integrated vector.
        """
        inputs, outputs, period = self.kernel.inputs, self.kernel.outputs, float(self.law.period or 0.0)
        inp, out, first = np.zeros(self.kernel.n_in), np.zeros(self.kernel.n_out), 0.0
        start = self.own.memory.copy()
        if carried is not None and carried.memory.shape == start.shape:
            fresh = start[list(self.own.momentary)]
            start[:] = carried.memory
            if period and carried.held(time) and carried.answer.shape == out.shape:
                out[:] = carried.answer
                # A tick that is due within rounding of the phase's start is at its start.
                first = carried.tick - time if carried.tick - time > SAME_INSTANT * period else 0.0
            else:
                start[list(self.own.momentary)] = fresh
        inp[inputs["memory"]] = start
        inp[inputs["model"]] = self.numbers
        plain, bounded = isinstance(self.law, PythonLaw), int(np.count_nonzero(self.bounds >= 0))
        return engine.Law(
            0 if plain else self.kernel.address(1),
            period,
            self.first,
            self.size,
            self.reference,
            self.target,
            np.array([inputs["memory"].start, len(self.own.memory)]),
            outputs["margin"].start,
            inp,
            out,
            np.zeros((self.ticks, 1 + self.kernel.n_out)),
            np.zeros(3, dtype=np.int64),
            np.array([time, first]),
            self.drawn,
            np.array([self.law.seed, inputs["model"].stop]),
            np.array([self.law.draw + sample]),
            self.felt,
            start,
            kept if self.law.period is None else engine.SAMPLED,
            self.bounds,
            np.zeros((min(self.ticks * bounded, MOST_CUTS), 2)),
            np.full(self.target.size, engine.NEVER, dtype=np.int64),
            self.slow,
        )


def prepared_law(
    law: Law,
    robot: Robot,
    at_state: Layout,
    duration: float,
    place: str,
    target: Callable[[str, Any, int], int],
    felt: tuple[LoadFrame, ...] = (),
) -> PreparedLaw:
    """A law made ready for a phase; its references are merged with the phase's signals afterwards.

    ``target`` gives the place in the motion kernel's input of an action; ``felt``: frames on which wrenches act.
    """
    with at(place):
        own = law.program(robot, felt)
        kernel = law_kernel(own)
        count = 0.0 if law.period is None else duration / law.period * (1.0 + 1e-12)
        if count * (1 + kernel.n_out) > MOST_ANSWERS:
            raise InputError(
                f"{law.place} answers {count:.3g} times in {duration:g} s", hint="expected a longer period, or phases"
            )
        # One more for the tick at the start; 1e-12 covers a duration of whole periods that rounds down.
        ticks = 0 if law.period is None else math.ceil(count) + 1
        places = np.array([target(*action) for action in own.actions], dtype=np.int64)
        feels = np.array([target("wrench", load, k) for load in own.felt for k in range(6)], dtype=np.int64)
    none = Signals(np.zeros(0), np.zeros((0, 0, 0)), np.zeros(0, dtype=np.int64))
    return PreparedLaw(
        law, own, kernel, at_state.start, at_state.size, places, none, ticks, law.numbers(robot), feels,
        law.drawn(robot), np.zeros(0, dtype=np.int64),
    )  # fmt: skip
