"""First derivatives of the programs: against differences, against Pinocchio's own, tangent against adjoint."""

from __future__ import annotations

from collections.abc import Callable

import casadi as ca
import numpy as np
import pinocchio as pin
import pytest

from spacearm.errors import InputError
from spacearm.mechanics import Program, build
from spacearm.mechanics.motion import LoadFrame, motion_program
from spacearm.mechanics.programs import PROGRAMS
from spacearm.model import Robot
from spacearm.typing import Array
from support.motion import MotionInputs, random_mode
from support.pinocchio_reference import PinocchioReference
from support.population import difference
from support.random_robots import random_robot, random_state


def differences(function: Callable[[Array], Array], point: Array, direction: Array, step: float = 2e-3) -> Array:
    """Directional derivative by central differences, twice extrapolated: error of order step**6."""
    rows = []
    for h in (step, step / 2, step / 4):
        rows.append((function(point + h * direction) - function(point - h * direction)) / (2 * h))
    first = [(4 * rows[k + 1] - rows[k]) / 3 for k in range(2)]
    result: Array = (16 * first[1] - first[0]) / 15
    return result


def motion_case(seed: int, kind: str) -> tuple[Robot, Program, dict[str, Array]]:
    """A robot with flexible joints and loads, its motion program, and a random point for each of its inputs."""
    robot = random_robot(seed, 1 + seed % 5, flexible=0.4, rotors=0.3, geometry="mixed", passive=True)
    program = motion_program(robot, (LoadFrame("frame1"), LoadFrame("frame2", "frame"))).inline_derived_inputs()
    rng = np.random.default_rng([seed, 3])
    flat = MotionInputs.draw(robot, rng, random_mode(robot, rng, kind)).flat(robot, random_state(robot, rng))
    point, start = {}, 0
    for name, symbol in program.inputs.items():
        point[name] = flat[start : start + symbol.numel()]
        start += symbol.numel()
    assert start == flat.size
    return robot, program, point


def evaluate(program: Program, point: dict[str, Array]) -> dict[str, Array]:
    """Outputs by name, through CasADi's own interpreter."""
    flat = np.concatenate([np.asarray(point[name]).ravel() for name in program.inputs])
    result, values, start = np.array(program.function(flat)).ravel(), {}, 0
    for name, symbol in program.outputs.items():
        values[name] = result[start : start + symbol.numel()].reshape(program.output_shape(name))
        start += symbol.numel()
    return values


SMOOTH = (
    "state",
    "force",
    "drive",
    "friction",
    "wrench",
    "inertia",
    "rotor",
    "stiffness",
    "rest",
    "damping",
    "coupling",
)


@pytest.mark.parametrize("kind", ["free", "mixed"])
@pytest.mark.parametrize("seed", range(5))
def test_motion_derivatives_against_differences(seed: int, kind: str) -> None:
    """One random direction for each input, through the tangent program."""
    _, program, point = motion_case(seed, kind)
    names = [name for name in SMOOTH if point[name].size]
    rng = np.random.default_rng(seed)
    tangent = program.tangent(names)
    for name in names:
        # Inertias by parts of themselves: a rotor's of 1e-3 kg m2 must not be stepped out of its range.
        scale = np.abs(point[name]) if name in ("inertia", "rotor") else 1.0
        direction = scale * rng.normal(size=point[name].size)
        seeds = {f"d_{other}": np.zeros_like(point[other]) for other in names}
        exact = evaluate(tangent, {**point, **seeds, f"d_{name}": direction})

        def moved(value: Array, name: str = name) -> Array:
            return np.concatenate([v.ravel() for v in evaluate(program, {**point, name: value}).values()])

        expected = differences(moved, point[name], direction)
        got = np.concatenate([exact[f"d_{output}"].ravel() for output in program.outputs])
        assert difference(got, expected) < 1e-8, f"derivative along {name}"


@pytest.mark.parametrize("kind", ["free", "mixed", "driven"])
@pytest.mark.parametrize("seed", range(5))
def test_tangent_adjoint_and_jacobian_agree(seed: int, kind: str) -> None:
    """bar . (J d) = (J^T bar) . d to rounding, and both are what the Jacobian says."""
    _, program, point = motion_case(seed, kind)
    names = [name for name in SMOOTH if point[name].size]
    rng = np.random.default_rng(seed + 50)
    along = {f"d_{name}": rng.normal(size=point[name].size) for name in names}
    tangent = evaluate(program.tangent(names), {**point, **along})
    for output in program.outputs:
        bar = rng.normal(size=tangent[output].shape)
        pulled = evaluate(program.adjoint(output, names), {**point, f"bar_{output}": bar})
        forward = float(np.sum(bar * tangent[f"d_{output}"]))
        terms = [pulled[f"bar_{name}"].ravel() * along[f"d_{name}"] for name in names]
        scale = sum(float(np.abs(term).sum()) for term in terms) + float(np.abs(bar * tangent[f"d_{output}"]).sum())
        assert abs(sum(float(term.sum()) for term in terms) - forward) <= 1e-12 * scale, output
        jacobians = evaluate(program.jacobian(output, *names), point)
        product = sum(
            jacobians[f"d_{output}_d_{name}"].reshape(-1, point[name].size) @ along[f"d_{name}"] for name in names
        )
        assert difference(product, tangent[f"d_{output}"].ravel()) < 1e-12, output


@pytest.mark.parametrize("seed", range(12))
def test_forward_dynamics_derivatives_against_pinocchio(seed: int) -> None:
    """d nu-dot by joints, velocity and force against Pinocchio's analytic derivatives of its articulated bodies."""
    robot = random_robot(seed, 1 + seed, geometry=("skew", "aligned", "mixed")[seed % 3])  # type: ignore[arg-type]
    rng = np.random.default_rng(seed)
    state, force = random_state(robot, rng), rng.normal(size=robot.dofs)
    program = motion_program(robot, ledger=False)
    point = {name: np.zeros(symbol.numel()) for name, symbol in program.inputs.items()}
    point |= {"state": state.flat, "force": force, "inertia": robot.inertia_parameters.ravel()}
    got = evaluate(program.jacobian("rate", "state", "force"), point)
    by_state, by_force = got["d_rate_d_state"][-robot.dofs :], got["d_rate_d_force"][-robot.dofs :]

    reference = PinocchioReference(robot)
    to_theirs = reference.rates(np.eye(robot.dofs))  # a permutation here: there are no rotors
    model, data = reference.model, reference.data
    pin.computeABADerivatives(
        model, data, reference.configuration(state), to_theirs @ state.velocity, to_theirs @ force
    )
    n = robot.n
    by_q = (to_theirs.T @ data.ddq_dq @ to_theirs)[:, 6:]
    by_v = to_theirs.T @ data.ddq_dv @ to_theirs
    inverse = np.triu(data.Minv)
    inverse = inverse + np.triu(inverse, 1).T
    assert difference(by_state[:, 7 : 7 + n], by_q) < 1e-10
    assert difference(by_state[:, 7 + n :], by_v) < 1e-10
    assert difference(by_force, to_theirs.T @ inverse @ to_theirs) < 1e-10
    np.testing.assert_array_equal(by_state[:, :7], 0.0)  # without gravity the base's pose does not matter


LOADED = ("inverse_dynamics", "forward_dynamics", "hybrid_dynamics")
AT_FRAME = ("frame_pose", "jacobian", "frame_velocity", "frame_acceleration", "generalized_jacobian")


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "motion"])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_program_has_right_derivatives(seed: int, name: str) -> None:
    """Along one random direction of all inputs: tangent against differences, adjoint against tangent."""
    robot = random_robot(60 + seed, 3, rotors=0.7, geometry=("skew", "aligned")[seed])  # type: ignore[arg-type]
    options: dict[str, object] = {}
    if name in LOADED:
        options["loads"] = (LoadFrame("frame1"), LoadFrame("frame2", "frame"))
    if name in AT_FRAME:
        options["frame"] = "frame1"
    program = build(robot, name, **options).inline_derived_inputs()
    rng = np.random.default_rng(seed)
    state = random_state(robot, rng)
    known = {
        "position": state.position,
        "quaternion": state.quaternion,
        "joints": state.joints,
        "inertia": robot.inertia_parameters.ravel(),
        "rotor": np.array([joint.rotor.inertia for joint in robot.joints if joint.rotor is not None]),
        "mode": random_mode(robot, rng, "mixed"),
    }
    point = {key: known.get(key, rng.normal(size=symbol.numel())) for key, symbol in program.inputs.items()}
    names = [key for key in point if key != "mode"]
    along = {
        key: rng.normal(size=point[key].size) * (abs(point[key]) if key in ("inertia", "rotor") else 1.0)
        for key in names
    }
    tangent = evaluate(program.tangent(names), {**point, **{f"d_{key}": value for key, value in along.items()}})

    def moved(step: Array) -> Array:
        there = {key: point[key] + step[0] * along[key] for key in names}
        return np.concatenate([value.ravel() for value in evaluate(program, {**point, **there}).values()])

    expected = differences(moved, np.zeros(1), np.ones(1))
    got = np.concatenate([tangent[f"d_{output}"].ravel() for output in program.outputs])
    assert difference(got, expected) < 1e-8
    for output in program.outputs:
        bar = rng.normal(size=tangent[output].shape)
        pulled = evaluate(program.adjoint(output, names), {**point, f"bar_{output}": bar})
        terms = np.concatenate([pulled[f"bar_{key}"].ravel() * along[key] for key in names])
        forward = bar * tangent[f"d_{output}"]
        assert abs(terms.sum() - forward.sum()) <= 1e-12 * (np.abs(terms).sum() + np.abs(forward).sum()), output


@pytest.mark.parametrize("entries", [[0, 0], [3], [-1], [0.0], [True]])
def test_entries_that_vary_are_different_whole_numbers_of_the_input(entries: list[int]) -> None:
    x = ca.SX.sym("x", 3)
    program = Program("f", {"x": x}, {"y": x * x})
    for use in (program.tangent, program.with_zeros):
        with pytest.raises(InputError, match="expected different whole numbers, 0 to 2"):
            use({"x": entries})
