"""Workspaces of arms on floating bases: the virtual manipulator, dynamic singularities, disturbance of the base.

At zero momentum the rates of the joints move the base, as far as it can move, so that the hand's velocity is the
generalized Jacobian J* times the rates (Y. Umetani and K. Yoshida, IEEE Trans. Robotics and Automation 5(3), 1989).
Where J* loses rank the arm is dynamically singular. Such configurations depend on the inertias and not on the pose of
the base; but one position of the hand may be reached in singular and in regular configurations, by different paths (E.
Papadopoulos and S. Dubowsky, J. Dynamic Systems, Measurement, and Control 115(1), 1993). Distances of the hand from the
mass centre are therefore split into those at which no configuration is singular, and the others.

Singular configurations are sign changes of det(J*) on a grid of joint positions, refined by bisection: a pair of them
closer than the grid's spacing along the last joint is not seen. Joints (..., n) in rad or m, base axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from spacearm.checks import array, integer
from spacearm.engine.mechanics import mechanics_of
from spacearm.errors import InputError, error_context
from spacearm.model import Robot
from spacearm.typing import Array


def twist_directions(rows: Sequence[int], joints: int) -> list[int]:
    """Rows of a twist as a list: distinct indices from 0 to 5, at least one and at most as many as joints."""
    found = [integer(row, "row", least=0, most=5) for row in rows]
    if not found or len({*found}) < len(found):
        raise InputError(f"rows are {found}", hint="expected distinct ones of 0 to 5")
    if len(found) > joints:
        raise InputError(f"{joints} joints cannot move a frame in {len(found)} directions", hint="expected fewer rows")
    return found


def joint_ranges(ranges: Mapping[str, tuple[float, float]]) -> Array:
    """Lowest and highest position (joints, 2) of each joint, rad or m."""
    if not ranges:
        raise InputError("there are no ranges", hint="expected joint = (lowest, highest)")
    return np.stack([array(each, f"range of {name!r}", (2,)) for name, each in ranges.items()])


def finite(found: Array, what: str) -> Array:
    """The same numbers; raises an :class:`InputError` if some are not finite."""
    if not np.all(np.isfinite(found)):
        raise InputError(
            f"{what} is not finite",
            hint="expected positions of ordinary magnitude, and a robot whose mass is not all on one line",
        )
    return found


def virtual_manipulator(robot: Robot, frame: str) -> dict[str, Array]:
    """Constant vectors (m), one in the axes of each body, whose sum leads from the mass centre to a frame.

    Without external forces the mass centre does not accelerate: the frame moves like the hand of a manipulator whose
    fixed base is there, the virtual ground. Vafa and Dubowsky, Int. J. Robotics Research 9(4), 1990. Of a robot on a
    held base they are its own links, from the base's origin.
    """
    if any(joint.kind != "revolute" for joint in robot.joints):
        raise InputError("a prismatic joint changes the length of virtual links", place="virtual_manipulator")
    if robot.base.axis is not None:
        raise InputError(f"the base is {robot.base.kind}", place="virtual_manipulator", hint="expected free or held")
    place = robot.frame(frame)
    # Shares of the mass: on a held base nothing moves against the links, as with one that is infinitely heavy.
    mass = np.array([body.inertia.mass * robot.base.is_free for body in robot.bodies]) / robot.mass
    # Each link is shortened by the share of mass that moves against it: m_beyond / m_total of every joint's arm.
    beyond = mass.copy()  # of each body and all that it carries
    for i in reversed(range(robot.n)):
        beyond[robot.parents[i]] += beyond[i + 1]
    carried = robot.body_index(place.body)
    path = set()
    while carried:
        path.add(carried)
        carried = robot.parents[carried - 1]
    links = {body.name: -share * body.inertia.com for body, share in zip(robot.bodies, mass, strict=True)}
    for i, joint in enumerate(robot.joints):
        # On the path to the frame a joint's arm counts wholly, less its weight in the mass centre; off the path only
        # the latter.
        share = (i + 1 in path) - beyond[i + 1]
        links[joint.parent] = links[joint.parent] + share * joint.placement.translation
    links[place.body] = links[place.body] + place.placement.translation
    return links


def longest_reach(robot: Robot, frame: str) -> float:
    """Upper bound of the distance of a frame from the mass centre (held base: its origin), m; infinite with prismatic
    joints, and on a planar base or a rail.
    """
    if robot.base.axis is not None or any(joint.kind != "revolute" for joint in robot.joints):
        return float("inf")
    return float(sum(np.linalg.norm(link) for link in virtual_manipulator(robot, frame).values()))


def fixed_point(robot: Robot, joints: npt.ArrayLike) -> Array:
    """The point (..., 3), m, base axes, that stays where it is in the world while the joints move at zero momentum.

    The mass centre in the directions in which the base translates freely, the base's origin in the others.
    """
    moves = np.array([i not in robot.base.locked_indices for i in range(3)], dtype=float)
    return moves * mechanics_of(robot).centre_of_mass(joints)


def fixed_point_name(robot: Robot) -> str:
    """The name of the point that :func:`fixed_point` gives, in words."""
    if robot.base.is_free:
        return "the mass centre"
    return "the base's origin" if robot.base.kind == "held" else f"the mass centre ({robot.base.kind} base)"


def dynamic_manipulability(robot: Robot, frame: str, joints: npt.ArrayLike, rows: Sequence[int] = range(6)) -> Array:
    """sqrt(det(J* J*^T)) of the generalized Jacobian (...), for joints (..., n): zero at a dynamic singularity.

    Args:
        rows: rows of the twist (0 to 2 linear, 3 to 5 angular) in base axes to consider.
    """
    with error_context("dynamic_manipulability"):
        directions = twist_directions(rows, robot.n)
        whole_matrix = mechanics_of(robot).generalized_jacobian(frame, joints)
        chosen = finite(whole_matrix, "the generalized Jacobian")[..., directions, :]
    squared = np.linalg.det(chosen @ np.swapaxes(chosen, -1, -2))
    return np.asarray(np.sqrt(np.maximum(squared, 0.0)))


def base_disturbance(robot: Robot, joints: npt.ArrayLike) -> Array:
    """-Hb^-1 Hbm (..., 6, n): velocity of the base, base axes, for joint rates at zero momentum."""
    base, coupling, _ = mechanics_of(robot).mass_blocks(joints)
    with error_context("base_disturbance"):
        try:
            found = np.asarray(-np.linalg.solve(base, coupling), dtype=np.float64)
        except np.linalg.LinAlgError:
            found = np.full(coupling.shape, np.nan)
        return finite(found, "the motion of the base")


@dataclass(frozen=True, eq=False)
class Workspace:
    """Distances of a frame from the mass centre (m) that an arm reaches, and those at which it can be singular.

    A distance within the ``singular`` bounds is reached in singular or in regular configurations, depending on the
    path; outside them the workspace is path-independent: the frame gets there by any path. Papadopoulos and Dubowsky,
    J. Dynamic Systems, Measurement, and Control 115(1), 1993.
    """

    reach: tuple[float, float]
    singular: tuple[tuple[float, float], ...]  # one for each family of singular configurations
    configurations: Array  # (S, n) singular ones that were found
    radii: Array  # (S,)

    def independent(self) -> list[tuple[float, float]]:
        """Intervals of distance that are reached by any path."""
        edges = sorted({*self.reach, *(end for band in self.singular for end in band)})
        middles = [0.5 * (low + high) for low, high in pairwise(edges)]
        return [band for band, inside in zip(pairwise(edges), self.path_independent(middles), strict=True) if inside]

    def path_independent(self, radius: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Whether each distance is reached by any path."""
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
    """Dynamic singularities of an arm with as many joints in ``ranges`` as ``rows`` of the twist.

    The determinant of the generalized Jacobian is evaluated on a grid of joint positions, and its sign changes along
    the last joint are refined; they do not depend on the pose of the base.

    Args:
        ranges: joint to lowest and highest position; all other joints do not move.
        count: points of the grid along each joint.
        configuration: positions of the other joints; zero by default.
    """
    with error_context("workspace"):
        chosen, ends = [robot.joint_index(name) for name in ranges], joint_ranges(ranges)
        integer(count, "count", least=3, most=2000)
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
        arm = mechanics.frame_pose(frame, full)[0] - fixed_point(robot, full)
        return np.asarray(np.linalg.norm(arm, axis=-1))

    grid = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1)
    value = determinant(grid)
    # Along the last joint only: along the others neighbouring lines show the same crossings.
    change = np.argwhere(np.signbit(value[..., 1:]) != np.signbit(value[..., :-1]))
    low, high = (grid[(*change[:, :-1].T, change[:, -1] + side)] for side in (0, 1))
    begin = determinant(low) if len(low) else np.zeros(0)
    # Bisection of all crossings at once, to the last bit: 60 halvings of the spacing.
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
