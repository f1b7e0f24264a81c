"""One of the two colliding systems: a robot or a body, its pose, its motion, and the modes of its joints.

An impulse p at the contact changes all velocities at once by M dv = J^T p: positions and ordinary forces do not matter
during the blow (K. Yoshida et al. 1992 for free-floating robots). A joint is free, locked (its velocity
keeps its value, its drive gives an impulse), or resists by a share of its constraint. A held base is the limit of
a heavy one. :class:`FloatingSystem` has what the two systems of a blow need of each other: the response to an impulse,
the twist at the contact, momentum and energy.

World axes for twists and impulses at the contact; base axes for generalised velocities; m, kg, rad.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.checks import array, positive, unit_vector
from spacearm.engine.device import Device, as_native_array, cupy, is_device_array
from spacearm.errors import InputError
from spacearm.impact._joint_modes import JointModes, Locked, Resistance
from spacearm.impact.tensor import ImpactPoint, ImpulseResponse, check_closed, impact_point
from spacearm.model import Body, Frame, Inertia, Pose, Robot
from spacearm.model.rotations import rotation_matrices
from spacearm.simulate.checks import check_angles
from spacearm.simulate.state import State
from spacearm.typing import Array

IDENTITY = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
#: Name of the frame at which :func:`free_body` and :func:`solid_ball` are struck.
CONTACT = "contact"


@dataclass(frozen=True, eq=False)
class FloatingSystem:
    """A free-floating system just before it is struck. Arrays may have leading batch dimensions that broadcast.

    ``joints``, ``base`` and ``velocity`` may be arrays on a GPU (CuPy's, or anything with DLPack), which are not
    checked; derived quantities are there too. :func:`~spacearm.impact.effective_mass` takes such systems; collisions
    are computed on the CPU.

    Attributes:
        robot: any robot; a single body is a robot without joints, see :func:`free_body`.
        frame: its contact frame; the contact point is this frame's origin.
        joints: positions (..., n) or the name of a configuration.
        base: pose of the base (..., 7): position in the world (m), quaternion (w, x, y, z).
        velocity: generalised velocity (..., 6 + n), base part in BASE axes; at rest if omitted.
        locked: joints whose rate the impact does not change.
        resistance: mu of the others, 0 to 1.
        held: whether an external support (the ground, a stand, a docking port) holds the base: its velocity does not
            change. The same as ``robot.replace(base="held")``; of other bases only what they lack does not change.
        device: where batches run, "cpu" or "gpu"; with a GPU, NumPy arrays go there and come back.
    """

    robot: Robot
    frame: str
    joints: npt.ArrayLike | str | None = None
    base: npt.ArrayLike = IDENTITY
    velocity: npt.ArrayLike | None = None
    locked: Locked = "none"
    resistance: Resistance = 0.0
    held: bool = False
    device: Device = "cpu"
    modes: JointModes = field(init=False)

    def __post_init__(self) -> None:
        if self.held:
            object.__setattr__(self, "robot", self.robot.replace(base="held"))
        joints = _rows(self.point.configuration(self.joints), "joints", self.robot.n)
        if not is_device_array(joints):
            check_angles(self.robot, joints, "joints")
        base = _rows(self.base, "base", 7)
        base = np.concatenate([base[..., :3], _unit_quaternion(base[..., 3:])], axis=-1)
        still = np.zeros(self.robot.dofs)
        velocity = _rows(still if self.velocity is None else self.velocity, "velocity", self.robot.dofs)
        given = {"joints": joints, "base": base, "velocity": velocity}
        # One array on the device takes all there: mixed ones would be copied at each use.
        on_gpu = any(map(is_device_array, given.values()))
        if self.robot.loops and not on_gpu:
            check_closed(self.robot, joints, velocity[..., 6:])
        for name, value in given.items():  # all in one place
            object.__setattr__(self, name, cupy().asarray(value) if on_gpu else value)
        object.__setattr__(self, "modes", JointModes.from_options(self.robot, self.locked, self.resistance))

    @classmethod
    def from_state(
        cls,
        robot: Robot,
        frame: str,
        state: State,
        *,
        locked: Locked = "none",
        resistance: Resistance = 0.0,
        held: bool = False,
    ) -> FloatingSystem:
        """A robot in a state of a run."""
        state.check(robot)
        base = np.concatenate([state.position, state.quaternion])
        return cls(robot, frame, state.joints, base, state.velocity, locked, resistance, held)

    @property
    def is_on_gpu(self) -> bool:
        """Whether its arrays are on a GPU."""
        return is_device_array(self.joints)

    @property
    def point(self) -> ImpactPoint:
        """Compiled functions of this robot at this frame."""
        return impact_point(self.robot, self.frame, self.device)

    @cached_property
    def response(self) -> ImpulseResponse:
        """Response to an impulse at the contact."""
        return self.point.response(
            self.joints, base=self.base, locked=self.modes.locked, resistance=self.modes.resistance
        )

    @cached_property
    def _jacobian(self) -> Array:
        return self.point.mechanics.jacobian(self.frame, self._q, base=self.base)

    def support(self, impulse: Array, change: Array) -> Array:
        """Impulse (..., 6) of what holds a constrained base, base axes at its origin; ``change`` is the jump of all
        velocities.
        """
        locked = self.robot.base.locked_indices
        found = np.zeros((*np.shape(change)[:-1], 6))
        if not locked:
            return found
        # M change = J^T impulse + support: what the equation of momentum lacks in the base's rows is what the support
        # gave.
        mass = self.point.mechanics.mass_matrix(self._q)
        pushed = np.einsum("...ki,...k->...i", self._jacobian, impulse)
        found[..., locked] = ((mass @ change[..., None])[..., 0] - pushed)[..., locked]
        return found

    @cached_property
    def contact_point(self) -> Array:
        """Origin of the contact frame in the world (..., 3), m."""
        return self.point.mechanics.frame_pose(self.frame, self._q, base=self.base)[0]

    @cached_property
    def twist(self) -> Array:
        """Twist of the contact frame (..., 6), world axes."""
        return self.twist_at(self._nu)

    def twist_at(self, velocity: Array) -> Array:
        """Twist of the contact frame for another generalised velocity."""
        return self.point.mechanics.frame_velocity(self.frame, self._q, velocity, base=self.base)

    def kinetic_energy(self, velocity: Array | None = None) -> Array:
        """Kinetic energy (...), J."""
        return self.point.mechanics.kinetic_energy(self._q, self._nu if velocity is None else velocity)

    def momentum(self, velocity: Array | None = None) -> Array:
        """Linear and angular momentum about the contact point (..., 6), world axes."""
        base = self._contact_centred_base
        nu = self._nu if velocity is None else velocity
        return self.point.mechanics.momentum(self._q, nu, base=base, about=np.zeros(3))

    @cached_property
    def lever(self) -> Array:
        """Vector from the contact point to the mass centre (..., 3), m, world axes."""
        return self.point.mechanics.centre_of_mass(self._q, base=self._contact_centred_base)

    @property
    def base_at_contact(self) -> tuple[Array, Array]:
        """Rotation matrix of the base, and from the contact point to its origin (..., 3), world axes, m."""
        base = self._contact_centred_base
        return rotation_matrices(base[..., 3:]), base[..., :3]

    @property
    def state(self) -> State:
        """The system's state as a run takes it; of a single sample."""
        base = np.asarray(self.base)
        return State(base[:3], base[3:], self._q, self._nu)

    @cached_property
    def _contact_centred_base(self) -> Array:
        """Pose of the base with the contact point as origin: at large coordinates the lever arms would lose digits."""
        pose: Any = self.base
        pose = pose.copy()
        pose[..., :3] = 0.0
        origin = self.point.mechanics.frame_pose(self.frame, self._q, base=pose)[0]
        lead = np.broadcast_shapes(pose.shape[:-1], origin.shape[:-1])
        moved: Array = np.broadcast_to(pose, (*lead, 7)).copy()
        moved[..., :3] = -origin
        return moved

    def with_velocity(self, velocity: npt.ArrayLike) -> FloatingSystem:
        """The same system with another generalised velocity."""
        return replace(self, velocity=velocity)

    def move_to_contact(self, other: FloatingSystem) -> FloatingSystem:
        """The same system, translated (not rotated) so that its contact frame's origin coincides with the other's."""
        return self.translate(other.contact_point - self.contact_point)

    def translate(self, shift: Array) -> FloatingSystem:
        """The same system, translated by a vector in the world (..., 3), m."""
        base: Any = self.base
        lead = np.broadcast_shapes(base.shape[:-1], shift.shape[:-1])
        moved = np.broadcast_to(base, (*lead, 7)).copy()
        moved[..., :3] += shift
        return replace(self, base=moved)

    @property
    def _q(self) -> Array:
        return self.joints  # type: ignore[return-value]

    @property
    def _nu(self) -> Array:
        return self.velocity  # type: ignore[return-value]


def _rows(value: Any, what: str, size: int) -> Array:
    """Numbers (..., size); those on a GPU are not checked."""
    if not is_device_array(value):
        return array(value, what, (..., size))
    given: Array = as_native_array(value)
    if given.dtype != np.float64 or given.shape[-1:] != (size,):
        raise InputError(f"is {given.dtype} {given.shape}", place=what, hint=f"expected float64 (..., {size})")
    return given


def _unit_quaternion(value: npt.ArrayLike) -> Array:
    """Quaternions (..., 4), scaled to length one exactly."""
    if is_device_array(value):
        given: Any = value
        return given / (given * given).sum(axis=-1, keepdims=True) ** 0.5  # type: ignore[no-any-return]
    # Checked to the tolerance of a file, then exact: energies are compared to rounding.
    quaternion = unit_vector(value, "quaternion", (..., 4))
    return np.asarray(quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True))


def free_body(
    mass: float,
    inertia: npt.ArrayLike,
    *,
    contact: npt.ArrayLike = (0.0, 0.0, 0.0),
    com: npt.ArrayLike = (0.0, 0.0, 0.0),
    name: str = "body",
) -> Robot:
    """A rigid body as a robot without joints, with a frame ``contact`` at that place of the body (m, body frame).

    Args:
        mass: kg.
        inertia: about the mass centre, kg m2: three principal moments or a 3 x 3 tensor, body axes.
        contact: where it is struck.
        com: mass centre in the body frame.
    """
    tensor = np.asarray(inertia, dtype=np.float64)
    tensor = np.diag(tensor) if tensor.shape == (3,) else tensor
    place = Pose(np.eye(3), np.asarray(contact, dtype=np.float64))
    return Robot(name, (Body(name, Inertia(mass, np.asarray(com), tensor)),), (), (Frame(CONTACT, name, place),))


def solid_ball(mass: float, radius: float = 0.05, *, name: str = "ball") -> Robot:
    """A solid ball, struck in line with its centre: equivalent to the paper's mass point in a central impact."""
    return free_body(mass, [0.4 * mass * positive(radius, "radius of the ball", unit="m") ** 2] * 3, name=name)


def build_system(
    robot: Robot,
    frame: str,
    *,
    joints: npt.ArrayLike | str | None = None,
    rates: npt.ArrayLike | None = None,
    position: npt.ArrayLike = (0.0, 0.0, 0.0),
    quaternion: npt.ArrayLike = (1.0, 0.0, 0.0, 0.0),
    velocity: npt.ArrayLike = (0.0, 0.0, 0.0),
    angular_velocity: npt.ArrayLike = (0.0, 0.0, 0.0),
    locked: Locked = "none",
    resistance: Resistance = 0.0,
) -> FloatingSystem:
    """A system from the velocities of its base in WORLD axes (..., 3) and joint rates (..., n)."""
    place, attitude = array(position, "position", (..., 3)), _unit_quaternion(quaternion)
    rotation = rotation_matrices(attitude)
    # Generalised velocities have the base's part in base axes: the transposed rotation.
    linear = np.einsum("...ji,...j->...i", rotation, array(velocity, "velocity", (..., 3)))
    angular = np.einsum("...ji,...j->...i", rotation, array(angular_velocity, "angular velocity", (..., 3)))
    joint_rates = np.zeros(robot.n) if rates is None else array(rates, "rates", (..., robot.n))
    return FloatingSystem(
        robot,
        frame,
        joints,
        _concatenate(place, attitude),
        _concatenate(linear, angular, joint_rates),
        locked,
        resistance,
    )


def _concatenate(*parts: Array) -> Array:
    lead = np.broadcast_shapes(*(part.shape[:-1] for part in parts))
    return np.concatenate([np.broadcast_to(part, (*lead, part.shape[-1])) for part in parts], axis=-1)
