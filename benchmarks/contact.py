"""Contacts that last: ten seconds of rolling, resting, sliding and of a stack, beside MuJoCo on the same bodies."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from benchmarks.common import Row, Task, alternate, show
from benchmarks.impact import best
from spacearm.mechanics.shapes import Box, Plane, Sphere
from spacearm.model import Body, Inertia, Pose, Robot
from spacearm.model.rotations import quaternion_from_rotation, rotation_about
from spacearm.simulate import Contact, Gravity, Run, ShapeOnFrame, State, World, simulate

DURATION, STIFFNESS, FRICTION, G = 10.0, 1e6, 0.5, 9.80665
RADIUS, EDGE, DENSITY = 0.1, 0.2, 250.0
STEP = 2e-3  # s, MuJoCo's default


@dataclass(frozen=True)
class Case:
    """A scene for both engines: bodies on a plane that is inclined by ``angle``, the first one moving along it."""

    name: str
    shapes: tuple[str, ...]
    angle: float = 0.0
    speed: float = 0.0  # m/s, down the plane
    friction: float = FRICTION

    @property
    def turn(self) -> np.ndarray:
        return rotation_about(np.array([0.0, 1.0, 0.0]), self.angle)

    @property
    def way(self) -> float:
        """How far the first body goes in the given time, rigid, m."""
        down, across = G * np.sin(self.angle), G * np.cos(self.angle)
        if self.shapes[0] == "ball":
            return float(0.5 * 5.0 / 7.0 * down * DURATION**2)
        if down == 0.0 and self.speed:
            return float(0.5 * self.speed**2 / (self.friction * across))
        return 0.0


CASES = (
    Case("rolling", ("ball",), 0.2),
    Case("resting on a slope", ("box",), 0.2),
    Case("sliding to rest", ("box",), speed=2.0, friction=0.1),
    Case("a stack of three", ("box", "box", "box")),
)


def body(shape: str) -> Robot:
    """A homogeneous ball or cube."""
    mass = DENSITY * (4.0 / 3.0 * np.pi * RADIUS**3 if shape == "ball" else EDGE**3)
    tensor = 0.4 * mass * RADIUS**2 if shape == "ball" else mass * EDGE**2 / 6.0
    return Robot(shape, (Body("body", Inertia(mass, tensor=tensor * np.eye(3))),), ())


def world(case: Case) -> tuple[World, dict[str, State]]:
    """For spacearm."""
    systems = {f"b{k}": body(shape) for k, shape in enumerate(case.shapes)}
    elements: list[Gravity | Contact] = [Gravity()]
    start, turn, law = {}, case.turn, (STIFFNESS, 0.0, case.friction)
    plane = ShapeOnFrame(Pose(turn, np.zeros(3)), Plane())
    for k, shape in enumerate(case.shapes):
        frame = f"b{k}/body"
        own = Sphere(RADIUS) if shape == "ball" else Box(EDGE, EDGE, EDGE)
        below = plane if k == 0 else ShapeOnFrame(f"b{k - 1}/body", Box(EDGE, EDGE, EDGE))
        elements.append(Contact(ShapeOnFrame(frame, own), below, *law, name=f"below b{k}"))
        height = np.array([0.0, 0.0, RADIUS if shape == "ball" else (k + 0.5) * EDGE])
        speed = np.array([case.speed, 0, 0, 0, 0, 0]) if k == 0 else np.zeros(6)
        start[f"b{k}"] = State(turn @ height, quaternion_from_rotation(turn), np.zeros(0), speed)
    return World(systems, elements=tuple(elements)), start


def mujoco_model(case: Case) -> mujoco.MjModel:
    """The same for MuJoCo, with its own soft contacts: the plane level, gravity inclined."""
    down, across = G * np.sin(case.angle), G * np.cos(case.angle)
    parts = []
    for k, shape in enumerate(case.shapes):
        kind, size = ("sphere", f"{RADIUS}") if shape == "ball" else ("box", f"{EDGE / 2} {EDGE / 2} {EDGE / 2}")
        height = RADIUS if shape == "ball" else (k + 0.5) * EDGE
        parts.append(
            f'<body pos="0 0 {height}"><freejoint/><geom type="{kind}" size="{size}" density="{DENSITY}" '
            f'friction="{case.friction} 0 0" condim="3"/></body>'
        )
    return mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="{STEP}" gravity="{down} 0 {-across}" cone="elliptic" integrator="implicitfast"/>'
        f'<worldbody><geom type="plane" size="0 0 1" friction="{case.friction} 0 0" condim="3"/>{"".join(parts)}'
        "</worldbody></mujoco>"
    )


def ours(case: Case) -> Run:
    """The run of spacearm, with its certificate."""
    return simulate(*world(case), DURATION)


def errors(case: Case, run: Run, theirs: float) -> tuple[float, float]:
    """How far the first body's way along the plane is from the rigid one in spacearm and in MuJoCo, m."""
    track = run.last_track("b0").states[:, :3] @ case.turn[:, 0]
    return abs(float(track[-1] - track[0]) - case.way), abs(theirs - case.way)


def compare(case: Case, rounds: int = 3) -> Row:
    """Time of both engines, with the error of each against rigid bodies."""
    model = mujoco_model(case)
    data = mujoco.MjData(model)
    steps = round(DURATION / STEP)

    def begin() -> None:
        mujoco.mj_resetData(model, data)
        data.qvel[0] = case.speed

    begin()
    mujoco.mj_step(model, data, steps)
    theirs = float(data.qpos[0])
    run = ours(case)
    times = {"spacearm": best(lambda: ours(case), rounds)}  # runs have a thread of their own: wall time
    times |= alternate({"MuJoCo": Task(lambda: mujoco.mj_step(model, data, steps), 1.0, begin)}, rounds)
    own, other = errors(case, run, theirs)
    note = (
        f"{case.name}: {'sound' if run.sound else 'NOT sound'}, {run.stats.steps} steps, {run.stats.events} events; "
        f"way of {case.way:.4g} m missed by {own:.1e} m, by MuJoCo ({steps} steps) by {other:.1e} m"
    )
    # The target is of the time itself; MuJoCo's stands beside it in the note.
    return Row(
        case.name, times["spacearm"], "s for 10 s", target=1.0, note=f"{note}; MuJoCo takes {times['MuJoCo']:.3f} s"
    )


def main() -> list[Row]:
    """Run and print."""
    rows = [compare(case) for case in CASES]
    return show("Contacts that last, 10 s, stiffness 1e6 N/m, restitution 0", rows)


if __name__ == "__main__":
    main()
