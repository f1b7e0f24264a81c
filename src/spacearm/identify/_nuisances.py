"""Tables of nuisances: what else than inertias and joint laws may be wrong, in words, with what to try.

A nuisance parameter is a possible fault of a sensor, of an input or of the model that is not what is looked for. Each
can be tested (:mod:`spacearm.identify._fit`), most can be estimated with the rest, and all can be fixed numbers with a
standard deviation. Scenario files, tests, messages and the names of unknowns are made from these tables, so that a
nuisance has one name and one wording. Derivatives of the prediction are where the prediction is:
:mod:`spacearm.identify.inertia._record_prediction` and :mod:`spacearm.identify.joint.misfit`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Nuisance:
    """A nuisance parameter.

    Args:
        size: how many numbers it is; 0: one for each joint; -1 or -3: so many for each thruster.
        scale: typical size, in ``unit``.
        advice: the fault in words.
        channel: the one whose readings show it, if not every record has it.
        pushes: it is a wrench, or the delay of one.
        remedy: what to try; to estimate it if omitted.
        key: word of a scenario file by which it is estimated or tested, if that is not its name.
        modal: one number for each mode of an appendage or liquid.
        along: channel of the base whose components its three numbers are: those of a constrained base that move count.
    """

    size: int
    unit: str
    scale: float
    advice: str
    channel: str = ""
    pushes: bool = False
    remedy: str = ""
    key: str = ""
    modal: bool = False
    along: str = ""


#: Of records of a robot in orbit.
INERTIA_NUISANCES: Mapping[str, Nuisance] = MappingProxyType(
    {
        "thrust": Nuisance(1, "", 0.01, "the thrust is not the one stated"),
        "thrusters": Nuisance(-1, "", 0.01, "single thrusters push more or less than stated"),
        "delay": Nuisance(1, "s", 0.01, "the base's readings are late against those of the joints and thrusters"),
        "encoder_delay": Nuisance(1, "s", 0.01, "the joints' readings are late against those of the base"),
        "position_delay": Nuisance(1, "s", 0.01, "the position is read late"),
        "attitude_delay": Nuisance(1, "s", 0.01, "the attitude is read late"),
        "velocity_delay": Nuisance(1, "s", 0.01, "the velocity is read late", "velocity"),
        "rate_delay": Nuisance(1, "s", 0.01, "the gyro is read late", "rate"),
        "thrust_lag": Nuisance(1, "s", 0.01, "the thrust comes and goes later than stated", pushes=True),
        "thrust_direction": Nuisance(
            -3, "rad", 0.01, "thrusters push in another direction than stated", pushes=True, along="rate"
        ),
        "external_force": Nuisance(
            3, "N", 0.01, "a steady force acts that nobody states", pushes=True, along="velocity"
        ),
        "external_torque": Nuisance(
            3, "N m", 0.01, "a steady torque acts that nobody states", pushes=True, along="rate"
        ),
        "mode_frequency": Nuisance(1, "", 0.01, "modes have other frequencies than stated", modal=True),
        "mode_damping": Nuisance(1, "", 0.01, "modes have other damping ratios than stated", modal=True),
        "rate_bias": Nuisance(3, "rad/s", 1e-4, "the gyro has a bias", along="rate"),
        "velocity_bias": Nuisance(3, "m/s", 1e-3, "the velocity has a bias", along="velocity"),
        "attitude_bias": Nuisance(
            3, "rad", 1e-3, "the attitude sensor's axes are turned against the base", along="attitude"
        ),
        "mount": Nuisance(3, "m", 0.01, "the sensor does not sit where the robot file has it", along="position"),
        "misalignment": Nuisance(
            3, "rad", 1e-3, "the axes of the gyro, and of accelerometers with it, are tilted", along="rate"
        ),
        "encoder_offset": Nuisance(0, "rad", 1e-3, "joint angles are read with an offset"),
        "joint_rate_bias": Nuisance(0, "rad/s", 1e-4, "joint rates are read with a bias"),
        "acceleration_bias": Nuisance(
            3, "m/s2", 1e-4, "the accelerometer has a bias", "acceleration", along="acceleration"
        ),
        "acceleration_misalignment": Nuisance(
            3, "rad", 1e-3, "the accelerometer's axes are tilted against the gyro's", "acceleration", along="rate"
        ),
        "angular_acceleration_bias": Nuisance(
            3, "rad/s2", 1e-4, "angular accelerations are read with a bias", "angular_acceleration", along="rate"
        ),
        "torque_bias": Nuisance(0, "N m", 0.1, "joint torques are read with a bias", "torque"),
        "friction": Nuisance(0, "N m", 0.1, "the joints have dry friction", "torque"),
        "damping": Nuisance(0, "N m s/rad", 0.1, "the joints have viscous friction", "torque"),
    }
)


def _joint(advice: str, remedy: str, key: str = "", unit: str = "") -> Nuisance:
    return Nuisance(1, unit, 1.0, advice, remedy=f'nuisances.{key} = "estimate"' if key else remedy, key=key)


#: Of tests of flexible joints; units of those that are laws or hang on the channel stand with these.
JOINT_NUISANCES: Mapping[str, Nuisance] = MappingProxyType(
    {
        "delay": _joint("the link's and base's readings are late against encoders and torques", "", "delay"),
        "bias": _joint("has a constant bias, or a sensor sits elsewhere", "", "bias"),
        "drift": _joint("drifts, as a gyro with a bias does when it is integrated", "a sensor without drift"),
        "motor_coulomb": _joint("the motor has dry friction", "", "friction"),
        "motor_damping": _joint("the motor has viscous friction", "law.motor_damping = true"),
        "spring_coulomb": _joint("the spring has dry friction", 'law.spring = "coulomb"'),
        "cubic_stiffness": _joint("the spring is not linear", "law.cubic = true"),
        "torque_bias": _joint("the torque has a constant bias", "a sensor that is calibrated", unit="N m"),
        "torque_scale": _joint("the torque is not the one stated", "a sensor that is calibrated"),
    }
)
#: Words of a joint's scenario by which nuisances are estimated, tested or left alone.
JOINT_KEYS = tuple(nuisance.key for nuisance in JOINT_NUISANCES.values() if nuisance.key)
