"""Forward dynamics with closed loops against MuJoCo's mass matrix, bias and Jacobians with NumPy's least squares."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest

from spacearm import Body, Frame, Inertia, Joint, Mechanics, ModelError, Pose, State
from spacearm.engine import Kernel
from spacearm.mechanics.linear import factorise
from spacearm.mechanics.motion import motion_program, motion_tangent
from spacearm.model import Loop, Robot
from spacearm.simulate.check.mujoco_loops import loop_bias, loop_rows
from spacearm.simulate.check.mujoco_model import MujocoModel
from spacearm.simulate.loops import close_state, loop_terms
from spacearm.simulate.overrides import robot_parameters
from support.linkages import at, four_bar

OBLIQUE = np.array([[2.0, -1.0, 2.0], [2.0, 2.0, -1.0], [-1.0, 2.0, 2.0]]) / 3.0


def tripod() -> Robot:
    """Three legs of three skew joints that carry one platform by points: two loops, which share a leg."""
    rng = np.random.default_rng(5)
    bodies, joints, frames = [Body("base", Inertia(20.0, tensor=np.eye(3)))], [], []
    for interval in range(3):
        last = "base"
        for k in range(3):
            bodies.append(Body(f"{interval}{k}", Inertia(1.0, rng.normal(size=3) * 0.1, np.diag([0.1, 0.12, 0.15]))))
            axis = rng.normal(size=3)
            place = Pose(np.eye(3), 0.4 * rng.normal(size=3))
            joints.append(
                Joint(f"j{interval}{k}", "revolute", last, f"{interval}{k}", place, axis / np.linalg.norm(axis))
            )
            last = f"{interval}{k}"
        frames.append(Frame(f"end{interval}", last))
    # Closed where all joints are at zero: the ends of the other legs are the end of the first.
    open_robot = Robot("tripod", tuple(bodies), tuple(joints), tuple(frames))
    origin, rotation = Mechanics(open_robot).frame_pose("end0", np.zeros(9))
    ends = [frames[0]]
    for interval in (1, 2):
        own, turn = Mechanics(open_robot).frame_pose(f"end{interval}", np.zeros(9))
        ends.append(Frame(f"end{interval}", f"{interval}2", Pose(turn.T @ rotation, turn.T @ (origin - own))))
    loops = tuple(Loop(f"leg{interval}", "point", "end0", f"end{interval}") for interval in (1, 2))
    return Robot("tripod", tuple(bodies), tuple(joints), tuple(ends), loops=loops)


def geared() -> Robot:
    robot = four_bar("point", 3)
    rod = Loop("rod", "distance", "rocker", "base", distance=0.9)
    return robot.replace(loops=(*robot.loops, Loop("gear", "gear", "q0", "q1", ratio=-1.5, offset=0.2), rod))


def welded() -> Robot:
    """The four-bar linkage as one chain, with its end welded to the base: six rows, of which three are dependent."""
    robot = four_bar("point")
    chain = Joint("rocker", "revolute", "coupler", "rocker", at(0.4))
    last = Joint("tip", "revolute", "rocker", "tip", at(0.3))
    tip = Body("tip", Inertia(0.1, (0.01, 0.0, 0.0), np.diag([1e-4, 1e-4, 2e-4])))
    frames = (
        Frame("tip end", "tip", Pose(OBLIQUE, (0.0, 0.0, 0.0))),
        Frame("pivot", "base", Pose(OBLIQUE, (0.4, 0.0, 0.1))),
    )
    bodies, joints = (*robot.bodies, tip), (*robot.joints[:2], chain, last)
    return Robot("chain", bodies, joints, frames, loops=(Loop("weld", "weld", "pivot", "tip end"),))


def flipped() -> Robot:
    """The four-bar linkage with coupler and rocker upside down and turned, a skew joint and a slide on them."""
    robot = four_bar("point", 1)
    over, quarter = np.diag([1.0, -1.0, -1.0]), np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    placed = {"coupler": Pose(over, (0.2, 0.0, 0.03)), "rocker": Pose(over @ quarter, (0.4, 0.0, 0.1))}
    skew = Joint("skew", "revolute", "coupler", "pad", at(0.3, 0.02), (0.6, 0.0, 0.8))
    slide = Joint("slide", "prismatic", "rocker", "weight", Pose(quarter, (0.05, 0.1, 0.0)), (0.0, 0.6, 0.8))
    pad = Body("pad", Inertia(0.3, (0.05, 0.01, 0.02), np.diag([2e-3, 3e-3, 4e-3])))
    weight = Body("weight", Inertia(0.2, (0.0, 0.03, 0.0), np.diag([1e-3, 1e-3, 1e-3])))
    joints = [replace(own, placement=placed.get(own.name, own.placement)) for own in robot.joints]
    frames = (Frame("coupler end", "coupler", at(0.4)), Frame("rocker end", "rocker", at(0.0, 0.3, -0.03)))
    return robot.replace(bodies=(*robot.bodies, pad, weight), joints=(*joints, skew, slide), frames=frames)


ROBOTS = {
    "point": (four_bar("point"), {"crank": 0.9}),
    "hinge": (four_bar("axis", 2), {"crank": 0.9, "q0": 0.3, "q1": -0.4}),
    "oblique": (four_bar("axis", 1, turned=OBLIQUE), {"crank": 0.9, "q0": 0.5}),
    "oblique point": (four_bar("point", 1, turned=OBLIQUE), {"crank": 0.9, "q0": 0.5}),
    "weld": (welded(), {"crank": 0.9}),
    "tripod": (tripod(), {}),
    "flipped": (flipped(), {"crank": 0.9}),
    "gear and rod": (geared(), {"crank": 0.9, "q2": 0.7}),
}


def closed_state(name: str, seed: int = 0) -> tuple[Robot, State]:
    """A state with closed loops in general motion."""
    robot, held = ROBOTS[name]
    rng = np.random.default_rng(seed)
    start = {"coupler": -0.6, "rocker": 1.2, "q1": 0.4} if "crank" in held else {}
    if name == "weld":
        start = {"coupler": -0.6, "rocker": -2.3, "tip": 1.9}
    joints = State.at_rest(robot, {key: v for key, v in {**start, **held}.items() if key in robot.joint_names}).joints
    quaternion = rng.normal(size=4)
    velocity = rng.normal(size=robot.dofs)
    state = State(rng.normal(size=3), quaternion / np.linalg.norm(quaternion), joints, velocity)
    return robot, close_state(robot, state, held=["crank"] if "crank" in held else [])


def reference(robot: Robot, state: State, force: np.ndarray, mode: np.ndarray, drive: np.ndarray) -> np.ndarray:
    """The acceleration by MuJoCo's terms: least squares, so that redundant rows need no care."""
    model = MujocoModel(robot)
    bias = loop_bias(model, robot, state)
    model.set_state(state.position, state.quaternion, state.joints, state.velocity)
    rows, mass, free = loop_rows(model, robot), model.mass_matrix(), mode == 0.0
    acceleration = np.where(free, 0.0, drive)
    lacking = force - model.bias() - mass @ acceleration
    matrix = np.block([[mass[np.ix_(free, free)], rows[:, free].T], [rows[:, free], np.zeros((len(rows), len(rows)))]])
    right = np.concatenate([lacking[free], -bias - rows @ acceleration])
    acceleration[free] = np.linalg.lstsq(matrix, right, rcond=1e-13)[0][: int(free.sum())]
    return acceleration


@pytest.mark.parametrize("name", ROBOTS)
def test_accelerations_with_closed_loops(name):
    robot, state = closed_state(name)
    rng, mechanics = np.random.default_rng(1), Mechanics(robot)
    force, drive = rng.normal(size=(2, robot.dofs))
    free = np.zeros(robot.dofs)
    expected = reference(robot, state, force, free, drive)
    found = mechanics.forward_dynamics(state.joints, state.velocity, force)
    np.testing.assert_allclose(found, expected, atol=3e-9 * np.abs(expected).max())
    for driven in ([0, 1, 2, 3, 4, 5], [6], [2, 5]):
        mode = free.copy()
        mode[driven] = 1.0
        expected = reference(robot, state, force, mode, drive)
        found, reaction = mechanics.hybrid_dynamics(state.joints, state.velocity, force, drive, mode)
        np.testing.assert_allclose(found, expected, atol=3e-9 * np.abs(expected).max())
        # The reaction drives the same motion where everything is free.
        again = mechanics.forward_dynamics(state.joints, state.velocity, force + reaction)
        np.testing.assert_allclose(again, found, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["hinge", "gear and rod"])
def test_the_tangent_is_the_derivative_of_the_motion(name):
    robot, state = closed_state(name)
    rng = np.random.default_rng(2)
    inputs = {"state": state.vector, "force": rng.normal(size=robot.dofs), "drive": rng.normal(size=robot.dofs)}
    inputs |= {"mode": (np.arange(robot.dofs) == 6).astype(float), "friction": np.zeros(robot.dofs)}
    own = robot_parameters(robot)
    tangent = Kernel(motion_tangent(robot, {"state": None, "inertia": None}))
    inputs |= {key: own[key] for key in tangent.inputs if key in own and np.size(own[key])}
    inputs |= {"rotor": robot.rotor_inertias} if robot.n and robot.rotor_inertias.size else {}
    seeds = {"d_state": rng.normal(size=state.vector.size), "d_inertia": 0.01 * rng.normal(size=own["inertia"].size)}
    inputs = {key: value for key, value in inputs.items() if np.size(value)}
    found = tangent({**inputs, **tangent.derive(inputs), **seeds})["d_rate"]
    motion, step = Kernel(motion_program(robot, ledger=False)), 1e-6

    def rate(way: float) -> np.ndarray:
        moved = dict(inputs)
        moved["state"] = inputs["state"] + way * seeds["d_state"]
        moved["inertia"] = inputs["inertia"] + way * seeds["d_inertia"]
        return motion({**moved, **motion.derive(moved)})["rate"]

    expected = (rate(step) - rate(-step)) / (2 * step)
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


def test_lanes_have_the_bits_of_single_evaluations():
    robot, state = closed_state("hinge")
    mechanics = Mechanics(robot)
    joints = state.joints + np.linspace(0.0, 1e-3, 9)[:, None]
    velocity, force = np.tile(state.velocity, (9, 1)), np.ones((9, robot.dofs))
    together = mechanics.forward_dynamics(joints, velocity, force)
    alone = [mechanics.forward_dynamics(q, v, f) for q, v, f in zip(joints, velocity, force, strict=True)]
    assert np.array_equal(together, alone)


def test_rows_that_no_joint_moves_are_left_out():
    """A hinge of a planar linkage has five rows, of which two are no repetition of what its joints keep."""
    for kind in ("axis", "point"):
        assert loop_terms(four_bar(kind), np.zeros(3)).residual.size == 2


def test_a_singular_matrix_is_solved_where_it_can_be():
    rng = np.random.default_rng(3)
    half = rng.normal(size=(5, 3))
    matrix, right = half @ half.T, half @ rng.normal(size=3)
    factor = factorise(ca.SX(matrix), [ca.SX(1e-11 * matrix[k, k]) for k in range(5)])
    found = factor.backward(factor.forward([ca.SX(value) for value in right]))
    solution = np.array([float(value) for value in found])
    np.testing.assert_allclose(matrix @ solution, right, atol=1e-12)
    assert np.count_nonzero(solution) == 3


def test_loops_that_cannot_close_or_hold_nothing_are_errors():
    robot = four_bar()
    high = robot.replace(
        frames=(robot.frames[0], Frame("rocker end", "rocker", at(0.3, z=0.02))),
    )
    with pytest.raises(ModelError, match=r"loop 'bar'.*cannot close: its ends are 0.02 "):
        Mechanics(high).program("forward_dynamics")
    both = robot.replace(loops=(Loop("rod", "distance", "coupler", "crank", distance=0.2),))
    with pytest.raises(ModelError, match=r"loop 'rod'.*holds nothing"):
        Mechanics(both).program("forward_dynamics")
