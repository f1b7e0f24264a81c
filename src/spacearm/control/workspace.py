"""Where a floating arm can work: the virtual manipulator, dynamic singularities, disturbance of the base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from spacearm.checks import array, whole
from spacearm.engine.mechanics import mechanics_of
from spacearm.errors import InputError, at
from spacearm.model import Robot
from spacearm.typing import Array


def twist_directions(rows: Sequence[int], joints: int) -> list[int]:
    """Rows of a twist as a list: distinct ones of 0 to 5, at least one and no more than there are joints."""
    found = [whole(row, "row", least=0, most=5) for row in rows]
    if not found or len({*found}) < len(found):
        raise InputError(f"rows are {found}", hint="expected distinct ones of 0 to 5")
    if len(found) > joints:
        raise InputError(f"{joints} joints cannot move a frame in {len(found)} directions", hint="expected fewer rows")
    return found


def joint_ranges(ranges: Mapping[str, tuple[float, float]]) -> Array:
    """(joints, 2) lowest and highest position of each."""
    if not ranges:
        raise InputError("there are no ranges", hint="expected joint = (lowest, highest)")
    return np.stack([array(each, f"range of {name!r}", (2,)) for name, each in ranges.items()])


def finite(found: Array, what: str) -> Array:
    """The same numbers; an :class:`InputError` where some are not finite."""
    if not np.all(np.isfinite(found)):
        raise InputError(
            f"{what} is not finite",
            hint="expected positions of ordinary size, and a robot whose mass is not all on one line",
        )
    return found


def virtual_manipulator(robot: Robot, frame: str) -> dict[str, Array]:
    """Constant vectors (m), one in the axes of each body, whose sum leads from the mass centre to a frame.

    With no force from outside the mass centre stays: the frame moves as the hand of a manipulator whose fixed base is
    there, the virtual ground. Vafa and Dubowsky, Int. J. Robotics Research 9(4), 1990.
    """
    if any(joint.kind != "revolute" for joint in robot.joints):
        raise InputError("a prismatic joint changes the length of virtual links", place="virtual_manipulator")
    place = robot.frame(frame)
    mass = np.array([body.inertia.mass for body in robot.bodies])
    # Each link is shortened by the share of mass that moves against it: m_beyond / m_total of every joint's arm.
    beyond = mass.copy()  # of each body and all that it carries
    for i in reversed(range(robot.n)):
        beyond[robot.parents[i]] += beyond[i + 1]
    carried = robot.body_index(place.body)
    path = set()
    while carried:
        path.add(carried)
        carried = robot.parents[carried - 1]
    links = {body.name: -body.inertia.mass * body.inertia.com / mass.sum() for body in robot.bodies}
    for i, joint in enumerate(robot.joints):
        # On the path to the frame a joint's arm counts wholly, less its weight in the mass centre; off the path only
        # the latter.
        share = (i + 1 in path) - beyond[i + 1] / mass.sum()
        links[joint.parent] = links[joint.parent] + share * joint.placement.translation
    links[place.body] = links[place.body] + place.placement.translation
    return links


def longest_reach(robot: Robot, frame: str) -> float:
    """No farther than this can a frame be from the mass centre, m; infinite with prismatic joints."""
    if any(joint.kind != "revolute" for joint in robot.joints):
        return float("inf")
    return float(sum(np.linalg.norm(link) for link in virtual_manipulator(robot, frame).values()))


def dynamic_manipulability(robot: Robot, frame: str, joints: npt.ArrayLike, rows: Sequence[int] = range(6)) -> Array:
    """sqrt(det(J* J*^T)) of the generalized Jacobian (...), for joints (..., n): zero at a dynamic singularity.

    Args:
        rows: of the twist (0 to 2 linear, 3 to 5 angular) in base axes that matter.
    """
    with at("dynamic_manipulability"):
        directions = twist_directions(rows, robot.n)
        whole_matrix = mechanics_of(robot).generalized_jacobian(frame, joints)
        chosen = finite(whole_matrix, "the generalized Jacobian")[..., directions, :]
    squared = np.linalg.det(chosen @ np.swapaxes(chosen, -1, -2))
    return np.asarray(np.sqrt(np.maximum(squared, 0.0)))


def base_disturbance(robot: Robot, joints: npt.ArrayLike) -> Array:
    """-Hb^-1 Hbm (..., 6, n): velocity of the base, base axes, for joint rates at zero momentum."""
    base, coupling, _ = mechanics_of(robot).mass_blocks(joints)
    with at("base_disturbance"):
        try:
            found = np.asarray(-np.linalg.solve(base, coupling), dtype=np.float64)
        except np.linalg.LinAlgError:
            found = np.full(coupling.shape, np.nan)
        return finite(found, "the motion of the base")


@dataclass(frozen=True, eq=False)
class Workspace:
    """Distances of a frame from the mass centre (m) that an arm reaches, and those at which it can be singular.

    A distance between ``singular`` bounds is reached in singular and in regular configurations, as the way there has
    it; one outside them is path-independent: the frame gets there whatever the way.
    Papadopoulos and Dubowsky, J. Dynamic Systems, Measurement, and Control 115(1), 1993.
    """

    reach: tuple[float, float]
    singular: tuple[tuple[float, float], ...]  # of each family of singular configurations
    configurations: Array  # (S, n) singular ones that were found
    radii: Array  # (S,)

    def independent(self) -> list[tuple[float, float]]:
        """Bands of distances that are reached whatever the way."""
        edges = sorted({*self.reach, *(end for band in self.singular for end in band)})
        middles = [0.5 * (low + high) for low, high in pairwise(edges)]
        return [band for band, inside in zip(pairwise(edges), self.path_independent(middles), strict=True) if inside]

    def path_independent(self, radius: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Which distances are reached whatever the way."""
        r = np.asarray(radius, dtype=np.float64)
        inside = (r >= self.reach[0]) & (r <= self.reach[1])
        for low, high in self.singular:
            inside &= (r < low) | (r > high)
        return np.asarray(inside)


def workspace(
    robot: Robot,
    frame: str,
    ranges: Mapping[str, tuple[float, float]],
    rows: Sequence[int],
    *,
    count: int = 181,
    configuration: npt.ArrayLike | None = None,
) -> Workspace:
    """Dynamic singularities of an arm that has as many joints in ``ranges`` as ``rows`` of the twist matter.

    The determinant of the generalized Jacobian is looked at on a grid of joint positions, and its sign changes along
    the last of the joints are refined; they do not depend on where the base is.

    Args:
        ranges: joint to lowest and highest position; all other joints do not move.
        count: points of the grid along each joint.
        configuration: where the other joints are; zero unless given.
    """
    with at("workspace"):
        chosen, ends = [robot.joint_index(name) for name in ranges], joint_ranges(ranges)
        whole(count, "count", least=3, most=2000)
        directions = twist_directions(rows, 6)
        if len(chosen) != len(directions):
            raise InputError(f"{len(chosen)} joints for {len(directions)} rows", hint="expected as many joints as rows")
        if count ** len(chosen) > 5_000_000:
            raise InputError(f"a grid of {count ** len(chosen):.3g} points", hint="expected fewer joints or points")
        still = np.zeros(robot.n) if configuration is None else array(configuration, "configuration", (robot.n,))
    mechanics = mechanics_of(robot)
    lines = [np.linspace(float(low), float(high), count) for low, high in ends]

    def positions(values: Array) -> Array:
        full = np.array(np.broadcast_to(still, (*values.shape[:-1], robot.n)))
        full[..., chosen] = values
        return full

    def determinant(values: Array) -> Array:
        whole_matrix = finite(mechanics.generalized_jacobian(frame, positions(values)), "the generalized Jacobian")
        return np.asarray(np.linalg.det(whole_matrix[..., directions, :][..., chosen]))

    def radius(values: Array) -> Array:
        full = positions(values)
        arm = mechanics.frame_pose(frame, full)[0] - mechanics.centre_of_mass(full)
        return np.asarray(np.linalg.norm(arm, axis=-1))

    grid = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1)
    value = determinant(grid)
    change = np.argwhere(np.signbit(value[..., 1:]) != np.signbit(value[..., :-1]))
    low, high = (grid[(*change[:, :-1].T, change[:, -1] + side)] for side in (0, 1))
    begin = determinant(low) if len(low) else np.zeros(0)
    for _ in range(60):
        middle = 0.5 * (low + high)
        same = np.signbit(determinant(middle)) == np.signbit(begin) if len(low) else np.zeros(0, dtype=bool)
        low, high = np.where(same[:, None], middle, low), np.where(same[:, None], high, middle)
    singular = 0.5 * (low + high)
    radii = radius(singular) if len(singular) else np.zeros(0)
    # The crossings along one line of the grid are families: the first of each line, the second, and so on.
    order = np.zeros(len(change), dtype=int)
    for k in range(1, len(change)):
        order[k] = order[k - 1] + 1 if np.array_equal(change[k, :-1], change[k - 1, :-1]) else 0
    bounds = tuple(
        (float(radii[order == family].min()), float(radii[order == family].max())) for family in np.unique(order)
    )
    every = radius(grid)
    return Workspace((float(every.min()), float(every.max())), bounds, positions(singular), radii)
