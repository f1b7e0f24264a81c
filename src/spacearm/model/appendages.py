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

A mode whose moment has a part along its own force (p . r != 0, a screw) has no such single mass and is refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh
from scipy.optimize import brentq

from spacearm.checks import array, integer, non_negative, positive
from spacearm.errors import ModelError, error_context
from spacearm.model.edit import attach, attach_by_joint, replace_inertias
from spacearm.model.parts import Body, Inertia, Joint, Pose, Rotor, Spring, skew
from spacearm.model.robot import Robot
from spacearm.typing import Array

#: A moment along the force of a mode below this share of the whole participation is rounding.
SCREW = 1e-6


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
    """A flexible appendage: its rigid inertia in the frame of its root, and its modes with the root held."""

    name: str
    inertia: Inertia
    modes: tuple[Mode, ...] = field(default=())

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
        robot = attach(robot, frame, Body(appendage.name, Inertia.massless()), placement)
        residual, joints = rigid_matrix(appendage.inertia), []
        for k, mode in enumerate(appendage.modes):
            with error_context(f"mode {k + 1}"):
                body, joint, share = _equivalent_body(f"{appendage.name}.mode{k + 1}", mode)
            joints.append((body, joint))
            residual = residual - share
        robot = add_rigid_matrix(robot, appendage.name, residual)
        for body, joint in joints:
            robot = attach_by_joint(robot, appendage.name, body, joint)
    return robot


def _equivalent_body(name: str, mode: Mode) -> tuple[Body, Joint, Array]:
    """The sprung body of a mode, its joint in the root's frame, and its rigid mass matrix (6, 6) about the root."""
    p, r = np.asarray(mode.translation), np.asarray(mode.rotation)
    mass, inertia, rate = float(p @ p), float(r @ r), 2.0 * math.pi * mode.frequency
    if mass == 0.0 and inertia == 0.0:
        raise ModelError("moves no momentum", hint="leave out modes without participation")
    if mass == 0.0:
        axis = r / math.sqrt(inertia)
        joint = Joint(
            name, "revolute", "", name, axis=axis, spring=Spring(inertia * rate**2),
            damping=2.0 * mode.damping * rate * inertia, rotor=Rotor(inertia),
        )  # fmt: skip
        share = np.zeros((6, 6))
        share[3:, 3:] = np.outer(r, r)
        return Body(name, Inertia.massless()), joint, share
    along = float(p @ r) / math.sqrt(mass)
    if abs(along) > SCREW * math.sqrt(inertia):
        raise ModelError(
            f"its moment has a part of {along:.3g} sqrt(kg) m along its own force",
            hint="a screw mode has no equivalent mass; take the participation about another root, or rotate the axes",
        )
    place = np.cross(p, r) / mass
    joint = Joint(
        name, "prismatic", "", name, Pose(translation=place), axis=p / math.sqrt(mass), spring=Spring(mass * rate**2),
        damping=2.0 * mode.damping * rate * mass,
    )  # fmt: skip
    return Body(name, Inertia(mass)), joint, rigid_matrix(Inertia(mass, place))


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
            f"with what the modes do not move, {body.name!r} is no possible body: {error.message}",
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
) -> Appendage:
    """A uniform Euler-Bernoulli beam from its root along x: booms, and panels that are slender.

    Args:
        length, mass: m, kg.
        stiffness: EI (N m2) of bending along y and along z, or one number for both; infinite: rigid in that direction.
        modes: of bending in each direction, and of torsion.
        damping: ratio of every mode.
        torsion: GJ (N m2) and the polar inertia about x (kg m2); without it the beam has neither.

    For a clamped beam of mass m the participation of mode n with root x_n is 2 s_n / x_n sqrt(m) and, about the root,
    2 / x_n^2 L sqrt(m), with s_n = (sinh x_n - sin x_n) / (cosh x_n + cos x_n) (Young and Felgar, Tables of
    characteristic functions representing normal modes of vibration of a beam, University of Texas, 1949).
    """
    with error_context(f"appendage {name!r}"):
        length, mass = positive(length, "length", unit="m"), positive(mass, "mass", unit="kg")
        both = np.broadcast_to(np.asarray(stiffness, dtype=np.float64), (2,))
        for each in both:
            positive(float(each), "stiffness", unit="N m2", infinite=True)
        roots, found = cantilever_roots(modes), []
        ratio = (np.sinh(roots) - np.sin(roots)) / (np.cosh(roots) + np.cos(roots))
        for axis, flexural in zip((1, 2), both, strict=True):
            if not math.isfinite(flexural):
                continue
            for root, s in zip(roots, ratio, strict=True):
                frequency = root**2 * math.sqrt(flexural / (mass * length**3)) / (2.0 * math.pi)
                p = np.zeros(3)
                p[axis] = 2.0 * s / root * math.sqrt(mass)
                r = np.cross([1.0, 0.0, 0.0], p / p[axis]) * (2.0 / root**2 * length * math.sqrt(mass))
                found.append(Mode(frequency, p, r, damping))
        polar = 0.0
        if torsion is not None:
            rigidity, polar = positive(torsion[0], "GJ", unit="N m2"), positive(torsion[1], "polar inertia")
            for n in range(1, modes + 1):
                odd = (n - 0.5) * math.pi
                frequency = odd * math.sqrt(rigidity / (polar * length)) / (2.0 * math.pi)
                found.append(Mode(frequency, np.zeros(3), [math.sqrt(2.0 * polar) / odd, 0.0, 0.0], damping))
        tensor = np.diag([polar, *[mass * length**2 / 12.0] * 2])
        return Appendage(
            name, Inertia(mass, np.array([0.5 * length, 0.0, 0.0]), tensor), tuple(sorted(found, key=_frequency))
        )


def _frequency(mode: Mode) -> float:
    return mode.frequency


def reduce_fixed_interface(
    name: str,
    mass: npt.ArrayLike,
    stiffness: npt.ArrayLike,
    rigid: npt.ArrayLike,
    interface: Sequence[int],
    *,
    damping: float = 0.005,
    share: float = 0.95,
    most: int = 30,
) -> Appendage:
    """An appendage from matrices of finite elements, reduced to fixed-interface modes.

    The method is that of Craig and Bampton (AIAA J. 6(7), 1968) for a root that moves as one rigid body.

    Args:
        mass, stiffness: (N, N), symmetric, all degrees of freedom, SI units.
        rigid: (N, 6) displacement of every degree of freedom for unit motions of the root: x, y, z, then rotations.
        interface: degrees of freedom that the spacecraft holds; together they hold the appendage.
        damping: ratio of every mode.
        share, most: modes are taken in the order of their participation until they move this share of the mass and
            inertia that moves at all, and no more than so many.
    """
    with error_context(f"appendage {name!r}"):
        size = np.asarray(mass, dtype=np.float64).shape[0]
        m, k = (array(matrix, what, (size, size)) for matrix, what in ((mass, "mass"), (stiffness, "stiffness")))
        for matrix, what in ((m, "mass"), (k, "stiffness")):
            if np.abs(matrix - matrix.T).max() > 1e-8 * np.abs(matrix).max():
                raise ModelError(f"the {what} matrix is not symmetric")
        motion = array(rigid, "rigid", (size, 6))
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
        squares, shapes = eigh(k[inner], m[inner])
        if squares[0] <= 0.0:
            raise ModelError(f"a mode has the squared frequency {squares[0]:.3g}", hint="is the interface held?")
        whole = motion.T @ m @ motion
        # The shapes vanish at the interface; their momentum in the six motions of the root is the participation.
        participation = shapes.T @ (m @ motion)[free]
        moving = np.maximum(np.diag(motion[free].T @ m[inner] @ motion[free]), 1e-300)
        order = np.argsort(-(participation**2 / moving).max(axis=1), kind="stable")
        found: list[int] = []
        for index in order[:most]:
            found.append(int(index))
            if np.all((participation[found] ** 2).sum(axis=0) >= share * moving * (moving > 1e-12 * moving.max())):
                break
        modes = [
            Mode(math.sqrt(squares[i]) / (2.0 * math.pi), participation[i, :3], participation[i, 3:], damping)
            for i in sorted(found)
        ]
        return Appendage(name, Inertia.from_parameters(_parameters(whole)), tuple(modes))
