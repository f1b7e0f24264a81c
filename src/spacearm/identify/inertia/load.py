"""What a body carries: a captured target's own mass, mass centre and tensor, the body's own inertia taken off.

Data show the sum of both. Mass, first moment and tensor about one point add, so the difference is linear, and its
covariance is that of the estimate plus that of what is known of the empty body. The ten numbers are then moved into the
target's frame; mass centre and moments about it are functions of them, whose deviations follow by the derivative.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spacearm.checks import non_negative
from spacearm.identify.inertia.identify import Identification
from spacearm.identify.inertia.inertia_parameters import PLAIN, PLAIN_UNITS, plain_jacobian, plain_of, typical_sizes
from spacearm.mechanics.reframe import transport
from spacearm.model import Pose, Robot
from spacearm.typing import Array

#: A number that a direction without data moves by more than this share of its size is not determined.
OPEN = 1e-6


@dataclass(frozen=True, eq=False)
class TargetLoad:
    """A target's ten numbers: mass, mass centre, tensor about it, in its own frame; NaN where none can be told.

    ``std`` counts what the data leave open and how well the carrying body is known; infinite where not determined.
    """

    body: str
    values: Array
    std: Array

    @property
    def interval(self) -> tuple[Array, Array]:
        """Lower and upper ends of the 95 % intervals."""
        return self.values - 1.959964 * self.std, self.values + 1.959964 * self.std

    @property
    def is_possible(self) -> bool:
        """Whether there is anything that has such a mass."""
        return bool(self.values[0] > 0.0)

    def rows(self) -> list[tuple[str, float, float, str]]:
        """Name, value, standard deviation and unit of each number."""
        return [
            (name, float(value), float(std), unit)
            for name, value, std, unit in zip(PLAIN, self.values, self.std, PLAIN_UNITS, strict=True)
        ]


def extract_load(
    found: Identification, body: str, empty: Robot, *, doubt: float = 0.0, placement: Pose | None = None
) -> TargetLoad:
    """The target that a body of an identified robot carries.

    Args:
        found: with the carrying body among those that were looked for; what it carries is fused into it.
        body: that carries it.
        empty: the same robot with nothing in its hand, whose inertia of that body is known.
        doubt: how well, as a share of each number's typical size (as ``Prior.from_nominal``).
        placement: of the target's frame in the body's; the same frame where not given.
    """
    non_negative(doubt, "doubt", place="load")
    robot, own = found.known.robot, empty.body_index(body)
    block = slice(10 * robot.body_index(body), 10 * robot.body_index(body) + 10)
    sizes = typical_sizes(empty)[10 * own : 10 * own + 10]
    # Errors of the empty body are independent of the estimate's: it was measured before, by other means.
    covariance = found.known.covariance[block, block] + np.diag((doubt * sizes) ** 2)
    return target_load(
        body, found.inertia[block], empty.inertia_parameters[own], covariance, found.known.null[block], placement
    )


def target_load(
    body: str, whole: Array, own: Array, covariance: Array, hidden: Array, placement: Pose | None = None
) -> TargetLoad:
    """The target that a body carries, from ten linear inertia parameters in the body's frame.

    Args:
        whole: of body and target together (10,).
        own: of the body alone (10,).
        covariance: of their difference (10, 10).
        hidden: directions (10, k) of ``whole`` that the data do not show.
        placement: as in :func:`extract_load`.
    """
    # The ten numbers change frames by a linear map, so that their covariance goes along exactly.
    to_target = np.linalg.inv(transport(placement or Pose()))
    linear = to_target @ (whole - own)
    # Without mass there is no mass centre: h / m would be noise divided by noise.
    if not linear[0] > 0.0:
        values, std = np.full(10, np.nan), np.full(10, np.inf)
        values[0], std[0] = linear[0], np.sqrt(covariance[0, 0])
        return TargetLoad(body, values, std)
    slope = plain_jacobian(linear) @ to_target
    std = np.sqrt(np.maximum(np.diag(slope @ covariance @ slope.T), 0.0))
    # Compared with what the numbers themselves contribute to each: kg, m and kg m2 have no common scale.
    size = np.linalg.norm(slope * np.abs(whole), axis=1)
    shown = np.abs(slope @ hidden).max(axis=1, initial=0.0) <= OPEN * size
    return TargetLoad(body, plain_of(linear), np.where(shown, std, np.inf))
