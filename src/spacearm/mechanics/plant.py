"""Mechanics of one robot as CasADi expressions, for control laws: poses, Jacobians, inertias, momentum, responses.

A law is written once, in symbols, and compiled; the plant hands it the pieces. Each piece is an expression over the
flat state, the parameters of the model and the law's own references, constants and memory, and is built when a law
first asks for it: what no law asks for costs nothing.

Frames: poses, Jacobians and momentum (about the mass centre) in world axes, base velocity and reaction map in base
axes, as each piece states. Units are SI. n joints give 6 + n degrees of freedom, the base's six first.

The model's parameters are those the law assumes and may differ from the robot that moves. Noise of sensors, delay,
quantisation and actuator limits are not here: see :mod:`spacearm.mechanics.sensors` and :mod:`spacearm.mechanics.law`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import casadi as ca
import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.errors import InputError
from spacearm.mechanics import dynamics, kinematics, momentum
from spacearm.mechanics.kinematics import SymbolicPose
from spacearm.mechanics.linear import solve_symmetric
from spacearm.mechanics.motion import LoadFrame, with_passive
from spacearm.mechanics.spatial import SX, quaternion_rate
from spacearm.mechanics.tree import Placement, Tree
from spacearm.model import Frame, Robot
from spacearm.model.layout import Layout


class Reference(NamedTuple):
    """What a law follows, and its first two time derivatives."""

    value: SX
    rate: SX
    acceleration: SX


class Plant:
    """A robot as a law sees it.

    The numbers of the robot (inertias, springs) are those of the model that the law assumes, which need not be the
    robot that moves. They are symbols, ``model``, so that the law's program serves any. Nothing acts on the robot from
    outside in that model, unless a piece takes it as an argument.

    Args:
        parameters: inertia, rotor, stiffness, rest, damping, coupling, as the motion program takes them: how many
            numbers there are, or the numbers.
        references: name and length of each reference.
        period: s between two ticks of the law; None: continuous.
        constants: name and length of each constant of the law.
        wrench_frames: frames whose wrenches force/torque sensors may feel.
    """

    def __init__(
        self,
        robot: Robot,
        parameters: Mapping[str, int | npt.ArrayLike],
        references: Mapping[str, int] | None = None,
        period: float | None = None,
        constants: Mapping[str, int] | None = None,
        wrench_frames: Sequence[LoadFrame] = (),
    ) -> None:
        self.robot, self.tree, self.period, self.prefix = robot, Tree(robot), period, ""
        self._make_state("state")
        #: s since the phase's start.
        self.time: SX = ca.SX.sym("time")
        self._parameters = {
            name: ca.SX.sym(name, given) if isinstance(given, int) else ca.SX(ca.DM(np.ravel(given)))
            for name, given in parameters.items()
        }
        #: All numbers of the model, one parameter behind the other, then the constants.
        self._constants = {name: ca.SX.sym(name, size) for name, size in (constants or {}).items()}
        self.model: SX = ca.vertcat(*self._parameters.values(), *self._constants.values())
        #: Frames that were asked for.
        self.used: dict[str, None] = {}
        self.inertia, self.rotor = self._parameters["inertia"], self._parameters["rotor"]
        self._sizes = dict(references or {})
        self.references: dict[str, SX] = {
            name: ca.SX.sym(name, 3 * size) for name, size in self._sizes.items()
        }  # value, rate and acceleration of all entries
        self.memory_symbols: dict[str, SX] = {}
        self.memory_starts: dict[str, npt.NDArray[np.float64]] = {}
        #: Wrench on each frame that is acted on, as the motion program takes it.
        self.measured_wrenches: dict[LoadFrame, SX] = {
            load: ca.SX.sym(f"wrench on {load.frame}", 6) for load in wrench_frames
        }
        #: Random numbers: by whose they are, which of its own, and whether they are drawn once.
        self.random_symbols: dict[tuple[str, int, bool], SX] = {}
        #: Names of memory that begins anew when the law acts again after a pause.
        self.momentary: set[str] = set()
        #: Of a joint that a law slower than this plant's commands: its ticks in a period, and its count in the memory.
        self.slow: dict[str, tuple[int, str]] = {}
        self.wrenches: dict[str, SX] = {}
        #: Whether the law has asked how everything reacts, in this plant or in one made of it.
        self.reacts: list[bool] = []
        #: Acceleration of each degree of freedom whose motion does not depend on this law: zero where it is locked.
        self.known_accelerations: dict[str, SX] = {name: ca.SX(0) for name in robot.base.locked_dofs}
        #: Force on each degree of freedom that another law commands.
        self.other_forces: dict[str, SX] = {}
        #: Force (6 + n) of the environment that other laws measure or are told; None: there is none.
        self.measured_force: SX | None = None
        #: Of a run that sensors read: accelerations (6 + n) and what the joints' drives give (n).
        self.motion: dict[str, SX] = {}

    def _make_state(self, name: str) -> None:
        """Make fresh symbols for the state, and name its parts."""
        at = Layout(self.robot.n)
        self.state: SX = ca.SX.sym(name, at.size)
        #: Position of the base's origin (m, world) and its quaternion (w, x, y, z).
        self.position, self.quaternion = self.state[at.position], self.state[at.quaternion]
        #: Joint positions, generalised velocity (6 + n), joint rates, angular velocity of the base (base axes).
        self.joints, self.velocity = self.state[at.joints], self.state[at.velocity]
        self.rates, self.angular_velocity = self.state[at.rates], self.state[at.angular_velocity]

    def _copy(self) -> Plant:
        """A copy whose cached expressions are dropped, so that they are built anew from what the copy changes."""
        own = copy.copy(self)
        for name in [name for name, part in vars(Plant).items() if isinstance(part, cached_property)]:
            vars(own).pop(name, None)
        return own

    def view(self, prefix: str, period: float | None) -> Plant:
        """The same for one of several laws: its references and memory have names that begin so."""
        own = copy.copy(self)
        # Shallow on purpose: memory, random numbers and references go to the tables of the common plant.
        own.prefix, own.period = prefix, period
        return own

    def with_inertia(self, body: str, inertia: SX) -> Plant:
        """The same with these ten inertia parameters of a body: a reference, say, so that a load may be any."""
        own = self._copy()
        parts = ca.vertsplit(self.inertia, 10)
        parts[self.robot.body_index(body)] = inertia
        own.inertia = ca.vertcat(*parts)
        return own

    def with_estimated_state(self, frames: Sequence[str]) -> Plant:
        """The same in a state of its own, which sensors tell of, with wrenches measured at these frames."""
        own = self._copy()
        own._make_state("assumed")
        own.wrenches = {frame: ca.SX.sym(f"wrench at {frame}", 6) for frame in frames}
        return own

    def random(self, size: int, owner: str = "law", once: bool = False) -> SX:
        """Numbers of the standard normal distribution: new at each tick, or drawn ``once`` for a run.

        They belong to the seed, the time and their ``owner``: whoever asks again for the same gets the same.
        """
        keys = [(owner, entry, once) for entry in range(size)]
        return ca.vertcat(*(self.random_symbols.setdefault(key, ca.SX.sym("random")) for key in keys))

    # -- what a law may ask for -------------------------------------------------------------------------------

    def reference(self, name: str) -> Reference:
        """The reference of this name that the law follows."""
        given = [each.removeprefix(self.prefix) for each in self._sizes if each.startswith(self.prefix)]
        checks.check_name(name, given, "reference", of="the law")
        return Reference(*ca.vertsplit(self.references[self.prefix + name], self._sizes[self.prefix + name]))

    def constant(self, name: str, size: int | None = None) -> SX:
        """The numbers that the law was given under this name: ``size`` of them, or one for all."""
        given = [each.removeprefix(self.prefix) for each in self._constants if each.startswith(self.prefix)]
        checks.check_name(name, given, "constant", of="the law")
        found = self._constants[self.prefix + name]
        if size is not None and found.numel() not in (1, size):
            raise InputError(f"{name} has {found.numel()} numbers", hint=f"expected 1 or {size}")
        return found

    def memory(self, name: str, start: npt.ArrayLike = 0.0, *, lasting: bool = True) -> SX:
        """A number or column that the law keeps: from tick to tick, or integrated with the state; with its first value.

        How it goes on is told by ``Commands(rates={name: ...})`` or, at ticks, ``Commands(memory={name: ...})``. What
        is not ``lasting`` begins anew when a sampled law acts again after a phase without it.
        """
        value = np.atleast_1d(checks.numbers(start, f"memory {name!r}"))
        name = self.prefix + name
        if name in self.memory_symbols:
            raise InputError(f"memory {name!r} is asked for twice", place="law")
        if not lasting:
            self.momentary.add(name)
        self.memory_symbols[name] = ca.SX.sym(name, value.size)
        self.memory_starts[name] = value
        return self.memory_symbols[name]

    def recorded_motion(self, what: str) -> SX:
        """``acceleration`` (6 + n) or ``effort`` (n) of the joints' drives; of a run only, which has them recorded."""
        if what not in self.motion:
            raise InputError(f"the {what} is not known here: commands would change it", hint="read it from a run")
        return self.motion[what]

    def wrench(self, frame: str) -> SX:
        """Force and moment (6) of the environment on a frame, world axes, from the law's force/torque sensor there."""
        if frame not in self.wrenches:
            raise InputError(
                f"the law has no force/torque sensor at {frame!r}", place="law", hint="sensors=[ForceTorque(frame=...)]"
            )
        rotation, own = self.pose(frame).rotation, self.wrenches[frame]
        return ca.vertcat(rotation @ own[:3], rotation @ own[3:])

    def values_by_name(self, values: SX, names: Sequence[str] | None = None) -> dict[str, SX]:
        """Entries by the names of degrees of freedom; all joints by default."""
        chosen = self.robot.joint_names if names is None else names
        column = ca.SX(values)
        if column.numel() != len(chosen):
            raise InputError(f"{column.numel()} numbers for {len(chosen)} degrees of freedom", place="law")
        return {name: column[i] for i, name in enumerate(chosen)}

    # -- kinematics -------------------------------------------------------------------------------------------

    @cached_property
    def base(self) -> SymbolicPose:
        """Pose of the base in the world."""
        return kinematics.base_pose(self.position, self.quaternion)

    @cached_property
    def _placements(self) -> list[Placement]:
        return self.tree.placements(self.joints)

    def _frame(self, name: str) -> Frame:
        self.used[name] = None
        return self.robot.frame(name)

    def pose(self, frame: str) -> SymbolicPose:
        """Pose of a frame in the world."""
        return kinematics.frame_pose(self.tree, self._placements, self.base, self._frame(frame))

    def jacobian(self, frame: str) -> SX:
        """Matrix (6, 6 + n) from generalised velocity to the frame's twist, world axes."""
        return kinematics.frame_jacobian(self.tree, self._placements, self.base, self._frame(frame))

    def generalized_jacobian(self, frame: str, joints: Sequence[str] | None = None) -> SX:
        """(6, joints) the frame's acceleration, world axes, for accelerations of these joints; see :meth:`response`.

        Of all joints on a floating base it is J*, the frame's twist for joint rates at zero total momentum.
        """
        return ca.densify(self.jacobian(frame) @ self.response(joints))

    def twist(self, frame: str) -> SX:
        """Velocity of the frame's origin and its angular velocity (6), world axes."""
        return self.jacobian(frame) @ self.velocity

    def time_derivative(self, value: SX, acceleration: SX | None = None) -> SX:
        """Time derivative of an expression of the state along the motion; accelerations (6 + n) are zero if not given.

        Of an expression without velocities it is exact.
        """
        # Chain rule along x': pose rates from the velocities, velocity rates as given.
        moved = ca.SX.zeros(6 + self.robot.n) if acceleration is None else acceleration
        rotation = quaternion_rate(self.quaternion, self.angular_velocity)
        shift = self.base.rotation @ self.velocity[:3]
        return ca.jtimes(value, self.state, ca.vertcat(shift, rotation, self.rates, moved))

    # -- dynamics ---------------------------------------------------------------------------------------------

    @cached_property
    def mass_matrix(self) -> SX:
        """Generalised inertia H (6 + n, 6 + n)."""
        return dynamics.mass_matrix(self.tree, self.joints, self.inertia, self.rotor)

    @cached_property
    def bias(self) -> SX:
        """Velocity-dependent forces c (6 + n) in H a + c = force."""
        still, none = ca.SX.zeros(6 + self.robot.n), [None] * self.tree.bodies
        return dynamics.inverse_dynamics(
            self.tree, self.joints, self.velocity, still, self.inertia, self.rotor, [*none]
        )

    @cached_property
    def passive(self) -> SX:
        """Forces (6 + n) of the springs, dampers and couplings."""
        nothing = ca.SX.zeros(6 + self.robot.n)
        return with_passive(self.robot, self.joints, self.velocity, self._parameters, nothing)[0]

    @cached_property
    def momentum(self) -> SX:
        """Linear momentum, and angular momentum about the mass centre (6), world axes."""
        own = momentum.momentum(self.tree, self.joints, self.velocity, self.inertia, self.rotor)
        return momentum.momentum_about(own, self.base, self.mass_centre)

    @cached_property
    def mass(self) -> SX:
        """Mass of the whole robot, kg."""
        return momentum.centre_of_mass(self.tree, self.joints, self.inertia)[0]

    @cached_property
    def mass_centre(self) -> SX:
        """Mass centre of the whole robot in the world, m."""
        _, centre = momentum.centre_of_mass(self.tree, self.joints, self.inertia)
        return self.base.origin + self.base.rotation @ centre

    def lock_joints(self, joints: Sequence[str]) -> Plant:
        """The same with these joints locked."""
        own = copy.copy(self)
        own.known_accelerations = {
            **self.known_accelerations,
            **{self.robot.joint(name).name: ca.SX(0) for name in joints},
        }
        return own

    def respond(self, accelerations: Mapping[str, SX], force: SX | None = None) -> dynamics.Hybrid:
        """Accelerations (6 + n), and forces (6 + n) that it takes, when these degrees of freedom accelerate so.

        The others do what the phase and its other laws have them do: they are locked or follow a path
        (:attr:`known_accelerations`, whatever is asked of them here), have the force of another law
        (:attr:`other_forces`), or are free and react. What other laws know of the environment acts as well
        (:attr:`measured_force`).

        Args:
            force: (6 + n) what acts besides the drives; nothing by default.
        """
        # Noted, because what reacts depends on the phase: the law is then written for its locks and paths.
        self.reacts.append(True)
        size = 6 + self.robot.n
        own, mode, drive = ca.SX.zeros(size), ca.SX.zeros(size), ca.SX.zeros(size)
        for i, name in enumerate(self.robot.dof_names):
            # A given motion wins over what is asked for here: a locked joint stays locked.
            own[i] = self.other_forces.get(name, 0.0)
            if name in self.known_accelerations or name in accelerations:
                mode[i], drive[i] = 1.0, self.known_accelerations.get(name, accelerations.get(name))
        for further in (force, self.measured_force):
            if further is not None:
                own += further
        none = [None] * self.tree.bodies
        return dynamics.hybrid_dynamics(
            self.tree, self.joints, self.velocity, self.passive + own, drive, mode, self.inertia, self.rotor, [*none]
        )

    def response(self, joints: Sequence[str] | None = None) -> SX:
        """Accelerations (6 + n, joints) of all degrees of freedom by those of these joints; of all by default.

        With c the joints, r what reacts (base and joints that are neither among them nor :attr:`known_accelerations`)
        and the mass matrix H: a_r = -H_rr^-1 H_rc a_c + what :meth:`respond` gives for a_c = 0. So the accelerations of
        everything are ``response(joints) @ a_c + respond(zeros).acceleration``, whatever the momentum.
        """
        self.reacts.append(True)
        names = self.robot.dof_names
        chosen = [self.robot.dof_index(name) for name in (self.robot.joint_names if joints is None else joints)]
        moved = [(k, i) for k, i in enumerate(chosen) if names[i] not in self.known_accelerations]
        reacting = [i for i, name in enumerate(names) if i not in chosen and name not in self.known_accelerations]
        found = ca.SX(len(names), len(chosen))
        for k, i in moved:
            found[i, k] = 1.0
        if moved and reacting:
            columns = [k for k, _ in moved]
            right = self.mass_matrix[reacting, [i for _, i in moved]]
            found[reacting, columns] = -solve_symmetric(self.mass_matrix[reacting, reacting], right)
        return found

    def torques(self, accelerations: SX) -> SX:
        """Joint forces (n) for these joint accelerations (n) while the base floats: computed torque."""
        return self.respond(self.values_by_name(accelerations)).reaction[6:]

    def drift(self, frame: str, joints: Sequence[str] | None = None, force: SX | None = None) -> SX:
        """Acceleration (6) that a frame has, world axes, when these joints do not accelerate; all by default.

        Frame acceleration = generalized_jacobian(frame, joints) @ joint accelerations + drift, whatever the momentum.
        ``force``: as for :meth:`respond`.
        """
        chosen = self.robot.joint_names if joints is None else joints
        still = self.respond(dict.fromkeys(chosen, ca.SX(0)), force)
        return self.time_derivative(self.twist(frame), still.acceleration)

    def reaction_map(self) -> SX:
        """Matrix (3, n) from joint rates to the angular momentum that the base has to take, base axes.

        The momentum is about the mass centre.

        Where a row of joint rates is in its null space, the base keeps its attitude at zero momentum: the reaction null
        space of Nenchev, Yoshida, Vichitkulsawat, Uchiyama, IEEE Trans. Robotics and Automation 15(6), 1999.
        """
        matrix = self.mass_matrix
        # Schur complement of the linear part: moments about the mass centre and not the base's origin.
        linear, mixed, coupling = matrix[:3, :3], matrix[:3, 3:6], matrix[:3, 6:]
        return matrix[3:6, 6:] - mixed.T @ solve_symmetric(linear, coupling)


def damped_inverse(matrix: SX, right: SX, damping: float = 0.0, near: float = 0.0) -> SX:
    """Least-norm solution of ``matrix @ x = right`` (more columns than rows), damped near singularities.

    With w = sqrt(det(J J^T)), the damping is ``damping * (1 - w / near)**2`` where w is below ``near``, zero beyond:
    Nakamura and Hanafusa, J. Dynamic Systems, Measurement, and Control 108(3), 1986.
    """
    square = matrix @ matrix.T
    if damping > 0.0:
        # Rounding can make the determinant of a singular product negative.
        measure = ca.sqrt(ca.fmax(determinant(square), 0.0))
        weight = damping * ca.fmax(1.0 - measure / near, 0.0) ** 2
        square = square + weight * ca.SX.eye(square.shape[0])
    return matrix.T @ solve_symmetric(square, right)


def determinant(matrix: SX) -> SX:
    """Determinant of a positive semi-definite matrix: the product of the pivots of its L D L^T factorisation."""
    size, rest, product = matrix.shape[0], ca.SX(matrix), ca.SX(1)
    for j in range(size):
        pivot = rest[j, j]
        product *= pivot
        column = rest[j + 1 :, j]
        rest[j + 1 :, j + 1 :] -= column @ column.T / ca.fmax(pivot, 1e-300)
    return product
