"""Maps of the workspace, against the closed forms of a planar arm with two joints."""

from __future__ import annotations

import numpy as np
import pytest
from tests.control.test_workspace import BASE_ARM, INERTIA, MASS, planar

from spacearm import control
from spacearm.control.maps import evaluate_arm
from spacearm.control.workspace import longest_reach
from spacearm.errors import InputError
from spacearm.study.scenario import run_document
from support import ROOT

TOTAL = sum(MASS)
#: Links of the virtual manipulator: of base, upper arm, forearm (links of 1 m, mass centres in their middles).
LINKS = np.array([BASE_ARM * MASS[0], MASS[0] + 0.5 * MASS[1], MASS[0] + MASS[1] + 0.5 * MASS[2]]) / TOTAL


def shares(q: np.ndarray) -> np.ndarray:
    """D_j: angular momentum about the mass centre is sum D_j w_j, with the bodies' own angular velocities w_j.

    From the bodies' mass centres as sums of vectors along the three links.
    """
    to_centre = np.array([[0.0, 0, 0], [BASE_ARM, 0.5, 0], [BASE_ARM, 1.0, 0.5]])
    own = to_centre - np.array(MASS) @ to_centre / TOTAL
    angle = np.array([0.0, q[0], q[0] + q[1]])
    turns = np.cos(angle[:, None] - angle)
    return np.array(INERTIA) + np.einsum("k,ki,kj,ij->j", MASS, own, own, turns)


def singular(q: np.ndarray) -> float:
    """Zero at dynamic singularities: bc D0 sin q2 - ac D1 sin(q1 + q2) + ab D2 sin q1 (Papadopoulos, Dubowsky 1993)."""
    (a, b, c), d = LINKS, shares(q)
    return b * c * d[0] * np.sin(q[1]) - a * c * d[1] * np.sin(q[0] + q[1]) + a * b * d[2] * np.sin(q[0])


def test_singular_configurations_and_reach_are_those_of_the_closed_form():
    robot = planar()
    ranges = {"q0": (-np.pi, np.pi), "q1": (0.3, np.pi)}
    found = control.workspace(robot, "hand", ranges, rows=(0, 1), count=61)
    scale = max(abs(singular(np.array([x, 1.5]))) for x in np.linspace(-3, 3, 20))
    assert len(found.configurations) > 20
    for q in found.configurations:
        assert abs(singular(q)) < 1e-10 * scale
    grid = np.linspace(0.3, np.pi, 2000)
    changes = 0
    for q0 in np.linspace(-np.pi, np.pi, 61):
        signs = np.signbit([singular(np.array([q0, q1])) for q1 in grid])
        changes += int(np.sum(signs[1:] != signs[:-1]))
    assert len(found.configurations) == changes
    # Links of 0.43, 0.89 and 0.97 m reach their sum when stretched, and no farther.
    assert longest_reach(robot, "hand") == pytest.approx(LINKS.sum(), abs=1e-12)
    stretched = control.workspace(robot, "hand", {"q0": (-1.0, 1.0), "q1": (-1.0, 1.0)}, rows=(0, 1), count=21)
    assert stretched.reach[1] == pytest.approx(LINKS.sum(), abs=1e-12)
    low, high = found.independent()[-1]
    assert high == found.reach[1]
    assert low == pytest.approx(found.radii.max(), abs=1e-12)


def test_manipulability_and_disturbance_at_configurations():
    robot = planar()
    seen = evaluate_arm(robot, "hand", [[0.4, 1.2], [2.0, 0.7], [-1.0, 2.5]], (0, 1), (0, 1))
    for k, q in enumerate(np.array([[0.4, 1.2], [2.0, 0.7], [-1.0, 2.5]])):
        d, angle = shares(q), np.array([0.0, q[0], q[0] + q[1]])
        angular_rate = -np.array([d[1] + d[2], d[2]]) / d.sum()  # of the base, for each joint rate
        rates = np.array([angular_rate, angular_rate + np.array([1, 0]), angular_rate + np.array([1, 1])])
        across = np.stack([-np.sin(angle), np.cos(angle)])
        jacobian = (across * LINKS) @ rates
        assert seen.manipulability[k] == pytest.approx(abs(np.linalg.det(jacobian)), rel=1e-10)
        assert seen.disturbance[k] == pytest.approx(np.linalg.norm(angular_rate), rel=1e-10)
        assert seen.cost[k] == pytest.approx(np.linalg.norm(angular_rate @ np.linalg.inv(jacobian)), rel=1e-9)
        place = LINKS @ np.stack([np.cos(angle), np.sin(angle)], 1)
        np.testing.assert_allclose(seen.place[k], [*place, 0.0], atol=1e-12)


def test_a_map_over_places_is_filled_where_the_hand_gets():
    """In the plane, with the elbow anywhere: a ring about the shoulder's virtual link; nothing beyond."""
    made = control.hand_map(
        planar(), "hand", {"q0": (-np.pi, np.pi), "q1": (-np.pi, np.pi)}, (0, 1), np.zeros(2),
        axes="xy", thickness=0.1, samples=40_000, cells=40,
    )  # fmt: skip
    middle = 0.5 * (made.edges[0][1:] + made.edges[0][:-1])
    x, y = np.meshgrid(middle, middle, indexing="ij")
    away, cell = np.hypot(x - LINKS[0], y), made.edges[0][1] - made.edges[0][0]
    inside = (away < LINKS[1] + LINKS[2] - cell) & (away > LINKS[2] - LINKS[1] + cell)
    outside = away > LINKS[1] + LINKS[2] + cell
    assert (made.count[inside] > 0).all()
    assert (made.count[outside] == 0).all()
    assert np.isnan(made.manipulability[outside]).all()
    assert made.count.sum() == 40_000


def test_the_workspace_study_and_its_errors():
    document = {"study": "workspace", "robot": "planar", "twist": ["x", "y"], "plane": ["x", "y"], "samples": 2000}
    result = run_document(document | {"grid": 11}, folder=ROOT, robots={"planar": planar()})
    rows = {row.quantity: row.value for row in result.rows}
    assert result.certificate.sound
    assert rows["reach.most"] == pytest.approx(LINKS.sum(), abs=1e-6)
    assert [figure.name for figure in result.figures] == ["places", "joints", "distances"]
    wrong = {
        "2 joints move, but 3 components are given": {"twist": ["x", "y", "z"]},
        "no component 'up'": {"twist": ["up"]},
        "has the range 1 to -1": {"ranges": {"q0": [1.0, -1.0], "q1": [0.0, 1.0]}},
        "axes are 'x, x'": {"plane": ["x", "x"]},
        "elbow": {"across": ["q0", "elbow"]},
    }
    for message, given in wrong.items():
        with pytest.raises(InputError, match=message):
            run_document(document | given, folder=ROOT, robots={"planar": planar()})
