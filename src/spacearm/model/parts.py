"""The parts of a robot: plain, immutable values in SI units.

All arrays are float64 and read-only. Angles are radians, quaternions scalar first (w, x, y, z).
Each part checks its own numbers when it is made; what concerns several parts (names, the tree) is
checked by :class:`spacearm.model.Robot`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.checks import UNIT_TOLERANCE, check_fields
from spacearm.errors import ModelError, quote_text
from spacearm.typing import Array

JointKind: TypeAlias = Literal["revolute", "prismatic"]
JOINT_KINDS: tuple[JointKind, ...] = ("revolute", "prismatic")

#: A vector whose length is off by no more than this is a unit vector but for rounding (dividing by the length leaves
#: up to 4 units in the last place) and is kept bit for bit, so that reading what was written changes nothing.
UNIT_ROUNDING = 1e-15
#: The same for rotations: entries of ``R R^T - 1`` are sums of three products, and a product of a few exact rotations
#: is off by some 1e-15, so the bound is ten times that of a vector.
ROTATION_ROUNDING = 1e-14
#: How far, relative to its trace, an inertia may break the triangle inequality (rounded data sheets).
TRIANGLE_TOLERANCE = 1e-9
#: No number of a robot is larger, whatever its SI unit: far beyond it sums of products overflow.
LARGEST = 1e30
#: Where the six numbers of a symmetric matrix stand in it.
MOMENTS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
_TOO_LARGE = f"expected at most {LARGEST:g} in size"


def finite(value: object, what: str, **bounds: Any) -> float:
    """``value`` as a finite float within bounds, as for :func:`spacearm.checks.number`."""
    found = checks.number(value, what, error=ModelError, **bounds)
    return checks.number(found, what, least=-LARGEST, most=LARGEST, hint=_TOO_LARGE, error=ModelError)


def read_only_array(value: npt.ArrayLike, shape: tuple[int, ...], what: str) -> Array:
    """``value`` as a read-only float64 array of this shape, or a :class:`ModelError` that names it."""
    found: Any = value
    right = isinstance(value, np.ndarray) and value.dtype == np.float64 and value.shape == shape
    if not right or not np.abs(found).max(initial=0.0) <= LARGEST:
        found = checks.array(value, what, shape, error=ModelError)
        found = checks.array(found, what, least=-LARGEST, most=LARGEST, hint=_TOO_LARGE, error=ModelError)
    # Adding zero copies, and turns -0.0 into 0.0: equal numbers shall also be written, and turned into angles, alike.
    array: Array = found + 0.0
    array.setflags(write=False)
    return array


def unit_vector(value: npt.ArrayLike, what: str) -> Array:
    """``value`` as a unit vector; one that is not of length 1 is an error, not silently scaled."""
    array = read_only_array(checks.unit_vector(value, what, error=ModelError), (3,), what)
    length = float(np.linalg.norm(array))
    return array if abs(length - 1.0) <= UNIT_ROUNDING else read_only_array(array / length, (3,), what)


def expect(value: object, kind: type, what: str, *, optional: bool = False) -> None:
    """A :class:`ModelError` unless ``value`` is of this kind (or None, where that is allowed)."""
    checks.instance(value, kind, what, optional=optional, error=ModelError)


class Part:
    """A value with equality and a hash that look into its arrays, which are read-only in copies too."""

    __slots__ = ("_hash",)
    _hash: int  # computed once: parts of many robots are the same ones

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__dataclass_fields__)  # type: ignore[attr-defined]

    def _expect_text(self, *keys: str) -> None:
        """Names are text; that they are good names is checked by the robot."""
        for key in keys:
            expect(getattr(self, key), str, f"{type(self).__name__.lower()} {key}")

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:  # copied and unpickled by the constructor
        return type(self), self._values()

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if type(other) is not type(self):
            return NotImplemented
        pairs = zip(self._values(), other._values(), strict=True)
        return all(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b for a, b in pairs)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            values = (value.tobytes() if isinstance(value, np.ndarray) else value for value in self._values())
            object.__setattr__(self, "_hash", hash(tuple(values)))
            return self._hash


_EYE = np.eye(3)


def _is_mirrored(a: float, b: float, c: float, d: float, e: float, f: float, g: float, h: float, i: float) -> bool:
    """Whether the determinant of a matrix, given by rows, is below zero."""
    return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g) < 0.0


def skew(vector: npt.ArrayLike) -> Array:
    """Matrices (..., 3, 3) of the cross product with vectors (..., 3): ``skew(a) @ b == cross(a, b)``."""
    given = np.asarray(vector, dtype=np.float64)
    x, y, z = given[..., 0], given[..., 1], given[..., 2]
    full = np.zeros((*given.shape, 3))
    full[..., 0, 1], full[..., 0, 2], full[..., 1, 2] = -z, y, -x
    full[..., 1, 0], full[..., 2, 0], full[..., 2, 1] = z, -y, x
    return full


def symmetric_six(tensor: npt.ArrayLike) -> Array:
    """The six numbers (..., 6) of symmetric matrices (..., 3, 3), in the order of :data:`MOMENTS`."""
    tensor = np.asarray(tensor, dtype=np.float64)
    return np.stack([tensor[..., i, j] for i, j in MOMENTS], axis=-1)


def tensor_of(six: npt.ArrayLike) -> Array:
    """Symmetric matrices (..., 3, 3) of six numbers (..., 6)."""
    six = np.asarray(six, dtype=np.float64)
    full = np.empty((*six.shape[:-1], 3, 3))
    for k, (i, j) in enumerate(MOMENTS):
        full[..., i, j] = full[..., j, i] = six[..., k]
    return full


@dataclass(frozen=True, slots=True, eq=False)
class Pose(Part):
    """Where a frame lies in another: ``x_outer = rotation @ x_inner + translation``."""

    rotation: Array = field(default_factory=lambda: np.eye(3))
    translation: Array = field(default_factory=lambda: np.zeros(3))

    def __post_init__(self) -> None:
        rotation = read_only_array(self.rotation, (3, 3), "rotation")
        off = np.abs(rotation @ rotation.T - _EYE).max()
        if off > UNIT_TOLERANCE or _is_mirrored(*rotation.ravel().tolist()):
            raise ModelError("rotation is not a rotation matrix", hint="expected orthonormal rows and determinant +1")
        if off > ROTATION_ROUNDING:
            # Data sheets round; a matrix that is not quite a rotation would break momentum in a long run.
            left, _, right = np.linalg.svd(rotation)
            rotation = read_only_array(left @ right, (3, 3), "rotation")
        object.__setattr__(self, "rotation", rotation)
        object.__setattr__(self, "translation", read_only_array(self.translation, (3,), "translation"))

    def __matmul__(self, other: Pose) -> Pose:
        return Pose(self.rotation @ other.rotation, self.rotation @ other.translation + self.translation)

    def inverse(self) -> Pose:
        return Pose(self.rotation.T, -self.rotation.T @ self.translation)


@dataclass(frozen=True, slots=True, eq=False)
class Inertia(Part):
    """Mass (kg), mass centre (m, body frame) and inertia tensor (kg m2) about the mass centre, body axes.

    The tensor's off-diagonal entries are tensor entries (minus the products of inertia).
    """

    mass: float
    com: Array = field(default_factory=lambda: np.zeros(3))
    tensor: Array = field(default_factory=lambda: np.zeros((3, 3)))

    def __post_init__(self) -> None:
        check_fields(self, finite, "mass", least=0.0)
        object.__setattr__(self, "com", read_only_array(self.com, (3,), "mass centre"))
        tensor = read_only_array(self.tensor, (3, 3), "inertia")
        scale = float(np.abs(tensor).max())
        if np.abs(tensor - tensor.T).max() > 1e-9 * scale:
            raise ModelError("inertia is not symmetric")
        tensor = 0.5 * (tensor + tensor.T)  # before the checks: what passes them once passes them again
        moments = np.linalg.eigvalsh(tensor)
        slack = TRIANGLE_TOLERANCE * float(np.abs(moments).sum())
        if moments[0] < -slack:
            raise ModelError(
                f"inertia has a negative principal moment {moments[0]:.6g} kg m2", hint="expected none below zero"
            )
        if moments[0] + moments[1] < moments[2] - slack:
            a, b, c = moments
            raise ModelError(
                f"inertia breaks the triangle inequality: {a:.6g} + {b:.6g} < {c:.6g} kg m2",
                hint="no body has such principal moments" + _sign_doubt(tensor),
            )
        if self.mass == 0.0 and scale > 0.0:
            raise ModelError("mass is zero but the inertia is not", hint="a massless body has no inertia")
        object.__setattr__(self, "tensor", read_only_array(tensor, (3, 3), "inertia"))

    @classmethod
    def massless(cls) -> Inertia:
        return cls(0.0)

    @classmethod
    def from_parameters(cls, parameters: npt.ArrayLike) -> Inertia:
        """The inertia from the ten numbers that dynamics is linear in: see :attr:`parameters`."""
        array = read_only_array(parameters, (10,), "inertia parameters")
        m = float(array[0])
        if m == 0.0:
            return cls.massless()
        c = array[1:4] / m
        return cls(m, c, tensor_of(array[4:]) + m * skew(c) @ skew(c))

    @property
    def tensor_about_origin(self) -> Array:
        """Inertia tensor about the origin of the body frame, kg m2."""
        return self.tensor - self.mass * skew(self.com) @ skew(self.com)

    @property
    def parameters(self) -> Array:
        """The ten numbers (m, m cx, m cy, m cz, Ixx, Iyy, Izz, Ixy, Ixz, Iyz), tensor about the frame's origin."""
        return np.array([self.mass, *(self.mass * self.com), *symmetric_six(self.tensor_about_origin)])

    def transform(self, pose: Pose) -> Inertia:
        """The same body seen from an outer frame in which its own frame lies at ``pose``."""
        rotation = pose.rotation
        tensor = rotation @ self.tensor @ rotation.T
        return Inertia(self.mass, rotation @ self.com + pose.translation, 0.5 * (tensor + tensor.T))

    def __add__(self, other: Inertia) -> Inertia:
        """Two bodies welded together, both given in the same frame."""
        mass = self.mass + other.mass
        if mass == 0.0:
            return Inertia.massless()
        # Tensors about the common mass centre add up; each is brought there by the parallel axis theorem.
        com = (self.mass * self.com + other.mass * other.com) / mass
        tensor = np.zeros((3, 3))
        for part in (self, other):
            arm = skew(part.com - com)
            tensor += part.tensor - part.mass * arm @ arm
        return Inertia(mass, com, 0.5 * (tensor + tensor.T))


def _sign_doubt(tensor: Array) -> str:
    """A question about the sign of the products of inertia, where the other sign would make it a body."""
    # Twice the diagonal less the tensor is the tensor with its products of inertia negated.
    moments = np.linalg.eigvalsh(2.0 * np.diag(np.diag(tensor)) - tensor)
    if moments[0] < 0.0 or moments[0] + moments[1] < moments[2]:
        return ""
    return "; are the products of inertia given with the wrong sign?"


Shape: TypeAlias = Literal["box", "cylinder", "capsule", "sphere", "ellipsoid", "mesh"]
#: How many numbers the size of each shape has.
SHAPES: dict[Shape, int] = {"box": 3, "cylinder": 2, "capsule": 2, "sphere": 1, "ellipsoid": 3, "mesh": 3}
#: The same of collision shapes.
COLLISIONS: dict[str, int] = {str(kind): n for kind, n in SHAPES.items() if kind not in ("ellipsoid", "mesh")}
COLLISIONS |= {"plane": 0, "disc": 1, "cone": 3, "hole": 2, "ring": 2}
_COLOUR = re.compile(r"#[0-9a-f]{6}([0-9a-f]{2})?")


class _PlacedShape(Part):
    __slots__ = ()
    placement: Pose

    def transform(self, pose: Pose) -> Self:
        """The same shape seen from an outer frame in which its body's frame lies at ``pose``."""
        return replace(self, placement=pose @ self.placement)  # type: ignore[type-var]


@dataclass(frozen=True, slots=True, eq=False)
class ModeShape(Part):
    """What a unit (m or rad) of a sprung joint's position moves a visual by: the shape of a mode at one place.

    ``translation`` of the visual's middle (m) and ``rotation`` about it (rad) for a unit, in the axes of the body that
    is drawn. A joint that the robot does not have, or not any more, moves nothing.
    """

    joint: str
    translation: Array = field(default_factory=lambda: np.zeros(3))
    rotation: Array = field(default_factory=lambda: np.zeros(3))

    def __post_init__(self) -> None:
        self._expect_text("joint")
        for name in ("translation", "rotation"):
            object.__setattr__(self, name, read_only_array(getattr(self, name), (3,), f"{name} of a mode shape"))

    def transform(self, pose: Pose) -> ModeShape:
        """The same seen from an outer frame in which its body's frame lies at ``pose``."""
        return ModeShape(self.joint, pose.rotation @ self.translation, pose.rotation @ self.rotation)


@dataclass(frozen=True, slots=True, eq=False)
class Visual(_PlacedShape):
    """A shape that a body is drawn with, centred on ``placement`` in the body's frame; it has no part in the mechanics.

    ``size`` in m: the edges of a box; radius, and length along z, of a cylinder or capsule (whose half balls come on
    top); the radius of a sphere; the half axes of an ellipsoid; of a mesh the factors on the file's x, y and z.
    ``colour`` is ``#rrggbb`` or ``#rrggbbaa``, empty where there is none; ``mesh`` an STL, OBJ or DAE file, which
    nothing but drawing opens. ``mode_shapes`` move it with the joints of modes: a part of a panel that bends.
    """

    shape: Shape
    size: Array
    placement: Pose = field(default_factory=Pose)
    colour: str = ""
    mesh: str = ""
    mode_shapes: tuple[ModeShape, ...] = ()

    def __post_init__(self) -> None:
        checks.one_of(self.shape, tuple(SHAPES), "shape", error=ModelError)
        object.__setattr__(self, "size", read_only_array(self.size, (SHAPES[self.shape],), f"size of a {self.shape}"))
        if np.any(self.size < 0.0) and self.shape != "mesh":  # a mesh may be mirrored
            raise ModelError(f"size is {self.size.tolist()}", hint="expected nothing below zero")
        expect(self.placement, Pose, "placement of a visual")
        self._expect_text("colour", "mesh")
        object.__setattr__(self, "colour", self.colour.lower())
        if self.colour and not _COLOUR.fullmatch(self.colour):
            raise ModelError(f"colour is {quote_text(self.colour)}", hint="expected #rrggbb or #rrggbbaa")
        if bool(self.mesh) != (self.shape == "mesh"):
            raise ModelError("a mesh has a file, and no other shape has one", hint='expected mesh = "FILE"')
        object.__setattr__(self, "mode_shapes", tuple(self.mode_shapes))
        for each in self.mode_shapes:
            expect(each, ModeShape, "mode shape of a visual")

    def transform(self, pose: Pose) -> Visual:
        """The same shape seen from an outer frame in which its body's frame lies at ``pose``."""
        moved = tuple(each.transform(pose) for each in self.mode_shapes)
        return replace(self, placement=pose @ self.placement, mode_shapes=moved)


@dataclass(frozen=True, slots=True, eq=False)
class CollisionShape(_PlacedShape):
    """A shape by which a body may touch others: one of :mod:`spacearm.mechanics.shapes`, its lengths in order, m."""

    shape: str
    size: Array
    placement: Pose = field(default_factory=Pose)

    def __post_init__(self) -> None:
        checks.one_of(self.shape, tuple(COLLISIONS), "shape", error=ModelError)
        size = checks.array(self.size, "size", above=0.0, unit="m", error=ModelError)
        object.__setattr__(self, "size", read_only_array(size, (COLLISIONS[self.shape],), f"size of a {self.shape}"))
        expect(self.placement, Pose, "placement of a collision shape")


@dataclass(frozen=True, slots=True, eq=False)
class Body(Part):
    """A rigid body. Its frame is the frame of the joint that carries it (the base: its own frame)."""

    name: str
    inertia: Inertia
    visuals: tuple[Visual, ...] = ()
    collisions: tuple[CollisionShape, ...] = ()

    def __post_init__(self) -> None:
        self._expect_text("name")
        expect(self.inertia, Inertia, f"inertia of body {quote_text(self.name)}")
        for key, kind in (("visuals", Visual), ("collisions", CollisionShape)):
            given = getattr(self, key)
            object.__setattr__(self, key, (given,) if isinstance(given, kind) else tuple(given))
            for each in getattr(self, key):
                expect(each, kind, f"{key[:-1]} of body {quote_text(self.name)}")

    def __hash__(self) -> int:
        return hash((self.name, self.inertia))


@dataclass(frozen=True, slots=True, eq=False)
class Spring(Part):
    """Force ``-stiffness * (q - rest)`` along a joint; N/m and m, or N m/rad and rad."""

    stiffness: float
    rest: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self, finite, "stiffness", least=0.0)
        check_fields(self, finite, "rest")


@dataclass(frozen=True, slots=True, eq=False)
class Friction(Part):
    """Dry friction of a joint: it sticks up to ``static``, slips against ``coulomb``; N or N m."""

    static: float
    coulomb: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "static", finite(self.static, "static friction", least=0.0))
        object.__setattr__(self, "coulomb", finite(self.coulomb, "Coulomb friction", least=0.0))
        if self.static < self.coulomb:
            raise ModelError(
                f"static friction {self.static:g} is below Coulomb friction {self.coulomb:g}",
                hint="expected static >= coulomb",
            )


_NO_LIMIT = "expected a number; leave it out for no limit"
#: Bounds of each limit; infinity is no limit.
_LIMITS: dict[str, dict[str, Any]] = {
    "lower": {"below": math.inf, "hint": _NO_LIMIT},
    "upper": {"above": -math.inf, "hint": _NO_LIMIT},
    "velocity": {"least": 0.0},
    "effort": {"least": 0.0},
}


@dataclass(frozen=True, slots=True, eq=False)
class Limits(Part):
    """Range of a joint (m or rad) and the most that its drive gives (m/s or rad/s, N or N m)."""

    lower: float = -math.inf
    upper: float = math.inf
    velocity: float = math.inf
    effort: float = math.inf

    def __post_init__(self) -> None:
        for name, bounds in _LIMITS.items():
            value = getattr(self, name)
            number = checks.number(value, f"{name} limit", infinite=True, error=ModelError, **bounds)
            object.__setattr__(self, name, number)
        if self.lower > self.upper:
            raise ModelError(f"lower limit {self.lower:g} is above upper limit {self.upper:g}")


@dataclass(frozen=True, slots=True, eq=False)
class Rotor(Part):
    """A drive's spinning mass: axial inertia (kg m2), turning ``ratio`` times as fast as its joint (of a slide rad/m:
    the nut of a ball screw).

    It is carried by the joint's parent body and spins about the joint axis, so its kinetic energy is
    ``inertia / 2 * (ratio * qd + axis . omega_parent)**2``. Its mass and its inertia across the axis belong
    to the parent body.
    """

    inertia: float
    ratio: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "inertia", finite(self.inertia, "rotor inertia", above=0.0))
        object.__setattr__(self, "ratio", finite(self.ratio, "gear ratio"))
        if self.ratio == 0.0:
            raise ModelError("gear ratio is zero")


@dataclass(frozen=True, slots=True, eq=False)
class Joint(Part):
    """One degree of freedom between two bodies.

    ``placement`` is the joint frame in the parent body's frame at ``q = 0``; the child body's frame is the joint
    frame turned (revolute, rad) or shifted (prismatic, m) by ``q`` along ``axis``, a unit vector of the joint frame.
    """

    name: str
    kind: JointKind
    parent: str
    child: str
    placement: Pose = field(default_factory=Pose)
    axis: Array = field(default_factory=lambda: np.array([0.0, 0.0, 1.0]))
    spring: Spring | None = None
    damping: float = 0.0
    friction: Friction | None = None
    limits: Limits = field(default_factory=Limits)
    rotor: Rotor | None = None

    def __post_init__(self) -> None:
        self._expect_text("name", "parent", "child")
        owner = f"of joint {quote_text(self.name)}"
        expect(self.placement, Pose, f"placement {owner}")
        expect(self.spring, Spring, f"spring {owner}", optional=True)
        expect(self.friction, Friction, f"friction {owner}", optional=True)
        expect(self.limits, Limits, f"limits {owner}")
        expect(self.rotor, Rotor, f"rotor {owner}", optional=True)
        checks.one_of(self.kind, JOINT_KINDS, "joint kind", error=ModelError)
        check_fields(self, unit_vector, "axis")
        check_fields(self, finite, "damping", least=0.0)

    @property
    def unit(self) -> str:
        """Unit of the joint's coordinate."""
        return "rad" if self.kind == "revolute" else "m"

    @property
    def force_unit(self) -> str:
        """Unit of the joint's generalised force."""
        return "N m" if self.kind == "revolute" else "N"


@dataclass(frozen=True, slots=True, eq=False)
class Frame(Part):
    """A named place on a body: a hand, a sensor, a contact point."""

    name: str
    body: str
    placement: Pose = field(default_factory=Pose)

    def __post_init__(self) -> None:
        self._expect_text("name", "body")
        expect(self.placement, Pose, f"placement of frame {quote_text(self.name)}")


#: m/s2, by which a specific impulse becomes a speed.
STANDARD_GRAVITY = 9.80665


@dataclass(frozen=True, slots=True, eq=False)
class Thruster(Part):
    """A thruster on a body: pushes with ``force`` newton along ``direction`` at ``position`` (body frame).

    A control law switches it on for ``minimum_pulse`` seconds at least. ``specific_impulse`` (s) tells what propellant
    that takes; infinite: none. It is taken from the robot's ``tank``; without one the mass does not change by it.
    """

    name: str
    body: str
    position: Array
    direction: Array
    force: float
    minimum_pulse: float = 0.0
    specific_impulse: float = math.inf
    tank: str = ""

    def __post_init__(self) -> None:
        self._expect_text("name", "body", "tank")
        object.__setattr__(self, "position", read_only_array(self.position, (3,), "thruster position"))
        object.__setattr__(self, "direction", unit_vector(self.direction, "thruster direction"))
        object.__setattr__(self, "force", finite(self.force, "thruster force", least=0.0))
        object.__setattr__(self, "minimum_pulse", finite(self.minimum_pulse, "minimum pulse", least=0.0))
        impulse = checks.number(self.specific_impulse, "specific impulse", above=0.0, infinite=True, error=ModelError)
        object.__setattr__(self, "specific_impulse", impulse)

    @property
    def mass_flow(self) -> float:
        """Propellant at full thrust, kg/s."""
        return self.force / (self.specific_impulse * STANDARD_GRAVITY)


@dataclass(frozen=True, slots=True, eq=False)
class Coupling(Part):
    """A spring and damper between two joints, as between a motor and the link that it drives.

    With the deflection ``d = q[first] - ratio * q[second] - rest``, the force ``f = -stiffness * d - damping * dd/dt``
    acts on ``first`` and ``-ratio * f`` on ``second``.
    """

    name: str
    first: str
    second: str
    stiffness: float
    damping: float = 0.0
    ratio: float = 1.0
    rest: float = 0.0

    def __post_init__(self) -> None:
        self._expect_text("name", "first", "second")
        check_fields(self, finite, "stiffness", "damping", least=0.0)
        check_fields(self, finite, "ratio", "rest")
        if self.first == self.second:
            raise ModelError(f"couples joint {self.first!r} with itself")
