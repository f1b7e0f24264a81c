"""Soft joints, hits and their errors; the catalogue's robots against joints built here."""

import math

import numpy as np
import pytest

from spacearm.capture import (
    LoadCase,
    OnOff,
    SettlingCriterion,
    SoftAxis,
    SoftJoint,
    design,
    modes,
    simulate_capture,
    soft_joints,
    soften,
)
from spacearm.capture.soft_joints import AXES, relax_soft_axes, soft_axes
from spacearm.engine import Mechanics
from spacearm.errors import InputError, SimulationError
from spacearm.model import catalogue
from spacearm.papers import zhang2020
from spacearm.papers.zhang2020.data import single_hit
from spacearm.simulate import Load, State, table

ARM = catalogue.load("zhang2020")


def test_catalogue_robot_is_the_paper_s_arm():
    """The catalogue's arm and the one that soften makes have the same numbers, joint by joint."""
    mine = zhang2020.robot()
    assert mine.joint_names == ARM.joint_names
    for a, b in zip(mine.joints, ARM.joints, strict=True):
        assert (a.kind, a.spring, a.damping) == (b.kind, b.spring, b.damping)
        np.testing.assert_array_equal(a.axis, b.axis)
    q = np.linspace(-0.3, 0.4, 8)
    np.testing.assert_allclose(Mechanics(mine).mass_matrix(q), Mechanics(ARM).mass_matrix(q), rtol=0, atol=1e-12)


def test_six_axis_robot_with_slides_locked_is_the_four_axis_one():
    six = catalogue.load("zhang2020_six_axis")
    assert soft_joints(six) == {f"joint{k}": tuple(f"joint{k}.{a}" for a in AXES) for k in (1, 2)}
    held = [name for name in six.joint_names if name.endswith(("slide_x", "slide_y"))]
    np.testing.assert_allclose(modes(six, held=held).frequency, modes(ARM).frequency, rtol=1e-12)


@pytest.mark.parametrize("where", ["after", "before", "instead"])
@pytest.mark.parametrize("name", ["yoshida1992", "xu2017", "cai2023"])
def test_soft_joints_go_into_any_joint(name, where):
    robot = catalogue.load(name)
    joint = robot.joint_names[len(robot.joint_names) // 2]
    soft = SoftJoint(**dict.fromkeys(AXES, SoftAxis(50.0, 2.0, 0.5)))
    softer = soften(robot, joint, soft, where=where)
    assert soft_axes(softer) == tuple(f"{joint}.{axis}" for axis in AXES)
    assert softer.mass == pytest.approx(robot.mass)
    # Locked at zero it is the old robot (instead: with the joint itself at zero).
    rng = np.random.default_rng(3)
    q = rng.normal(size=robot.n) * 0.4
    if where == "instead":
        q[robot.joint_index(joint)] = 0.0
    whole = np.zeros(softer.n)
    kept = [i for i, n in enumerate(robot.joint_names) if where != "instead" or n != joint]
    at = [softer.joint_index(robot.joint_names[i]) for i in kept]
    whole[at] = q[kept]
    rows = [*range(6), *(6 + i for i in at)]
    old = [*range(6), *(6 + i for i in kept)]
    np.testing.assert_allclose(
        Mechanics(softer).mass_matrix(whole)[np.ix_(rows, rows)],
        Mechanics(robot).mass_matrix(q)[np.ix_(old, old)],
        rtol=1e-10,
        atol=1e-10,
    )


def test_preload_is_a_rest_offset():
    arm = soften(ARM, "joint1.rotation_x", SoftJoint(slide_x=SoftAxis(200.0, 8.0, preload=4.0)))
    axis = "joint1.rotation_x.slide_x"
    assert arm.joint(axis).spring.rest == pytest.approx(0.02)
    # Released at zero it pushes outwards with its preload ...
    start = State.at_rest(arm)
    outcome = simulate_capture(arm, start, duration=0.01, sample=0.01)
    mass = Mechanics(arm).mass_matrix(start.joints)
    push = (mass @ outcome.acceleration[0])[6 + arm.joint_index(axis)]
    assert push == pytest.approx(4.0, rel=1e-9)
    # ... relaxed it stays.
    still = simulate_capture(arm, State.at_rest(arm, relax_soft_axes(arm)), duration=1.0)
    assert np.abs(still.states[:, 7 + arm.n :]).max() < 1e-15


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SoftAxis(-1.0), "stiffness is -1"),
        (lambda: SoftAxis(1.0, -0.5), "damping is -0.5"),
        (lambda: SoftAxis(1.0, travel=(0.1, 0.2)), "travel"),
        (lambda: SoftAxis(1.0, travel=math.nan), "travel"),
        (lambda: SoftAxis(0.0, preload=1.0), "no spring"),
        (SoftJoint, "no axis"),
        (lambda: SoftJoint.from_axes({"turn_q": SoftAxis(1.0)}), "turn_q"),
        (lambda: soften(ARM, "elbow", SoftJoint(rotation_x=SoftAxis(1.0))), "elbow"),
        (lambda: soft_axes(ARM, ["joint3"]), "joint3"),
        (lambda: Load.pulse("hand", duration=0.0), "lasts"),
        (lambda: Load.pulse("hand", start=-1.0), "starts"),
        (lambda: Load.pulse("hand", (1.0, math.inf, 0.0)), "force"),
        (lambda: Load.pulse("hand", profile="square"), "square"),
        (lambda: simulate_capture(ARM, State.at_rest(ARM), [Load.pulse("palm", (1.0, 0.0, 0.0))]), "palm"),
        (lambda: simulate_capture(ARM, State.at_rest(ARM), damping=-1.0), "damping is -1"),
        (lambda: simulate_capture(ARM, State.at_rest(ARM), damping={"knee": 1.0}), "knee"),
        (lambda: simulate_capture(ARM, State.at_rest(ARM), stiffness={"joint1.rotation_x": -2.0}), "stiffness is -2"),
        (lambda: simulate_capture(ARM, State.at_rest(ARM), free=["nothing"]), "nothing"),
        (lambda: OnOff(on=-1.0), "on"),
        (lambda: SettlingCriterion(0.0), "bounds"),
        (lambda: LoadCase(probability=0.0), "probability"),
        (
            lambda: design(ARM, [LoadCase((Load.pulse("hand", (1.0, 0, 0)),))], stiffness=(-1.0, 5.0)),
            "range of stiffness",
        ),
        (
            lambda: design(
                ARM, [LoadCase((Load.pulse("hand", (1.0, 0, 0)),))], stiffness=(1.0, 5.0), damping=(-1.0, 5.0)
            ),
            "damping",
        ),
        (lambda: design(ARM, [], stiffness=(1.0, 5.0)), "no case"),
        (lambda: design(catalogue.load("xu2017"), [LoadCase()], stiffness=(1.0, 5.0)), "no soft joint"),
    ],
)
def test_errors_say_what_and_where(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_unknown_frame_suggests_one():
    with pytest.raises(InputError, match="did you mean 'hand'"):
        simulate_capture(ARM, State.at_rest(ARM), Load.pulse("hnad", (1.0, 0.0, 0.0)), duration=1.0)


def test_travel_exceeded_is_an_error_with_its_time():
    axis = SoftAxis(40.0, 1.0, 0.01)
    arm = soften(zhang2020.robot(), "joint1.slide_z", SoftJoint(slide_z=axis), where="instead")
    name = "joint1.slide_z.slide_z"
    hit = single_hit("fz")
    with pytest.raises(SimulationError, match=r"'joint1.slide_z.slide_z' is exceeded at t = 0\.\d+ s"):
        simulate_capture(arm, State.at_rest(arm), [hit], duration=5.0)
    outcome = simulate_capture(arm, State.at_rest(arm), [hit], duration=5.0, travel="report", sample=1e-3)
    first = outcome.travel_violations[0]
    assert first.joint == name
    assert first.limit == pytest.approx(0.01)
    crossing = np.interp(first.time, outcome.times, outcome.joint(name))
    assert crossing == pytest.approx(0.01, abs=1e-6)
    assert first.reached == pytest.approx(outcome.joint(name).max())


def test_profiles_have_their_impulses():
    force = (3.0, 0.0, -1.0)
    shapes = {
        "rectangle": 1.0,
        "half-sine": 2.0 / np.pi,
        "triangle": 0.5,
        table([0.0, 0.1, 0.2], [0.0, 1.0, 1.0]): 0.75,
        (lambda t: np.cos(5.0 * t)): np.sin(1.0),
    }
    for profile, part in shapes.items():
        hit = Load.pulse("hand", force, (0.0, 2.0, 0.0), 0.2, 0.5, profile)
        np.testing.assert_allclose(hit.impulse[:3], np.array(force) * 0.2 * part, rtol=1e-9)
        signal = hit.wrench[0]
        assert signal(0.4999) == 0.0
        assert signal(0.7001) == 0.0


def test_momentum_after_a_hit_is_its_impulse():
    hit = Load.pulse("hand", (3.0, -2.0, 5.0), (0.4, 0.1, -0.3), 0.3, 0.1, "half-sine", axes="world")
    outcome = simulate_capture(ARM, State.at_rest(ARM), [hit], duration=2.0)
    linear, _ = outcome.momentum_budget().total
    np.testing.assert_allclose(linear[-1], hit.impulse[:3], rtol=1e-10)
    assert outcome.sound
