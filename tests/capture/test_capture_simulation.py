"""Catch, clutch and soft motion as one chain: no impact without a word, every impact in ledger and certificate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spacearm.capture import (
    LoadCase,
    SoftAxis,
    SoftJoint,
    SwitchAtTime,
    Target,
    catch,
    catch_softly,
    close_clutch,
    design,
    simulate_capture,
    soften,
)
from spacearm.capture.clutch import ClutchMode, SwitchAtRest
from spacearm.capture.soft_joints import soft_axes
from spacearm.errors import InputError, SimulationError
from spacearm.impact import FloatingSystem, collide
from spacearm.model import Body, Inertia, Robot, catalogue
from spacearm.simulate import CertificateWarning, Load, Lock, State
from spacearm.simulate.changes import ChangeResult
from support import brute_force

SOFT = SoftJoint(rotation_x=SoftAxis(300.0, 20.0), rotation_y=SoftAxis(300.0, 20.0))
ARM = soften(catalogue.load("xu2017"), "joint3", SOFT)
REST = State.at_rest(ARM, 0.3 * np.arange(ARM.n) / ARM.n)
TARGET = Target(
    Inertia(40.0, np.array([0.1, 0.0, 0.2]), np.diag([4.0, 5.0, 6.0])), (-0.05, 0.02, 0.01), (0.02, 0.0, 0.1)
)
GIVEN: dict[str, Any] = {"stiffness": (100.0, 400.0), "damping": (10.0, 40.0), "objectives": ("base_rate",), "runs": 64}


def test_a_catch_holds_what_the_motion_after_it_holds() -> None:
    caught = catch(ARM, REST, TARGET)
    drives = [name for name in ARM.joint_names if name not in soft_axes(ARM)]
    assert len(drives) == 6
    for name in drives:
        assert caught.state.rates[caught.robot.joint_index(name)] == 0.0
    body = Robot("target", (Body("body", TARGET.inertia),))
    hand = FloatingSystem.from_state(ARM, "hand", REST, locked=drives)
    _, rotation = hand.point.mechanics.frame_pose("hand", REST.joints)
    motion = np.concatenate([rotation.T @ TARGET.velocity, rotation.T @ TARGET.angular_velocity])
    pose = hand.point.mechanics.frame_pose("hand", REST.joints)[0]
    other = FloatingSystem(body, "body", None, np.concatenate([pose, _quaternion(rotation)]), motion)
    reference = collide(hand, other, kind="grasp")
    np.testing.assert_allclose(caught.state.velocity, reference.first.after, atol=1e-12)
    outcome = simulate_capture(caught.robot, caught, duration=2.0)
    assert outcome.sound
    assert [impact.text for impact in outcome.impacts] == ["target attached to hand"]
    assert outcome.impacts[0].lost == pytest.approx(float(reference.energy_lost), rel=1e-10)
    np.testing.assert_array_equal(outcome.energies["impacts"], outcome.impacts[0].lost)
    np.testing.assert_array_equal(outcome.states[0], caught.state.vector)


def _quaternion(rotation: np.ndarray) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    return np.roll(Rotation.from_matrix(rotation).as_quat(), 1)


def test_a_catch_that_frees_what_is_held_afterwards_is_refused() -> None:
    caught = catch(ARM, REST, TARGET, held=())
    for start in (caught, caught.state):
        with pytest.raises(InputError, match=r"joint 'joint1' moves at .* but is held: an impact would stop it"):
            simulate_capture(caught.robot, start, duration=1.0)
    assert simulate_capture(caught.robot, caught, duration=1.0, free=ARM.joint_names).sound


def test_a_rigid_clutch_right_after_a_soft_catch_is_refused() -> None:
    caught = catch(ARM, REST, TARGET)
    modes = [ClutchMode("rigid", SwitchAtTime(0.5)), ClutchMode("soft")]
    with pytest.raises(InputError, match=r"joint 'joint3.rotation_[xy]' moves"):
        simulate_capture(caught.robot, caught, duration=1.0, modes=modes)
    rigid = catch(ARM, REST, TARGET, held=ARM.joint_names)
    outcome = simulate_capture(rigid.robot, rigid, duration=1.0, modes=modes)
    assert len(outcome.impacts) == 1


def test_a_soft_catch_has_no_impact() -> None:
    caught = catch_softly(ARM, REST, TARGET, SoftAxis(2000.0, 50.0))
    outcome = simulate_capture(caught.robot, caught, duration=0.5)
    assert outcome.impacts == ()
    assert outcome.sound


def test_drives_that_move_are_stopped_only_by_an_impact_that_is_asked_for() -> None:
    start = State.from_velocities(ARM, REST.joints, np.full(ARM.n, 0.05))
    with pytest.raises(InputError, match="close_clutch"):
        simulate_capture(ARM, start, duration=1.0)
    drives = [name for name in ARM.joint_names if name not in soft_axes(ARM)]
    impact = close_clutch(ARM, start, drives)
    outcome = simulate_capture(ARM, impact, duration=1.0)
    mass = brute_force.mass_matrix(ARM, start.joints)
    free = [i for i, name in enumerate(ARM.dof_names) if name not in drives]
    held = [i for i in range(ARM.dofs) if i not in free]
    after = np.zeros(ARM.dofs)
    after[free] = np.linalg.solve(mass[np.ix_(free, free)], (mass @ start.velocity)[free])
    lost = 0.5 * (start.velocity @ mass @ start.velocity - after @ mass @ after)
    assert lost > 1e-3
    assert outcome.impacts[0].lost == pytest.approx(lost, rel=1e-10)
    found = [outcome.impacts[0].changed.impulse[ARM.dof_names[i]] for i in held]
    np.testing.assert_allclose(found, (mass @ (after - start.velocity))[held], atol=1e-12)
    assert outcome.energies["impacts"][0] == outcome.impacts[0].lost
    assert outcome.certificate["change_energy"].sound
    assert "joint1, joint2" in outcome.certificate["change_energy"].note
    assert outcome.sound


@pytest.mark.parametrize("first", [True, False], ids=["at the start", "later"])
def test_energy_that_an_impact_is_wrong_about_is_not_sound(monkeypatch: pytest.MonkeyPatch, first: bool) -> None:
    moving = REST.rates.copy()
    moving[[ARM.joint_index(name) for name in soft_axes(ARM)]] = 0.2
    start = State.from_velocities(ARM, REST.joints, moving)
    modes = [ClutchMode("rigid")] if first else [ClutchMode("soft", SwitchAtTime(0.1)), ClutchMode("rigid")]
    assert simulate_capture(ARM, start, duration=0.5, modes=modes).sound

    true = Lock.apply

    def wrong(*given: Any) -> ChangeResult:
        changed = true(*given)
        return replace(changed, lost=1.001 * changed.lost)

    monkeypatch.setattr(Lock, "apply", wrong)
    with pytest.warns(CertificateWarning, match="energy"):
        outcome = simulate_capture(ARM, start, duration=0.5, modes=modes)
    assert not outcome.certificate["change_energy"].sound


def test_the_work_of_an_impact_s_impulses_is_what_it_takes() -> None:
    start = State.from_velocities(ARM, REST.joints, np.full(ARM.n, 0.05))
    impact = close_clutch(ARM, start, ARM.joint_names)
    assert impact.entry.residuals["energy"] < 1e-14
    assert impact.entry.residuals["momentum"] < 1e-14
    assert impact.energy_lost == pytest.approx(
        -0.5 * impact.impulse @ (start.velocity + impact.state.velocity), rel=1e-12
    )


def test_a_mode_that_ends_before_it_begins_is_an_error() -> None:
    arm = catalogue.load("zhang2020")
    hit = Load.pulse("hand", (0.0, 0.0, 50.0))
    modes = [ClutchMode("soft", SwitchAtRest(2e-3, 2e-3)), ClutchMode("rigid", SwitchAtTime(1.0)), ClutchMode("soft")]
    with pytest.raises(SimulationError, match=r"mode 2 \(rigid\) ends at 1 s, but mode 1 lasts until \d+\.\d+ s"):
        simulate_capture(arm, State.at_rest(arm), hit, duration=60.0, damping=5.0, modes=modes)
    later = [ClutchMode("soft", SwitchAtRest(2e-3, 2e-3)), ClutchMode("rigid", SwitchAtTime(50.0)), ClutchMode("soft")]
    outcome = simulate_capture(arm, State.at_rest(arm), hit, duration=60.0, damping=5.0, modes=later)
    assert [mode for _, mode in outcome.switches] == ["soft", "rigid", "soft"]
    with pytest.raises(InputError, match="more than 0"):
        SwitchAtTime(0.0)


def test_a_capture_is_a_start_of_a_case() -> None:
    caught = catch(ARM, REST, TARGET)
    with pytest.raises(InputError, match=r"loads: holds .*Caught"):
        LoadCase(caught)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"loads: holds .*Caught"):
        simulate_capture(caught.robot, caught.state, [caught])  # type: ignore[list-item]
    with pytest.raises(InputError, match=r"does not hold 'target'"):
        design(ARM, [LoadCase(start=caught)], duration=2.0, **GIVEN)
    with pytest.raises(InputError, match="is a str"):
        simulate_capture(ARM, "rest")  # type: ignore[arg-type]
    front = design(caught.robot, [LoadCase(start=caught)], duration=4.0, **GIVEN)
    same = design(caught.robot, [LoadCase((), caught.state)], duration=4.0, **GIVEN)
    np.testing.assert_array_equal(front.values, same.values)
    assert front.verify([0]) < 0.01
    loose = catch(ARM, REST, TARGET, held=())
    with pytest.raises(InputError, match="but is held"):
        design(loose.robot, [LoadCase(start=loose)], duration=2.0, **GIVEN)
