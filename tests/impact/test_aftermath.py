"""What is shown after a hit keeps the momentum of both."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from spacearm.engine import mechanics_of
from spacearm.impact import FloatingSystem, build_system, collide, free_body
from spacearm.impact.aftermath import simulate_aftermath
from spacearm.model import catalogue


@pytest.mark.parametrize("kind", ["normal", "grasp"])
def test_what_is_shown_flies_on_as_the_hit_left_it(kind: Literal["normal", "grasp"]) -> None:
    """Momentum of both, by the parts' own, before the hit and at the end of what is shown."""
    chain = FloatingSystem(catalogue.load("yoshida1992"), "hand", "L", locked=["joint1"])
    ball = build_system(free_body(2.0, [0.2, 0.3, 0.4]), "contact", velocity=[0.3, 0.8, 0.0]).move_to_contact(chain)
    hit = collide(chain, ball, kind=kind, normal=None if kind == "grasp" else [0.0, 1.0, 0.0])
    run = simulate_aftermath(hit, chain, ball, welded=kind == "grasp")
    total = sum(
        mechanics_of(run.world.own_robot(name)).momentum(end.joints, end.velocity, base=end.pose, about=np.zeros(3))
        for name, end in run.ends.items()
        if end is not None
    )
    np.testing.assert_allclose(total[:3], [0.6, 1.6, 0.0], atol=1e-9)
    lever = np.cross(chain.contact_point, [0.6, 1.6, 0.0])
    np.testing.assert_allclose(total[3:], lever, atol=1e-8)
    assert len(run.ends) == (1 if kind == "grasp" else 2)
