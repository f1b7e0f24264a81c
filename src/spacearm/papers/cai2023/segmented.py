"""The paper's own segmented algorithm (Cai et al. 2023, Eqs. 20 to 42), corrected, for comparison with the full run.

It treats the ejection as a quarter of a harmonic oscillation whose mass changes from segment to segment: in each
segment the inertias are constant, velocity-dependent terms are neglected, and the spring force is a cosine of time.
Corrections (the numbers are the paper's):

- 11, 15, 35: ``H_br`` is a row and has no inverse; ``m_eq = M - h^T H_r^-1 h`` and ``m_eq a = F + h^T H_r^-1 (tau_c sgn
  + B qd)``.
- 20c: the arcsine's argument is ``-omega z``.
- 22 to 24: ``H_theta = H_r - h h^T / M``; the printed one is its negative, which reverses the sign of damping.
- 23: the break-away test uses the absolute load of each joint, including the motion of those that already slip.
- 25 to 30: ``beta = H_theta^-1 B`` is a matrix. The printed scalar formulas hold for each of its modes.
- 31: both velocities in the plane are free. 32 to 34, 40: ``tau_c`` carries the sign of the joint's rate.
- 38, 39: the base keeps the momenta with which it left the rail, with the inertia of each configuration; in space,
  where the angular momentum has no fixed direction in base axes, these rotate with it.
- 42: absolute rates of the bodies, and the inertia of the stopped configuration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from spacearm.checks import number, one_of
from spacearm.ejection.rig import Rig
from spacearm.errors import InputError
from spacearm.papers.cai2023.response import ArmModel, JointResponse, energy_lost, first_stop
from spacearm.papers.cai2023.segmented_flight import SegmentedFlight, fly
from spacearm.simulate.run.dataset import label_dataset
from spacearm.typing import Array

if TYPE_CHECKING:
    import xarray as xr

#: Segments in the time that the whole arm as one mass would take.
_MOST_SEGMENTS = 10_000


@dataclass(frozen=True, eq=False)
class SegmentedEjection:
    """Result of the segmented algorithm; symbols as in :class:`spacearm.ejection.Ejection`."""

    rig: Rig
    start: Array
    time: float  # s
    velocity: float  # m/s, at separation, Eq. 37
    variation: Array  # (n,) rad, at separation, Eq. 29
    rates: Array  # (n,) rad/s, at separation, Eq. 30
    final_variation: Array  # (n,) after the last joint has stopped, Eq. 32
    stop_times: dict[str, float]  # s, Eq. 34
    angular_velocity: Array  # (3,) rad/s, Eq. 42: mean over time of the stopped arm, see spacearm.ejection.tumble
    stable_velocity: float  # m/s, Eq. 40
    loss: float  # J, eta of Eq. 40
    segments: int
    curve_time: Array  # (T,) s, segment ends on the rail, then the flight
    curve_velocity: Array  # (T,) m/s, of the base along the rail's direction: Eq. 37, then Eqs. 38, 39
    curve_variation: Array  # (T, n) rad

    @property
    def stable_time(self) -> float:
        return max(self.time, *self.stop_times.values(), 0.0)

    @property
    def data(self) -> xr.Dataset:
        """Curves over time."""
        return label_dataset(
            {"time": ("time", self.curve_time, "s"), "joint": list(self.rig.arm.joint_names)},
            {
                "velocity": ("time", self.curve_velocity, "m/s", "velocity of the base along the rail"),
                "variation": ("time joint", self.curve_variation, "rad", "joint variation"),
            },
        )


def run_segment_algorithm(
    rig: Rig,
    joints: npt.ArrayLike | str | None = None,
    *,
    step: float = 0.02,
    mass: Literal["all joints", "slipping joints"] = "all joints",
    damping: npt.ArrayLike | None = None,
) -> SegmentedEjection:
    """Run the algorithm from a configuration at rest.

    Args:
        step: length of a segment, s; the paper takes 0.02.
        mass: whether the equivalent mass that sets the frequency treats all joints as free, as the paper does, or only
            those that slip.
        damping: overrides the joints' own, one number or n, N m s/rad.
    """
    place = "segmented algorithm"
    shortest = rig.device.quarter_period(rig.arm.mass) / _MOST_SEGMENTS
    number(step, "step", least=shortest, unit="s", place=place)
    one_of(mass, ("all joints", "slipping joints"), "mass", place=place)
    start = rig.configuration(joints)
    arm = ArmModel.from_rig(rig, damping)
    stiffness, stroke = rig.device.total_stiffness, rig.device.stroke
    n = rig.arm.n
    q, rate = start.copy(), np.zeros(n)
    z, z_rate, t, velocity, shift, omega = -stroke, 0.0, 0.0, 0.0, 0.0, 0.0
    loss, stops = 0.0, np.zeros(n)
    curve = [(0.0, 0.0, start.copy())]
    segments = 0
    while True:
        total, h, arm_inertia, _ = arm.inertia(q)
        # Break-away is tested with the force at the end of the last segment: the new frequency depends on which joints
        # slip, and they depend on the force.
        before = stiffness * stroke * (np.cos(omega * t) - shift)  # force at the end of the last segment
        slip = _slip_directions(arm, total, h, arm_inertia, before, rate)
        moving = np.flatnonzero(slip)
        counted = np.arange(n) if mass == "all joints" else moving
        effective = _reduced_mass(total, h, arm_inertia, counted)
        new = np.sqrt(stiffness / effective)
        shift += np.cos(new * t) - np.cos(omega * t)  # Eq. 20d: the force continues from its last value
        omega = new
        end = t + min(step, float(np.arctan2(-omega * z, z_rate)) / omega)  # to zero force: Eq. 20c with its sign
        response = _response(arm, total, h, arm_inertia, moving, slip, rate, stiffness * stroke, shift, omega, t)
        end, stopped = first_stop(response, slip[moving], t, end)
        dt = end - t
        z, z_rate = (
            z * np.cos(omega * dt) + z_rate / omega * np.sin(omega * dt),
            -z * omega * np.sin(omega * dt) + z_rate * np.cos(omega * dt),
        )
        travel = np.zeros(n)
        travel[moving] = response.travel(end) if moving.size else 0.0
        impulse = stiffness * stroke * ((np.sin(omega * end) - np.sin(omega * t)) / omega - shift * dt)
        drag = slip * arm.coulomb * dt + arm.damping * travel
        velocity += _velocity_gain(total, h, arm_inertia, moving, impulse, drag)
        loss += energy_lost(arm, response, moving, slip, t, end)
        rate = np.zeros(n)
        rate[moving] = response.rate(end) if moving.size else 0.0
        if stopped >= 0:
            joint = moving[stopped]
            rate[joint] = slip[joint] = 0.0
            stops[joint] = end
        q, t = q + travel, end
        segments += 1
        curve.append((t, velocity, q.copy()))
        if z >= -1e-12 * stroke:
            break
        if segments > 2 * _MOST_SEGMENTS:
            raise InputError(f"takes more than {segments} segments", place=place, hint="use a longer step")
    return _build_result(rig, arm, start, curve, fly(rig, arm, q, rate, velocity, t, loss), rate, stops, segments)


def _build_result(
    rig: Rig,
    arm: ArmModel,
    start: Array,
    curve: list[tuple[float, float, Array]],
    flight: SegmentedFlight,
    rate: Array,
    stops: Array,
    segments: int,
) -> SegmentedEjection:
    """The result, from the curve on the rail (time, velocity, joints), the joint rates at its end and the flight."""
    stops = np.maximum(stops, flight.stops)
    kept = 2.0 * (rig.device.energy - flight.turning - flight.loss)
    times, along, joints = (np.array(column) for column in zip(*curve, strict=True))
    return SegmentedEjection(
        rig,
        start,
        float(times[-1]),
        float(along[-1]),
        joints[-1] - start,
        rate,
        flight.joints - start,
        dict(zip(rig.arm.joint_names, stops.tolist(), strict=True)),
        flight.angular_rate,
        float(np.sqrt(max(kept, 0.0) / rig.arm.mass)),
        flight.loss,
        segments,
        np.concatenate([times, flight.times]),
        np.concatenate([along, flight.velocity @ arm.direction]),
        np.concatenate([joints, flight.positions]) - start,
    )


def _reduced_mass(total: float, h: Array, inertia: Array, free: npt.NDArray[np.intp]) -> float:
    """m_eq with these joints free."""
    if not free.size:
        return total
    return total - float(h[free] @ np.linalg.solve(inertia[np.ix_(free, free)], h[free]))


def _slip_directions(arm: ArmModel, total: float, h: Array, inertia: Array, force: float, rate: Array) -> Array:
    """Slip direction of each joint (0: none): the joint with the largest overload is released, one after another (Eq.
    23).
    """
    slip = np.where(rate != 0.0, np.sign(rate), 0.0)
    for _ in range(slip.size):
        moving = np.flatnonzero(slip)
        acceleration = np.zeros(slip.size)
        if moving.size:
            theta = inertia[np.ix_(moving, moving)] - np.outer(h[moving], h[moving]) / total
            drag = slip[moving] * arm.coulomb[moving] + arm.damping[moving] * rate[moving]
            acceleration[moving] = np.linalg.solve(theta, -h[moving] * force / total - drag)
        base = (force - h @ acceleration) / total
        load = inertia @ acceleration + h * base  # load that friction would have to hold
        over = np.where(slip == 0.0, np.abs(load) - arm.static * (1.0 + 1e-12), -1.0)
        worst = int(over.argmax())
        if over[worst] <= 0.0:
            break
        slip[worst] = -np.sign(load[worst])
    return slip


def _response(
    arm: ArmModel,
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
) -> JointResponse:
    """Eq. 24 for the joints that slip: forces ``-h F / M - tau_c sgn`` with ``F = push (cos omega t - shift)``."""
    theta = inertia[np.ix_(moving, moving)] - np.outer(h[moving], h[moving]) / total
    swing = -h[moving] * push / total
    force = -swing * shift - slip[moving] * arm.coulomb[moving]
    return JointResponse(theta, arm.damping[moving], force, swing, omega, t, rate[moving])


def _velocity_gain(
    total: float, h: Array, inertia: Array, moving: npt.NDArray[np.intp], impulse: float, drag: Array
) -> float:
    """Velocity gained in a segment, Eq. 37 corrected."""
    if not moving.size:
        return impulse / total
    lever = np.linalg.solve(inertia[np.ix_(moving, moving)], h[moving])
    return float((impulse + lever @ drag[moving]) / (total - h[moving] @ lever))
