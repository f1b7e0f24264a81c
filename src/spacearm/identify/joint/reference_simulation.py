"""Simulated joint tests with known joint values: readings of all sensors, with or without noise.

The truth comes from the same forward model at tolerances far below those of a fit, so these tests show errors of the
estimation (of the reconstruction, the weights, the search and its deviations), not of the equations of motion; those
are checked against other software elsewhere. The energy of the simulated motion is kept beside it, for a check by the
reader: without drives and dampers it is constant.

Noise is white and normal, drawn in the order of the channels from one generator. Noise of attitudes rotates in world
axes, as the covariances of the measurement chain assume; of a planar motion only the part in the plane is drawn, since
a camera above an air table sees no other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from spacearm.checks import check_name
from spacearm.engine import Mechanics
from spacearm.errors import InputError
from spacearm.identify.joint._programs import Drive, Setup
from spacearm.identify.joint.flexible_joints import write_joint_values
from spacearm.identify.joint.forward import Accuracy, Forward
from spacearm.identify.joint.laws import JointLaw
from spacearm.identify.joint.measurement_chain import MeasurementChain
from spacearm.measure import Record
from spacearm.model import Robot
from spacearm.simulate import Signal
from spacearm.typing import Array


@dataclass(frozen=True, eq=False)
class ReferenceReadings:
    """Readings of the sensors without noise.

    ``joints`` (T, n) in the robot's order, ``base`` and ``hand`` poses (T, 7), ``torque`` (T, flexible joints) at the
    motors, ``energy`` (T,) kinetic and elastic, J (linear springs only).
    """

    robot: Robot
    time: Array
    joints: Array
    velocity: Array
    base: Array
    hand: Array
    torque: Array
    energy: Array
    paths: dict[str, Signal] = field(default_factory=dict)


def simulate_reference(
    robot: Robot,
    frame: str,
    values: Mapping[str, Mapping[str, float]],
    paths: Mapping[str, Signal],
    time: npt.ArrayLike,
    *,
    drive: Drive = "motor_angle",
    law: JointLaw | None = None,
    torques: Mapping[str, Signal] | None = None,
    accuracy: Accuracy | None = None,
) -> ReferenceReadings:
    """Simulate a test.

    Args:
        values: ``values[joint][parameter]`` of every flexible joint, ``offset`` (and ``offset_rate``) included.
        paths: joint to path: rigid joints and motors; with ``drive="torque"`` a motor's path gives only its start.
        time: s, from 0.
    """
    setup = Setup(robot, drive, law or JointLaw(), True)
    times = np.asarray(time, dtype=np.float64)
    # Tolerances far below the fit's own, so that its integration error shows as a misfit.
    forward = Forward(setup, paths, times, torques=torques, accuracy=accuracy or Accuracy(1e-12, 1e-14))
    parameters = _parameters(setup, values)
    starts = [values.get(f.name, {}) for f in setup.flexible]
    offset, rate = (np.array([float(own.get(word, 0.0)) for own in starts]) for word in ("offset", "offset_rate"))
    response = forward(parameters, offset, rate)
    if not np.all(np.isfinite(response.states)):
        raise InputError("the motion cannot be followed to its end", place="reference simulation")
    state = {name: response.states[:, place] for name, place in setup.places.items()}
    joints, velocity = np.zeros((times.size, robot.n)), np.zeros((times.size, 6 + robot.n))
    velocity[:, :6] = state["velocity"][:, :6]
    for i, name in enumerate(robot.joint_names):
        if i in setup.free:
            k = setup.free.index(i)
            joints[:, i], velocity[:, 6 + i] = state["joints"][:, k], state["velocity"][:, 6 + k]
        else:
            joints[:, i], velocity[:, 6 + i] = paths[name](times), paths[name].derivative()(times)
    base = np.concatenate([state["position"], state["quaternion"]], axis=1)
    base[:, 3:] /= np.linalg.norm(base[:, 3:], axis=1, keepdims=True)
    mechanics = Mechanics(write_joint_values(robot, values))
    origin, rotation = mechanics.frame_pose(frame, joints, base=base)
    quaternion = Rotation.from_matrix(rotation).as_quat(canonical=True)
    hand = np.concatenate([origin, np.roll(quaternion, 1, axis=1)], axis=1)
    # For a check by the reader: without drives and dampers it stays constant.
    energy = np.asarray(mechanics.kinetic_energy(joints, velocity), dtype=np.float64)
    each = len(setup.law.parameters)
    for k, f in enumerate(setup.flexible):
        stiffness = parameters[k * each + setup.law.parameters.index("stiffness")]
        # The spring is between motor and link, by its deflection at the link's side of the gear.
        energy = energy + 0.5 * stiffness * (joints[:, f.link] - f.ratio * joints[:, f.motor] - f.rest) ** 2
    return ReferenceReadings(
        robot, times, joints, velocity, base, hand, forward.torque(response, parameters)[0], energy, dict(paths)
    )


def _parameters(setup: Setup, values: Mapping[str, Mapping[str, float]]) -> Array:
    """The law's parameters of all flexible joints, in the order of the program."""
    words = {*setup.law.parameters, "offset", "offset_rate"}
    for joint, given in values.items():
        for name in given:
            check_name(name, words, "parameter", place=f"reference simulation: {joint}")
    flat = []
    for f in setup.flexible:
        own = {**f.values, **values.get(f.name, {})}
        for name in setup.law.parameters:
            if name not in own:
                raise InputError(f"{name!r} of {f.name!r} is not given", place="reference simulation")
            flat.append(float(own[name]))
    return np.array(flat)


def record_reference(
    truth: ReferenceReadings,
    chain: MeasurementChain,
    rng: np.random.Generator | None,
    name: str = "test",
    *,
    torque: bool = False,
) -> Record:
    """The record that a measurement chain reads: encoders, and the poses of base and hand.

    Args:
        rng: None: readings without noise (the chain still says how they are weighted).
        torque: the motors' torques are measured too.
    """
    noise = chain.noise

    def add_noise(values: Array, sigma: float) -> Array:
        return values if rng is None else values + sigma * rng.standard_normal(values.shape)

    links = {f.link for f in chain.flexible}
    found = {
        joint: add_noise(truth.joints[:, i], noise["joint_position"])
        for i, joint in enumerate(truth.robot.joint_names)
        if i not in links
    }
    for whose, poses in (("", truth.base), ("frame_", truth.hand)):
        place, attitude = f"{whose}position", f"{whose}attitude"
        seen = _add_pose_noise(poses, add_noise, noise[place], noise[attitude], _planar(truth))
        found |= {place: seen[:, :3], attitude: seen[:, 3:]}
    for k, f in enumerate(chain.flexible if torque else ()):
        found[f"{f.name}.torque"] = add_noise(truth.torque[:, k], noise["torque"])
    return Record.from_columns(name, truth.time, found)


def _planar(truth: ReferenceReadings) -> bool:
    """Whether all rotations are about the world's z axis, the only ones that a camera above an air table sees."""
    return bool(np.all(np.abs(truth.base[:, 4:6]) < 1e-12) and np.all(np.abs(truth.hand[:, 4:6]) < 1e-12))


def _add_pose_noise(
    pose: Array, blur: Callable[[Array, float], Array], position: float, attitude: float, planar: bool
) -> Array:
    seen = np.empty_like(pose)
    offset = blur(np.zeros((len(pose), 3)), position)
    error = blur(np.zeros((len(pose), 3)), attitude)
    # Noise out of the plane would contradict what the sensor can see at all.
    if planar:
        offset[:, 2] = 0.0
        error[:, :2] = 0.0
    seen[:, :3] = pose[:, :3] + offset
    # Noise rotates in world axes, as the covariances of the measurement chain assume.
    rotated = Rotation.from_rotvec(error) * Rotation.from_quat(np.roll(pose[:, 3:], -1, axis=1))
    seen[:, 3:] = np.roll(rotated.as_quat(), 1, axis=1)
    # q and -q are the same attitude: keep the sign that is continuous with the truth.
    seen[:, 3:] *= np.where(np.sum(seen[:, 3:] * pose[:, 3:], axis=1, keepdims=True) < 0, -1.0, 1.0)
    return seen
