"""Base parameters of a free-floating robot and their null directions, in closed form.

Motion, forces and momentum depend on the 10(n + 1) linear inertia parameters phi only through fewer combinations
beta = combine @ phi. Masses on the axis of a revolute joint are carried alike by the child and by its parent: their
motion does not depend on the joint. So a point mass anywhere on the axis can pass from one body to the other without
any change. Point masses on a line span three directions: mass, first moment along the axis, moment of inertia across
it. A prismatic joint does not rotate: parent and child share one rotation, so the child's whole tensor (six directions)
can be the parent's. Hence 10(n + 1) - 3 n_revolute - 6 n_prismatic combinations can be known, no more (M. Gautier,
W. Khalil, IEEE Trans. Robotics and Automation 6, 1990, for fixed arms).

Joints are treated from the tips to the base: of each child the rows that its joint shows are kept (seven, or four for a
prismatic joint), the rest is transported into the parent's frame and added to the parent's numbers; the base keeps ten.
The result is exact and holds for all motions together; what particular records show is a matter of information.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from spacearm.engine import mechanics_of
from spacearm.identify.inertia.inertia_parameters import (
    LINEAR,
    LINEAR_UNITS,
    Label,
    labels,
    typical_sizes,
)
from spacearm.mechanics.reframe import transport
from spacearm.mechanics.structure import Keyed, structure
from spacearm.model import Joint, Pose, Robot
from spacearm.optimise.problem import Parameter
from spacearm.typing import Array

_AXES = "xyz"
#: Columns of a scaled regressor below this share of the largest are rounding.
RANK_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class NullDirection:
    """One direction that no motion shows: adding ``vector`` (10(n + 1)) to the inertias changes nothing measurable."""

    joint: str
    child: str
    parent: str
    what: str
    vector: Array

    @property
    def text(self) -> str:
        return f"{self.what} may belong to {self.child} or to {self.parent}: no motion of {self.joint} tells"


@dataclass(frozen=True, slots=True)
class BaseParameter:
    """A combination that motion determines: ``row`` (10(n + 1)) times the inertias."""

    name: str
    body: str
    unit: str
    row: Array
    formula: str


@dataclass(frozen=True, eq=False)
class BaseParameters:
    """Identifiable combinations and null directions of a robot.

    ``combine`` (r, 10(n + 1)) gives the base parameters; ``lift`` (10(n + 1), r) gives one set of inertias that has
    them (``combine @ lift`` is the identity): each body keeps only what its joint shows, the rest sits in its parent.
    ``null`` (10(n + 1), k) spans what is left. Where some numbers are known beforehand, all this is about the others.
    """

    robot: Robot
    parameters: tuple[BaseParameter, ...]
    nulls: tuple[NullDirection, ...]
    combine: Array
    lift: Array
    null: Array
    passes: tuple[str, ...]

    @property
    def rank(self) -> int:
        return len(self.parameters)

    @property
    def unknown(self) -> int:
        """Numbers that are not known beforehand."""
        return self.rank + int(self.null.shape[1])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.parameters)

    @cached_property
    def sizes(self) -> Array:
        """Typical size (r,) of each: the largest that one of its terms has."""
        return np.asarray((np.abs(self.combine) * typical_sizes(self.robot)).max(axis=1, initial=0.0))

    def unknowns(self, values: Array) -> tuple[Parameter, ...]:
        """Unknowns of a fit that starts from these values (r,)."""
        found = zip(self.parameters, values, self.sizes, strict=True)
        return tuple(Parameter(p.name, float(value), p.unit, scale=float(size)) for p, value, size in found)

    @property
    def units(self) -> tuple[str, ...]:
        return tuple(p.unit for p in self.parameters)

    def describe(self) -> str:
        """Lines of text: which parameters pass to which parent, and every combination."""
        lines = [
            f"{self.robot.name}: {self.combine.shape[1]} inertia parameters, {self.rank} identifiable combinations, "
            f"{self.null.shape[1]} null directions",
            *self.passes,
            *(f"{p.name} = {p.formula} [{p.unit}]" for p in self.parameters),
        ]
        return "\n".join(lines)


def _axis_frame(axis: Array) -> tuple[Array, str]:
    """Rotation whose third column is the axis, and the names of its three axes in the body.

    A joint along a body axis keeps the body's own axes (in cyclic order); another gets new ones.
    """
    for k in range(3):
        if abs(abs(axis[k]) - 1.0) < 1e-9:
            order = [(k + 1) % 3, (k + 2) % 3, k]
            return np.eye(3)[:, order], "".join(_AXES[i] for i in order)
    # The body axis farthest from the joint's: the cross product is then well conditioned.
    helper = np.eye(3)[int(np.argmin(np.abs(axis)))]
    first = np.cross(helper, axis)
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(axis, first), axis], axis=1), "uvw"


@dataclass(frozen=True, slots=True)
class _Split:
    """How a child's ten numbers divide: rows that it keeps, and what goes to the parent (in the child's frame)."""

    keep: Array  # (k, 10)
    names: tuple[str, ...]
    units: tuple[str, ...]
    passed: Array  # (10, 10), a projector
    restore: Array  # (10, k): ten numbers that have the kept rows and pass nothing
    directions: tuple[tuple[str, Array], ...]
    words: str


def _split(joint: Joint) -> _Split:
    if joint.kind == "prismatic":
        keep = np.eye(10)[:4]
        passed = np.zeros((10, 10))
        passed[4:, 4:] = np.eye(6)
        directions = tuple((LINEAR[4 + k] + f" of {joint.child}", np.eye(10)[4 + k]) for k in range(6))
        words = f"{joint.child} passes its whole tensor (Ixx ... Iyz) to {joint.parent} through {joint.name}"
        return _Split(keep, LINEAR[:4], LINEAR_UNITS[:4], passed, np.eye(10)[:, :4], directions, words)
    rotation, letters = _axis_frame(joint.axis)
    a, b, c = list(letters)
    to_axes = transport(Pose(rotation.T, np.zeros(3)))  # body axes to axes with the joint along the third
    back = transport(Pose(rotation, np.zeros(3)))
    # With the axis as c, adding I to both Iaa and Ibb is invisible: of the two only their difference is kept.
    own = [1, 2, 4, 6, 7, 8, 9]  # ha, hb, Iaa - Ibb, Icc, Iab, Iac, Ibc
    keep, restore = np.eye(10)[own], np.eye(10)[:, own]
    keep[2, 5] = -1.0
    passed = np.diag([1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    passed[4, 5] = 1.0  # the moment across the axis is read from Ibb
    aa, bb, cc, ab, ac, bc = ("I" + "".join(sorted(pair)) for pair in (a + a, b + b, c + c, a + b, a + c, b + c))
    directions = (
        (f"mass at the origin of {joint.child} on the axis of {joint.name}", np.eye(10)[0]),
        (f"first moment along the axis of {joint.name} (h{c})", np.eye(10)[3]),
        (f"moment of inertia across the axis of {joint.name} ({aa} = {bb})", np.eye(10)[4] + np.eye(10)[5]),
    )
    words = f"{joint.child} passes m, h{c} and {bb} to {joint.parent} through {joint.name}"
    if a == "u":
        words += " (axes u, v, w of the body with w along the joint)"
    return _Split(
        keep @ to_axes,
        (f"h{a}", f"h{b}", f"{aa}-{bb}", cc, ab, ac, bc),
        ("kg m", "kg m", *["kg m2"] * 5),
        back @ passed @ to_axes,
        back @ restore,
        tuple((text, back @ vector) for text, vector in directions),
        words,
    )


def describe_terms(row: Array, names: tuple[Label, ...], limit: int = 12) -> str:
    size = float(np.abs(row).max()) or 1.0
    terms = [(float(value), label.text) for value, label in zip(row, names, strict=True) if abs(value) > 1e-12 * size]
    text = ""
    for value, name in terms[:limit]:
        sign = " - " if value < 0 else " + "
        factor = "" if abs(abs(value) - 1.0) < 1e-12 else f"{abs(value):.6g} "
        text += (("-" if value < 0 else "") if not text else sign) + factor + name
    return text + (f" + ... ({len(terms)} terms)" if len(terms) > limit else "")


@lru_cache(maxsize=64)
def base_parameters(robot: Robot, known: tuple[int, ...] = ()) -> BaseParameters:
    """Base parameters and null directions from the kinds and axes of the joints alone.

    ``known``: places of numbers that are known exactly, among the 10(n + 1). What a joint hides can then not pass to
    them: of a single unknown body at the end of a known arm all ten numbers can be told.
    """
    if known:
        return _reduce_to_unknown(base_parameters(robot), known)
    return replace(_derive_base_parameters(Keyed(structure(robot), robot)), robot=robot)


@lru_cache(maxsize=64)
def momentum_parameters(robot: Robot, known: tuple[int, ...] = ()) -> BaseParameters:
    """Base parameters that the momentum shows along which the robot's base moves; of a free base all.

    On a table these are momenta in the plane and about its normal: masses, first moments in the plane and moments of
    inertia about the normal if the arm moves in it, more if it does not; on a rail one momentum.
    """
    whole = base_parameters(robot, known)
    if robot.base.is_free:
        return whole
    random, moving = np.random.default_rng(0), robot.base.moving_indices
    count = 20 * (robot.n + 1)
    joints, rates = random.uniform(-np.pi, np.pi, (count, robot.n)), random.normal(size=(count, robot.n))
    twist = np.zeros((count, 6))
    twist[:, moving] = random.normal(size=(count, len(moving)))
    matrix, _ = mechanics_of(robot).momentum_regressor(joints, np.concatenate([twist, rates], axis=1))
    return keep_shown(whole, matrix[:, moving])


def keep_shown(whole: BaseParameters, matrix: Array) -> BaseParameters:
    """Those combinations that a regressor (..., 10(n + 1)) at random states shows, which show all that motion can.

    Its columns, scaled by typical sizes, have a numerical rank; pivoted QR picks independent ones, and least squares
    expresses the others by them (M. Gautier, J. Robotic Systems 8, 1991). A combination of several is marked ``**``.
    """
    names, sizes = labels(whole.robot), whole.sizes
    shown = (matrix @ whole.lift).reshape(-1, whole.rank) * sizes if whole.rank else np.zeros((0, 0))
    kept = _independent_columns(shown)
    shares = np.linalg.lstsq(shown[:, kept], shown, rcond=None)[0] * sizes[kept, None] / sizes
    # Coefficients are geometry; below this they are rounding, and would clutter the formulas.
    shares[np.abs(shares) < 1e-9] = 0.0
    combine, lift = shares @ whole.combine, whole.lift[:, kept]
    parameters = []
    for k, row, share in zip(kept, combine, shares, strict=True):
        own = whole.parameters[k]
        name = own.name if np.count_nonzero(share) == 1 else own.name.replace("*", "").replace("(", "**(")
        parameters.append(BaseParameter(name, own.body, own.unit, row, describe_terms(row, names)))
    hidden = np.setdiff1d(np.arange(whole.rank), kept)
    # A hidden parameter minus its expression by the kept ones changes nothing: a null direction.
    unseen = whole.lift[:, hidden] - lift @ shares[:, hidden]
    return replace(
        whole, parameters=tuple(parameters), combine=combine, lift=lift,
        null=np.concatenate([whole.null, unseen], axis=1),
    )  # fmt: skip


def _independent_columns(matrix: Array) -> npt.NDArray[np.intp]:
    """Places of independent columns, in order."""
    from scipy.linalg import qr

    if not matrix.size:
        return np.zeros(0, dtype=np.intp)
    r, order = qr(matrix, mode="r", pivoting=True)
    steps = np.abs(np.diag(r))
    return np.sort(order[: int(np.sum(steps > RANK_TOLERANCE * steps.max(initial=0.0)))])


def _reduce_to_unknown(whole: BaseParameters, known: tuple[int, ...]) -> BaseParameters:
    """Independent ones among the unknown numbers, each with the share of those that go with it."""
    from scipy.linalg import qr

    names, size = labels(whole.robot), whole.combine.shape[1]
    # Pivoted QR on scaled columns picks numbers that are independent in what motion shows; the others are expressed by
    # them. Zeroing coefficients below 1e-9 removes rounding, so that formulas stay readable.
    free = np.setdiff1d(np.arange(size), known)
    shown = whole.combine[:, free] * typical_sizes(whole.robot)[free]
    norms = np.linalg.norm(shown, axis=1, keepdims=True)
    r, order = qr(shown / np.where(norms > 0.0, norms, 1.0), mode="r", pivoting=True)
    steps = np.abs(np.diag(r)) if free.size else np.zeros(0)
    kept = np.sort(order[: int(np.sum(steps > 1e-9 * steps.max(initial=0.0)))])
    combine, lift = np.zeros((kept.size, size)), np.eye(size)[:, free[kept]]
    shares = np.linalg.lstsq(whole.combine[:, free[kept]], whole.combine[:, free], rcond=None)[0]
    combine[:, free] = np.where(np.abs(shares) > 1e-9, shares, 0.0)
    others = np.setdiff1d(free, free[kept])
    parameters = []
    for row, place in zip(combine, free[kept], strict=True):
        label, star = names[place], "*" if np.count_nonzero(row) > 1 else ""
        name = f"{label.symbol}{star}({label.body})"
        parameters.append(BaseParameter(name, label.body, label.unit, row, describe_terms(row, names)))
    return BaseParameters(
        whole.robot,
        tuple(parameters),
        tuple(null for null in whole.nulls if not np.any(null.vector[list(known)])),
        combine,
        lift,
        np.eye(size)[:, others] - lift @ combine[:, others],
        (),
    )


@lru_cache(maxsize=16)
def _derive_base_parameters(made: Keyed[Robot]) -> BaseParameters:
    robot = made.value
    names = labels(robot)
    size = len(names)
    # held[b] (10, 10(n + 1)): the ten effective numbers of body b by all inertias, with what its children passed on.
    held = [np.eye(size)[10 * b : 10 * b + 10] for b in range(len(robot.bodies))]
    kept: dict[int, list[BaseParameter]] = {}
    lifts: dict[int, Array] = {}
    nulls: list[NullDirection] = []
    passes: list[str] = []
    # Children have larger indices than parents: all that a body receives has arrived before it passes on itself.
    for i in reversed(range(robot.n)):
        joint, parent, child = robot.joints[i], robot.parents[i], i + 1
        split = _split(joint)
        to_parent = transport(joint.placement)  # what is passed looks the same at every position of the joint
        rows = split.keep @ held[child]
        kept[child] = [
            BaseParameter(f"{name}*({joint.child})", joint.child, unit, row, describe_terms(row, names))
            for name, unit, row in zip(split.names, split.units, rows, strict=True)
        ]
        # One set of inertias with these base parameters: the child alone has what its joint shows, and passes nothing.
        lift = np.zeros((size, rows.shape[0]))
        lift[10 * child : 10 * child + 10] = split.restore
        lifts[child] = lift
        held[parent] = held[parent] + to_parent @ split.passed @ held[child]
        passes.append(split.words)
        for text, direction in split.directions:
            vector = np.zeros(size)
            vector[10 * child : 10 * child + 10] = direction
            # What the child gains the parent loses, seen in the parent's frame.
            vector[10 * parent : 10 * parent + 10] = -to_parent @ direction
            nulls.append(NullDirection(joint.name, joint.child, joint.parent, text, vector))
    base = robot.bodies[0].name
    kept[0] = [
        BaseParameter(f"{name}*({base})", base, unit, row, describe_terms(row, names))
        for name, unit, row in zip(LINEAR, LINEAR_UNITS, held[0], strict=True)
    ]
    lifts[0] = np.eye(size)[:, :10]
    parameters = tuple(p for b in range(len(robot.bodies)) for p in kept[b])
    return BaseParameters(
        robot,
        parameters,
        tuple(reversed(nulls)),
        np.stack([p.row for p in parameters]),
        np.concatenate([lifts[b] for b in range(len(robot.bodies))], axis=1),
        np.stack([null.vector for null in reversed(nulls)], axis=1) if nulls else np.zeros((size, 0)),
        tuple(reversed(passes)),
    )
