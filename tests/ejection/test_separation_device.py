"""The device and the rig: what cannot be is refused, with its place and what would be right."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.ejection import Rig, SeparationDevice, eject, eject_batch
from spacearm.errors import InputError
from spacearm.model import Friction, Inertia
from spacearm.simulate.bodies import evaluate_bodies, momentum


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stroke": 0.0}, "stroke is 0"),
        ({"stroke": -0.1}, "stroke is -"),
        ({"compression": 0.0}, "fully extended at the start"),
        ({"compression": -0.01}, "fully extended at the start"),
        ({"compression": 0.05}, "fully extended before the end"),
        ({"stiffness": 0.0}, "stiffness is 0"),
        ({"springs": 0}, "number of springs"),
        ({"springs": True}, "number of springs"),
        ({"springs": 2.5}, "number of springs"),
        ({"direction": np.array([0.0, 0.0, 2.0])}, "rail direction has length 2"),
        ({"friction": Friction(200.0, 10.0)}, "holds the springs"),
        ({"satellite": Inertia.massless()}, "no mass"),
        ({"damping": -1.0}, "damping is -1"),
        ({"stroke": np.nan}, "stroke is nan"),
    ],
)
def test_impossible_devices(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        SeparationDevice(**{"stiffness": 812.7, "stroke": 0.086, "springs": 2, **changes})  # type: ignore[arg-type]
    assert caught.value.place == "separation device"


def test_static_below_coulomb_friction_is_refused(rig: Rig) -> None:
    with pytest.raises(InputError, match="static friction 1 is below Coulomb friction 2"):
        Friction(1.0, 2.0)
    with pytest.raises(InputError, match="below Coulomb"):
        eject_batch(
            rig, rig.arm.configuration("attitude1"), overrides={"static": np.ones(3), "coulomb": 2.0 * np.ones(3)}
        )


def test_a_configuration_outside_the_limits_is_refused_by_joint(rig: Rig) -> None:
    with pytest.raises(InputError, match=r"'joint4' at 0\.1 rad is outside its limits") as caught:
        eject(rig, [0.0, 0.1, 0.0])
    assert "-3.14159 to 0" in caught.value.hint
    with pytest.raises(InputError, match="joint2"):
        eject_batch(rig, [[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    with pytest.raises(InputError, match="finite"):
        eject(rig, [np.nan, 0.0, 0.0])
    with pytest.raises(InputError, match="expected 3 numbers"):
        eject(rig, [0.0, 0.0])
    with pytest.raises(InputError, match="no configuration"):
        eject(rig, "attitude9")


def test_a_rail_that_leaves_the_table_is_refused(rig: Rig) -> None:
    with pytest.raises(InputError, match="leaves the table"):
        Rig(rig.arm, SeparationDevice(812.7, 0.086, 2, direction=np.array([0.0, 0.6, 0.8])), "y")
    with pytest.raises(InputError, match="normal"):
        Rig(rig.arm, rig.device, "q")  # type: ignore[arg-type]


def test_splitting_keeps_momentum_and_energy() -> None:
    """Arm and satellite apart have the momentum and energy that they had together, for any state."""
    from spacearm.model import catalogue

    arm = catalogue.load("cai2023")
    satellite = Inertia(300.0, np.array([0.1, -0.2, -0.5]), np.diag([40.0, 50.0, 60.0]))
    direction = np.array([1.0, 2.0, 2.0]) / 3.0
    rig = Rig(arm, SeparationDevice(812.7, 0.086, 2, direction=direction, satellite=satellite))
    draw = np.random.default_rng(4)
    states = draw.standard_normal((20, 13 + 2 * 8))
    states[:, 3:7] /= np.linalg.norm(states[:, 3:7], axis=1, keepdims=True)
    whole = momentum(
        rig.mounted_robot,
        evaluate_bodies(rig.mounted_robot, states),
        states,
        rig.mounted_robot.inertia_parameters,
        np.zeros(0),
    )
    first, second = rig.split(states)
    parts = [
        momentum(robot, evaluate_bodies(robot, own), own, robot.inertia_parameters, np.zeros(0))
        for robot, own in ((rig.arm, first), (rig.satellite, second))
    ]
    for name in ("linear", "angular", "kinetic"):
        total = sum(getattr(part, name) for part in parts)
        np.testing.assert_allclose(total, getattr(whole, name), rtol=1e-12, atol=1e-9)


def test_quarter_period() -> None:
    device = SeparationDevice(800.0, 0.1, np.int64(2))
    assert device.quarter_period(50.0) == pytest.approx(np.pi / 2 * np.sqrt(50.0 / 1600.0), rel=1e-15)
    assert device.energy == pytest.approx(8.0, rel=1e-15)
    # Springs that still push when the arm leaves: 0.2 m compressed, over 0.1 m.
    strong = SeparationDevice(800.0, 0.1, 2, compression=0.2)
    assert strong.quarter_period(50.0) == pytest.approx(np.pi / 3 * np.sqrt(50.0 / 1600.0), rel=1e-15)
    assert strong.energy == pytest.approx(0.5 * 1600.0 * (0.04 - 0.01), rel=1e-15)
