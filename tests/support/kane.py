"""Kane's equations for a chain of segments on a floating base with soft joints: an independent derivation.

After Zhang et al. (2020), Sec. 4, with these corrections: Eq. 1 theta_km; Eqs. 8, 12 the second block starts at 3N + 3;
Eq. 11 A_i s-dot; Eq. 13 partial velocities from the product rule; Eq. 14 forces of springs and dampers act in the axes
of the segment before, -A_(k-1) (K s + D s-dot); Eqs. 15 to 17 arms are products A_k r_k with both dampers; Eq. 20's
second sum runs to N + 1. Two more, which the paper's form misses beyond first order:

- Rotary springs of a cross shaft act about its three shafts. The torque that does so is -B^-T (K theta + D theta-dot)
  in the axes of the segment before, with omega = B theta-dot (Eq. 4), not -K theta.
- Force and counterforce act at the same point, so the arm on the inner segment is d_k + s_(k+1) - r_k; with d_k - r_k
  the pair would leave a torque s x K s and break the angular momentum.

Plain NumPy, no recursion over bodies, nothing of spacearm. Segment 1 is the base, held to the inertial frame by
"joint" 1 without springs. Generalised speeds y: omega_k in the axes of segment k - 1 (3 each), then s-dot_k (3 each).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def skew(v: Array) -> Array:
    return np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])


def turn(axis: int, angle: float) -> Array:
    c, s = np.cos(angle), np.sin(angle)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    matrix = np.eye(3)
    matrix[i, i], matrix[i, j], matrix[j, i], matrix[j, j] = c, -s, s, c
    return matrix


def attitude(theta: Array) -> Array:
    """Eq. 2."""
    return turn(0, theta[0]) @ turn(1, theta[1]) @ turn(2, theta[2])


def shafts(theta: Array) -> Array:
    """B of Eq. 4: omega in the axes of the segment before = B theta-dot."""
    x, xy = turn(0, theta[0]), turn(0, theta[0]) @ turn(1, theta[1])
    return np.stack([np.array([1.0, 0.0, 0.0]), x[:, 1], xy[:, 2]], axis=1)


def shafts_rate(theta: Array, rate: Array) -> Array:
    """Time derivative of B."""
    ex = np.array([1.0, 0.0, 0.0])
    columns = shafts(theta)
    first = np.cross(rate[0] * ex, columns[:, 1])
    second = np.cross(rate[0] * ex + rate[1] * columns[:, 1], columns[:, 2])
    return np.stack([np.zeros(3), first, second], axis=1)


@dataclass
class KaneChain:
    """N + 1 segments (the first is the base); lists have one entry for each segment."""

    mass: Array  # (N + 1,)
    inertia: Array  # (N + 1, 3, 3) about the centroid, segment axes
    end: Array  # (N + 1, 3) d_k: from the segment's frame to the next joint (the last: to the hand)
    centroid: Array  # (N + 1, 3) r_k
    stiffness: Array  # (N, 2, 3) of joint k + 1: linear, rotary
    damping: Array  # (N, 2, 3)

    def acceleration(
        self, s: Array, theta: Array, s_rate: Array, theta_rate: Array, force: Array, moment: Array, free: Array
    ) -> tuple[Array, Array]:
        """(s-double-dot, theta-double-dot), (N + 1, 3) each; force and moment act at the hand, hand axes.

        ``free`` (N + 1, 2, 3) of bool: which slides and turns there are. Locked turns must come last in their row
        (none is tested); locked slides stand still.
        """
        count = len(self.mass)
        absolute = [np.eye(3)]
        for k in range(count):
            absolute.append(absolute[k] @ attitude(theta[k]))
        relative = np.stack([shafts(theta[k]) @ theta_rate[k] for k in range(count)])
        # Eqs. 7 and 9: angular velocities, their partials, and the rates of the partials.
        omega = [np.zeros(3)]
        for k in range(count):
            omega.append(omega[k] + absolute[k] @ relative[k])
        angular_rate = np.zeros((count, 3, 6 * count))
        spin_rate = np.zeros_like(angular_rate)
        for k in range(count):
            for i in range(k + 1):
                angular_rate[k, :, 3 * i : 3 * i + 3] = absolute[i]
                spin_rate[k, :, 3 * i : 3 * i + 3] = skew(omega[i]) @ absolute[i]
        # Eqs. 10 to 13: spans between joints, partial velocities of centroids, and their rates.
        span = [absolute[i + 1] @ (self.end[i] + s[i + 1]) for i in range(count - 1)]
        span_rate = [skew(omega[i + 1]) @ span[i] + absolute[i + 1] @ s_rate[i + 1] for i in range(count - 1)]
        line = np.zeros((count, 3, 6 * count))
        line_rate = np.zeros_like(line)
        for k in range(count):
            reach = absolute[k + 1] @ self.centroid[k]
            reach_rate = skew(omega[k + 1]) @ reach
            for i in range(k):
                line[k] -= skew(span[i]) @ angular_rate[i]
                line_rate[k] -= skew(span_rate[i]) @ angular_rate[i] + skew(span[i]) @ spin_rate[i]
            line[k] -= skew(reach) @ angular_rate[k]
            line_rate[k] -= skew(reach_rate) @ angular_rate[k] + skew(reach) @ spin_rate[k]
            for i in range(k + 1):
                at = slice(3 * count + 3 * i, 3 * count + 3 * i + 3)
                line[k, :, at] += absolute[i]
                line_rate[k, :, at] += skew(omega[i]) @ absolute[i]
        speeds = np.concatenate([relative.ravel(), s_rate.ravel()])
        # Eqs. 14 to 17: active forces and moments at the centroids.
        push, torque = np.zeros((count, 3)), np.zeros((count, 3))
        for j in range(count - 1):  # joint between segments j and j + 1
            linear = self.stiffness[j, 0] * s[j + 1] + self.damping[j, 0] * s_rate[j + 1]
            rotary = self.stiffness[j, 1] * theta[j + 1] + self.damping[j, 1] * theta_rate[j + 1]
            outer_force = -absolute[j + 1] @ linear
            outer_torque = -absolute[j + 1] @ np.linalg.solve(shafts(theta[j + 1]).T, rotary)
            push[j + 1] += outer_force
            torque[j + 1] += outer_torque + np.cross(-absolute[j + 2] @ self.centroid[j + 1], outer_force)
            push[j] -= outer_force
            arm = absolute[j + 1] @ (self.end[j] + s[j + 1] - self.centroid[j])
            torque[j] -= outer_torque + np.cross(arm, outer_force)
        last = count - 1
        outside = absolute[last + 1] @ force
        push[last] += outside
        torque[last] += absolute[last + 1] @ moment
        torque[last] += np.cross(absolute[last + 1] @ (self.end[last] - self.centroid[last]), outside)
        # Eqs. 18 to 20: F_l + F_l* = 0 for the speeds that are free.
        matrix, right = np.zeros((6 * count, 6 * count)), np.zeros(6 * count)
        for k in range(count):
            tensor = absolute[k + 1] @ self.inertia[k] @ absolute[k + 1].T
            matrix += self.mass[k] * line[k].T @ line[k] + angular_rate[k].T @ tensor @ angular_rate[k]
            right += line[k].T @ (push[k] - self.mass[k] * line_rate[k] @ speeds)
            gyroscopic = np.cross(omega[k + 1], tensor @ omega[k + 1])
            right += angular_rate[k].T @ (torque[k] - tensor @ spin_rate[k] @ speeds - gyroscopic)
        keep = np.concatenate([free[:, 1].ravel(), free[:, 0].ravel()])
        change = np.zeros(6 * count)
        change[keep] = np.linalg.solve(matrix[np.ix_(keep, keep)], right[keep])
        turning, sliding = change[: 3 * count].reshape(-1, 3), change[3 * count :].reshape(-1, 3)
        angles = [
            np.linalg.solve(shafts(theta[k]), turning[k] - shafts_rate(theta[k], theta_rate[k]) @ theta_rate[k])
            for k in range(count)
        ]
        return sliding, np.stack(angles)
