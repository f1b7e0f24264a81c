"""Impacts on robots with closed loops: MuJoCo's terms with multipliers, the same robot without redundancy, limits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spacearm import Frame, InputError, Phase, State, World, simulate
from spacearm.impact import (
    FloatingSystem,
    collide,
    effective_mass,
    extended_inertia_tensor,
    free_body,
    grasp_velocity,
    weld_after_grasp,
)
from spacearm.impact.aftermath import simulate_aftermath
from spacearm.impact.crosscheck import tensor_by_mujoco
from spacearm.model import Loop, Robot
from spacearm.model.toml_write import toml_text
from spacearm.simulate import Close, close_loops, close_state
from spacearm.simulate.check.mujoco_loops import loop_rows
from spacearm.simulate.check.mujoco_model import MujocoModel
from spacearm.study import run_scenario
from support.linkages import at, four_bar

START = {"crank": 0.9, "coupler": -0.6, "rocker": 1.2, "q0": 0.4, "q1": -0.3}


def gripper(kind: str = "axis", **more: object) -> Robot:
    """A four-bar linkage on an arm of two joints, struck at its coupler."""
    robot = four_bar(kind, 2, **more)  # type: ignore[arg-type]
    return robot.replace(frames=(*robot.frames, Frame("tip", "coupler", at(0.25, 0.05, 0.02))))


def moving(robot: Robot, rate: float = 0.7) -> State:
    velocity = np.zeros(robot.dofs)
    velocity[:8] = [0.1, -0.05, 0.02, 0.03, -0.04, 0.06, 0.2, -0.3]
    velocity[robot.dof_index("crank")] = rate
    state = State.at_rest(robot, START)
    quaternion = np.array([0.8, 0.1, -0.4, 0.3])
    state = State(np.array([0.3, -0.2, 0.1]), quaternion / np.linalg.norm(quaternion), state.joints, velocity)
    return close_state(robot, state, held=["q0", "q1", "crank"])


@pytest.mark.parametrize("kind", ["axis", "point", "weld"])
@pytest.mark.parametrize("locked", ["none", ("q1",), ("crank",)])
def test_tensor_against_mujocos_terms(kind, locked):
    if kind == "weld":
        # A weld of two bars leaves nothing to move in the plane: a rod in its place leaves more than a hinge.
        robot = gripper("distance", distance=0.1)
        frames = [replace(f, placement=at(0.3, -0.1)) if f.name == "rocker end" else f for f in robot.frames]
        robot = robot.replace(frames=tuple(frames))
    else:
        robot = gripper(kind)
    joints = close_loops(robot, START, held=["q0", "q1", "crank"])
    base = [0.1, 0.2, 0.3, 0.5, 0.5, -0.5, 0.5]
    ours = extended_inertia_tensor(robot, "tip", joints, base=base, locked=locked)
    np.testing.assert_allclose(ours, tensor_by_mujoco(robot, "tip", joints, base=base, locked=locked), atol=1e-10)
    # Loops only stiffen: the tree gives way more, in every direction.
    tree = extended_inertia_tensor(robot.replace(loops=()), "tip", joints, base=base, locked=locked)
    gain = np.linalg.eigvalsh(tree - ours)
    assert gain.min() > -1e-12
    assert gain.max() > 1e-6 or locked == ("crank",)


@pytest.mark.parametrize(("kind", "restitution"), [("normal", 0.6), ("point", 0.0), ("grasp", 0.0), ("friction", 0.3)])
@pytest.mark.parametrize("held", [False, True])
def test_velocities_after_a_hit_by_lagrange_multipliers(kind, restitution, held):
    """All velocities of both at once: M dv = J^T p + L^T f with L v' = 0, from MuJoCo's mass matrices and Jacobians."""
    robot, ball = gripper(), free_body(4.0, [0.2, 0.3, 0.4], contact=(0.1, 0.05, 0.0))
    first = FloatingSystem.from_state(robot, "tip", moving(robot), locked=("q1",), held=held)
    second = FloatingSystem(
        ball, "contact", base=[0, 0, 0, 0.8, 0.0, 0.6, 0.0], velocity=[0.5, -1.0, 0.3, 0.2, 0.1, -0.4]
    )
    second = second.move_to_contact(first)
    normal = np.array([0.6, 0.0, 0.8]) if kind in ("normal", "friction") else None
    if normal is not None and (second.twist - first.twist)[:3] @ normal < 0.0:
        normal = -normal
    more = {"friction": 0.2} if kind == "friction" else {}
    hit = collide(first, second, kind=kind, normal=normal, restitution=restitution, **more)
    assert hit.sound, hit.certificate
    assert hit.certificate["loops"].value < 1e-12
    models = []
    for system in (first, second):
        model = MujocoModel(system.robot)
        model.set_state(system.base[:3], system.base[3:], np.asarray(system.joints), np.asarray(system.velocity))
        models.append(model)
    n = robot.dofs
    mass = np.zeros((n + 6, n + 6))
    mass[:n, :n], mass[n:, n:] = (model.mass_matrix() for model in models)
    relative = np.hstack([-models[0].frame_jacobian("tip"), models[1].frame_jacobian("contact")])
    loops = np.hstack([loop_rows(models[0], robot), np.zeros((5, 6))])
    stuck = [robot.dof_index("q1"), *(range(6) if held else ())]
    still = np.eye(n + 6)[stuck]
    before = np.concatenate([first.velocity, second.velocity])
    if kind == "friction":
        # The impulse is another theory's: what it does to the velocities is the constraints'.
        constraints, target, push = (
            np.vstack([loops, still]),
            np.concatenate([np.zeros(5), still @ before]),
            hit.impulse,
        )
    else:
        rows = {"normal": None, "point": np.eye(6)[:3], "grasp": np.eye(6)}[kind]
        rows = np.concatenate([normal, np.zeros(3)])[None] if rows is None else rows
        contact = rows @ relative
        constraints = np.vstack([contact, loops, still])
        target, push = np.concatenate([-restitution * contact @ before, np.zeros(5), still @ before]), np.zeros(6)
    give = np.linalg.solve(mass, constraints.T)
    free = before + np.linalg.solve(mass, -relative.T @ push)
    forces = np.linalg.lstsq(constraints @ give, target - constraints @ free, rcond=1e-12)[0]
    expected = free + give @ forces
    np.testing.assert_allclose(np.concatenate([hit.first.after, hit.second.after]), expected, atol=1e-9)
    if kind == "grasp" and not held:
        whole, state = weld_after_grasp(first, second)
        np.testing.assert_allclose(state.velocity[:n], hit.first.after, atol=1e-9)
        assert whole.loops


def test_a_redundant_loop_changes_nothing():
    robot = gripper()
    twice = robot.replace(loops=(*robot.loops, Loop("again", "point", "coupler end", "rocker end")))
    state = moving(robot)
    balls = free_body(4.0, [0.2, 0.3, 0.4])
    found = []
    for each in (robot, twice):
        first = FloatingSystem.from_state(each, "tip", state)
        second = FloatingSystem(balls, "contact", velocity=[1.0, -0.5, 0.8, 0, 0, 0]).move_to_contact(first)
        found.append(effective_mass(first, second, kind="grasp"))
    np.testing.assert_allclose(*found, rtol=1e-9)


def test_what_follows_the_hit_is_sound_and_grasp_velocities_keep_the_loops():
    robot, ball = gripper(), free_body(4.0, [0.2, 0.3, 0.4])
    first = FloatingSystem.from_state(robot, "tip", moving(robot))
    second = FloatingSystem(ball, "contact", velocity=[1.0, -0.5, 0.8, 0.1, 0, 0]).move_to_contact(first)
    hit = collide(first, second, kind="point", restitution=0.0)
    assert simulate_aftermath(hit, first, second).sound
    # Together with the target as a part of the robot, and with the target as a system that a loop holds.
    world = World({"robot": robot, "target": ball})
    states = {"robot": first.state, "target": second.state}
    run = simulate(world, states, [Close("robot/tip", "target/contact", "point"), Phase(0.5)])
    assert run.sound
    assert run.certificate["loops"].value < 1e-9
    np.testing.assert_allclose(run.changes[0].changed.wrench, hit.impulse, atol=1e-12)
    assert run.changes[0].lost == pytest.approx(float(hit.energy_lost), rel=1e-10)
    best = grasp_velocity(first, second)
    assert best.solvable
    assert np.abs(best.base).max() < 1e-10
    assert best.collision.certificate["loops"].value < 1e-12


def test_open_loops_are_refused():
    robot = gripper()
    with pytest.raises(InputError, match=r"loops of robot .* are open by"):
        FloatingSystem(robot, "tip", np.zeros(robot.n))
    state = moving(robot)
    rates = state.velocity.copy()
    rates[robot.dof_index("rocker")] += 0.1
    with pytest.raises(InputError, match=r"loops of robot .* open at"):
        FloatingSystem(robot, "tip", state.joints, velocity=rates)
    with pytest.raises(InputError, match="are open by"):
        extended_inertia_tensor(robot, "tip", np.zeros(robot.n))


SCENARIO = """
study = "impact"
robot = "gripper.toml"
frame = "tip"
[start.joints]
crank = 0.9
[map]
directions = 16
[target]
mass = 4.0
inertia = [0.2, 0.3, 0.4]
velocity = [0.0, 0.5, 0.4]
[[collision]]
name = "hit"
normal = [0.0, 1.0, 1.0]
restitution = 0.5
contact = { frequencies = [1e3, 1e4] }
[[collision]]
name = "grasp"
kind = "grasp"
"""


def test_a_scenario_file(tmp_path: Path) -> None:
    (tmp_path / "gripper.toml").write_text(toml_text(gripper()))
    path = tmp_path / "impact.toml"
    path.write_text(SCENARIO)
    result = run_scenario(path, cross_check=True)
    assert result.certificate.sound, result.certificate
    path.write_text(SCENARIO + '[[optimise]]\nname = "best"\nquantity = "projected"\ndirection = [0, 0, 1]\n')
    with pytest.raises(InputError, match=r"closed loops; the search supports trees only"):
        run_scenario(path)
