"""The clutch: rigid transmission or soft cushioning, switched in time or by an event.

One clutch acts on all soft axes together. Modes follow each other: rigid (axes locked where they are) or soft (springs
and dampers act). A mode ends at a time, when a locked axis carries more than a limit, or when the vibration of the
soft axes has died down. The last two are event functions, compiled for the world and located by the solver to
rounding.

What a locked axis carries is the reaction of its lock and its spring's force together. Whether axes have come to rest
is judged by amplitudes and not by rates, which are zero at every turning point: for x'' = -(k / h) x the amplitude of
the rate is sqrt(x'^2 + (h / k) x''^2) at any moment, with h the inertia that the axis moves while the base floats.
Closing on moving axes is a plastic impact, which the run books; slipping of the clutch is not modelled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import casadi as ca

from spacearm.checks import check_fields, check_not_empty, non_negative, one_of, positive
from spacearm.engine import Kernel
from spacearm.errors import InputError
from spacearm.mechanics import Program
from spacearm.mechanics.dynamics import hybrid_dynamics, lock_base, mass_matrix
from spacearm.mechanics.linear import solve_symmetric
from spacearm.mechanics.tree import Tree
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.simulate import Load, World
from spacearm.simulate.motion import robot_motion
from spacearm.simulate.overrides import robot_parameters
from spacearm.simulate.phase import EventFunction
from spacearm.typing import Array


@dataclass(frozen=True)
class SwitchAtTime:
    """Switch at a time, s from the start of the run."""

    time: float

    def __post_init__(self) -> None:
        check_fields(self, positive, "time", place="clutch", unit="s")


@dataclass(frozen=True)
class SwitchAtOverload:
    """Switch ``delay`` (s) after contact is sensed: a locked axis carries more than a limit, by clutch and spring
    together.

    Args:
        force: N, for sliding axes; infinite: not monitored.
        moment: N m, for rotating axes.
        delay: s, time for sensing and switching.
    """

    force: float = math.inf
    moment: float = math.inf
    delay: float = 0.0

    def __post_init__(self) -> None:
        if not (self.force > 0.0 and self.moment > 0.0) or math.isinf(min(self.force, self.moment)):
            raise InputError(
                f"force {self.force} N, moment {self.moment} N m", place="clutch", hint="expected a level above zero"
            )
        check_fields(self, non_negative, "delay", place="clutch", unit="s")


@dataclass(frozen=True)
class SwitchAtRest:
    """Switch when the soft axes have come to rest: amplitudes of their rates below these, m/s and rad/s.

    The amplitude of an axis is that of a free oscillation with its present rate and acceleration; the ratios of the
    axes to their limits are summed as squares. It is an event: axes that were at rest all the time do not trigger it.
    """

    slide: float = 1e-3
    rotation: float = 1e-3

    def __post_init__(self) -> None:
        check_fields(self, positive, "slide", "rotation", place="clutch")


@dataclass(frozen=True)
class ClutchMode:
    """One mode of the clutch and its end; the last mode has no end."""

    kind: Literal["rigid", "soft"]
    until: SwitchAtTime | SwitchAtOverload | SwitchAtRest | None = None

    def __post_init__(self) -> None:
        one_of(self.kind, ("rigid", "soft"), "mode", place="clutch")
        if self.kind == "soft" and isinstance(self.until, SwitchAtOverload):
            raise InputError(
                "a soft axis cannot sense a contact", place="clutch", hint="use SwitchAtTime or SwitchAtRest"
            )
        if self.kind == "rigid" and isinstance(self.until, SwitchAtRest):
            raise InputError(
                "a rigid axis is at rest from the start", place="clutch", hint="use SwitchAtTime or SwitchAtOverload"
            )


SOFT = (ClutchMode("soft"),)
RIGID = (ClutchMode("rigid"),)


def clutch_modes(modes: ClutchMode | Sequence[ClutchMode]) -> tuple[ClutchMode, ...]:
    """Modes in sequence; all but the last must end, and times must increase."""
    chosen = (modes,) if isinstance(modes, ClutchMode) else tuple(modes)
    check_not_empty(chosen, "mode", place="clutch")
    last = -math.inf
    for number, mode in enumerate(chosen):
        if (mode.until is None) != (number == len(chosen) - 1):
            raise InputError(
                f"mode {number + 1} of {len(chosen)} {'has no end' if mode.until is None else 'ends'}",
                place="clutch",
                hint="every mode but the last needs 'until'; the last has none",
            )
        if isinstance(mode.until, SwitchAtTime):
            if mode.until.time <= last:
                raise InputError(f"switches at {mode.until.time:g} s, after {last:g} s", place="clutch")
            last = mode.until.time
    return chosen


def rest_event(
    world: World, axes: Sequence[str], held: Sequence[str], limits: SwitchAtRest, configuration: Array
) -> EventFunction:
    """Event: the vibration of these axes has become small.

    The function is the sum over axes of (rate^2 + h / stiffness * acceleration^2) / limit^2, less 1, without loads,
    with h the axis's diagonal entry of the free-floating inertia at ``configuration``: the root of each term is
    approximately the amplitude of the rate. Accelerations are used rather than deformations, because a rotating body
    keeps its springs stretched.
    """
    (name, robot), at = next(iter(world.systems.items())), Layout(next(iter(world.systems.values())).n)
    tree, given = Tree(robot), robot_parameters(robot, world.overrides.get(name))
    numbers = {key: ca.SX(ca.DM(value)) for key, value in given.items()}
    state, time = ca.SX.sym("state", at.size), ca.SX.sym("time", 1)
    q, velocity = state[at.joints], state[at.velocity]
    # The inertia that an axis moves when the base floats: eliminate the base's rows (Schur complement).
    matrix = lock_base(robot, mass_matrix(tree, ca.SX(ca.DM(configuration)), numbers["inertia"], numbers["rotor"]))
    effective = ca.diag(matrix[6:, 6:] - matrix[6:, :6] @ solve_symmetric(matrix[:6, :6], matrix[:6, 6:]))
    pull = -numbers["stiffness"] * (q - numbers["rest"]) - numbers["damping"][6:] * velocity[6:]
    # What is held takes part as driven, at zero acceleration.
    still = {*held, *robot.base.locked_dofs}
    mode = ca.DM([float(name in still) for name in robot.dof_names])
    acceleration = hybrid_dynamics(
        tree, q, velocity, ca.vertcat(ca.SX.zeros(6), pull), ca.SX.zeros(robot.dofs), ca.SX(mode), numbers["inertia"],
        numbers["rotor"], [None] * tree.bodies,
    ).acceleration  # fmt: skip
    total = ca.SX(0)
    for axis in axes:
        i = robot.joint_index(axis)
        # An axis without a spring does not swing back: its rate alone says whether it is at rest.
        size = velocity[6 + i] ** 2
        # For x'' = -(k/h) x the amplitude of the rate is sqrt(x'^2 + (h/k) x''^2), constant over a swing: the event
        # does not fire each time the rate passes zero.
        if given["stiffness"][i] > 0.0:
            size += effective[i] / given["stiffness"][i] * acceleration[6 + i] ** 2
        total += size / _limit_of_axis(robot, axis, limits.slide, limits.rotation) ** 2
    program = Program("capture_settled", {"state": state, "time": time}, {"size": ca.densify(total - 1)})
    return EventFunction(Kernel(program), ("settled",), ("falling",), ("phase",))


def overload_event(world: World, axes: Sequence[str], level: SwitchAtOverload, loads: Sequence[Load]) -> EventFunction:
    """Event: one of these locked axes carries more than its limit.

    The function is the largest ratio of load to limit, less 1. An axis carries what its clutch holds (the reaction)
    together with its spring, stretched when it was locked.
    """
    name, robot = next(iter(world.systems.items()))
    model = robot_motion(robot, tuple(dict.fromkeys((*world.loads, *(load.place for load in loads)))))
    known = model.kernel.program.event_inputs(model.nx)
    numbers, joints = robot_parameters(robot, world.overrides.get(name)), known["state"][Layout(robot.n).joints]
    largest = ca.SX(0)
    for axis in axes:
        i = robot.joint_index(axis)
        spring = numbers["stiffness"][i] * (numbers["rest"][i] - joints[i])
        load = known["reaction"][robot.dof_index(axis)] + spring
        largest = ca.fmax(largest, ca.fabs(load) / _limit_of_axis(robot, axis, level.force, level.moment))
    program = Program("capture_overload", known, {"load": ca.densify(largest - 1)})
    # It comes from below: a load that is present at the start triggers it at once.
    return EventFunction(Kernel(program), ("measured",), ("rising",), ("phase",), (-1,))


def _limit_of_axis(robot: Robot, axis: str, slide: float, rotation: float) -> float:
    return slide if robot.joint(axis).kind == "prismatic" else rotation
