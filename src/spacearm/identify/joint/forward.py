"""The forward model of a test: equations of motion as a program with exact derivatives, and one fast run of it.

Joints whose motion was measured are inputs, not states; the base and the flexible links are free, and so are the motors
when their torque is given. The state is (free joints, base velocity 6, rates of the free joints, bristles, base
velocity of the rigid reference, base position 3 and quaternion 4 when wanted). Base velocities are linear and angular
in base axes, the position is in world axes, quaternions are scalar first; rad, m, s, N m.

Method: hybrid dynamics (Featherstone, Rigid Body Dynamics Algorithms, 2008, chapter 9) with accelerations given for
prescribed joints and forces for free ones; reactions of prescribed motors are the torques that hold them on their
paths. The tangents dx/dp of parameters and start values are integrated with the state as one vector (forward
sensitivity equations), by automatic differentiation of the right-hand side, under the same step-size control, so that
residuals and their derivatives belong to the same discretisation to within the tolerance.

The engine's adaptive loop runs on the kernels of this module: no events, no friction with sticking, no controllers. A
motion that cannot be followed gives NaN, and budgets of work bound what a search may spend on stiff candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple, get_args

import casadi as ca
import numpy as np
import numpy.typing as npt

from spacearm.checks import check_increasing, one_of
from spacearm.engine import Kernel
from spacearm.engine.phase import make_solver_phase, make_system
from spacearm.engine.signals import merge
from spacearm.engine.solver import EndReason, Options
from spacearm.engine.system import make_code
from spacearm.engine.warm import ensure_loops
from spacearm.errors import InputError, SimulationError
from spacearm.identify.inertia.inertia_parameters import labels
from spacearm.identify.joint.flexible_joints import FlexibleJoint, flexible_joints
from spacearm.identify.joint.laws import JointLaw, torques
from spacearm.mechanics.dynamics import hybrid_dynamics
from spacearm.mechanics.program import Program
from spacearm.mechanics.spatial import SX, quaternion_rate, rotation_matrix
from spacearm.mechanics.tree import Tree
from spacearm.model import Robot
from spacearm.simulate import Signal
from spacearm.simulate.checks import check_angles
from spacearm.typing import Array

Drive = Literal["motor_angle", "torque", "rigid_torque"]


@dataclass(frozen=True)
class Setup:
    """Which joints are given, which are free, and which laws act: everything that decides the compiled equations.

    Args:
        drive: ``motor_angle``: the measured motor angle is prescribed (sound whatever moves the motor);
            ``torque``: a known torque acts on each motor; ``rigid_torque``: the torque that a rigid robot would need
            for the measured motor angle, as in the paper (biased when the real motor tracks its trajectory).
        law: what acts inside the flexible joints.
        pose: keep the base's position and attitude.
        reference_inertia: load-side motor inertia (kg m2) in the rigid robot of ``rigid_torque``; None: that of the
            candidate.
        inertias: the bodies' inertias, ten of each, are parameters too, after the others.
    """

    robot: Robot
    drive: Drive = "motor_angle"
    law: JointLaw = field(default_factory=JointLaw)
    pose: bool = False
    reference_inertia: float | None = None
    inertias: bool = False

    def __post_init__(self) -> None:
        one_of(self.drive, get_args(Drive), "drive", place="set-up")

    @cached_property
    def flexible(self) -> tuple[FlexibleJoint, ...]:
        return flexible_joints(self.robot)

    @cached_property
    def free(self) -> tuple[int, ...]:
        """Joints that are states: links, and motors when a torque drives them."""
        links = [f.link for f in self.flexible]
        return tuple(links if self.drive == "motor_angle" else [*links, *(f.motor for f in self.flexible)])

    @cached_property
    def paths(self) -> tuple[int, ...]:
        """Joints whose measured motion is an input; for ``rigid_torque`` the motors too, for the rigid reference."""
        states = {f.link for f in self.flexible}
        if self.drive == "torque":
            states |= {f.motor for f in self.flexible}
        return tuple(i for i in range(self.robot.n) if i not in states)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """``<joint>.<parameter>`` of all flexible joints, in the order of the program."""
        own = tuple(f"{f.name}.{name}" for f in self.flexible for name in self.law.parameters)
        return (*own, *(label.text for label in labels(self.robot))) if self.inertias else own

    @cached_property
    def directions(self) -> tuple[str, ...]:
        """Along which derivatives are taken: parameters, then start offsets and their rates."""
        starts = [f"{f.name}.{word}" for word in ("offset", "offset_rate") for f in self.flexible]
        return (*self.parameters, *starts)

    @cached_property
    def places(self) -> dict[str, slice]:
        """Parts of the state."""
        sizes = {
            "joints": len(self.free),
            "velocity": 6 + len(self.free),
            "bristles": len(self.law.bristles) * len(self.flexible),
            "reference": 6 if self.drive == "rigid_torque" else 0,
            "position": 3 if self.pose else 0,
            "quaternion": 4 if self.pose else 0,
        }
        ends = np.cumsum(list(sizes.values()))
        return {name: slice(int(e - s), int(e)) for (name, s), e in zip(sizes.items(), ends, strict=True)}

    @property
    def size(self) -> int:
        return int(self.places["quaternion"].stop)


@dataclass(frozen=True)
class _Model:
    inputs: dict[str, SX]
    rate: SX
    torque: SX  # at the motors: applied, or what holds them on their paths


def _model(setup: Setup) -> _Model:
    robot, law = setup.robot, setup.law
    tree = Tree(robot)
    count = len(setup.flexible)
    inputs = {
        "state": ca.SX.sym("state", setup.size),
        "path": ca.SX.sym("path", 3 * len(setup.paths)),  # position, rate, acceleration of each joint
        "torque": ca.SX.sym("torque", count if setup.drive == "torque" else 0),
        "parameters": ca.SX.sym("parameters", len(setup.parameters)),
    }
    state = {name: inputs["state"][place] for name, place in setup.places.items()}
    # Numbers are folded into the code, which makes it short; as inputs they can be varied.
    fixed = ca.SX(ca.DM(robot.inertia_parameters.ravel()))
    inertia = inputs["parameters"][-fixed.numel() :] if setup.inertias else fixed
    own = [
        {name: inputs["parameters"][i * len(law.parameters) + k] for k, name in enumerate(law.parameters)}
        for i in range(count)
    ]
    # Inertia is identified on the load side; the rotor's own is smaller by the gear ratio squared.
    rotor = _rotors(robot, {f.motor: own[i]["motor_inertia"] / f.gear**2 for i, f in enumerate(setup.flexible)})
    q, rates, given = _joint_motion(setup, inputs, setup.free)
    for k, joint in enumerate(setup.free):
        q[joint], rates[joint] = state["joints"][k], state["velocity"][6 + k]
    applied, reference_rate = ca.SX.zeros(count), ca.SX(0, 1)
    if setup.drive == "torque":
        applied = inputs["torque"]
    elif setup.drive == "rigid_torque":
        reference_rate, applied = _rigid_reference(setup, tree, inputs, state["reference"], inertia, rotor)
    force, bristle_rates = _forces(setup, own, q, rates, state["bristles"], applied)
    # Mode 1: acceleration given, force unknown; mode 0: force given, acceleration unknown.
    mode = [0.0] * 6 + [0.0 if joint in setup.free else 1.0 for joint in range(robot.n)]
    velocity = ca.vertcat(state["velocity"][:6], rates)
    # No external wrenches: the robot floats freely.
    none = [None] * tree.bodies
    hybrid = hybrid_dynamics(tree, q, velocity, force, given, ca.SX(ca.DM(mode)), inertia, rotor, [*none])
    pieces = [
        state["velocity"][6:],
        hybrid.acceleration[:6],
        *(hybrid.acceleration[6 + joint] for joint in setup.free),
        *bristle_rates,
        reference_rate,
    ]
    if setup.pose:
        pieces.append(rotation_matrix(state["quaternion"]) @ state["velocity"][:3])
        pieces.append(quaternion_rate(state["quaternion"], state["velocity"][3:6]))
    # A prescribed motor's torque is its constraint reaction: a prediction that a torque sensor is compared with.
    if setup.drive == "motor_angle":
        applied = ca.vertcat(*(hybrid.reaction[6 + f.motor] for f in setup.flexible))
    return _Model(inputs, ca.densify(ca.vertcat(*pieces)), ca.densify(applied))


def _joint_motion(setup: Setup, inputs: dict[str, SX], free: Sequence[int] = ()) -> tuple[SX, SX, SX]:
    """Joints' positions, rates and accelerations (6 + n) on their measured paths; zero where they are free."""
    n = setup.robot.n
    q, rates, given = ca.SX.zeros(n), ca.SX.zeros(n), ca.SX.zeros(6 + n)
    for k, joint in enumerate(setup.paths):
        if joint not in free:
            q[joint], rates[joint], given[6 + joint] = ca.vertsplit(inputs["path"][3 * k : 3 * k + 3])
    return q, rates, given


def _forces(setup: Setup, own: list[dict[str, SX]], q: SX, rates: SX, bristles: SX, applied: SX) -> tuple[SX, list[SX]]:
    """Generalised forces (6 + n) of springs, dampers, friction and motors, and the rates of the bristles."""
    robot, law = setup.robot, setup.law
    force = ca.SX.zeros(6 + robot.n)
    motors = [f.motor for f in setup.flexible]
    for joint in setup.free:
        part = robot.joints[joint]
        if not (law.motor_damping and joint in motors):  # else the parameter stands for it
            force[6 + joint] -= part.damping * rates[joint]
        if part.spring is not None:
            force[6 + joint] -= part.spring.stiffness * (q[joint] - part.spring.rest)
    bristle_rates: list[SX] = []
    each = len(law.bristles)
    for i, f in enumerate(setup.flexible):
        # A transmission with ratio r: its torque acts on the link as it is, on the motor as -r times it (virtual work).
        deflection = q[f.link] - f.ratio * q[f.motor] - f.rest
        turning = rates[f.link] - f.ratio * rates[f.motor]
        inside = torques(law, own[i], deflection, turning, rates[f.motor], bristles[i * each : (i + 1) * each])
        force[6 + f.link] += inside.spring
        force[6 + f.motor] += inside.motor - f.ratio * inside.spring + applied[i]
        bristle_rates += inside.bristle_rates
    return force, bristle_rates


def _rotors(robot: Robot, replaced: dict[int, SX]) -> SX:
    """Inertias of all rotors, some of them symbols."""
    values = [replaced.get(i, joint.rotor.inertia) for i, joint in enumerate(robot.joints) if joint.rotor is not None]
    return ca.vertcat(*(ca.SX(value) for value in values))


def _rigid_reference(
    setup: Setup, tree: Tree, inputs: dict[str, SX], base: SX, inertia: SX, rotor: SX
) -> tuple[SX, SX]:
    """Base acceleration of the rigid robot on the measured paths, and the torques at its motors."""
    robot, n = setup.robot, setup.robot.n
    # All joints on their measured paths, the motors too: nothing is free but the base.
    q, rates, given = _joint_motion(setup, inputs)
    for f in setup.flexible:
        q[f.link] = f.ratio * q[f.motor] + f.rest
        rates[f.link] = f.ratio * rates[f.motor]
        given[6 + f.link] = f.ratio * given[6 + f.motor]
    # The paper computes the torque once with an assumed inertia; else the candidate's own is used.
    if setup.reference_inertia is not None:
        rotor = _rotors(robot, {f.motor: ca.SX(setup.reference_inertia / f.gear**2) for f in setup.flexible})
    mode = ca.SX(ca.DM([0.0] * 6 + [1.0] * n))
    none = [None] * tree.bodies
    rigid = hybrid_dynamics(tree, q, ca.vertcat(base, rates), ca.SX.zeros(6 + n), given, mode, inertia, rotor, [*none])
    # The link moves rigidly with its motor, so its reaction counts at the motor with the ratio (virtual work).
    torque = [rigid.reaction[6 + f.motor] + f.ratio * rigid.reaction[6 + f.link] for f in setup.flexible]
    return rigid.acceleration[:6], ca.vertcat(*torque)


@dataclass(frozen=True)
class Programs:
    """Compiled right-hand sides of a set-up: plain, with derivatives along all directions; and the motors' torques.

    ``slopes``: derivatives of the rates by state, paths and torques.
    """

    setup: Setup
    plain: Kernel
    tangent: Kernel
    torque: Kernel
    torque_tangent: Kernel
    slopes: Kernel


@lru_cache(maxsize=32)
def programs(setup: Setup) -> Programs:
    """Machine code of a set-up, from the cache on disk where it was compiled before."""
    model = _model(setup)
    many, size = len(setup.directions), setup.size
    moved = ca.SX.sym("moved", size, many)
    # A parameter moves the rate directly (seed 1) and through the state; start values only through the state.
    seeds = np.zeros((len(setup.parameters), many))
    seeds[:, : len(setup.parameters)] = np.eye(len(setup.parameters))
    point = ca.vertcat(model.inputs["state"], model.inputs["parameters"])
    along = ca.vertcat(moved, ca.SX(ca.DM(seeds)))
    # One forward-mode sweep for all directions: d(rate) = df/dx dx/dp + df/dp.
    d_rate = ca.jtimes(model.rate, point, along)
    d_torque = ca.jtimes(model.torque, point, along)
    given = ca.vertcat(*(model.inputs[name] for name in ("state", "path", "torque")))
    # The tangents are part of the integrated vector: column by column behind the state.
    full = {**model.inputs, "state": ca.vertcat(model.inputs["state"], ca.vec(moved))}

    def kernel(name: str, inputs: dict[str, SX], output: SX) -> Kernel:
        return Kernel(Program(f"joint_{name}", inputs, {"out": ca.densify(output)}))

    return Programs(
        setup,
        kernel("motion", model.inputs, model.rate),
        kernel("motion_tangent", full, ca.vertcat(model.rate, ca.vec(d_rate))),
        kernel("torque", model.inputs, model.torque),
        kernel("torque_tangent", full, ca.vertcat(model.torque, ca.vec(d_torque))),
        kernel("slopes", model.inputs, ca.vec(ca.jacobian(model.rate, given))),
    )


#: Joints that samples can show take about one step a sample. What takes more steps a sample than the first number is
#: stiff; more than the second, or than the third in all, and the motion is given up.
STIFF_PER_SAMPLE, MOST_PER_SAMPLE, MOST_STEPS = 10, 50, 200_000
#: Steps that every motion may take in any case, and that one test's stiff motions may take together.
SPARE_STEPS, MOST_STIFF = 1000, 1_000_000


#: Work that one search may take in any case, and for each sample: steps times numbers that are integrated, and what
#: each motion costs besides. A fit takes some 1e6 for 250 samples, and a processor does some 3e6 in a second.
LEAST_WORK, WORK_PER_SAMPLE, WORK_PER_MOTION = 6e7, 2e4, 1.2e4


@dataclass
class StepBudget:
    """Work that a search may still do, in the units of ``LEAST_WORK``."""

    left: float


_WORK: ContextVar[StepBudget | None] = ContextVar("work", default=None)


@contextmanager
def work_limit(samples: int, times: float = 1.0) -> Iterator[None]:
    """Context that limits the work of all motions run in it; beyond the limit they raise a :class:`SimulationError`.

    ``samples``: of all tests together; ``times``: multiple of what a search with derivatives may take. The limit is a
    context variable, so that it reaches every motion without an argument in each call; an inner context has its own.
    """
    token = _WORK.set(StepBudget(times * (LEAST_WORK + WORK_PER_SAMPLE * samples)))
    try:
        yield
    finally:
        _WORK.reset(token)


@dataclass(frozen=True)
class Accuracy:
    """Local error of a step: ``atol + rtol * |state|`` (rad, rad/s, m, m/s)."""

    rtol: float = 1e-8
    atol: float = 1e-10


class ForwardResponse(NamedTuple):
    """States (T, size) at the sample times, and their derivatives (T, size, directions) or None."""

    states: Array
    derivatives: Array | None


class _Loop:
    """Buffers and constants of one kernel in the engine's loop."""

    def __init__(self, kernel: Kernel, channels: list[tuple[int, Array, Array]], times: Array, accuracy: Accuracy):
        nx = kernel.inputs["state"].stop
        shift = {"path": kernel.inputs["path"].start, "torque": kernel.inputs["torque"].start}
        # Channels know their entry within "path" (at >= 0) or "torque" (at < 0); the loop wants places in the whole
        # input.
        placed = [(shift["path"] + at if at >= 0 else shift["torque"] - at - 1, b, c) for at, b, c in channels]
        signals = merge(placed, float(times[-1]))
        system = make_system(make_code(kernel.address(1), nx, nx), np.zeros(kernel.n_in), kernel.n_out, signals)
        # Samples cannot show oscillations much faster than themselves: more steps than this mean a useless candidate.
        most = min(SPARE_STEPS + MOST_PER_SAMPLE * times.size, MOST_STEPS)
        options = Options(1, 0.0, accuracy.rtol, np.full(nx, accuracy.atol), float("inf"), most, 1)
        self.stage = make_solver_phase(system, options, times)
        self.times = np.array(times)
        self.at = kernel.inputs["parameters"]

    def run(self, start: Array, parameters: Array) -> tuple[Array, EndReason, float]:
        work, record = self.stage.system.work, self.stage.record
        work.inp[self.at] = parameters
        # Buffers are reused by every motion; callers copy what they keep.
        reason = self.stage.run(start)
        record.times[:] = self.times
        # The last sample lies on the end of the last step.
        record.y[int(record.counts[0]) :] = work.y if reason == EndReason.FINISHED else np.nan
        return record.y, reason, float(self.stage.progress.now[0])


class Forward:
    """The forward model on one test's inputs.

    Args:
        paths: joint name to path, the clock starting with the test; every joint of ``setup.paths``, and with
            ``torque`` the motors' too, for their start.
        torques: flexible joint's name to the motor's known torque (N m); only with the drive ``torque``.
        times: sample times, s, the first being 0.
        base_velocity: base's linear and angular velocity at the start (6), base axes.
        base_pose: base's position and quaternion at the start (7).
    """

    def __init__(
        self,
        setup: Setup,
        paths: Mapping[str, Signal],
        times: npt.ArrayLike,
        *,
        torques: Mapping[str, Signal] | None = None,
        base_velocity: npt.ArrayLike = (0.0,) * 6,
        base_pose: npt.ArrayLike = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0),
        accuracy: Accuracy | None = None,
    ) -> None:
        self.setup = setup
        self.times = check_increasing(times, "sample times", count=2, start=0.0, place="forward model")
        self.accuracy = accuracy or Accuracy()
        self.evaluations = 0
        self.stiff = 0  # steps of motions that are stiff, beyond what is usual
        self.torques = dict(torques or {})
        names = setup.robot.joint_names
        needed = {*setup.paths, *(f.motor for f in setup.flexible)}
        for joint in needed:
            if names[joint] not in paths:
                raise InputError(
                    f"joint {names[joint]!r} has no encoder data", place="forward model",
                    hint="every joint but the flexible links needs its measured angle",
                )  # fmt: skip
            angles = np.zeros((self.times.size, setup.robot.n))
            angles[:, joint] = paths[names[joint]](self.times)
            check_angles(setup.robot, angles, "forward model")
        self._channels: list[tuple[int, Array, Array]] = []  # entry of path, or -1 - entry of torque
        for k, joint in enumerate(setup.paths):
            path = paths[names[joint]]
            rate = path.derivative()
            # Position, rate and acceleration as three channels: the derivatives of piecewise polynomials are exact.
            for entry, signal in enumerate((path, rate, rate.derivative())):
                self._channels.append((3 * k + entry, signal.breaks, signal.coefficients))
        if setup.drive == "torque":
            for k, f in enumerate(setup.flexible):
                if torques is None or f.name not in torques:
                    raise InputError(f"the torque of {f.name!r} is not given", place="forward model")
                self._channels.append((-1 - k, torques[f.name].breaks, torques[f.name].coefficients))
        self._base = np.concatenate([np.asarray(base_velocity, float), np.asarray(base_pose, float)])
        starts = [(float(paths[names[f.motor]](0.0)), float(paths[names[f.motor]].derivative()(0.0)))
                  for f in setup.flexible]  # fmt: skip
        self._motors = np.array(starts)
        self.paths = dict(paths)
        self._loops: dict[bool, _Loop] = {}

    def with_input(self, kind: Literal["path", "torque"], joint: str, signal: Signal) -> Forward:
        """The same with another path of a joint, or another torque of a flexible joint's motor."""
        changed = {joint: signal}
        return Forward(
            self.setup,
            {**self.paths, **(changed if kind == "path" else {})},
            self.times,
            torques={**self.torques, **(changed if kind == "torque" else {})},
            base_velocity=self._base[:6],
            base_pose=self._base[6:],
            accuracy=self.accuracy,
        )

    def with_setup(self, setup: Setup) -> Forward:
        """The same with another set-up."""
        return Forward(setup, self.paths, self.times, torques=self.torques, base_velocity=self._base[:6],
                       base_pose=self._base[6:], accuracy=self.accuracy)  # fmt: skip

    @property
    def is_exhausted(self) -> bool:
        """Whether stiff motions have taken so many steps that a search goes nowhere."""
        return self.stiff > MOST_STIFF + SPARE_STEPS * self.times.size

    def _run(self, loop: _Loop, start: Array, parameters: Array) -> Array:
        rows = loop.run(start, parameters)[0]
        counts = loop.stage.record.counts
        # Ten samples more for the first steps, in which the step size is found.
        usual = STIFF_PER_SAMPLE * (self.times.size + 10)
        steps = int(counts[2] + counts[3])
        self.stiff += max(steps - usual, 0)
        if (work := _WORK.get()) is not None:
            work.left -= steps * start.size + WORK_PER_MOTION
            if work.left < 0.0:
                raise SimulationError(
                    "the search does not come to an end within its work",
                    place="identification",
                    hint="units, columns or noise may be wrong; else give start values and bounds nearer to the truth",
                )
        return rows

    def _loop(self, derivatives: bool) -> _Loop:
        if derivatives not in self._loops:
            ensure_loops()
            # Compiled on first use: many problems are built and never differentiated.
            code = programs(self.setup)
            kernel = code.tangent if derivatives else code.plain
            self._loops[derivatives] = _Loop(kernel, self._channels, self.times, self.accuracy)
        return self._loops[derivatives]

    def start(self, offset: Array, rate: Array) -> Array:
        """State at the start for these offsets (rad) and their rates (rad/s), link minus motor."""
        setup, count = self.setup, len(self.setup.flexible)
        y = np.zeros(setup.size)
        joints, velocity = y[setup.places["joints"]], y[setup.places["velocity"]]
        ratio = np.array([f.ratio for f in setup.flexible])
        # Offsets count from the relaxed spring: small numbers near zero, whatever the joint's angle.
        joints[:count] = ratio * self._motors[:, 0] + [f.rest for f in setup.flexible] + offset
        velocity[:6] = self._base[:6]
        velocity[6 : 6 + count] = ratio * self._motors[:, 1] + rate
        if setup.drive != "motor_angle":
            joints[count:], velocity[6 + count :] = self._motors[:, 0], self._motors[:, 1]
        y[setup.places["reference"]] = self._base[:6][
            : setup.places["reference"].stop - setup.places["reference"].start
        ]
        if setup.pose:
            y[setup.places["position"]], y[setup.places["quaternion"]] = self._base[6:9], self._base[9:13]
        return y

    def __call__(
        self, parameters: Array, offset: Array, rate: Array | None = None, *, derivatives: bool = False
    ) -> ForwardResponse:
        """Integrate once; what cannot be reached (an unstable candidate) is NaN.

        Args:
            parameters: values of ``setup.parameters``.
            offset, rate: of every flexible joint at the start.
        """
        setup, count = self.setup, len(self.setup.flexible)
        loop = self._loop(derivatives)
        y = self.start(offset, np.zeros(count) if rate is None else rate)
        self.evaluations += 1
        if not derivatives:
            return ForwardResponse(self._run(loop, y, parameters).copy(), None)
        many, size = len(setup.directions), setup.size
        # Initial tangents: parameters do not move the start; an offset moves its link's angle, its rate the link's
        # rate.
        moved = np.zeros((many, size))
        first = len(setup.parameters)
        for i in range(count):
            moved[first + i, setup.places["joints"].start + i] = 1.0
            moved[first + count + i, setup.places["velocity"].start + 6 + i] = 1.0
        rows = self._run(loop, np.concatenate([y, moved.ravel()]), parameters)
        tangents = rows[:, size:].reshape(-1, many, size).transpose(0, 2, 1)
        return ForwardResponse(rows[:, :size].copy(), np.ascontiguousarray(tangents))

    def inputs(self) -> tuple[Array, Array]:
        """Paths (T, 3 for each joint) and torques (T, flexible joints) at the sample times."""
        setup = self.setup
        path = np.zeros((self.times.size, 3 * len(setup.paths)))
        torque = np.zeros((self.times.size, len(setup.flexible) if setup.drive == "torque" else 0))
        for at, breaks, coefficients in self._channels:
            values = Signal(breaks, coefficients)(self.times)
            if at >= 0:
                path[:, at] = values
            else:
                torque[:, -at - 1] = values
        return path, torque

    def slopes(self, states: Array, parameters: Array) -> Array:
        """Derivatives (T, size, size + inputs) of the states' rates by states, paths and torques, at the samples."""
        path, torque = self.inputs()
        arrays = {"state": states, "path": path, "torque": torque, "parameters": np.asarray(parameters, float)}
        flat = programs(self.setup).slopes(arrays)["out"]
        return flat.reshape(states.shape[0], -1, self.setup.size).transpose(0, 2, 1)

    def torque(self, response: ForwardResponse, parameters: Array) -> tuple[Array, Array | None]:
        """Torque at every motor (T, flexible joints), and its derivatives along all directions."""
        code, count = programs(self.setup), len(self.setup.flexible)
        path, torque = self.inputs()
        arrays = {"path": path, "torque": torque, "parameters": np.asarray(parameters, float)}
        if response.derivatives is None:
            return code.torque({"state": response.states, **arrays})["out"], None
        # Into the order in which the program stacks tangents: direction by direction.
        moved = response.derivatives.transpose(0, 2, 1).reshape(self.times.size, -1)
        out = code.torque_tangent({"state": np.concatenate([response.states, moved], axis=1), **arrays})["out"]
        return out[:, :count], out[:, count:].reshape(self.times.size, -1, count).transpose(0, 2, 1)
