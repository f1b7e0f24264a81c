"""The paper's own segmented algorithm (Cai et al. 2023, Eqs. 20 to 42), corrected, for comparison with the full run.

It treats the ejection as a quarter of a harmonic oscillation whose mass changes from segment to segment: in each one
the inertias are constant, velocity-dependent terms are left out, and the spring force is a cosine of time.
Corrections (the numbers are the paper's):

- 11, 15, 35: ``H_br`` is a row and has no inverse; ``m_eq = M - h^T H_r^-1 h`` and
  ``m_eq a = F + h^T H_r^-1 (tau_c sgn + B qd)``.
- 20c: the arcsine's argument is ``-omega z``.
- 22 to 24: ``H_theta = H_r - h h^T / M``; the printed one is its negative, which turns damping into its opposite.
- 23: the test of break-away is the absolute load of each joint, with the motion of those that slip already.
- 25 to 30: ``beta = H_theta^-1 B`` is a matrix. The printed scalar formulas hold for each of its modes.
- 31: both velocities in the plane are free. 32 to 34, 40: ``tau_c`` carries the sign of the joint's rate.
- 42: absolute rates of the bodies, and the inertia of the stopped configuration.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh
from scipy.optimize import brentq

from spacearm.ejection.rig import Rig
from spacearm.engine import Mechanics
from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.model.parts import skew
from spacearm.typing import Array

if TYPE_CHECKING:
    import xarray as xr

#: Below this share of a segment, damping is treated as absent in the closed forms (they divide by it).
_WEAK = 1e-5
#: Segments in the time that the whole arm as one mass would take.
_MOST_SEGMENTS = 10_000
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(6)


@dataclass(frozen=True, eq=False)
class Segmented:
    """What the segmented algorithm gives; symbols as in :class:`spacearm.ejection.Ejection`."""

    rig: Rig
    start: Array
    time: float  # s
    velocity: float  # m/s, at separation, Eq. 37
    variation: Array  # (n,) rad, at separation, Eq. 29
    rates: Array  # (n,) rad/s, at separation, Eq. 30
    final_variation: Array  # (n,) after the last joint has stopped, Eq. 32
    stop_times: dict[str, float]  # s, Eq. 34
    angular_velocity: Array  # (3,) rad/s, Eq. 42
    stable_velocity: float  # m/s, Eq. 40
    loss: float  # J, eta of Eq. 40
    segments: int
    curve_time: Array  # (T,) s, segment ends on the rail, then the flight
    curve_velocity: Array  # (T,) m/s; NaN in flight, where the paper gives no such curve
    curve_variation: Array  # (T, n) rad

    @property
    def stable_time(self) -> float:
        return max(self.time, *self.stop_times.values(), 0.0)

    @property
    def data(self) -> xr.Dataset:
        """Curves over time."""
        import xarray as xr

        return xr.Dataset(
            {
                "velocity": (("time",), self.curve_velocity, {"units": "m/s"}),
                "variation": (("time", "joint"), self.curve_variation, {"units": "rad"}),
            },
            coords={"time": ("time", self.curve_time, {"units": "s"}), "joint": list(self.rig.arm.joint_names)},
        )


class _Response:
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

    def turn(self, t: float) -> Array:
        """Joint angles travelled since ``t0``, Eq. 29."""
        return np.asarray(self.modes @ self._modal(t)[0])

    def _modal(self, t: float) -> tuple[Array, Array]:
        beta, omega, t0 = self.beta, self.omega, self.t0
        dt = t - t0
        fade = np.exp(-beta * dt)
        weak = beta * dt < _WEAK
        safe = np.where(weak, 1.0, beta)
        once = np.where(weak, dt * (1.0 - 0.5 * beta * dt), (1.0 - fade) / safe)
        twice = np.where(weak, 0.5 * dt**2, (dt - once) / safe)
        if omega > 0.0:
            sines, sine = np.sin(omega * t), np.sin(omega * t0)
            cosines, cosine = np.cos(omega * t), np.cos(omega * t0)
            square = omega**2 + beta**2
            swung = (omega * sines + beta * cosines - fade * (omega * sine + beta * cosine)) / square
            plain = (sines - sine) / omega
            weakly = (cosine - cosines) / omega**2 - dt * sine / omega
            swept = np.where(weak, weakly, (plain - swung) / safe)
        else:
            swung = swept = np.zeros_like(beta)
        rate = self.rate0 * fade + self.force * once + self.swing * swung
        angle = self.rate0 * once + self.force * twice + self.swing * swept
        return angle, rate


@lru_cache(maxsize=8)
def _mechanics(robot: Robot) -> Mechanics:
    return Mechanics(robot)


@dataclass(frozen=True)
class _Arm:
    """Numbers of an arm that the algorithm needs."""

    mechanics: Mechanics
    direction: Array
    damping: Array
    static: Array
    coulomb: Array

    @classmethod
    def of(cls, rig: Rig, damping: npt.ArrayLike | None) -> _Arm:
        robot = rig.arm
        if not rig.device.heavy or rig.device.friction is not None or rig.device.damping:
            raise InputError(
                "assumes an infinitely heavy satellite and a smooth rail",
                place="segmented algorithm",
                hint="leave satellite, friction and damping of the device out, or use the full run",
            )
        if rig.device.preload != rig.device.stroke:
            raise InputError(
                "assumes that the arm leaves at zero force",
                place="segmented algorithm",
                hint="expected a compression equal to the stroke",
            )
        if robot.couplings or any(joint.spring is not None for joint in robot.joints):
            raise InputError("knows neither springs in joints nor couplings", place="segmented algorithm")
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
            _mechanics(robot),
            np.array(rig.device.direction),
            own,
            np.array([0.0 if f is None else f.static for f in frictions]),
            np.array([0.0 if f is None else f.coulomb for f in frictions]),
        )

    def inertia(self, joints: Array) -> tuple[float, Array, Array, Array]:
        """(M, h, H_r, H) of the rail's direction and the joints, Eq. 19."""
        matrix = self.mechanics.mass_matrix(joints)
        coupling = matrix[6:, :3] @ self.direction
        return float(self.direction @ matrix[:3, :3] @ self.direction), coupling, matrix[6:, 6:], matrix


def segmented(
    rig: Rig,
    joints: npt.ArrayLike | str | None = None,
    *,
    step: float = 0.02,
    mass: Literal["all joints", "slipping joints"] = "all joints",
    damping: npt.ArrayLike | None = None,
) -> Segmented:
    """Run the algorithm from an attitude at rest.

    Args:
        step: length of a segment, s; the paper takes 0.02.
        mass: the equivalent mass that sets the frequency counts all joints as free, as the paper does, or only those
            that slip.
        damping: in place of the joints' own, one number or n, N m s/rad.
    """
    place = "segmented algorithm"
    if not (np.isfinite(step) and step > 0.0):
        raise InputError(f"step is {step}", place=place, hint="expected seconds above zero")
    shortest = rig.device.quarter_period(rig.arm.mass) / _MOST_SEGMENTS
    if step < shortest:
        raise InputError(f"step is {step}", place=place, hint=f"expected {shortest:.2g} s or more")
    if mass not in ("all joints", "slipping joints"):
        raise InputError(f"mass is {mass!r}", place=place, hint="expected 'all joints' or 'slipping joints'")
    start = rig.attitude(joints)
    arm = _Arm.of(rig, damping)
    stiffness, stroke = rig.device.total_stiffness, rig.device.stroke
    n = rig.arm.n
    q, rate = start.copy(), np.zeros(n)
    z, z_rate, t, velocity, shift, omega = -stroke, 0.0, 0.0, 0.0, 0.0, 0.0
    loss, stops = 0.0, np.zeros(n)
    curve = [(0.0, 0.0, start.copy())]
    segments = 0
    while True:
        total, h, arm_inertia, _ = arm.inertia(q)
        before = stiffness * stroke * (np.cos(omega * t) - shift)  # force at the end of the last segment
        slip = _slipping(arm, total, h, arm_inertia, before, rate)
        moving = np.flatnonzero(slip)
        counted = np.arange(n) if mass == "all joints" else moving
        effective = _reduced(total, h, arm_inertia, counted)
        new = np.sqrt(stiffness / effective)
        shift += np.cos(new * t) - np.cos(omega * t)  # Eq. 20d: the force goes on where it was
        omega = new
        end = t + min(step, float(np.arctan2(-omega * z, z_rate)) / omega)  # to zero force: Eq. 20c with its sign
        response = _response(arm, total, h, arm_inertia, moving, slip, rate, stiffness * stroke, shift, omega, t)
        end, stopped = _first_stop(response, slip[moving], t, end)
        dt = end - t
        z, z_rate = (
            z * np.cos(omega * dt) + z_rate / omega * np.sin(omega * dt),
            -z * omega * np.sin(omega * dt) + z_rate * np.cos(omega * dt),
        )
        turn = np.zeros(n)
        turn[moving] = response.turn(end) if moving.size else 0.0
        impulse = stiffness * stroke * ((np.sin(omega * end) - np.sin(omega * t)) / omega - shift * dt)
        drag = slip * arm.coulomb * dt + arm.damping * turn
        velocity += _gained(total, h, arm_inertia, moving, impulse, drag)
        loss += _lost(arm, response, moving, slip, t, end)
        rate = np.zeros(n)
        rate[moving] = response.rate(end) if moving.size else 0.0
        if stopped >= 0:
            joint = moving[stopped]
            rate[joint] = slip[joint] = 0.0
            stops[joint] = end
        q, t = q + turn, end
        segments += 1
        curve.append((t, velocity, q.copy()))
        if z >= -1e-12 * stroke:
            break
        if segments > 2 * _MOST_SEGMENTS:
            raise InputError(f"takes more than {segments} segments", place=place, hint="a longer step")
    return _flight(rig, arm, start, q, rate, slip, velocity, t, loss, stops, curve, segments)


def _reduced(total: float, h: Array, inertia: Array, free: npt.NDArray[np.intp]) -> float:
    """m_eq with these joints free."""
    if not free.size:
        return total
    return total - float(h[free] @ np.linalg.solve(inertia[np.ix_(free, free)], h[free]))


def _slipping(arm: _Arm, total: float, h: Array, inertia: Array, force: float, rate: Array) -> Array:
    """Which way each joint slips (0: not at all): the worst overload is let go, one after the other (Eq. 23)."""
    slip = np.where(rate != 0.0, np.sign(rate), 0.0)
    for _ in range(slip.size):
        moving = np.flatnonzero(slip)
        acceleration = np.zeros(slip.size)
        if moving.size:
            theta = inertia[np.ix_(moving, moving)] - np.outer(h[moving], h[moving]) / total
            drag = slip[moving] * arm.coulomb[moving] + arm.damping[moving] * rate[moving]
            acceleration[moving] = np.linalg.solve(theta, -h[moving] * force / total - drag)
        base = (force - h @ acceleration) / total
        load = inertia @ acceleration + h * base  # what friction would have to hold
        over = np.where(slip == 0.0, np.abs(load) - arm.static * (1.0 + 1e-12), -1.0)
        worst = int(over.argmax())
        if over[worst] <= 0.0:
            break
        slip[worst] = -np.sign(load[worst])
    return slip


def _response(
    arm: _Arm,
    total: float,
    h: Array,
    inertia: Array,
    moving: npt.NDArray[np.intp],
    slip: Array,
    rate: Array,
    push: float,
    shift: float,
    omega: float,
    t: float,
) -> _Response:
    """Eq. 24 for the joints that slip: forces ``-h F / M - tau_c sgn`` with ``F = push (cos omega t - shift)``."""
    theta = inertia[np.ix_(moving, moving)] - np.outer(h[moving], h[moving]) / total
    swing = -h[moving] * push / total
    force = -swing * shift - slip[moving] * arm.coulomb[moving]
    return _Response(theta, arm.damping[moving], force, swing, omega, t, rate[moving])


def _first_stop(response: _Response, slip: Array, start: float, end: float) -> tuple[float, int]:
    """(time, index) at which the first joint stops before ``end``, else (end, -1)."""
    if not slip.size:
        return end, -1
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
            low = start + 1e-9 * (end - start)
            if slip[joint] * response.rate(low)[joint] <= 0.0:
                return low, joint
        time = float(brentq(lambda s, j=joint: slip[j] * response.rate(s)[j], low, high, xtol=1e-14))
        if time < best:
            best, which = time, joint
    return best, which


def _gained(total: float, h: Array, inertia: Array, moving: npt.NDArray[np.intp], impulse: float, drag: Array) -> float:
    """Velocity gained in a segment, Eq. 37 corrected."""
    if not moving.size:
        return impulse / total
    lever = np.linalg.solve(inertia[np.ix_(moving, moving)], h[moving])
    return float((impulse + lever @ drag[moving]) / (total - h[moving] @ lever))


def _lost(arm: _Arm, response: _Response, moving: npt.NDArray[np.intp], slip: Array, start: float, end: float) -> float:
    """Energy that friction and damping take in a segment, J: the integral of Eq. 40 by Gauss's rule."""
    if not moving.size or end <= start:
        return 0.0
    half = 0.5 * (end - start)
    lost = 0.0
    for point, weight in zip(_POINTS, _WEIGHTS, strict=True):
        rate = response.rate(start + half * (1.0 + point))
        drag = slip[moving] * arm.coulomb[moving] + arm.damping[moving] * rate
        lost += weight * half * float(drag @ rate)
    return lost


def _flight(
    rig: Rig,
    arm: _Arm,
    start: Array,
    joints: Array,
    rates: Array,
    slip: Array,
    velocity: float,
    time: float,
    loss: float,
    stops: Array,
    curve: list[tuple[float, float, Array]],
    segments: int,
) -> Segmented:
    """Outside the device (Eqs. 31 to 34, 40 to 42): inertias as at separation, joints stop one after the other."""
    free = rig.free_base
    matrix = arm.mechanics.mass_matrix(joints)
    base, mixed = matrix[np.ix_(free, free)], matrix[np.ix_(free, range(6, 6 + rig.arm.n))]
    theta = matrix[6:, 6:] - mixed.T @ np.linalg.solve(base, mixed)
    q, rate, t = joints.copy(), rates.copy(), time
    slip = np.where(rate != 0.0, np.sign(rate), 0.0)
    while slip.any():
        moving = np.flatnonzero(slip)
        if not np.any(arm.coulomb[moving] > 0.0):
            stops[moving] = np.inf
            q[moving] += _coasting(theta, arm.damping, rate, moving)
            break
        part = theta[np.ix_(moving, moving)]
        force = -slip[moving] * arm.coulomb[moving]
        response = _Response(part, arm.damping[moving], force, np.zeros(moving.size), 0.0, t, rate[moving])
        # Dry friction alone would stop it within this time.
        span = 2.0 * float(np.linalg.norm(part @ rate[moving])) / float(arm.coulomb[moving].max()) + 1e-6
        end, which = _first_stop(response, slip[moving], t, t + span)
        loss += _lost(arm, response, moving, slip, t, end)
        for moment in np.linspace(t, end, 33)[1:]:
            at = q.copy()
            at[moving] += response.turn(float(moment))
            curve.append((float(moment), np.nan, at))
        q[moving] += response.turn(end)
        rate[moving] = response.rate(end)
        if which >= 0:
            joint = moving[which]
            rate[joint] = slip[joint] = 0.0
            stops[joint] = end
        t = end
    spin, moment = _spin(rig, arm.mechanics, joints, np.concatenate([velocity * arm.direction, np.zeros(3), rates]), q)
    kept = 2.0 * rig.device.energy - float(spin @ moment @ spin) - 2.0 * loss
    return Segmented(
        rig,
        start,
        time,
        velocity,
        joints - start,
        rates,
        q - start,
        dict(zip(rig.arm.joint_names, stops.tolist(), strict=True)),
        spin,
        float(np.sqrt(max(kept, 0.0) / rig.arm.mass)),
        loss,
        segments,
        np.array([row[0] for row in curve]),
        np.array([row[1] for row in curve]),
        np.array([row[2] for row in curve]) - start,
    )


def _coasting(theta: Array, damping: Array, rate: Array, moving: npt.NDArray[np.intp]) -> Array:
    """What viscous joints still travel when there is no dry friction to stop them; NaN without damping."""
    if np.any(damping[moving] <= 0.0):
        return np.full(moving.size, np.nan)
    part = theta[np.ix_(moving, moving)]
    return np.asarray(part @ rate[moving] / damping[moving])


def _spin(rig: Rig, mechanics: Mechanics, joints: Array, velocity: Array, end: Array) -> tuple[Array, Array]:
    """Angular velocity (Eq. 42, base axes) of the stopped arm and its inertia about its mass centre.

    The angular momentum about the mass centre is that at separation, with the bodies' absolute rates; the inertia is
    that of the stopped configuration. On an air table only the turn about its normal is free.
    """
    momentum = mechanics.momentum(joints, velocity, about="com")[3:]
    where = np.where(np.isfinite(end), end, joints)
    matrix = mechanics.mass_matrix(where)
    centre = mechanics.centre_of_mass(where)
    inertia = matrix[3:6, 3:6] + rig.arm.mass * skew(centre) @ skew(centre)
    axes = [i - 3 for i in rig.free_base if i >= 3]
    spin = np.zeros(3)
    spin[axes] = np.linalg.solve(inertia[np.ix_(axes, axes)], momentum[axes])
    return spin, inertia
