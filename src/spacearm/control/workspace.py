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


def virtual_manipulator(robot: Robot, frame: str) -> dict[str, Array]:
    """Constant vectors (m), one in the axes of each body, whose sum leads from the mass centre to a frame.

    With no force from outside the mass centre stays: the frame moves as the hand of a manipulator whose fixed base is
    there, the virtual ground. Vafa and Dubowsky, Int. J. Robotics Research 9(4), 1990.
    """
    if any(joint.kind != "revolute" for joint in robot.joints):
        raise InputError("a prismatic joint changes the length of virtual links", place="virtual_manipulator")
    place = robot.frame(frame)
    mass = np.array([body.inertia.mass for body in robot.bodies])
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
    chosen = mechanics_of(robot).generalized_jacobian(frame, joints)[..., list(rows), :]
    if len([*rows]) > robot.n:
        raise InputError(f"{robot.n} joints cannot move a frame in {len([*rows])} ways", place="dynamic_manipulability")
    squared = np.linalg.det(chosen @ np.swapaxes(chosen, -1, -2))
    return np.asarray(np.sqrt(np.maximum(squared, 0.0)))


def base_disturbance(robot: Robot, joints: npt.ArrayLike) -> Array:
    """-Hb^-1 Hbm (..., 6, n): velocity of the base, base axes, for joint rates at zero momentum."""
    base, coupling, _ = mechanics_of(robot).mass_blocks(joints)
    return np.asarray(-np.linalg.solve(base, coupling))


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
        chosen = [robot.joint_index(name) for name in ranges]
        whole(count, "count", least=3, most=2000)
        if len(chosen) != len([*rows]):
            raise InputError(f"{len(chosen)} joints for {len([*rows])} rows", hint="expected as many joints as rows")
        if count ** len(chosen) > 5_000_000:
            raise InputError(f"a grid of {count ** len(chosen):.3g} points", hint="expected fewer joints or points")
        still = np.zeros(robot.n) if configuration is None else array(configuration, "configuration", (robot.n,))
    mechanics = mechanics_of(robot)
    ends = [array(each, "range", (2,)) for each in ranges.values()]
    lines = [np.linspace(float(low), float(high), count) for low, high in ends]

    def positions(values: Array) -> Array:
        full = np.array(np.broadcast_to(still, (*values.shape[:-1], robot.n)))
        full[..., chosen] = values
        return full

    def determinant(values: Array) -> Array:
        whole_matrix = mechanics.generalized_jacobian(frame, positions(values))
        return np.asarray(np.linalg.det(whole_matrix[..., list(rows), :][..., chosen]))

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
