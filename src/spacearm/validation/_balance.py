"""Momentum and energy of the measured motion itself: nothing is predicted.

Velocities are slopes of quadratic regressions of the readings over half a second; with the stated masses and inertias
they give the momentum of all systems about the world's origin. What measured forces, gravity and pushes add until then
is taken off. What is left must be constant, whatever the grasp did: how far it is not shows what acted and was not
stated, and which of the stated masses are wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spacearm.engine import mechanics_of
from spacearm.model.layout import QUATERNION
from spacearm.model.robot import BASE_POSITION
from spacearm.model.rotations import rotation_matrices
from spacearm.typing import Array
from spacearm.validation._measured_motion import MeasuredMotion, local_slope
from spacearm.validation._measured_run import MeasuredRun
from spacearm.validation._quantities import YAW
from spacearm.validation._tables import WRENCH

if TYPE_CHECKING:
    from spacearm.validation.scenario import ValidationFile

#: Half the length of a regression, s.
HALF = 0.25


@dataclass(frozen=True, eq=False)
class MeasuredBalance:
    """Momentum of what was measured, less what measured forces and gravity gave it.

    Args:
        times: (T,) s of the run.
        linear, angular: (T, 2) N s and (T,) N m s, about the world's z axis and origin.
        linear_sd, angular_sd: (T,) from the regressions.
        energy: (T,) kinetic energy, J.
        catch: when the catch was, s of the run; None without one.
    """

    times: Array
    linear: Array
    angular: Array
    linear_sd: Array
    angular_sd: Array
    energy: Array
    catch: float | None

    def change(self) -> tuple[float, float, float, float] | None:
        """Changes of linear and angular momentum over the catch, each with its deviation: the second before it, and the
        second after it."""
        if self.catch is None:
            return None
        early = (self.times < self.catch - HALF) & (self.times > self.catch - 1.0)
        late = (self.times > self.catch + HALF) & (self.times < self.catch + 1.0 + HALF)
        if not early.any() or not late.any():
            return None
        step = self.linear[late].mean(axis=0) - self.linear[early].mean(axis=0)
        rise = self.angular[late].mean() - self.angular[early].mean()
        # Neighbouring regressions share readings: their mean is hardly better than one of them.
        sds = [float(np.hypot(sd[late].mean(), sd[early].mean())) for sd in (self.linear_sd, self.angular_sd)]
        return float(np.linalg.norm(step)), sds[0], float(rise), sds[1]


def measure_balance(measured: MeasuredRun, file: ValidationFile) -> MeasuredBalance | None:
    """The balance of the readings; None where place and yaw of a system were not measured.

    Args:
        file: whose forces, gravity and pushes are taken off: the scenario's, or with fitted numbers.
    """
    motion, world = measured.motion, measured.world
    if not all(motion.is_measured(system) for system in world.systems):
        return None
    # At the readings of the first system's yaw: any channel's times would do, regressions read all.
    clock = motion.reading(motion.first, YAW)
    assert clock is not None
    times = clock.times[(clock.times >= HALF) & (clock.times <= measured.duration - HALF)]
    if times.size < 4:
        return None
    # Errors of different systems are independent: variances add up. Momenta are vectors in one frame and about one
    # point.
    total, variance, energy = np.zeros((times.size, 6)), np.zeros((times.size, 6)), np.zeros(times.size)
    for system in world.systems:
        momentum, spread, kinetic = _momentum(motion, system, times)
        total, variance, energy = total + momentum, variance + spread**2, energy + kinetic
    given = _given_impulse(measured, file, times)
    left = total - given
    there = np.all(np.isfinite(left), axis=1)
    catch = file.catch
    at = None if catch is None or catch.time is None else catch.time - file.begin
    sd = np.sqrt(variance)
    return MeasuredBalance(
        times[there], left[there][:, :2], left[there][:, 5], np.linalg.norm(sd[there][:, :2], axis=1), sd[there][:, 5],
        energy[there], at,
    )  # fmt: skip


def _momentum(motion: MeasuredMotion, system: str, times: Array) -> tuple[Array, Array, Array]:
    """Momentum (T, 6) about the world's origin, its deviation, and kinetic energy of a system."""
    robot = motion.world.robot(system)
    poses, joints = motion.poses(system, times), motion.joints(system, times)
    velocity, sd = np.zeros((times.size, 6 + robot.n)), np.zeros((times.size, 6 + robot.n))
    for k, name in enumerate((*BASE_POSITION, YAW)):
        own = motion.reading(system, name)
        if own is None:
            continue
        column = k if k < 3 else 5
        for row, at in enumerate(times):
            slope = local_slope(own.times, own.values, float(at), (at - HALF, at + HALF), float(np.median(own.sigma)))
            velocity[row, column], sd[row, column] = (np.nan, np.nan) if slope is None else (slope.rate, slope.rate_sd)
    # World axes to the base's own.
    change = rotation_matrices(poses[:, QUATERNION])
    for part in (slice(0, 3), slice(3, 6)):
        velocity[:, part] = np.einsum("tji,tj->ti", change, velocity[:, part])
    for k, name in enumerate(robot.joint_names):
        if system == motion.first and name in motion.paths:
            velocity[:, 6 + k] = motion.paths[name].derivative()(times)
    mechanics = mechanics_of(robot)
    there = np.all(np.isfinite(velocity), axis=1)
    momentum, energy = np.full((times.size, 6), np.nan), np.full(times.size, np.nan)
    if there.any():
        momentum[there] = mechanics.momentum(joints[there], velocity[there], base=poses[there])
        energy[there] = mechanics.kinetic_energy(joints[there], velocity[there])
    mass = sum(body.inertia.mass for body in robot.bodies)
    centre = mechanics.centre_of_mass(joints, base=poses)
    inertia = float(mechanics.mass_matrix(joints[0])[5, 5])
    spread = np.zeros((times.size, 6))
    spread[:, :2] = mass * sd[:, :2]
    # Angular momentum about the world's origin: far from it the linear part's error counts by its lever.
    lever = np.linalg.norm(centre[:, :2], axis=1)
    spread[:, 5] = np.hypot(lever * np.linalg.norm(spread[:, :2], axis=1), inertia * sd[:, 5])
    return momentum, spread, energy


def _given_impulse(measured: MeasuredRun, file: ValidationFile, times: Array) -> Array:
    """Impulse (T, 6) of measured loads and of gravity since the start, about the world's origin."""
    motion, world = measured.motion, measured.world
    fine = np.linspace(0.0, float(times[-1]), max(int(times[-1] / 0.01), 2))
    rate = np.zeros((fine.size, 6))
    for (kind, name), signal in measured.inputs_of(file).items():
        if kind == "load":
            frame, _, entry = name.rpartition(".")
            axis = WRENCH.index(entry)
            force = np.zeros((fine.size, 3))
            force[:, axis % 3] = signal(fine)
            # A moment is the same about any point; a force has one about the origin.
            if axis > 2:
                rate[:, 3:] += force
            else:
                origin, _ = motion.frame_pose(*world.frame(frame), fine)
                rate[:, :3] += force
                rate[:, 3:] += np.cross(origin, force)
    for push in file.push:
        on = ((fine >= push.start) & (fine < push.end))[:, None]
        origin, rotation = motion.frame_pose(*world.frame(push.frame), fine)
        turned = rotation if push.axes == "frame" else np.broadcast_to(np.eye(3), rotation.shape)
        force, moment = turned @ np.asarray(push.force), turned @ np.asarray(push.moment)
        rate[:, :3] += on * force
        rate[:, 3:] += on * (moment + np.cross(origin, force))
    gravity = np.asarray(file.gravity or (0.0, 0.0, 0.0))
    xx, yy, zz, xy, xz, yz = file.gravity_gradient or (0.0,) * 6
    slope = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    for system in world.systems:
        robot = world.robot(system)
        centre = mechanics_of(robot).centre_of_mass(motion.joints(system, fine), base=motion.poses(system, fine))
        # The gradient's moment about a body's own mass centre is left out: far below that of its place.
        weight = sum(body.inertia.mass for body in robot.bodies) * (gravity + centre @ slope)
        rate[:, :3] += weight
        rate[:, 3:] += np.cross(centre, weight)
    step = np.diff(fine)[:, None]
    # Trapezoids of 10 ms: far shorter than the regressions that they are compared with.
    whole = np.vstack([np.zeros(6), np.cumsum(0.5 * step * (rate[1:] + rate[:-1]), axis=0)])
    return np.stack([np.interp(times, fine, whole[:, k]) for k in range(6)], axis=1)
