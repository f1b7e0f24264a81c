"""Flexible appendages by their modes: solar arrays, booms, antennas.

An appendage with a fixed root has modes with angular frequencies w_i, damping ratios z_i and mass-normalised shapes.
Each shape has a participation P_i = (p_i, r_i) in the motion of the root: momentum (sqrt(kg)) and moment of momentum
about the root (sqrt(kg) m) for a unit modal rate. For small deflections the root's twist a and the modal coordinates h
obey

    M a' + sum_i P_i h_i''         = wrench of the spacecraft on the root,
    P_i a' + h_i'' + 2 z_i w_i h_i' + w_i^2 h_i = 0,

with M the appendage's rigid mass matrix (Likins and Fleischer, J. Spacecraft and Rockets 8(3), 1971; Hughes,
J. Applied Mechanics 47, 1980).

The same equations belong to a mass m = |p|^2 at the point c = p x r / |p|^2 that slides along p on a spring m w^2,
and, for p = 0, to a rotor of inertia |r|^2 about r on a spring. So each mode becomes a body on a sprung joint, and
what the modes do not move stays with the body that carries the root (the static residual). Nothing else of the package
has to know of modes: ledger, certificate, lanes, GPU, C and FMU carry them as they carry joints. Effects of second
order in the deflection are those of the equivalent masses.

A mode whose moment has a part s = p . r / |p| along its own force (a screw: bending with torsion) drives a rotor on its
slide as well, like the nut of a ball screw. With any share b of the modal mass in the rotor, the slide's mass is
|p|^2 / (1 - b), the rotor's inertia s^2 / b, and its ratio (b |p|) / ((1 - b) s): both momenta and the modal mass are
those of the mode. A small b keeps the mass, a large one the inertia, near the effective ones.

Shapes of the modes are drawn: each visual of an appendage may have mode shapes, here for a unit of the modal
coordinates, called ``mode1``, ``mode2`` and so on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh
from scipy.optimize import brentq

from spacearm.checks import array, integer, non_negative, positive
from spacearm.errors import ModelError, error_context
from spacearm.model._finite_elements import FiniteElements
from spacearm.model.edit import attach, attach_by_joint, replace_inertias
from spacearm.model.parts import Body, Inertia, Joint, ModeShape, Pose, Rotor, Spring, Visual, skew
from spacearm.model.robot import Robot
from spacearm.typing import Array

#: A moment along the force of a mode below this share of the whole moment is rounding.
SCREW = 1e-9
#: Parts that a boom is drawn with, and nodes of finite elements that are drawn.
STRIPS, DRAWN_NODES = 16, 150
#: Damping between two modes, relative to their own, beyond which damping ratios do not say enough.
LARGEST_CROSS_DAMPING = 0.1


@dataclass(frozen=True)
class Mode:
    """A mode of an appendage whose root is held.

    Args:
        frequency: Hz.
        translation: momentum of the mass-normalised shape (3), sqrt(kg), axes of the appendage.
        rotation: its moment of momentum about the root (3), sqrt(kg) m.
        damping: ratio to the critical damping.
    """

    frequency: float
    translation: npt.ArrayLike = (0.0, 0.0, 0.0)
    rotation: npt.ArrayLike = (0.0, 0.0, 0.0)
    damping: float = 0.0

    def __post_init__(self) -> None:
        positive(self.frequency, "frequency", unit="Hz")
        non_negative(self.damping, "damping")
        for name in ("translation", "rotation"):
            object.__setattr__(self, name, array(getattr(self, name), name, (3,)))

    @property
    def participation(self) -> Array:
        """Momentum and moment of momentum (6) of the mass-normalised shape."""
        return np.concatenate([np.asarray(self.translation), np.asarray(self.rotation)])


@dataclass(frozen=True)
class Appendage:
    """A flexible appendage: its rigid inertia in the frame of its root, and its modes with the root held.

    ``visuals`` are drawn in the frame of the root, with mode shapes for a unit of the coordinates ``mode1``, ``mode2``.
    """

    name: str
    inertia: Inertia
    modes: tuple[Mode, ...] = field(default=())
    visuals: tuple[Visual, ...] = field(default=())

    def effective_mass(self) -> Array:
        """Mass (kg) that the modes move along x, y and z: close to the appendage's where enough modes are taken."""
        moved: Array = np.sum([np.zeros(3), *(np.asarray(mode.translation) ** 2 for mode in self.modes)], axis=0)
        return moved


def add_appendage(robot: Robot, frame: str, appendage: Appendage, placement: Pose | None = None) -> Robot:
    """The robot with an appendage whose root is held by a frame.

    ``placement`` is the root in ``frame``. Mode k becomes the joint and body ``<name>.mode<k>``: a slide along the
    momentum of the shape (m), or a rotation where it has none (rad).
    """
    with error_context(f"appendage {appendage.name!r}"):
        residual, joints, units = rigid_matrix(appendage.inertia), [], dict[str, tuple[str, float]]()
        for k, mode in enumerate(appendage.modes):
            with error_context(f"mode {k + 1}"):
                found = _equivalent_body(f"{appendage.name}.mode{k + 1}", mode)
            joints.append((found.body, found.joint))
            units[f"mode{k + 1}"] = found.joint.name, found.unit
            # What the mode's body contributes to rigid motions must not count twice.
            residual = residual - found.share
        visuals = tuple(_with_joints(visual, units) for visual in appendage.visuals)
        robot = attach(robot, frame, Body(appendage.name, Inertia.massless(), visuals), placement)
        robot = add_rigid_matrix(robot, appendage.name, residual)
        for body, joint in joints:
            robot = attach_by_joint(robot, appendage.name, body, joint)
    return robot


def _with_joints(visual: Visual, units: Mapping[str, tuple[str, float]]) -> Visual:
    """The visual with mode shapes for a unit of the joints' positions instead of the modal coordinates."""
    shapes = [
        ModeShape(units[each.joint][0], each.translation / units[each.joint][1], each.rotation / units[each.joint][1])
        for each in visual.mode_shapes
    ]
    return replace(visual, mode_shapes=tuple(shapes))


class _Equivalent(NamedTuple):
    """The sprung body of a mode, its joint in the root's frame, its rigid mass matrix (6, 6) about the root, and the
    joint's position for a unit of the modal coordinate."""

    body: Body
    joint: Joint
    share: Array
    unit: float


def _equivalent_body(name: str, mode: Mode) -> _Equivalent:
    p, r = np.asarray(mode.translation), np.asarray(mode.rotation)
    mass, inertia, rate = float(p @ p), float(r @ r), 2.0 * math.pi * mode.frequency
    share = np.zeros((6, 6))
    if mass == 0.0 and inertia == 0.0:
        raise ModelError("carries no momentum", hint="leave out modes without participation")

    def laws(unit: float) -> dict[str, Any]:
        # A unit of the joint is 1 / unit of the modal coordinate, whose mass is 1 kg.
        return {"spring": Spring(rate**2 / unit**2), "damping": 2.0 * mode.damping * rate / unit**2}

    if mass == 0.0:
        # A mode without linear momentum is a rotor: its moment of momentum is a free vector, without a place.
        unit = 1.0 / math.sqrt(inertia)
        joint = Joint(name, "revolute", "", name, axis=r * unit, rotor=Rotor(inertia), **laws(unit))
        share[3:, 3:] = np.outer(r, r)
        return _Equivalent(Body(name, Inertia.massless()), joint, share, unit)
    # A mass that slides along the momentum p through the place p x r / |p|^2 has the moment of r across p.
    axis, place = p / math.sqrt(mass), np.cross(p, r) / mass
    along, rotor = float(p @ r) / math.sqrt(mass), None
    # What of r lies along p no sliding mass can have: a rotor on the slide has it, as a nut on a screw.
    if abs(along) > SCREW * math.sqrt(inertia):
        # A mode that is mostly a screw is shared evenly; otherwise the mass stays near the effective one.
        rotating = min(0.5, abs(along) / math.sqrt(inertia))
        unit = (1.0 - rotating) / math.sqrt(mass)
        rotor = Rotor(along**2 / rotating, rotating / (along * unit))
        share[3:, 3:] = rotor.inertia * np.outer(axis, axis)
        mass /= 1.0 - rotating
    else:
        unit = 1.0 / math.sqrt(mass)
    joint = Joint(name, "prismatic", "", name, Pose(translation=place), axis=axis, rotor=rotor, **laws(unit))
    return _Equivalent(Body(name, Inertia(mass)), joint, share + rigid_matrix(Inertia(mass, place)), unit)


def rigid_matrix(inertia: Inertia) -> Array:
    """Mass matrix (6, 6) of a rigid body about its frame's origin: velocity, then angular velocity."""
    m, c = inertia.mass, skew(inertia.com)
    return np.block([[m * np.eye(3), -m * c], [m * c, inertia.tensor_about_origin]])


def add_rigid_matrix(robot: Robot, frame: str, matrix: Array) -> Robot:
    """The robot with a rigid mass matrix (6, 6), given about and in a frame, added to the body that carries it.

    The matrix alone need not be that of a body: an equivalent mass slides along one direction only and moves rigidly
    along the others, where the same mass may belong to further modes. What is counted twice is taken away here.
    """
    root = robot.frame(frame)
    rotation = root.placement.rotation
    to_root = np.block([[rotation.T, -rotation.T @ skew(root.placement.translation)], [np.zeros((3, 3)), rotation.T]])
    body = robot.body(root.body)
    total = _parameters(to_root.T @ matrix @ to_root) + body.inertia.parameters
    try:
        inertia = Inertia.from_parameters(total)
        if inertia.mass <= 0.0:
            raise ModelError(f"its mass would be {inertia.mass:.3g} kg")
    except ModelError as error:
        raise ModelError(
            f"with what the modes do not move, {body.name!r} is not a possible body: {error.message}",
            hint="check inertia and participation (modal masses of 1 kg); a light body cannot carry many modes",
        ) from None
    return replace_inertias(robot, {body.name: inertia})


def _parameters(matrix: Array) -> Array:
    """The ten inertia parameters of a rigid mass matrix (6, 6)."""
    mass, moment, tensor = matrix[0, 0], matrix[3:, :3], matrix[3:, 3:]
    first = np.array([moment[2, 1], moment[0, 2], moment[1, 0]])
    return np.array([mass, *first, *np.diag(tensor), tensor[0, 1], tensor[0, 2], tensor[1, 2]])


# -- where modes come from -------------------------------------------------------------------------------------------


def cantilever_roots(count: int) -> Array:
    """The first roots (count,) of cosh(x) cos(x) = -1: x^2 is proportional to the frequency of a clamped beam."""
    roots = []
    for n in range(1, integer(count, "modes", least=1, most=50) + 1):
        centre = (n - 0.5) * math.pi
        # cos(x) + 1 / cosh(x) has the same roots and does not overflow.
        roots.append(brentq(lambda x: math.cos(x) + 1.0 / math.cosh(x), centre - 0.5, centre + 0.5, xtol=1e-15))
    return np.array(roots)


def make_boom(
    name: str,
    length: float,
    mass: float,
    stiffness: float | Sequence[float],
    *,
    modes: int = 3,
    damping: float = 0.005,
    torsion: tuple[float, float] | None = None,
    width: float | None = None,
) -> Appendage:
    """A uniform Euler-Bernoulli beam from its root along x: booms, and panels that are slender.

    Args:
        length, mass: m, kg.
        stiffness: EI (N m2) of bending along y and along z, or one number for both; infinite: rigid in that direction.
        modes: of bending in each direction, and of torsion.
        damping: ratio of every mode.
        torsion: GJ (N m2) and the polar inertia about x (kg m2); without it the beam has neither.
        width: m, across the direction in which it bends: how it is drawn; a twentieth of the length by itself.

    For a clamped beam of mass m the participation of mode n with root x_n is 2 s_n / x_n sqrt(m) and, about the root,
    2 / x_n^2 L sqrt(m), with s_n = (sinh x_n - sin x_n) / (cosh x_n + cos x_n) (Young and Felgar, Tables of
    characteristic functions representing normal modes of vibration of a beam, University of Texas, 1949).
    """
    with error_context(f"appendage {name!r}"):
        length, mass = positive(length, "length", unit="m"), positive(mass, "mass", unit="kg")
        both = np.broadcast_to(np.asarray(stiffness, dtype=np.float64), (2,))
        for each in both:
            positive(float(each), "stiffness", unit="N m2", infinite=True)
        roots, found = cantilever_roots(modes), list[tuple[Mode, Array, Array]]()
        ratio = (np.sinh(roots) - np.sin(roots)) / (np.cosh(roots) + np.cos(roots))
        places = (np.arange(STRIPS) + 0.5) / STRIPS
        for axis, flexural in zip((1, 2), both, strict=True):
            # Rigid in this direction: it has no modes there.
            if not math.isfinite(flexural):
                continue
            for root, s in zip(roots, ratio, strict=True):
                frequency = root**2 * math.sqrt(flexural / (mass * length**3)) / (2.0 * math.pi)
                p, across = np.zeros(3), np.zeros(3)
                p[axis], across[axis] = 2.0 * s / root * math.sqrt(mass), 1.0
                about = np.cross([1.0, 0.0, 0.0], across)
                mode = Mode(frequency, p, about * (2.0 / root**2 * length * math.sqrt(mass)), damping)
                shape, slope = _cantilever_shape(root, s, places) / math.sqrt(mass)
                found.append((mode, np.outer(shape, across), np.outer(slope / length, about)))
        polar = 0.0
        if torsion is not None:
            rigidity, polar = positive(torsion[0], "GJ", unit="N m2"), positive(torsion[1], "polar inertia")
            for n in range(1, modes + 1):
                odd = (n - 0.5) * math.pi
                frequency = odd * math.sqrt(rigidity / (polar * length)) / (2.0 * math.pi)
                twist = math.sqrt(2.0 / polar) * np.sin(odd * places)
                mode = Mode(frequency, np.zeros(3), [math.sqrt(2.0 * polar) / odd, 0.0, 0.0], damping)
                found.append((mode, np.zeros((STRIPS, 3)), np.outer(twist, [1.0, 0.0, 0.0])))
        # Names count modes by frequency, whatever direction they bend in.
        found.sort(key=lambda each: each[0].frequency)
        wide = length / 20.0 if width is None else positive(width, "width", unit="m")
        # Thin in the direction in which alone it bends, as a panel is.
        across_y, across_z = (length / 200.0 if math.isfinite(mine) and not math.isfinite(other) else wide
                              for mine, other in (both, both[::-1]))  # fmt: skip
        strips = tuple(
            Visual(
                "box", np.array([length / STRIPS, across_y, across_z]),
                Pose(translation=np.array([length * places[i], 0.0, 0.0])),
                mode_shapes=tuple(
                    ModeShape(f"mode{k + 1}", shift[i], rotation[i]) for k, (_, shift, rotation) in enumerate(found)
                ),
            )
            for i in range(STRIPS)
        )  # fmt: skip
        tensor = np.diag([polar, *[mass * length**2 / 12.0] * 2])
        inertia = Inertia(mass, np.array([0.5 * length, 0.0, 0.0]), tensor)
        return Appendage(name, inertia, tuple(mode for mode, _, _ in found), strips)


def _cantilever_shape(root: float, s: float, x: Array) -> Array:
    """(2, x) deflection and slope of a clamped beam's mode at x in units of its length; the square's mean is 1."""
    # sinh and cosh as exponentials: their difference loses all digits of high modes otherwise.
    grow, fall = 0.5 * (1.0 - s) * np.exp(root * x), 0.5 * (1.0 + s) * np.exp(-root * x)
    shape = grow + fall - np.cos(root * x) + s * np.sin(root * x)
    return np.stack([shape, root * (grow - fall + np.sin(root * x) + s * np.cos(root * x))])


def reduce_elements(
    name: str, elements: FiniteElements, interface: Sequence[int], *, damping: float | None = None, share: float = 0.95,
    most: int = 30,
) -> Appendage:  # fmt: skip
    """An appendage of finite elements whose nodes ``interface`` the spacecraft holds as one rigid body.

    Its root lies at the origin of the elements' coordinates, wherever the nodes are. The other arguments are as for
    :func:`reduce_fixed_interface`. Some of the nodes are drawn, as balls that move with the modes.
    """
    with error_context(f"appendage {name!r}"):
        held = elements.find(interface)
    own = elements.mass, elements.stiffness, elements.rigid, held
    found, shapes = _reduce(name, *own, elements.damping, damping, share, most)
    return replace(found, visuals=_node_visuals(elements, shapes))


def _node_visuals(elements: FiniteElements, shapes: Array) -> tuple[Visual, ...]:
    """Balls at nodes, moved by the shapes (N, modes) of the modes."""
    rows: dict[int, dict[int, int]] = {}
    for row, (node, component) in enumerate(elements.dof.tolist()):
        rows.setdefault(node, {})[component - 1] = row
    # Spread evenly over the numbering, which follows the structure in most meshes.
    numbers = sorted(rows)
    chosen = [numbers[i] for i in np.unique(np.linspace(0, len(numbers) - 1, DRAWN_NODES).round().astype(int))]
    places = np.array([elements.nodes[node] for node in chosen])
    extent = float(np.linalg.norm(np.ptp(places, axis=0))) or 1.0
    radius = np.array([0.25 * extent / max(10.0, len(chosen) ** 0.5)])
    found = []
    for node, place in zip(chosen, places, strict=True):
        moved = np.zeros((6, shapes.shape[1]))
        for component, row in rows[node].items():
            moved[component] = shapes[row]
        modes = tuple(ModeShape(f"mode{k + 1}", each[:3], each[3:]) for k, each in enumerate(moved.T))
        found.append(Visual("sphere", radius, Pose(translation=place), mode_shapes=modes))
    return tuple(found)


def reduce_fixed_interface(
    name: str,
    mass: npt.ArrayLike,
    stiffness: npt.ArrayLike,
    rigid: npt.ArrayLike,
    interface: Sequence[int],
    *,
    viscous: npt.ArrayLike | None = None,
    damping: float | None = None,
    share: float = 0.95,
    most: int = 30,
) -> Appendage:
    """An appendage from matrices of finite elements, reduced to fixed-interface modes.

    The method is that of Craig and Bampton (AIAA J. 6(7), 1968) for a root that moves as one rigid body.

    Args:
        mass, stiffness: (N, N), symmetric, all degrees of freedom, SI units.
        rigid: (N, 6) displacement of every degree of freedom for unit motions of the root: x, y, z, then rotations.
        interface: degrees of freedom that the spacecraft holds; together they hold the appendage.
        viscous: damping matrix (N, N), symmetric, of which the modes' own damping is taken.
        damping: ratio of every mode instead; 0.005 where neither is given.
        share, most: modes are taken in the order of their participation until they move this share of the mass and
            inertia that moves at all, and no more than so many.
    """
    return _reduce(name, mass, stiffness, rigid, interface, viscous, damping, share, most)[0]


def _reduce(
    name: str,
    mass: npt.ArrayLike,
    stiffness: npt.ArrayLike,
    rigid: npt.ArrayLike,
    interface: Sequence[int],
    viscous: npt.ArrayLike | None,
    damping: float | None,
    share: float,
    most: int,
) -> tuple[Appendage, Array]:
    """The appendage, and the shapes (N, modes) of its modes."""
    with error_context(f"appendage {name!r}"):
        size = np.asarray(mass, dtype=np.float64).shape[0]
        m, k = (array(matrix, what, (size, size)) for matrix, what in ((mass, "mass"), (stiffness, "stiffness")))
        c = None if viscous is None else array(viscous, "damping", (size, size))
        if c is not None and damping is not None:
            raise ModelError("has a damping matrix and a damping ratio", hint="expected one of them")
        share, most = positive(share, "share", most=1.0), integer(most, "most", least=1, most=100)
        for matrix, what in ((m, "mass"), (k, "stiffness"), *([] if c is None else [(c, "damping")])):
            if np.abs(matrix - matrix.T).max() > 1e-8 * np.abs(matrix).max():
                raise ModelError(f"the {what} matrix is not symmetric")
        motion = array(rigid, "rigid", (size, 6))
        # A free structure is not strained by rigid motions: this finds coordinates, units and supports that do not fit
        # together.
        strain = np.abs(k @ motion).max(axis=0) / max(float(np.abs(k).max()), 1e-300)
        if strain.max() > 1e-6 * max(1.0, float(np.abs(motion).max())):
            axis = ("x", "y", "z", "rx", "ry", "rz")[int(strain.argmax())]
            raise ModelError(
                f"a rigid motion along {axis} strains it: forces of {strain.max():.3g} of the largest stiffness",
                place="rigid",
                hint="expected displacements of a free body",
            )
        held = sorted({integer(each, "interface", least=0, most=size - 1) for each in interface})
        free = np.setdiff1d(np.arange(size), held)
        if np.linalg.matrix_rank(motion[held]) < 6:
            raise ModelError("the interface does not hold it", place="interface", hint="six motions have to be held")
        inner = np.ix_(free, free)
        # The inverse problem: degrees of freedom without mass, as rotations of many elements, are infinitely fast.
        try:
            flexibility, shapes = eigh(m[inner], k[inner])
        except np.linalg.LinAlgError:
            raise ModelError("the stiffness holds no shape between free nodes", hint="is the interface held?") from None
        moving_modes = flexibility > 1e-12 * flexibility[-1]
        if flexibility[-1] <= 0.0 or flexibility[0] < -1e-9 * flexibility[-1]:
            raise ModelError("the mass matrix is not positive", place="mass")
        # Scaled to unit modal mass, of which participations are the square roots of moving masses.
        squares = 1.0 / flexibility[moving_modes][::-1]
        shapes = shapes[:, moving_modes][:, ::-1] * np.sqrt(squares)
        whole = motion.T @ m @ motion
        # The shapes vanish at the interface; their momentum in the six motions of the root is the participation.
        participation = shapes.T @ (m @ motion)[free]
        # By the largest share of any of the six motions: a mode of torsion must not lose to modes of bending.
        moving = np.maximum(np.diag(motion[free].T @ m[inner] @ motion[free]), 1e-300)
        order = np.argsort(-(participation**2 / moving).max(axis=1), kind="stable")
        found: list[int] = []
        for index in order[:most]:
            found.append(int(index))
            if np.all((participation[found] ** 2).sum(axis=0) >= share * moving * (moving > 1e-12 * moving.max())):
                break
        chosen = sorted(found)
        rates = np.sqrt(squares[chosen])
        ratios = np.full(len(chosen), 0.005 if damping is None else damping)
        if c is not None:
            ratios = _damping_ratios(shapes[:, chosen].T @ c[inner] @ shapes[:, chosen], rates)
        modes = [
            Mode(rate / (2.0 * math.pi), participation[i, :3], participation[i, 3:], float(ratio))
            for i, rate, ratio in zip(chosen, rates.tolist(), ratios, strict=True)
        ]
        everywhere = np.zeros((size, len(chosen)))
        everywhere[free] = shapes[:, chosen]
        return Appendage(name, Inertia.from_parameters(_parameters(whole)), tuple(modes)), everywhere


def _damping_ratios(modal: Array, rates: Array) -> Array:
    """Ratios of modes from their damping matrix, which has to be diagonal, nearly."""
    own = np.diag(modal)
    if own.min() < 0.0:
        raise ModelError("the damping matrix feeds energy to a mode", place="damping")
    between = np.abs(modal - np.diag(own)) / np.maximum(np.sqrt(np.outer(own, own)), 1e-300)
    # Modes far apart in frequency do not feel the damping between them.
    near = np.abs(np.subtract.outer(rates, rates)) < 0.1 * np.maximum.outer(rates, rates)
    if np.any(between[near] > LARGEST_CROSS_DAMPING):
        raise ModelError(
            f"damps modes of neighbouring frequencies together ({between[near].max():.2g} of their own damping)",
            place="damping",
            hint="expected proportional damping; damping ratios can be given instead",
        )
    found: Array = own / (2.0 * rates)
    return found
