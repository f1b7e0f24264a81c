"""The first seconds after a collision as runs in time, for the 3-D scene: the study itself concerns an instant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from spacearm.errors import SpacearmError
from spacearm.impact.collision import Collision, weld_after_grasp
from spacearm.impact.floating import FloatingSystem
from spacearm.model import Robot
from spacearm.scene import Scene, scene_of
from spacearm.scene.shapes import equivalent_box
from spacearm.simulate import Phase, Run, World, simulate

#: Displacement at the end that is large enough to see, m.
FAR = 1.0
SHORTEST, LONGEST = 0.5, 60.0  # s


def simulate_aftermath(hit: Collision, first: FloatingSystem, second: FloatingSystem, *, welded: bool = False) -> Run:
    """Both systems after a collision, ``welded`` together after a grasp; locked joints stay locked.

    Resistances end with the impact: such joints are free afterwards.
    """
    pair = {
        name: replace(system, velocity=jump.after, resistance=0.0)
        for name, system, jump in (("robot", first, hit.first), ("target", second, hit.second))
    }
    locked = [
        f"{name}/{joint}"
        for name, system in pair.items()
        for joint, still, rate in zip(
            system.robot.joint_names, system.modes.locked, np.asarray(system.velocity)[6:], strict=True
        )
        # A joint that was locked while it moved keeps its rate through the impact; held at that rate it would need a
        # drive, so it runs on freely.
        if still and rate == 0.0
    ]
    speed = max(float(np.linalg.norm(system.twist[:3])) for system in pair.values())
    # Long enough for the faster system to travel FAR, within limits for a film.
    phase = Phase(float(np.clip(FAR / max(speed, 1e-9), SHORTEST, LONGEST)), locked=locked, limits="ignore")
    world = World({name: system.robot for name, system in pair.items()})
    states = {name: system.state for name, system in pair.items()}
    if welded:
        prefix = "target "
        pair["target"] = replace(pair["target"], robot=_add_shapes(second.robot))
        robot, state = weld_after_grasp(pair["robot"], pair["target"], prefix=prefix)
        world, states = World({"robot": robot}), {"robot": state}
        names = [name.removeprefix("robot/").replace("target/", prefix) for name in locked]
        phase = replace(phase, locked=names)
    return simulate(world, states, phase, ledger=False)


def _add_shapes(robot: Robot) -> Robot:
    """The robot with a box of equal inertia on each body without shapes.

    Welded to a robot that has shapes, such bodies would be invisible.
    """
    bodies = [
        body if body.visuals or (box := equivalent_box(body)) is None else replace(body, visuals=(box,))
        for body in robot.bodies
    ]
    return replace(robot, bodies=tuple(bodies))


def scene_after(hits: Mapping[str, tuple[Collision, FloatingSystem, FloatingSystem]], *, welded: bool = False) -> Scene:
    """Scene of the motion after each of several collisions; of the struck system alone if the motion cannot be
    simulated.
    """
    try:
        return scene_of({name: simulate_aftermath(*hit, welded=welded) for name, hit in hits.items()}, frames=200)
    except SpacearmError:  # a degree of freedom that nothing resists, a joint that runs away
        _, first, _ = next(iter(hits.values()))
        return scene_of((first.robot, first.state))
