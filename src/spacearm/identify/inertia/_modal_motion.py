"""Motion of a base whose appendages and liquids move: modes as further unknowns of the motion, beside the base's pose.

A mode is a joint on a spring that nobody drives or measures (:attr:`.Robot.mode_names`). With eta (k,) the positions of
the modes and pi (k,) their generalised momenta, the base's twist nu (base axes) and the rates of the modes follow from

    H_uu (nu, eta') = (R^T (P, L - p x P), pi) - H_um dq/dt,        pi' = dT/d eta - K (eta - rest) - D eta',

where u are the base's six directions and the modes, H the mass matrix, T the kinetic energy with q, nu, eta' and dq/dt
as its arguments (Hamilton's equations). As for a rigid robot, neither accelerations nor torques of the joints enter.

A mode is stated by what is measured of it: its frequency f while the base, the arm and all other modes are at rest,
and its damping ratio z. With M its modal inertia (diagonal of H at rest, linear in the inertias), K = (2 pi f)^2 M and
D = 2 z 2 pi f M. So a frequency and a modal mass that are both looked for hardly hang together.

State (13 + 2 k,): that of :mod:`spacearm.identify.inertia._base_motion`, then eta and pi; errors (12 + 2 k,) likewise.
Unlike a base, a mode may swing several times from sample to sample: there the variational equations take as many steps
as the fastest mode needs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import casadi as ca
import numpy as np

from spacearm.engine import mechanics_of
from spacearm.engine.kernel import Kernel
from spacearm.identify.inertia._base_motion import (
    STEP,
    BaseMotion,
    BrokenOffError,
    ErrorRates,
    LinearisedMotion,
    ModeErrors,
    MotionInputs,
    base_momentum,
    differentiate_base_momentum,
    known_wrench,
    rk4_weights,
    solve_along,
)
from spacearm.identify.inertia._tide import differentiate_tide
from spacearm.identify.inertia.readings import MotionRecord
from spacearm.mechanics.dynamics import mass_matrix
from spacearm.mechanics.kinematics import SymbolicPose
from spacearm.mechanics.linear import solve_symmetric
from spacearm.mechanics.momentum import kinetic_energy
from spacearm.mechanics.program import Program
from spacearm.mechanics.spatial import quaternion_rate, rotation_matrix
from spacearm.mechanics.structure import Keyed, structure
from spacearm.mechanics.tree import Tree
from spacearm.model import Robot, Spring
from spacearm.model.rotations import rotation_matrices
from spacearm.typing import Array

#: Steps of the integration in a period of the fastest mode, and radians of it in a step of the derivatives.
STEPS_IN_PERIOD, RADIANS = 60.0, 0.25
#: Nodes whose derivatives are computed at a time: they take memory.
CHUNK = 2048


def mode_indices(robot: Robot) -> tuple[int, ...]:
    """The joints that are modes."""
    return tuple(robot.joint_index(name) for name in robot.mode_names)


def driven_indices(robot: Robot) -> tuple[int, ...]:
    """The joints that are no modes: those that encoders read."""
    modes = list(mode_indices(robot))
    return tuple(i for i in range(robot.n) if i not in modes)


def rest_modes(robot: Robot, record: MotionRecord) -> MotionRecord:
    """The record with modes where their springs are at rest, whatever was read of them: nobody measures modes."""
    modes = list(mode_indices(robot))
    if not modes:
        return record
    size, readings = (record.times.size, robot.n), dict(record.readings)
    rest = [0.0 if (spring := robot.joints[i].spring) is None else spring.rest for i in modes]
    if len(modes) == robot.n:
        readings["joint_position"] = np.zeros(size)
    for name, values in (("joint_position", rest), ("joint_rate", [0.0] * len(modes))):
        if name in readings:
            readings[name] = np.array(readings[name])
            readings[name][:, modes] = values
    moving = tuple(own and i not in modes for i, own in enumerate(record.moving))
    return replace(record, readings=readings, moving=moving, joint_acceleration=None)


@lru_cache(maxsize=16)
def _motion_kernel(made: Keyed[tuple[Robot, bool]]) -> Kernel:
    return Kernel(modal_motion_program(*made.value))


@lru_cache(maxsize=16)
def _momenta_kernel(made: Keyed[Robot]) -> Kernel:
    return Kernel(_momenta_program(made.value))


def modal_motion_program(robot: Robot, in_orbit: bool = False) -> Program:
    """Rate of (position, quaternion, P, L, eta, pi), and the base's twist (base axes).

    Entries of ``joints`` and ``rates`` that belong to modes are not read.
    """
    tree, n, modes = Tree(robot), robot.n, list(mode_indices(robot))
    k = len(modes)
    sizes = {"state": 13 + 2 * k, "joints": n, "rates": n, "wrench": 6, "inertia": 10 * tree.bodies}
    sizes |= {"rotor": tree.rotors, "stiffness": k, "damping": k, "rest": k} | ({"radial": 2} if in_orbit else {})
    x = {name: ca.SX.sym(name, size) for name, size in sizes.items()}
    position, quaternion, linear, angular, bent, momenta = ca.vertsplit(
        x["state"], [0, 3, 7, 10, 13, 13 + k, 13 + 2 * k]
    )
    joints, rates = ca.SX(x["joints"]), ca.SX(x["rates"])
    joints[modes], rates[modes] = bent, 0.0
    rotation = rotation_matrix(quaternion)
    matrix = mass_matrix(tree, joints, x["inertia"], x["rotor"])
    moving = robot.base.moving_indices
    free = [*moving, *(6 + i for i in modes)]
    # Momenta about the world's origin to the base's origin and axes, where the mass matrix is.
    at_base = ca.vertcat(rotation.T @ linear, rotation.T @ (angular - ca.cross(position, linear)))[moving]
    # Velocities of base and modes from the momenta, with the joints' rates as they were read: momenta are integrated
    # since no joint torque enters them.
    solved = solve_symmetric(matrix[free, free], ca.vertcat(at_base, momenta) - matrix[free, 6:] @ rates)
    twist, bending = ca.SX.zeros(6), solved[len(moving) :]
    twist[moving] = solved[: len(moving)]
    rates[modes] = bending
    # The kinetic energy is differentiated at fixed rates: those symbols first, then what they are.
    place, speed = ca.SX.sym("place", n), ca.SX.sym("speed", 6 + n)
    slope = ca.gradient(kinetic_energy(tree, place, speed, x["inertia"], x["rotor"]), place)[modes]
    (slope,) = ca.substitute([slope], [place, speed], [joints, ca.vertcat(twist, rates)])
    force, moment = known_wrench(x, SymbolicPose(rotation, position), matrix[:6, :6])
    rate = ca.vertcat(
        rotation @ twist[:3],
        quaternion_rate(quaternion, twist[3:]),
        force,
        moment,
        bending,
        slope - x["stiffness"] * (bent - x["rest"]) - x["damping"] * bending,
    )
    return Program("modal_motion", x, {"rate": ca.densify(rate), "twist": ca.densify(twist)})


def _momenta_program(robot: Robot) -> Program:
    """Momenta (6 + k) of base and modes and the slopes (k) of the kinetic energy by the modes, with derivatives."""
    tree, n, modes = Tree(robot), robot.n, list(mode_indices(robot))
    sizes = {"joints": n, "velocity": 6 + n, "inertia": 10 * tree.bodies, "rotor": tree.rotors}
    x = {name: ca.SX.sym(name, size) for name, size in sizes.items()}
    energy = kinetic_energy(tree, x["joints"], x["velocity"], x["inertia"], x["rotor"])
    # Momenta are the gradient of the kinetic energy by the velocities: one expression for all, and for their
    # derivatives.
    momenta = ca.gradient(energy, x["velocity"])[[*range(6), *(6 + i for i in modes)]]
    values = {"momentum": momenta, "slope": ca.gradient(energy, x["joints"])[modes]}
    whole = Program("modal_momenta", x, {name: ca.densify(value) for name, value in values.items()})
    by = [whole.jacobian("momentum", "joints", "inertia"), whole.jacobian("slope", "joints", "velocity", "inertia")]
    outputs = {**whole.outputs, **by[0].outputs, **by[1].outputs}
    return Program("modal_momenta", x, outputs, by[0].matrices | by[1].matrices)


class ModalSprings:
    """Springs and dampers of a robot's modes at these inertias: a frequency and a damping ratio make them."""

    def __init__(self, robot: Robot) -> None:
        mechanics, modes = mechanics_of(robot), mode_indices(robot)
        own, rest = [6 + i for i in modes], np.zeros(robot.n)
        joints = [robot.joints[i] for i in modes]
        springs = [joint.spring for joint in joints]
        self.rest = np.array([0.0 if spring is None else spring.rest for spring in springs])
        rest[list(modes)] = self.rest
        # The modal inertia is linear in the inertias, but for rotors: unit inertias give its coefficients.
        unit = np.concatenate([np.zeros((1, 10 * (robot.n + 1))), np.eye(10 * (robot.n + 1))])
        places = np.broadcast_to(rest, (len(unit), robot.n))
        matrix = mechanics.mass_matrix(places, inertia=unit.reshape(-1, robot.n + 1, 10))[:, own, own]
        self.rotor, self.slopes = matrix[0], (matrix[1:] - matrix[0]).T
        modal = self.inertias(robot.inertia_parameters.ravel())
        #: Angular frequencies (rad/s) and damping ratios that the robot states.
        self.frequency = np.sqrt([0.0 if spring is None else spring.stiffness for spring in springs] / modal)
        self.ratio = np.array([joint.damping for joint in joints]) / (2.0 * self.frequency * modal)

    def inertias(self, inertia: Array) -> Array:
        """Modal inertias (k,): kg, or kg m2."""
        return np.asarray(self.rotor + self.slopes @ inertia)

    def frequencies_and_ratios(self, errors: ModeErrors | None) -> tuple[Array, Array]:
        """Angular frequencies and damping ratios with these errors."""
        if errors is None:
            return self.frequency, self.ratio
        return self.frequency * (1.0 + errors.frequency), self.ratio + errors.damping


def set_modes(robot: Robot, stated: Robot, errors: ModeErrors | None) -> Robot:
    """The robot with springs and dampers of its modes for the frequencies and damping ratios of the ``stated`` one with
    these errors, whatever its inertias."""
    if not robot.mode_names:
        return robot
    springs = ModalSprings(stated)
    frequency, ratio = springs.frequencies_and_ratios(errors)
    modal, joints = springs.inertias(robot.inertia_parameters.ravel()), list(robot.joints)
    for i, w, z, m, rest in zip(mode_indices(robot), frequency, ratio, modal, springs.rest, strict=True):
        spring, damping = Spring(float(m * w**2), float(rest)), max(float(2.0 * z * w * m), 0.0)
        joints[i] = replace(joints[i], spring=spring, damping=damping)
    return robot.replace(joints=tuple(joints))


@dataclass(frozen=True, eq=False)
class _Derivatives:
    """At the nodes: the base's twist; derivatives of twist and bending rates, and of the rate of pi, by errors, joints
    and inertias; the latter by frequencies and damping ratios."""

    twist: Array  # (T, 6)
    solved: Array  # (T, 6 + k, 12 + 2 k + 2 n + d)
    pushed: Array  # (T, k, 12 + 2 k + 2 n + d)
    by_modes: Array  # (T, k, 2 k)
    matrix: Array  # (T, 6 + n, 6 + n)


class ModalMotion(BaseMotion):
    """The motion of a robot with modes."""

    def __init__(self, robot: Robot, inputs: MotionInputs) -> None:
        self.modes, self.springs = list(mode_indices(robot)), ModalSprings(robot)
        fastest = float(self.springs.frequency.max())
        self.size = 13 + 2 * len(self.modes)
        self.step = min(STEP, 2.0 * np.pi / (STEPS_IN_PERIOD * fastest))
        self.substeps = max(1, int(np.ceil(float(np.diff(inputs.times).max()) * fastest / RADIANS)))
        super().__init__(robot, inputs)
        self.momenta = _momenta_kernel(Keyed((structure(robot), tuple(self.modes)), robot))
        self.stage.system.work.inp[self.kernel.inputs["rest"]] = self.springs.rest

    @property
    def _moving(self) -> list[int]:
        """Which momenta, of the base and of the modes, make it move."""
        return [*self.robot.base.moving_indices, *range(6, 6 + len(self.modes))]

    def _find_kernel(self) -> Kernel:
        in_orbit = self.inputs.orbit != 0.0
        return _motion_kernel(Keyed((structure(self.robot), tuple(self.modes), in_orbit), (self.robot, in_orbit)))

    def run(self, start: Array, inertia: Array, thrust: Array | float = 1.0, modes: ModeErrors | None = None) -> Array:
        """States (nodes, 13 + 2 k)."""
        frequency, ratio = self.springs.frequencies_and_ratios(modes)
        modal, given = self.springs.inertias(inertia), self.stage.system.work.inp
        given[self.kernel.inputs["stiffness"]] = modal * frequency**2
        given[self.kernel.inputs["damping"]] = modal * 2.0 * ratio * frequency
        return super().run(start, inertia, thrust)

    def linearise(
        self,
        start: Array,
        inertia: Array,
        directions: Array,
        thrust: Array | float = 1.0,
        others: Array | None = None,
        modes: ModeErrors | None = None,
    ) -> LinearisedMotion:
        """The motion and its derivatives; parameters are followed by frequencies (k) and damping ratios (k)."""
        n, k, inputs = self.robot.n, len(self.modes), self.inputs
        nodes = self.run(start, inertia, thrust, modes)
        if not np.all(np.isfinite(nodes)):
            raise BrokenOffError
        rotation = rotation_matrices(nodes[:, 3:7])
        q, r = self._paths()
        q[:, self.modes] = nodes[:, 13 : 13 + k]
        chunks = [slice(low, low + CHUNK) for low in range(0, len(nodes), CHUNK)]
        found = [self._differentiate(nodes[c], q[c], r[c], rotation[c], inertia, directions, modes) for c in chunks]
        twist, solved, pushed, by_modes, matrix = (
            np.concatenate([getattr(one, name) for one in found])
            for name in ("twist", "solved", "pushed", "by_modes", "matrix")
        )
        tide = None
        if inputs.orbit:
            tide = differentiate_tide(
                mechanics_of(self.robot), q, matrix, nodes[:, :13], rotation, self._radial(), directions
            )
        errors = 12 + 2 * k
        rates = ErrorRates(rotation, nodes[:, :3], twist, solved[:, :6], tide, errors)
        pushes, scale = self._wrenches(thrust, others)
        count, d = len(pushes), directions.shape[1]
        steps = np.diff(inputs.times)
        step = steps[:, None, None] / self.substeps
        states = np.broadcast_to(np.eye(errors), (steps.size, errors, errors))
        inputs_by = np.zeros((steps.size, errors, 4 * n + d + count + 2 * k))

        def forcing(begin: int, share: float) -> tuple[Array, Array]:
            """A and b at this node of all intervals; the path's errors by those of the readings at both ends."""
            rows = slice(begin, len(nodes) - 2 * self.substeps + begin, 2 * self.substeps)
            a, by_pose, by_force, by_inertia = rates.evaluate(rows, pushes, scale)
            a[:, 12 : 12 + k], a[:, 12 + k :] = solved[rows, 6:, :errors], pushed[rows, :, :errors]
            b = np.zeros((steps.size, errors, 2 * n + d + count + 2 * k))
            b[:, :6, : 2 * n + d], b[:, 6:12, 2 * n + d : 2 * n + d + count] = by_pose, by_force
            if by_inertia is not None:
                b[:, 6:12, 2 * n : 2 * n + d] = by_inertia
            b[:, 12 : 12 + k, : 2 * n + d], b[:, 12 + k :, : 2 * n + d] = (
                solved[rows, 6:, errors:],
                pushed[rows, :, errors:],
            )
            b[:, 12 + k :, 2 * n + d + count :] = by_modes[rows]
            by_joints, by_rates, rest = np.split(b, [n, 2 * n], axis=2)
            h = steps[:, None, None]
            # Between samples the path is Hermite's cubic: errors of positions and rates at both ends enter with its
            # weights, those of rates times the interval.
            scales = (1.0, h, 1.0, h)
            ends = [
                s * (p * by_joints + v / h * by_rates) for s, (p, v) in zip(scales, hermite_weights(share), strict=True)
            ]
            return a, np.concatenate([*ends, rest], axis=2)

        for part in range(self.substeps):
            begin, half, end = (forcing(2 * part + i, (2 * part + i) / (2 * self.substeps)) for i in range(3))
            across, first, middle = rk4_weights(step, begin[0], half[0], end[0])
            states = across @ states
            inputs_by = across @ inputs_by + first @ begin[1] + middle @ half[1] + step / 6 * end[1]
        before, after, forced = np.split(inputs_by, [2 * n, 4 * n], axis=2)
        at = self.at_samples
        none = np.zeros((inputs.times.size, 6, count + 2 * k))
        by_state, by_path, by_parameters = np.split(solved[at, :6], [errors, errors + 2 * n], axis=2)
        return LinearisedMotion(
            nodes[at], twist[at], rotation[at], states, before, after, forced, by_state, by_path,
            np.concatenate([by_parameters, none], axis=2),
        )  # fmt: skip

    def _paths(self) -> tuple[Array, Array]:
        """Positions and rates (nodes, n) of the joints' cubics at the nodes."""
        times, parts = self.inputs.times, 2 * self.substeps
        ends = self.inputs.joints, self.inputs.rates
        h = np.diff(times)[:, None]
        found = np.empty((2, len(self.nodes), self.robot.n))
        for which in range(2):
            found[which, -1] = ends[which][-1]
            for part in range(parts):
                (a, da), (b, db), (c, dc), (d, dd) = hermite_weights(part / parts)
                q, r = ends
                position = a * q[:-1] + b * h * r[:-1] + c * q[1:] + d * h * r[1:]
                rate = (da * q[:-1] + dc * q[1:]) / h + db * r[:-1] + dd * r[1:]
                found[which, part:-1:parts] = (position, rate)[which]
        return found[0], found[1]

    def carry(
        self,
        moved: LinearisedMotion,
        start: Array,
        inertia: Array,
        thrust: Array | float,
        modes: ModeErrors | None,
    ) -> LinearisedMotion:
        """The motion along these paths with derivatives that were taken along others."""
        nodes = self.run(start, inertia, thrust, modes)[self.at_samples]
        if not np.all(np.isfinite(nodes)):
            raise BrokenOffError
        rotation, q = rotation_matrices(nodes[:, 3:7]), self.inputs.joints.copy()
        q[:, self.modes] = nodes[:, 13 : 13 + len(self.modes)]
        motion = self._solve(nodes, q, self.inputs.rates, np.swapaxes(rotation, 1, 2), inertia)[2]
        return replace(moved, states=nodes, twist=motion[:, :6], rotation=rotation)

    def _solve(
        self, nodes: Array, q: Array, r: Array, back: Array, inertia: Array
    ) -> tuple[Array, Array, Array, Array]:
        """Mass matrices, momentum about the base's origin, twist and bending rates (T, 6 + k), rates of all joints."""
        free, k = [*range(6), *(6 + i for i in self.modes)], len(self.modes)
        own = np.broadcast_to(inertia.reshape(-1, 10), (len(q), self.robot.n + 1, 10))
        matrix, at_base = mechanics_of(self.robot).mass_matrix(q, inertia=own), base_momentum(nodes, back)
        rates = r.copy()
        rates[:, self.modes] = 0.0
        carried = np.einsum("tij,tj->ti", matrix[:, free, 6:], rates)
        right = np.concatenate([at_base, nodes[:, 13 + k :]], axis=1) - carried
        motion = solve_along(self._moving, matrix[:, free][:, :, free], right[..., None])[..., 0]
        rates[:, self.modes] = motion[:, 6:]
        return matrix, at_base, motion, rates

    def _differentiate(
        self, nodes: Array, q: Array, r: Array, rotation: Array, inertia: Array, directions: Array,
        errors: ModeErrors | None,
    ) -> _Derivatives:  # fmt: skip
        robot, modes, k, n = self.robot, self.modes, len(self.modes), self.robot.n
        back, free = np.swapaxes(rotation, 1, 2), [*range(6), *(6 + i for i in modes)]
        matrix, at_base, motion, rates = self._solve(nodes, q, r, back, inertia)
        mechanics, own = mechanics_of(robot), np.broadcast_to(inertia.reshape(-1, 10), (len(q), n + 1, 10))
        block = matrix[:, free][:, :, free]
        given = {
            "joints": q,
            "velocity": np.concatenate([motion[:, :6], rates], axis=1),
            "inertia": own.reshape(len(q), -1),
        }
        by = mechanics.evaluate(self.momenta, **given)
        # What only the paths of driven joints change.
        driven = np.ones(n)
        driven[modes] = 0.0
        by_joints, slope_joints = by["d_momentum_d_joints"], by["d_slope_d_joints"]
        slope_speeds = by["d_slope_d_velocity"]
        right = np.zeros((len(q), 6 + k, 12 + 2 * k))
        right[:, :6, :12] = differentiate_base_momentum(at_base, nodes, back)
        right[:, :, 12 : 12 + k] = -by_joints[:, :, modes]
        right[:, 6:, 12 + k :] = np.eye(k)
        columns = [right, -by_joints * driven, -matrix[:, free, 6:] * driven, -by["d_momentum_d_inertia"] @ directions]
        solved = solve_along(self._moving, block, np.concatenate(columns, axis=2))
        # d pi' = d(dT/d eta) - d(K (eta - rest)) - d(D eta').
        frequency, ratio = self.springs.frequencies_and_ratios(errors)
        modal, by_inertia = self.springs.inertias(inertia), self.springs.slopes @ directions
        bent, bending = nodes[:, 13 : 13 + k] - self.springs.rest, motion[:, 6:]
        pushed = slope_speeds[:, :, free] @ solved
        pushed -= (2.0 * ratio * frequency * modal)[:, None] * solved[:, 6:]
        at = 12 + 2 * k
        pushed[:, :, 12 : 12 + k] += slope_joints[:, :, modes] - np.diag(modal * frequency**2)
        pushed[:, :, at : at + n] += slope_joints * driven
        pushed[:, :, at + n : at + 2 * n] += slope_speeds[:, :, 6:] * driven
        force = frequency**2 * bent + 2.0 * ratio * frequency * bending  # of a unit modal inertia
        pushed[:, :, at + 2 * n :] += by["d_slope_d_inertia"] @ directions - force[:, :, None] * by_inertia
        by_modes = np.zeros((len(q), k, 2 * k))
        one = np.arange(k)
        by_modes[:, one, one] = -modal * 2.0 * self.springs.frequency * (frequency * bent + ratio * bending)
        by_modes[:, one, k + one] = -modal * 2.0 * frequency * bending
        return _Derivatives(motion[:, :6], solved, pushed, by_modes, matrix)


def hermite_weights(s: float) -> tuple[tuple[float, float], ...]:
    """Of position, rate, position and rate at the ends of a unit interval: what they add to position and rate at s."""
    return (
        (1.0 - 3.0 * s**2 + 2.0 * s**3, -6.0 * s + 6.0 * s**2),
        (s - 2.0 * s**2 + s**3, 1.0 - 4.0 * s + 3.0 * s**2),
        (3.0 * s**2 - 2.0 * s**3, 6.0 * s - 6.0 * s**2),
        (s**3 - s**2, 3.0 * s**2 - 2.0 * s),
    )
