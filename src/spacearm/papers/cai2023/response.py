"""Closed-form motion of the joints within one segment, for the segmented algorithm (Cai et al. 2023).

Within a segment the inertia H of the moving joints, their damping B and the signs of dry friction are constant, and the
load is c + z cos(omega t): constant in flight (omega = 0), with the springs' cosine on the rail. The equation H qdd + B
qd = c + z cos(omega t) is linear. The generalised eigenvectors V of (B, H) decouple it into scalar equations of first
order in the rate, x'' + beta x' = c_k + z_k cos(omega t), each with elementary integrals (Eqs. 28 to 30).

Joint vectors have the length of the joints that move; time (s) counts from release, so that the phase of the cosine is
common to all segments. The closed form divides by beta; where beta dt is small, series are used instead.
Velocity-dependent inertial terms are neglected, as in the paper; the full run includes them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh
from scipy.optimize import brentq

from spacearm.ejection.rig import Rig
from spacearm.engine import Mechanics, mechanics_of
from spacearm.errors import InputError
from spacearm.typing import Array

#: Below this fraction of a segment, damping is treated as absent in the closed forms (they divide by it).
_WEAK = 1e-5
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(6)


@dataclass(frozen=True)
class ArmModel:
    """Parameters of an arm that the algorithm needs."""

    mechanics: Mechanics
    direction: Array
    damping: Array
    static: Array
    coulomb: Array

    @classmethod
    def from_rig(cls, rig: Rig, damping: npt.ArrayLike | None) -> ArmModel:
        robot = rig.arm
        if not rig.device.heavy or rig.device.friction is not None or rig.device.damping:
            raise InputError(
                "assumes an infinitely heavy satellite and a smooth rail",
                place="segmented algorithm",
                hint="omit satellite, friction and damping of the device, or use the full run",
            )
        if not rig.device.linear:
            raise InputError(
                "assumes equal linear springs", place="segmented algorithm", hint="expected their number and stiffness"
            )
        if rig.device.preload != rig.device.stroke:
            raise InputError(
                "assumes that the arm leaves at zero force",
                place="segmented algorithm",
                hint="expected a compression equal to the stroke",
            )
        if robot.couplings or any(joint.spring is not None for joint in robot.joints):
            raise InputError("supports neither springs in joints nor couplings", place="segmented algorithm")
        frictions = [joint.friction for joint in robot.joints]
        own = np.array([joint.damping for joint in robot.joints])
        if damping is not None:
            given = np.asarray(damping, dtype=np.float64)
            if given.shape not in ((), own.shape) or not np.all(np.isfinite(given) & (given >= 0.0)):
                raise InputError(
                    f"damping is {damping}",
                    place="segmented algorithm",
                    hint=f"expected one number or {robot.n}, 0 or more",
                )
            own = np.array(np.broadcast_to(given, own.shape))
        return cls(
            mechanics_of(robot),
            np.array(rig.device.direction),
            own,
            np.array([0.0 if f is None else f.static for f in frictions]),
            np.array([0.0 if f is None else f.coulomb for f in frictions]),
        )

    def inertia(self, joints: Array) -> tuple[float, Array, Array, Array]:
        """Inertias M, h, H_r and H of the rail's direction and the joints, Eq. 19."""
        matrix = self.mechanics.mass_matrix(joints)
        coupling = matrix[6:, :3] @ self.direction
        return float(self.direction @ matrix[:3, :3] @ self.direction), coupling, matrix[6:, 6:], matrix


class JointResponse:
    """Closed form of ``H qdd + B qd = c + z cos(omega t)`` (Eqs. 28 to 30, mode by mode) from time ``t0``."""

    def __init__(
        self, inertia: Array, damping: Array, force: Array, swing: Array, omega: float, t0: float, rate: Array
    ) -> None:
        # V^T H V = 1 and V^T B V = diag(beta): the matrix beta of Eq. 24 in its own directions.
        beta, self.modes = eigh(np.diag(damping), inertia)
        self.beta = np.maximum(beta, 0.0)
        self.omega, self.t0 = omega, t0
        self.force, self.swing = self.modes.T @ force, self.modes.T @ swing
        self.rate0 = self.modes.T @ inertia @ rate

    def rate(self, t: float) -> Array:
        """Joint rates at time ``t``, Eq. 30."""
        return np.asarray(self.modes @ self._modal(t)[1])

    def travel(self, t: float) -> Array:
        """Joint angles travelled since ``t0``, Eq. 29."""
        return np.asarray(self.modes @ self._modal(t)[0])

    def _modal(self, t: float) -> tuple[Array, Array]:
        beta, omega, t0 = self.beta, self.omega, self.t0
        dt = t - t0
        fade = np.exp(-beta * dt)
        weak = beta * dt < _WEAK
        safe = np.where(weak, 1.0, beta)
        # (1 - exp(-x)) / x and its integral lose digits as x -> 0. Two terms of the series have an error of x^2 / 6,
        # below 2e-11 at _WEAK; "safe" keeps the branch that is not chosen free of a division by zero.
        once = np.where(weak, dt * (1.0 - 0.5 * beta * dt), (1.0 - fade) / safe)
        twice = np.where(weak, 0.5 * dt**2, (dt - once) / safe)
        if omega > 0.0:
            sines, sine = np.sin(omega * t), np.sin(omega * t0)
            cosines, cosine = np.cos(omega * t), np.cos(omega * t0)
            square = omega**2 + beta**2
            swung = (omega * sines + beta * cosines - fade * (omega * sine + beta * cosine)) / square
            plain = (sines - sine) / omega
            # The limit beta -> 0 of the double integral of cos(omega t).
            weakly = (cosine - cosines) / omega**2 - dt * sine / omega
            swept = np.where(weak, weakly, (plain - swung) / safe)
        else:
            swung = swept = np.zeros_like(beta)
        rate = self.rate0 * fade + self.force * once + self.swing * swung
        angle = self.rate0 * once + self.force * twice + self.swing * swept
        return angle, rate


def first_stop(response: JointResponse, slip: Array, start: float, end: float) -> tuple[float, int]:
    """(time, index) at which the first joint stops before ``end``, else (end, -1)."""
    if not slip.size:
        return end, -1
    # The rate is a sum of exponentials and one cosine over at most a quarter period: sixteen intervals separate its
    # zeros. The first negative value brackets the first stop for brentq.
    grid = np.linspace(start, end, 17)[1:]
    speeds = np.array([response.rate(t) * slip for t in grid])
    best, which = end, -1
    for joint in range(slip.size):
        below = np.flatnonzero(speeds[:, joint] <= 0.0)
        if not below.size:
            continue
        high = grid[below[0]]
        low = start if below[0] == 0 else grid[below[0] - 1]
        if slip[joint] * response.rate(low)[joint] <= 0.0:  # just let go and not yet moving
            # At break-away the rate is zero and only then grows: the bracket must begin past it. If it does not grow,
            # the joint has stopped at once.
            low = start + 1e-9 * (end - start)
            if slip[joint] * response.rate(low)[joint] <= 0.0:
                return low, joint
        time = float(brentq(lambda s, j=joint: slip[j] * response.rate(s)[j], low, high, xtol=1e-14))
        if time < best:
            best, which = time, joint
    return best, which


def energy_lost(
    arm: ArmModel, response: JointResponse, moving: npt.NDArray[np.intp], slip: Array, start: float, end: float
) -> float:
    """Energy dissipated by friction and damping in a segment, J: the integral of Eq. 40 by Gauss's rule."""
    if not moving.size or end <= start:
        return 0.0
    half = 0.5 * (end - start)
    lost = 0.0
    for point, weight in zip(_POINTS, _WEIGHTS, strict=True):
        rate = response.rate(start + half * (1.0 + point))
        drag = slip[moving] * arm.coulomb[moving] + arm.damping[moving] * rate
        lost += weight * half * float(drag @ rate)
    return lost


def coast_travel(theta: Array, damping: Array, rate: Array, moving: npt.NDArray[np.intp]) -> Array:
    """Remaining travel of viscous joints without dry friction to stop them; NaN without damping."""
    if np.any(damping[moving] <= 0.0):
        return np.full(moving.size, np.nan)
    # Integral of H qdd = -B qd from rate to rest: B (travel) = H rate.
    part = theta[np.ix_(moving, moving)]
    return np.asarray(part @ rate[moving] / damping[moving])
