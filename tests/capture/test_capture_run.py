"""Soft motions: clutch, catches, loads through joints, energies, momentum, on-off dampers, MuJoCo."""

import numpy as np
import pytest

from spacearm.capture import (
    OnOff,
    SettlingCriterion,
    SoftAxis,
    SoftJoint,
    SwitchAtOverload,
    SwitchAtTime,
    Target,
    catch,
    catch_softly,
    close_clutch,
    modes,
    simulate_capture,
    soften,
)
from spacearm.capture.capture_run import last_above
from spacearm.capture.clutch import ClutchMode, SwitchAtRest
from spacearm.capture.soft_joints import soft_axes
from spacearm.engine import Mechanics
from spacearm.errors import InputError
from spacearm.model import Inertia, Pose, catalogue
from spacearm.model.edit import replace_inertias
from spacearm.model.rotations import rotation_from_rpy
from spacearm.papers.zhang2020.data import single_hit, six_hit
from spacearm.simulate import Load, State, rollout

ARM = catalogue.load("zhang2020")
REST = State.at_rest(ARM)
TARGET = Target(
    Inertia(50.0, np.array([0.1, -0.05, 0.3]), np.diag([5.0, 6.0, 7.0])),
    (0.02, -0.01, -0.1),
    (0.02, 0.05, -0.1),
    Pose(rotation_from_rpy([0.3, -0.2, 0.5]), np.array([0.05, 0.0, 0.1])),
)


@pytest.fixture(scope="module")
def struck():
    return {d: simulate_capture(ARM, REST, [six_hit()], duration=20.0, damping=d, sample=0.01) for d in (0.0, 1.0, 5.0)}


def test_runs_keep_momentum_and_energy(struck):
    for outcome in struck.values():
        assert outcome.certificate["linear_momentum"].value < 1e-10
        assert outcome.certificate["angular_momentum"].value < 1e-10
        assert outcome.certificate["energy"].value < 1e-8
        assert outcome.sound


@pytest.mark.parametrize("damping", [0.0, 5.0])
def test_mujoco_agrees_over_20_s(struck, damping):
    check = struck[damping].cross_check()
    assert check.was_run
    assert check.largest < 1e-6


def test_load_on_the_base_is_what_moves_it(struck):
    """Newton and Euler of the base alone, from differences of its velocity."""
    outcome = struck[1.0]
    after = outcome.times > 0.05
    t, v, w = outcome.times[after], outcome.base_velocity[after], outcome.base_rate[after]
    rate = (v[2:] - v[:-2]) / (t[2:] - t[:-2])[:, None]
    angles = outcome.base_angles[after][1:-1]
    force = 200.0 * rate
    loads = outcome.base_wrench[after][1:-1]
    # The base turns by under half a degree in this time: rotate its axes to the world's to first order and beyond.
    from spacearm.model.rotations import rotation_from_quaternion

    turns = np.stack([rotation_from_quaternion(q) for q in outcome.states[after][1:-1, 3:7]])
    world = np.einsum("tij,tj->ti", turns, loads[:, :3])
    np.testing.assert_allclose(world, force, atol=2e-3 * np.abs(force).max())
    angular_velocity = np.einsum("tij,tj->ti", turns.transpose(0, 2, 1), w[1:-1])
    about = np.array([53.3, 53.3, 66.7])
    inside = np.einsum("tij,tj->ti", turns.transpose(0, 2, 1), (w[2:] - w[:-2]) / (t[2:] - t[:-2])[:, None])
    moment = about * inside + np.cross(angular_velocity, about * angular_velocity)
    at_centre = loads[:, 3:] + np.cross([0.0, 0.0, 0.55], loads[:, :3])
    np.testing.assert_allclose(at_centre, moment, atol=2e-3 * np.abs(moment).max())
    assert np.abs(angles).max() < 1.0


def test_soft_axes_carry_spring_and_damper(struck):
    """Along a compliant axis, what the joint passes on is its spring and damper."""
    outcome = struck[5.0]
    n = ARM.n
    for name, entry in (("joint1.slide_z", 2), ("joint2.slide_z", 2)):
        i = ARM.joint_index(name)
        own = 40.0 * outcome.states[:, 7 + i] + 5.0 * outcome.states[:, 13 + n + i]
        np.testing.assert_allclose(outcome.joint_wrenches[:, i, entry], own, atol=1e-10)
    i = ARM.joint_index("joint1.rotation_x")
    own = 40.0 * outcome.states[:, 7 + i] + 5.0 * outcome.states[:, 13 + n + i]
    np.testing.assert_allclose(outcome.joint_wrenches[:, i, 3], own, atol=1e-10)


def test_dampers_absorb_what_is_lost(struck):
    outcome = struck[5.0]
    absorbed = sum(outcome.absorbed_energy().values())
    left = outcome.energies["kinetic"][-1] + outcome.energies["elastic"][-1]
    assert absorbed + left == pytest.approx(outcome.energies["load"][-1], rel=1e-9)
    # And each damper by itself: d times the square of its rate, by trapezoids.
    i = ARM.joint_index("joint2.rotation_x")
    power = 5.0 * outcome.states[:, 13 + ARM.n + i] ** 2
    each = np.concatenate([[0.0], np.cumsum(0.5 * (power[1:] + power[:-1]) * np.diff(outcome.times))])
    np.testing.assert_allclose(outcome.damper_energy[:, i], each, atol=2e-2 * each[-1])


def test_shake_vanishes_when_locked_and_adds_to_the_united_body(struck):
    rigid = simulate_capture(ARM, REST, [six_hit()], duration=1.0, modes=ClutchMode("rigid"))
    assert np.abs(rigid.base_vibration).max() < 1e-15
    outcome = struck[1.0]
    row = 700
    state = State.from_vector(outcome.states[row])
    base, coupling, _ = Mechanics(ARM).mass_blocks(state.joints)
    united = np.linalg.solve(base, base @ state.velocity[:6] + coupling @ state.velocity[6:])
    np.testing.assert_allclose(outcome.base_vibration[row], state.velocity[:6] - united, atol=1e-14)


def test_rigid_mode_passes_on_the_base_s_share():
    outcome = simulate_capture(ARM, REST, [single_hit("fz")], duration=0.02, modes=ClutchMode("rigid"), sample=0.001)
    assert outcome.base_wrench[3, 2] == pytest.approx(50.0 * 200.0 / 216.0, rel=1e-12)
    assert np.abs(outcome.states[:, 7:15]).max() == 0.0


def test_clutch_switches_in_time():
    switches = [ClutchMode("rigid", SwitchAtTime(0.5)), ClutchMode("soft", SwitchAtTime(3.0)), ClutchMode("rigid")]
    outcome = simulate_capture(ARM, REST, [single_hit("mx")], duration=5.0, modes=switches, sample=0.01)
    assert outcome.switches == ((0.0, "rigid"), (0.5, "soft"), (pytest.approx(3.0), "rigid"))
    early, late = outcome.times < 0.5, outcome.times > 3.0 + 1e-9
    assert np.abs(outcome.states[early, 7:15]).max() == 0.0
    assert np.abs(outcome.states[late, 15 + 6 :]).max() == 0.0
    assert np.ptp(outcome.states[late, 7:15], axis=0).max() == 0.0
    assert outcome.impacts[0].lost > 0.0
    assert outcome.sound  # the energy ledger counts what the clutch took


def test_contact_is_felt_to_the_instant():
    hit = Load.pulse("hand", (0.0, 0.0, 50.0), duration=0.2, start=0.3, profile="half-sine")
    outcome = simulate_capture(
        ARM, REST, [hit], duration=2.0, modes=[ClutchMode("rigid", SwitchAtOverload(force=10.0)), ClutchMode("soft")]
    )
    # Locked, joint 2 carries the share of what lies inside it: 208/216 of the force, joint 1 200/216.
    wanted = 0.3 + 0.2 / np.pi * np.arcsin(10.0 / (50.0 * 208.0 / 216.0))
    assert outcome.switches[1][0] == pytest.approx(wanted, abs=1e-12)
    late = simulate_capture(
        ARM,
        REST,
        [hit],
        duration=2.0,
        modes=[ClutchMode("rigid", SwitchAtOverload(force=10.0, delay=0.05)), ClutchMode("soft")],
    )
    assert late.switches[1][0] == pytest.approx(wanted + 0.05, abs=1e-9)


def test_contact_by_a_jump_is_felt_at_the_jump():
    hit = Load.pulse("hand", (0.0, 0.0, 50.0), duration=0.2, start=0.37)
    outcome = simulate_capture(
        ARM, REST, [hit], duration=1.0, modes=[ClutchMode("rigid", SwitchAtOverload(force=10.0)), ClutchMode("soft")]
    )
    assert outcome.switches[1][0] == pytest.approx(0.37, abs=1e-10)
    never = simulate_capture(
        ARM, REST, [hit], duration=1.0, modes=[ClutchMode("rigid", SwitchAtOverload(moment=10.0)), ClutchMode("soft")]
    )
    assert never.switches == ((0.0, "rigid"),)


def test_clutch_closes_when_settled():
    limits = SwitchAtRest(2e-3, 2e-3)
    outcome = simulate_capture(
        ARM,
        REST,
        [six_hit()],
        duration=60.0,
        damping=5.0,
        modes=[ClutchMode("soft", limits), ClutchMode("rigid")],
        sample=0.01,
    )
    time = outcome.switches[1][0]
    assert 5.0 < time < 40.0
    n = ARM.n
    just = (outcome.times > time - 1.0) & (outcome.times <= time)
    rates = np.abs(outcome.states[just, 13 + n :]).max()
    assert rates < 2e-3
    before = (outcome.times > time - 5.0) & (outcome.times < time - 2.0)
    assert np.abs(outcome.states[before, 13 + n :]).max() > 5e-4
    assert 0.0 < outcome.impacts[0].lost < 1e-3
    assert outcome.sound


def test_closing_a_clutch_keeps_momentum():
    rng = np.random.default_rng(5)
    state = State(np.zeros(3), np.array([1.0, 0, 0, 0]), rng.normal(size=8) * 0.2, rng.normal(size=14))
    held = soft_axes(ARM, ["joint1"])
    impact = close_clutch(ARM, state, held)
    mech = Mechanics(ARM)
    np.testing.assert_allclose(
        mech.momentum(state.joints, impact.state.velocity), mech.momentum(state.joints, state.velocity), atol=1e-10
    )
    assert impact.energy_lost > 0.0
    for name in held:
        assert impact.state.rates[ARM.joint_index(name)] == 0.0


@pytest.mark.parametrize("held", [(), soft_axes(ARM), soft_axes(ARM, ["joint2"])])
def test_plastic_capture_keeps_momentum_and_joins_velocities(held):
    rng = np.random.default_rng(8)
    rates = np.array([0.0 if name in held else 0.1 * rng.normal() for name in ARM.joint_names])
    q = rng.normal(size=8) * 0.1
    start = State.from_velocities(
        ARM, q, rates, base_velocity=(0.01, 0.0, 0.02), base_angular_velocity=(0.0, 0.03, -0.01)
    )
    caught = catch(ARM, start, TARGET, held=held)
    mech, joined = Mechanics(ARM), Mechanics(caught.robot)
    pose = np.concatenate([start.position, start.quaternion])
    origin, rotation = mech.frame_pose("hand", q, base=pose)
    # Momentum of the target as a point set: its own velocity field at its mass centre, and spin about that.
    turned = rotation @ TARGET.placement.rotation
    arm = rotation @ (TARGET.placement.translation + TARGET.placement.rotation @ TARGET.inertia.com)
    centre_velocity = np.array(TARGET.velocity) + np.cross(TARGET.angular_velocity, arm)
    linear = TARGET.inertia.mass * centre_velocity
    angular = turned @ TARGET.inertia.tensor @ turned.T @ np.array(TARGET.angular_velocity) + np.cross(
        origin + arm, linear
    )
    before = mech.momentum(q, start.velocity, base=pose) + np.concatenate([linear, angular])
    after = joined.momentum(q, caught.state.velocity, base=pose)
    np.testing.assert_allclose(after, before, atol=1e-12)
    assert caught.impact.energy_lost > 0.0
    for name in held:
        assert caught.state.rates[ARM.joint_index(name)] == 0.0
    # What the target lost is what the hand got: the arm's own momentum changed by it.
    gained = mech.momentum(q, caught.state.velocity, base=pose, about=origin)
    gained = gained - mech.momentum(q, start.velocity, base=pose, about=origin)
    np.testing.assert_allclose(caught.hand_impulse, gained, atol=1e-12)


def test_shares_of_a_capture_add_up():
    caught = catch(ARM, REST, TARGET)
    outcome = simulate_capture(caught.robot, caught.state, duration=20.0, damping=5.0)
    assert outcome.sound
    shares = outcome.momentum_budget(caught)
    assert set(shares.linear) == {"base", "arm", "target"}
    linear, angular = shares.total
    np.testing.assert_allclose(linear, np.tile(linear[0], (len(linear), 1)), atol=1e-10)
    np.testing.assert_allclose(angular, np.tile(angular[0], (len(angular), 1)), atol=1e-9)
    mass = 216.0 + 50.0
    whole = Mechanics(caught.robot)
    pose = np.concatenate([caught.state.position, caught.state.quaternion])
    total = whole.momentum(caught.state.joints, caught.state.velocity, base=pose, about="com")
    np.testing.assert_allclose(np.concatenate([linear[0], angular[0]]), total, atol=1e-10)
    assert caught.robot.mass == pytest.approx(mass)
    # At the start the target still has most of what it brought, at the end the base has its share.
    assert np.linalg.norm(shares.linear["base"][0]) < 0.1 * np.linalg.norm(shares.linear["target"][0])
    assert np.linalg.norm(shares.linear["base"], axis=1).max() > 5.0 * np.linalg.norm(shares.linear["base"][0])


def test_stiff_contact_tends_to_the_plastic_law():
    """With a stiffer and stiffer grip the motion after contact tends to that of the plastic impact."""
    plastic = catch(ARM, REST, TARGET)
    reference = simulate_capture(plastic.robot, plastic.state, duration=3.0, damping=5.0, sample=0.5)
    gaps = []
    for stiffness in (2e3, 8e3, 32e3):
        grip = SoftAxis(stiffness, 0.02 * stiffness)
        soft = catch_softly(ARM, REST, TARGET, grip)
        assert soft.impact is None
        outcome = simulate_capture(soft.robot, soft.state, duration=3.0, damping=5.0, sample=0.5)
        assert outcome.sound
        rate = np.interp(3.0, outcome.times, np.linalg.norm(outcome.base_rate, axis=1))
        gaps.append(abs(rate - np.linalg.norm(reference.base_rate[-1])))
        linear, _ = outcome.momentum_budget(soft).total
        np.testing.assert_allclose(linear[0], np.array(linear[-1]), atol=1e-10)
    assert gaps[2] < 0.5 * gaps[0]
    assert gaps[2] < 0.02 * np.linalg.norm(reference.base_rate[-1])


def test_contact_through_a_soft_grip_is_felt_and_frees_the_joints():
    """The whole sequence: rigid arm, target touches, load felt at a joint, clutch opens."""
    soft = catch_softly(ARM, REST, TARGET, SoftAxis(3000.0, 60.0))
    switches = [ClutchMode("rigid", SwitchAtOverload(force=25.0, moment=25.0, delay=0.005)), ClutchMode("soft")]
    outcome = simulate_capture(soft.robot, soft.state, duration=5.0, damping=5.0, modes=switches, sample=0.001)
    opened = outcome.switches[1][0]
    assert 0.005 < opened < 0.5
    assert outcome.sound
    # Until then the joints were locked while the grip moved, and one of them carried the level at opening less delay.
    before = outcome.times < opened
    rows = [outcome.robot.joint_index(name) for name in soft_axes(ARM)]
    assert np.abs(outcome.states[before][:, [7 + i for i in rows]]).max() == 0.0
    assert np.abs(outcome.joint("contact.slide_z")[before]).max() > 1e-5
    carried = np.abs(outcome.reaction[:, [6 + i for i in rows]]).max(axis=1)
    assert np.interp(opened - 0.005, outcome.times, carried) == pytest.approx(25.0, rel=1e-3)
    assert carried[outcome.times < opened - 0.0055].max() < 25.0


def test_soft_contact_needs_all_axes_and_rigid_hands_rest():
    with pytest.raises(InputError, match="slide_x"):
        catch_softly(ARM, REST, TARGET, SoftJoint(slide_z=SoftAxis(100.0)))
    with pytest.raises(InputError, match="hand"):
        catch(ARM, REST, TARGET, "paw")
    moving = State.from_velocities(ARM, None, np.full(8, 0.1))
    with pytest.raises(InputError, match="held while it moves"):
        catch(ARM, moving, TARGET, held=["joint1.rotation_x"])


def test_drives_are_held_unless_freed():
    robot = soften(catalogue.load("xu2017"), "joint2", SoftJoint(rotation_z=SoftAxis(500.0, 20.0)))
    start = State.at_rest(robot)
    hit = Load.pulse(robot.bodies[-1].name, (5.0, 3.0, -4.0), duration=0.1)
    names = [name for name in robot.joint_names if name != "joint2.rotation_z"]
    held = simulate_capture(robot, start, [hit], duration=1.0)
    assert np.abs(np.stack([held.joint(name) for name in names])).max() == 0.0
    freed = simulate_capture(robot, start, [hit], duration=1.0, free=[names[-1]])
    assert np.abs(freed.joint(names[-1])).max() > 1e-4


def test_on_off_dampers_work_only_on_the_way_back():
    outcome = simulate_capture(ARM, REST, [six_hit()], duration=6.0, damping=OnOff(5.0, 0.0), sample=0.01)
    assert outcome.sound
    n = ARM.n
    for name in ("joint1.rotation_x", "joint2.rotation_y", "joint1.slide_z"):
        i = ARM.joint_index(name)
        work = np.diff(outcome.damper_energy[:, i])
        out = outcome.states[:, 7 + i] * outcome.states[:, 13 + n + i]
        going_out = (out[:-1] > 1e-9) & (out[1:] > 1e-9)
        assert np.abs(work[going_out]).max() == 0.0
        going_back = (out[:-1] < -1e-6) & (out[1:] < -1e-6) & (np.diff(outcome.times) > 1e-6)
        assert work[going_back].min() > 0.0
    full = simulate_capture(ARM, REST, [six_hit()], duration=6.0, damping=OnOff(3.0, 3.0), sample=0.01)
    plain = simulate_capture(ARM, REST, [six_hit()], duration=6.0, damping=3.0, sample=0.01)
    same = np.isin(np.round(full.times, 9), np.round(plain.times, 9))
    picked = full.states[same]
    times, first = np.unique(np.round(full.times[same], 9), return_index=True)
    assert len(times) == 601
    same, one = np.unique(np.round(plain.times, 9), return_index=True)
    np.testing.assert_array_equal(times, same)
    np.testing.assert_allclose(picked[first], plain.states[one], atol=1e-8)


def test_on_off_hit_that_comes_later_is_not_missed():
    hit = Load.pulse("hand", (0.0, 0.0, 50.0), duration=0.01, start=0.55)
    outcome = simulate_capture(ARM, REST, [hit], duration=3.0, damping=OnOff(5.0, 0.0))
    assert sum(outcome.absorbed_energy().values()) > 1e-3
    assert outcome.sound


def test_settling_of_a_known_decay():
    times = np.linspace(0.0, 10.0, 20001)
    size = np.exp(-0.5 * times)
    assert last_above(times, size, 0.05) == pytest.approx(np.log(20.0) / 0.5, abs=1e-6)
    base_vibration = np.zeros((times.size, 6))
    base_vibration[:, 2] = size
    assert SettlingCriterion(0.05).time(times, base_vibration) == pytest.approx(np.log(20.0) / 0.5, abs=1e-6)
    assert SettlingCriterion(1e-4).time(times, base_vibration) == np.inf
    assert SettlingCriterion(0.0, velocity=0.5).time(times, base_vibration) == pytest.approx(
        np.log(2.0) / 0.5, abs=1e-6
    )


def test_modes_are_those_of_small_motions():
    """A mode's shape, let go, comes back after its period (linear: small amplitude)."""
    found = modes(ARM)
    for number in (0, 3, 7):
        start = State.at_rest(ARM, 1e-6 * found.shape[number])
        period = 2.0 * np.pi / found.frequency[number]
        end = rollout(ARM, start.vector, period / 400, 400, overrides={"damping": np.zeros(8)})[-1]
        np.testing.assert_allclose(end[7:15], start.joints, atol=1e-10)


def test_axes_without_inertia_between_them_are_an_error():
    """A segment that is a point mass, turned by springs on both sides: nothing resists between them."""
    point = Inertia(8.0, np.array([0.0, 0.0, 0.375]), np.zeros((3, 3)))
    arm = replace_inertias(ARM, {"segment2": point})
    caught = catch_softly(arm, REST, TARGET, SoftAxis(2000.0, 50.0))
    with pytest.raises(InputError, match=r"rotation_z' and '\w+\.rotation_z' can move against"):
        simulate_capture(caught.robot, caught.state, duration=1.0)


def test_hopelessly_stiff_runs_are_an_error_before_they_start():
    thin = Inertia(8.0, np.array([0.0, 0.0, 0.375]), np.diag([5.0, 5.0, 1e-5]))
    arm = replace_inertias(ARM, {"segment2": thin})
    caught = catch_softly(arm, REST, TARGET, SoftAxis(2000.0, 50.0))
    with pytest.raises(InputError, match="rotation_z' decays at"):
        simulate_capture(caught.robot, caught.state, duration=20.0, damping=5.0)
    short = simulate_capture(caught.robot, caught.state, duration=0.01, damping=5.0)
    assert short.sound
    assert 0 < short.steps < 100_000


def test_mode_errors():
    for wrong in (
        lambda: ClutchMode("half"),
        lambda: ClutchMode("soft", SwitchAtOverload(1.0)),
        lambda: ClutchMode("rigid", SwitchAtRest()),
        lambda: SwitchAtTime(-1.0),
        SwitchAtOverload,
        lambda: SwitchAtRest(0.0),
        lambda: simulate_capture(ARM, REST, modes=[ClutchMode("rigid"), ClutchMode("soft")]),
        lambda: simulate_capture(ARM, REST, modes=[ClutchMode("rigid", SwitchAtTime(1.0))]),
        lambda: simulate_capture(ARM, REST, duration=0.0),
        lambda: simulate_capture(ARM, REST, travel="maybe"),
    ):
        with pytest.raises(InputError):
            wrong()
