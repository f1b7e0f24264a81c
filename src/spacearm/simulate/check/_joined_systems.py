"""Two systems that a weld between them joins, as one tree in the reference.

The run keeps them apart and finds the forces of the weld; MuJoCo has one robot with the joints of both, in which there
is no such force. The second system hangs by its base, and nothing but the weld drives it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spacearm.model import Robot, edit
from spacearm.model.layout import Layout
from spacearm.model.rotations import quaternion_from_rotation
from spacearm.simulate.check.mujoco_model import MujocoModel
from spacearm.simulate.motion import laws_of
from spacearm.simulate.run.segment import Segment
from spacearm.simulate.state import State
from spacearm.simulate.system_loop import system_loops
from spacearm.simulate.world import World
from spacearm.typing import Array


@dataclass(frozen=True, eq=False)
class JoinedSystems:
    """The tree of two systems: the joints of the first, then those of the second."""

    first: str
    second: str
    robot: Robot
    counts: tuple[int, int]  # joints of each
    base: str  # of the second, a frame of the tree

    @classmethod
    def of(cls, world: World) -> JoinedSystems | None:
        """What the loop between systems joins; None where there is none. It has no :func:`obstacle`."""
        loops = system_loops(world)
        if not loops:
            return None
        (first, frame), (second, end) = loops[0].frames(world)
        robot, guest = world.own_robot(first), world.own_robot(second)
        # The loop's end on the second frame is where the first frame is.
        place = (guest.frame(end).placement @ loops[0].placement).inverse()
        joined = edit.attach(robot, frame, guest, place)
        return cls(first, second, joined, (robot.n, guest.n), guest.bodies[0].name)

    def join(self, first: State, second: State) -> State:
        """The state of both; the base of the second is where the weld holds it."""
        return State(
            first.position,
            first.quaternion,
            np.concatenate([first.joints, second.joints]),
            np.concatenate([first.velocity, second.rates]),
        )

    def split(self, rows: Array, model: MujocoModel) -> tuple[Array, Array]:
        """Flat states (T, ...) of both from those of the tree; the base of the second by MuJoCo."""
        (one, two), found = self.counts, []
        for row in rows:
            state = State.from_vector(row)
            model.set_state(state.position, state.quaternion, state.joints, state.velocity)
            pose, twist = model.frame_pose(self.base), model.frame_jacobian(self.base) @ state.velocity
            inward = pose.rotation.T
            found.append(
                State(
                    pose.translation,
                    quaternion_from_rotation(pose.rotation),
                    state.joints[one:],
                    np.concatenate([inward @ twist[:3], inward @ twist[3:], state.rates[one:]]),
                ).vector
            )
        return first_joints(rows, one), np.array(found).reshape(-1, Layout(two).size)


def first_joints(rows: Array, count: int) -> Array:
    """Flat states (..., 13 + 2 n) with the first joints only."""
    velocity = Layout.from_size(rows.shape[-1]).velocity.start
    return np.concatenate([rows[..., : 7 + count], rows[..., velocity : velocity + 6 + count]], axis=-1)


def obstacle(segment: Segment, world: World) -> str:
    """Why systems that loops join are no tree whose first system alone is driven; empty if they are, or none is."""
    loops = system_loops(world)
    if not loops:
        return ""
    (_, (second, end)) = loops[0].frames(world)
    guest = world.own_robot(second)
    if len(loops) > 1 or loops[0].kind != "weld" or guest.frame(end).body != guest.bodies[0].name or guest.loops:
        return "loops between systems other than one weld to a base, which the reference has as one tree"
    held = {world.dof(name)[0] for name in world.locked}
    for prepared in segment.prepared:
        phase = prepared.phase
        held |= {world.dof(name)[0] for name in (*phase.driven, *phase.accelerations, *phase.locked, *phase.forces)}
        held |= {world.frame(load.frame)[0] for load in phase.loads}
        held |= {system for system, _ in laws_of(segment.world, phase)}
    return f"{second!r} is joined to another system and driven itself" if second in held else ""
