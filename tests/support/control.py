"""What tests of closed loops share: paths, craft with wheels and thrusters, the hand of a run."""

from __future__ import annotations

import numpy as np

from spacearm import Mechanics
from spacearm.model import Body, Inertia, Robot, Thruster, wheel
from spacearm.simulate import Run, Signal

POSTURE = np.array([0.3, 0.5, -0.6, 0.4, 0.7, -0.5, 0.2])


def quintic(first: float, last: float, duration: float) -> Signal:
    """From rest to rest, then still: 10 s^3 - 15 s^4 + 6 s^5."""
    way, t = last - first, duration
    columns = [[first, last], [0, 0], [0, 0], [10 * way / t**3, 0], [-15 * way / t**4, 0], [6 * way / t**5, 0]]
    return Signal(np.array([0.0, t, t + 1.0]), np.array(columns))


def quaternion_of(rotation: np.ndarray) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    return np.roll(Rotation.from_matrix(rotation).as_quat(), 1)


def hand_path(run: Run, frame: str = "hand") -> np.ndarray:
    """Where a frame was at the samples, by the kinematics apart from the law."""
    mechanics, n = Mechanics(run.robot), run.robot.n
    return mechanics.frame_pose(frame, run.states[:, 7 : 7 + n], base=run.states[:, :7])[0]


def turned_by(run: Run) -> np.ndarray:
    """Angle of the base from the world's axes at the samples, rad."""
    return 2.0 * np.arcsin(np.clip(np.linalg.norm(run.states[:, 4:7], axis=1), 0.0, 1.0))


def step_response(t: np.ndarray, mass: float, damping: float, stiffness: float) -> np.ndarray:
    """What is left of a unit step of m e'' + d e' + k e = 0 from rest, less than critically damped."""
    frequency, share = np.sqrt(stiffness / mass), damping / (2 * np.sqrt(stiffness * mass))
    ringing = frequency * np.sqrt(1 - share**2)
    return np.exp(-share * frequency * t) * (np.cos(ringing * t) + share * frequency / ringing * np.sin(ringing * t))


def craft(torque: float = 0.2, speed: float = 600.0, thrust: float = 1.0, pulse: float = 0.0) -> Robot:
    """A bus with three wheels along its axes and twelve thrusters in opposed pairs."""
    bodies, joints = [Body("bus", Inertia(100.0, [0, 0, 0], np.diag([20.0, 25.0, 15.0])))], []
    for i, name in enumerate("xyz"):
        body, joint = wheel(f"w{name}", "bus", np.eye(3)[i], 0.02, torque, speed)
        bodies.append(body)
        joints.append(joint)
    thrusters = []
    for axis in range(3):
        for sign in (1.0, -1.0):
            for side in (1.0, -1.0):
                position, direction = np.zeros(3), np.zeros(3)
                position[axis], direction[(axis + 1) % 3] = 0.5 * side, sign * side
                name = f"t{'xyz'[axis]}{'+' if sign > 0 else '-'}{'a' if side > 0 else 'b'}"
                thrusters.append(Thruster(name, "bus", position, direction, thrust, pulse, 220.0))
    return Robot("craft", tuple(bodies), tuple(joints), (), tuple(thrusters))
