"""Joint angles from markers on links: inverse kinematics of what motion capture saw, with the measured base pose.

At each time the angles of the named joints are those of least squares of the markers' distances (Gauss and Newton, from
the angles of the time before). Joints that are not named stay as at the start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from spacearm.engine import mechanics_of
from spacearm.errors import InputError
from spacearm.typing import Array
from spacearm.validation._measured_motion import ENOUGH, MeasuredMotion

#: Steps of the search at one time, the change (rad) at which it ends, and the largest step.
MOST_STEPS, SMALL, LARGEST_STEP = 50, 1e-9, 0.3


def solve_joints(
    motion: MeasuredMotion, joints: Sequence[str], times: Array, markers: Mapping[str, Array]
) -> tuple[Array, Array, float]:
    """Times (T,) at which all markers were seen, angles (T, joints) then, and the rms distance that is left, m.

    Args:
        times: (N,) of the readings, s of the run.
        markers: frame to its places (N, 2 or 3), world axes, m; NaN where it was not seen.
    """
    system = motion.first
    robot = motion.world.robot(system)
    rows = [robot.joint_index(name) for name in joints]
    coordinates = sum(places.shape[1] for places in markers.values())
    if coordinates < len(rows):
        raise InputError(
            f"{coordinates} coordinates of markers for {len(rows)} joints", place="marker", hint="expected as many"
        )
    seen = np.all([np.all(np.isfinite(places), axis=1) for places in markers.values()], axis=0)
    base_x = motion.reading(system, "base_x")
    if not motion.is_measured(system) or base_x is None:
        raise InputError(
            "joint angles from markers need the base's measured place and yaw", place="marker",
            hint="expected channels base_x, base_y, base_yaw",
        )  # fmt: skip
    seen &= (times >= base_x.times[0] - 1e-9) & (times <= base_x.times[-1] + 1e-9)
    if np.count_nonzero(seen) < ENOUGH:
        raise InputError(f"all markers were seen at {np.count_nonzero(seen)} times only", place="marker")
    clock = times[seen]
    bases = motion.poses(system, clock)
    mechanics = mechanics_of(robot)
    current = motion.starts[system].joints.copy()
    found, squares = np.zeros((clock.size, len(rows))), 0.0
    for k in range(clock.size):
        for _ in range(MOST_STEPS):
            left, slopes = [], []
            for frame, places in markers.items():
                size = places.shape[1]
                origin, _ = mechanics.frame_pose(frame, current, base=bases[k])
                left.append(places[seen][k] - origin[:size])
                slopes.append(mechanics.jacobian(frame, current, base=bases[k])[:size, [6 + row for row in rows]])
            residual, slope = np.concatenate(left), np.vstack(slopes)
            step, *_ = np.linalg.lstsq(slope, residual, rcond=None)
            # A long step may cross to the other bend of the arm.
            step *= min(1.0, LARGEST_STEP / max(float(np.abs(step).max()), 1e-300))
            current[rows] += step
            if np.abs(step).max() < SMALL:
                break
        found[k] = current[rows]
        squares += float(residual @ residual)
    return clock, found, float(np.sqrt(squares / clock.size))
