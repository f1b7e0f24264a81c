"""Twin tests of flexible joints that several test modules use."""

from __future__ import annotations

import numpy as np

from spacearm.identify.joint import JointLaw, MeasurementChain, prepare_test, record_reference, simulate_reference
from spacearm.identify.joint.measured import JointTest
from spacearm.identify.joint.reference_simulation import ReferenceReadings
from spacearm.mechanics.sensors import Sensor
from spacearm.model import Pose, Robot, catalogue
from spacearm.model.edit import make_flexible
from spacearm.model.parts import Body, Frame, Inertia, Joint, Rotor
from spacearm.simulate import Signal

DEGREE = np.pi / 180.0
FRAME = "hand"
NOISE: tuple[Sensor, ...] = ()  # sensors as they are assumed to be
ENCODER = 1e-4  # rad
TIMES = np.arange(501) / 50.0
TEST2 = {"motor_inertia": 3.3, "stiffness": 5.1, "damping": 0.4}
START = {"joint1.motor": 7.5, "joint2": -15.0, "joint3": -22.5}
ACCELERATION = {"joint1.motor": 0.6, "joint2": -0.6, "joint3": 0.6}


def quadratic(start: float, acceleration: float, end: float = 10.0) -> Signal:
    """From rest at ``start`` (deg) with constant acceleration (deg/s2)."""
    return Signal(np.array([0.0, end]), np.array([[start], [0.0], [0.5 * acceleration]]) * DEGREE)


def paper_paths() -> dict[str, Signal]:
    return {joint: quadratic(START[joint], ACCELERATION[joint]) for joint in START}


def printed() -> Robot:
    return catalogue.load("wojtunik2023_printed")


def truth(
    robot: Robot,
    values: dict[str, float] | None = None,
    offset: float = 2.8,
    law: JointLaw | None = None,
    **options: object,
) -> ReferenceReadings:
    """The paper's motion with test 2's joint, or another; ``offset`` in deg."""
    own = {**TEST2, **(values or {}), "offset": offset * DEGREE}
    return simulate_reference(robot, FRAME, {"joint1": own}, paper_paths(), TIMES, law=law, **options)  # type: ignore[arg-type]


def seen(robot: Robot, seed: int | None = None, name: str = "test", **options: object) -> JointTest:
    """Its sensors, with noise when there is a seed."""
    return observe(truth(robot, **options), None if seed is None else np.random.default_rng(seed), name)  # type: ignore[arg-type]


def observe(
    found: ReferenceReadings,
    rng: np.random.Generator | None,
    name: str = "test",
    *,
    chain: MeasurementChain | None = None,
    torque: bool = False,
    start_known: bool = True,
    **more: object,
) -> JointTest:
    """What sensors read of a test, prepared; its base starts where it is known to be."""
    chain = chain or MeasurementChain(found.robot, FRAME, NOISE)
    if start_known:
        more = {"base_pose": found.base[0], **more}
    record = record_reference(found, chain, rng, name, torque=torque)
    return prepare_test(record, chain, torque="measured", start_known=start_known, **more)  # type: ignore[arg-type]


def spatial_arm() -> Robot:
    """A base with three revolute joints on skew axes, the first and the last flexible, the second rigid."""
    tilt = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    bodies = [Body("base", Inertia(40.0, np.array([0.02, -0.01, 0.03]), np.diag([3.0, 2.5, 2.8])))]
    joints = []
    for i, (mass, axis) in enumerate(((3.0, [0.0, 0.0, 1.0]), (2.5, [0.0, 1.0, 0.0]), (2.0, [0.6, 0.0, 0.8])), 1):
        bodies.append(Body(f"link{i}", Inertia(mass, np.array([0.2, 0.03, -0.02]), np.diag([0.02, 0.06, 0.07]))))
        place = Pose(tilt if i == 2 else np.eye(3), np.array([0.4, 0.05, 0.1]))
        joints.append(Joint(f"joint{i}", "revolute", bodies[i - 1].name, f"link{i}", place, np.array(axis)))
    robot = Robot(
        "spatial",
        tuple(bodies),
        tuple(joints),
        frames=(Frame("hand", "link3", Pose(np.eye(3), np.array([0.35, 0.1, 0.05]))),),
    )
    robot = make_flexible(robot, "joint1", 6.0, 0.2, Rotor(2.0e-4, 80.0))
    return make_flexible(robot, "joint3", 4.0, 0.1, Rotor(0.3, 1.0))
