"""Yoshida 1992 and scenario files: rows, figures, certificates, errors with their place."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from spacearm.cli import main
from spacearm.errors import InputError
from spacearm.impact import build_system, collide, free_body
from spacearm.impact.crosscheck import tensor_by_mujoco
from spacearm.impact.tensor import impact_point
from spacearm.model import catalogue
from spacearm.papers import PAPERS
from spacearm.papers.yoshida1992.configurations import find_configurations, line_angle, random_configurations, survey
from spacearm.result import Result
from spacearm.study import run_document, run_scenario
from spacearm.typing import Array
from support import ROOT
from support.figure_rules import result_faults
from support.pages import check_pages
from support.population import member, member_state

EXAMPLES = ROOT / "examples"
RANGE = {"joint1": [0.0, 1.0]}
PLANE = {"map": {"plane": [0.0, 0.0, 1.0], "directions": 91}}
TARGET = {"target": {"mass": 1.0, "inertia": [0.1, 0.1, 0.1], "velocity": [1.0, 0.0, 0.0]}}


def chain(**more: object) -> dict[str, object]:
    return {
        "study": "impact",
        "robot": "yoshida1992",
        "frame": "hand",
        "start": {"configuration": "L"},
        **PLANE,
        **more,
    }


def slides(**more: object) -> dict[str, object]:
    return {"study": "impact", "robot": "zhang2020", "frame": "hand", "map": {"directions": 50}, **more}


def run_here(document: dict[str, object], **options: bool) -> Result:
    return run_document({"study": "impact", **document}, folder=Path(), **options)


@pytest.fixture(scope="module")
def paper() -> Result:
    return PAPERS["yoshida1992"].reproduce(cross_check=True)


def test_the_paper_has_every_row_that_it_must_have(paper: Result) -> None:
    rows = {row.quantity: row for row in paper.rows}
    for case in ("fixed", "free", "half"):
        for what, unit in (("peak", "kg"), ("peak_direction", "deg"), ("minimum", "kg")):
            assert rows[f"virtual_mass.{case}.{what}"].unit == unit
    value = {name: row.value for name, row in rows.items()}
    assert value["virtual_mass.fixed.peak"] == pytest.approx(3.0, rel=1e-12)
    assert value["virtual_mass.fixed.peak_direction"] == pytest.approx(np.degrees(np.arctan(1.25)), rel=1e-9)
    assert value["virtual_mass.free.peak"] == pytest.approx(9 / 7, rel=1e-12)
    assert value["virtual_mass.free.peak_direction"] == pytest.approx(90.0, rel=1e-9)
    assert value["virtual_mass.half.peak"] == pytest.approx(1.4888298793, rel=1e-9)
    assert value["virtual_mass.half.peak_direction"] == pytest.approx(82.133997607, rel=1e-9)
    assert value["virtual_mass.fixed.minimum"] == pytest.approx(0.95, rel=1e-12)
    assert value["virtual_mass.free.minimum"] == pytest.approx(9 / 28, rel=1e-12)
    assert value["virtual_mass.half.minimum"] == pytest.approx(0.5087094908, rel=1e-9)
    assert [row.quantity for row in paper.rows if row.verdict == "differs"] == ["eq29.sign"]
    assert [row.quantity for row in paper.rows if row.verdict == "fitted"] == ["mass_centre.direction"]
    for row in paper.rows:  # every agreement says by which measure
        if row.verdict == "agrees" and row.value is not True:
            assert "tolerance" in row.note or "agrees when" in row.note, row.quantity
    # Only what can fail agrees; the rest of Sec. 6 holds in any configuration.
    assert {row.quantity for row in paper.rows if row.verdict == "agrees"} == {
        "virtual_mass.free.peak",
        "virtual_mass.free.peak_direction",
        "virtual_mass.half.between_everywhere",
        "limit.eq13",
        "limit.eq14",
        "limit.eq15",
    }
    nothing = {row.quantity for row in paper.rows if row.verdict == "no evidence"}
    assert nothing == {
        "virtual_mass.fixed.peak",
        "virtual_mass.fixed.peak_direction",
        "virtual_mass.half.peak",
        "virtual_mass.half.peak_direction",
        *(f"psi.{case}.at_peak" for case in ("fixed", "free", "half")),
        *(f"impulse.{case}.peak_direction" for case in ("fixed", "free", "half")),
    }
    assert all("every one of 1500 random configurations" in rows[name].note for name in nothing)
    assert rows["configuration"].verdict == "not recoverable"
    assert "32 configurations satisfy every sentence of Sec. 6, with q1 from -8 to 84 deg" in rows["configuration"].note
    assert "32 configurations" in paper.summary
    assert value["energy.half.moving.largest_gain"] > 0.1


def planar(q1: float, q2: float) -> tuple[Array, Array, Array, Array]:
    """G11 (2, 2) of free and fixed joints, of half resistance, and the mass centre from the struck end; by hand.

    Rods of 1 m and 1 kg, the struck one from the origin along 90 deg: coordinates are the end's place and all angles.
    """
    turn = np.array([np.pi / 2, np.pi / 2 - q2, np.pi / 2 - q2 - q1])
    along = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    across = np.stack([-along[:, 1], along[:, 0]], axis=1)
    mass, centre = np.zeros((5, 5)), np.zeros(2)
    for lengths in ([0.5, 0, 0], [1, 0.5, 0], [1, 1, 0.5]):
        jacobian = np.concatenate([np.eye(2), (np.array(lengths)[:, None] * across).T], axis=1)
        mass += jacobian.T @ jacobian
        centre += np.array(lengths) @ along / 3
    mass[2:, 2:] += np.eye(3) / 12.0
    free = np.linalg.inv(mass)[:2, :2]
    rigid = np.zeros((5, 3))
    rigid[:2, :2], rigid[2:, 2] = np.eye(2), 1.0
    fixed = (rigid @ np.linalg.inv(rigid.T @ mass @ rigid) @ rigid.T)[:2, :2]
    return free, fixed, 0.5 * (free + fixed), centre


def test_configurations_that_fit_are_those_of_rods_by_hand() -> None:
    """Each one that is counted satisfies what can fail; a step beside them that is not counted does not."""
    point = impact_point(catalogue.load("yoshida1992"), "hand")
    counted = {(round(q1), round(q2)) for q1, q2 in find_configurations(point)}
    assert len(counted) == 32
    assert (min(q1 for q1, _ in counted), max(q1 for q1, _ in counted)) == (-8, 84)
    assert {(0, 90), (76, 92)} <= counted
    ring = np.radians(np.arange(0.0, 180.0, 0.5))
    around = np.stack([np.cos(ring), np.sin(ring)], axis=1)
    near = {(q1 + 2 * i, q2 + 2 * j) for q1, q2 in counted for i in (-1, 0, 1) for j in (-1, 0, 1)}
    for q1, q2 in near:
        free, fixed, half, centre = planar(np.radians(q1), np.radians(q2))
        heavy = [np.linalg.eigh(block)[1][:, 0] for block in (free, half)]
        along, between = (np.degrees(np.arctan2(y, x)) % 180.0 for x, y in heavy)
        masses = [1.0 / np.linalg.norm(around @ block, axis=1) for block in (free, half, fixed)]
        fits = abs(np.degrees(np.arctan2(centre[1], centre[0])) - 51.0) <= 0.5 and abs(along - 90.0) <= 0.5
        fits = fits and 1.0 / np.linalg.eigvalsh(free)[0] < 1.5 and 51.0 < between < 90.0
        fits = fits and bool(np.all(masses[0] < masses[1]) and np.all(masses[1] < masses[2]))
        assert fits == ((q1, q2) in counted), (q1, q2)


def test_limits_of_the_tensor_and_the_sign_of_equation_29(paper: Result) -> None:
    rows = {row.quantity: row for row in paper.rows}
    assert rows["eq29.sign"].value == pytest.approx(-1.0, abs=1e-12)
    assert rows["limit.eq13"].value < 1e-12
    assert rows["limit.eq14"].value < 1e-12
    assert 0.0 < rows["limit.eq15"].value < 1e-6  # a rod of a million kg
    assert "falls as 1/mass to the power 1.000" in rows["limit.eq15"].note


def test_the_survey_of_configurations_is_that_of_rods_by_hand() -> None:
    point = impact_point(catalogue.load("yoshida1992"), "hand")
    angles = random_configurations()[:100]
    found = survey(point, angles)
    for k, (q1, q2) in enumerate(angles):
        free, fixed, half, centre = planar(q1, q2)
        for name, block in (("free", free), ("fixed", fixed), ("half", half)):
            values, vectors = np.linalg.eigh(block)
            assert found.peak[name][k] == pytest.approx(1 / values[0], rel=1e-9)
            x, y = vectors[:, 0]
            assert line_angle(found.direction[name][k], np.degrees(np.arctan2(y, x))) < 1e-6
        assert found.centre[k] == pytest.approx(np.degrees(np.arctan2(centre[1], centre[0])), abs=1e-9)
        assert found.holds["virtual_mass.free.peak"][k] == (np.linalg.eigvalsh(free)[0] > 1 / 1.5)


def test_a_sentence_that_is_false_in_one_configuration_is_evidence() -> None:
    point = impact_point(catalogue.load("yoshida1992"), "hand")
    found = survey(point, random_configurations())
    some = {name for name in found.holds if 0 < found.holds[name].mean() < 1}
    assert some == {
        "virtual_mass.free.peak",
        "virtual_mass.free.peak_direction",
        "virtual_mass.half.between_everywhere",
    }
    assert not any("no evidence" in found.share(name) for name in some)


def test_the_papers_figures_and_certificate(paper: Result) -> None:
    assert {"fig6a", "fig6b", "configuration"} <= {figure.name for figure in paper.figures}
    assert paper.sound
    assert paper.certificate["momentum"].value < 1e-12
    assert paper.certificate["elastic_energy"].value < 1e-12
    assert paper.certificate["grasp_twists"].value < 1e-12
    assert paper.certificate["hybrid_dynamics"].value < 1e-12
    assert paper.certificate["cross_check.mujoco"].value < 1e-12
    assert paper.data is not None
    assert paper.data["absolute_mass"].attrs["units"] == "kg"
    peak = float(paper.data["absolute_mass"].sel(case="fixed").max())
    assert peak == pytest.approx(3.0, rel=1e-5)


def test_the_papers_psi_is_positive_counter_clockwise(paper: Result) -> None:
    """Fixed joints, pushed along x: the mass centre lies above the line, so the end yields clockwise, below it."""
    assert paper.data is not None
    psi = paper.data["psi"].sel(case="fixed")
    # G11 of the united body: 1/3 kg, I_g about its mass centre, which is (2/3, 5/6) m from the struck end
    rx, ry = -2 / 3, -5 / 6
    offsets = np.array([[0.0, 0.5], [0.5, 1.0], [1.5, 1.0]]) + np.array([rx, ry])
    inertia = 3 / 12 + float(np.sum(offsets**2))
    pushed = np.array([1 / 3 + ry**2 / inertia, -rx * ry / inertia])
    assert float(psi.sel(theta=0.0)) == pytest.approx(np.degrees(np.arctan2(pushed[1], pushed[0])), abs=1e-9)
    assert float(psi.sel(theta=0.0)) < -20.0


def test_the_command_line_writes_the_papers_folder(tmp_path: Path) -> None:
    assert main(["reproduce", "yoshida1992", "-o", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "yoshida1992" / "results.json").read_text())
    verdicts = {row["quantity"]: row["verdict"] for row in found["rows"]}
    assert verdicts["virtual_mass.half.peak"] == "no evidence"
    assert "no evidence" in (tmp_path / "yoshida1992" / "index.html").read_text(encoding="utf-8")
    assert 'id="fig6a"' in (tmp_path / "yoshida1992" / "index.html").read_text(encoding="utf-8")
    assert (tmp_path / "plotly.min.js").is_file()  # one for all papers


@pytest.mark.parametrize("index", [3, 16, 40])
def test_the_cross_check_is_another_way_to_the_same_tensor(index: int) -> None:
    robot = member(index)
    state, rng = member_state(index, 5)
    frame, base = "frame1", np.concatenate([state.position, state.quaternion])
    modes = {"locked": (rng.random(robot.n) < 0.4).astype(float), "resistance": rng.random(robot.n)}
    ours = impact_point(robot, frame).tensor(state.joints, base=base, **modes)
    theirs = tensor_by_mujoco(robot, frame, state.joints, base=base, **modes)
    assert np.abs(ours - theirs).max() < 1e-10 * np.abs(theirs).max()


@pytest.mark.parametrize("name", ["impact.toml", "impact-grasp.toml"])
def test_examples_run(name: str) -> None:
    result = run_scenario(EXAMPLES / name, cross_check=True)
    assert result_faults(result) == []
    assert result.sound
    assert result.certificate["momentum"].value < 1e-12
    assert result.figures


@pytest.mark.parametrize("name", catalogue.names())
def test_every_robot_of_the_catalogue_runs(name: str) -> None:
    document = {
        "robot": name, "frame": "hand", "map": {"directions": 200},
        "target": {"robot": "wojtunik2023", "frame": "hand", "configuration": "start", "velocity": [-0.1, 0.0, 0.02]},
        "collision": [
            {"name": "grasp", "kind": "grasp"},
            {"name": "bump", "normal": [-1.0, 0.0, 0.2], "restitution": 0.5},
        ],
    }  # fmt: skip
    result = run_here(document)
    assert result.sound
    rows = {row.quantity: row.value for row in result.rows}
    total = catalogue.load(name).mass
    assert rows["virtual_mass.fixed.peak"] == pytest.approx(total, rel=1e-9)
    assert rows["virtual_mass.free.peak"] <= total * (1 + 1e-9)
    assert len(rows["collision.grasp.fixed.robot.joint_reaction_impulses"]) == catalogue.load(name).n


def test_a_plane_map_is_the_papers() -> None:
    rows = {row.quantity: row.value for row in run_here(chain()).rows}
    assert rows["virtual_mass.half.peak_direction"] == pytest.approx(82.134, abs=1e-3)
    uneven = run_here(chain(case=[{"name": "uneven", "resistance": {"joint1": 1.0}}]))
    assert any(row.quantity == "tensor.uneven.asymmetry" for row in uneven.rows)


def test_a_plane_map_of_a_robot_that_leaves_the_plane() -> None:
    document = {
        "robot": "xu2017", "frame": "hand", "start": {"configuration": "normal"}, "case": [{"name": "free"}],
        "map": {"plane": [0.0, 0.0, 1.0], "directions": 3601},
    }  # fmt: skip
    result = run_here(document)
    rows = {row.quantity: row.value for row in result.rows}
    curve = result.data["absolute_mass"].sel(case="free")
    assert rows["virtual_mass.free.peak"] == pytest.approx(float(curve.max()), rel=1e-6)
    assert rows["virtual_mass.free.minimum"] == pytest.approx(float(curve.min()), rel=1e-6)
    peak = float(curve["angle"][int(curve.argmax("angle"))])
    assert rows["virtual_mass.free.peak_direction"] == pytest.approx(peak, abs=0.1)
    # The angle has no sign out of a plane, and so no jumps.
    psi = next(figure for figure in result.figures if figure.name == "psi").plot.data[0].y
    assert np.abs(np.diff(psi)).max() < 0.1


def turned(document: dict[str, object], turn: Array, rpy: list[float]) -> dict[str, object]:
    """The same scenario in a world that is turned as a whole: attitudes of both, and every vector of the world."""
    start, target = document["start"] | {"rpy_deg": rpy}, document["target"] | {"rpy_deg": rpy}  # type: ignore[operator]
    for state in (start, target):
        for key in ("velocity", "angular_velocity"):
            if key in state:
                state[key] = (turn @ state[key]).tolist()
    hits = [
        hit | ({"normal": (turn @ hit["normal"]).tolist()} if "normal" in hit else {})
        for hit in document["collision"]  # type: ignore[attr-defined]
    ]
    searches = [
        search | {"direction": (turn @ search["direction"]).tolist()}
        for search in document["optimise"]  # type: ignore[attr-defined]
    ]
    return document | {"start": start, "target": target, "collision": hits, "optimise": searches}


SATELLITE = {
    "robot": "xu2017", "frame": "hand", "map": {"directions": 50},
    "start": {"configuration": "normal", "velocity": [0.01, 0.02, 0.0], "angular_velocity": [0.01, 0.0, -0.02]},
    "case": [{"name": "some", "locked": ["joint2"], "resistance": 0.3}],
    "target": {
        "mass": 40.0, "inertia": [6.0, 7.0, 5.0, 0.3, -0.2, 0.1],
        "com": [0.1, 0.0, -0.05], "contact_point": [0.4, 0.0, 0.1],
        "velocity": [-0.05, 0.02, 0.01], "angular_velocity": [0.02, 0.03, -0.01],
    },
    "collision": [{"name": "grasp", "kind": "grasp"}, {"name": "bump", "normal": [-1.0, 0.2, 0.1], "restitution": 0.4}],
    "optimise": [{"name": "light", "direction": [-1.0, 0.0, 0.3], "vary": ["joint3", "joint4"], "samples": 64}],
}  # fmt: skip


def test_a_world_that_is_turned_gives_turned_rows() -> None:
    rpy = [20.0, -35.0, 50.0]
    turn = Rotation.from_euler("xyz", rpy, degrees=True).as_matrix()
    plain, other = (
        {row.quantity: row.value for row in run_here(document).rows}
        for document in (SATELLITE, turned(SATELLITE, turn, rpy))
    )
    world = ("_velocity_after", "contact_twist_after", ".impulse", "momentum_before", "momentum_after")
    assert sum(name.endswith(world) for name in plain) == 2 * 9
    for name, value in plain.items():
        if name.endswith(("peak_direction", "minimum_direction")):
            assert abs(float((turn @ value) @ other[name])) == pytest.approx(1.0, abs=1e-9)
        elif name.endswith(world):
            want = (np.reshape(value, (-1, 3)) @ turn.T).ravel()
            np.testing.assert_allclose(other[name], want, atol=1e-12, err_msg=name)
        elif not name.startswith(("psi", "configuration.light.joints", "configuration.light.at_limit")):
            np.testing.assert_allclose(other[name], value, rtol=1e-6, atol=1e-12, err_msg=name)


def test_collision_rows_are_those_of_the_collision() -> None:
    """The target with its mass centre and contact point off its origin, built here by hand."""
    rows = {row.quantity: row.value for row in run_here(SATELLITE).rows}
    tensor = np.array([[6.0, 0.3, -0.2], [0.3, 7.0, 0.1], [-0.2, 0.1, 5.0]])
    arm = build_system(
        catalogue.load("xu2017"), "hand", joints="normal", locked=["joint2"], resistance=0.3,
        velocity=[0.01, 0.02, 0.0], angular_velocity=[0.01, 0.0, -0.02],
    )  # fmt: skip
    body = free_body(40.0, tensor, com=[0.1, 0.0, -0.05], contact=[0.4, 0.0, 0.1])
    target = build_system(
        body, "contact", velocity=[-0.05, 0.02, 0.01], angular_velocity=[0.02, 0.03, -0.01]
    ).move_to_contact(arm)
    for name, options in (
        ("grasp", {"kind": "grasp"}),
        ("bump", {"normal": [-1.0, 0.2, 0.1], "restitution": 0.4}),
    ):
        hit = collide(arm, target, **options)  # type: ignore[arg-type]
        row = f"collision.{name}.some"
        np.testing.assert_allclose(rows[f"{row}.impulse"], hit.impulse, rtol=1e-12)
        np.testing.assert_allclose(rows[f"{row}.robot.joint_rates_after"], hit.first.after[6:], rtol=1e-12)
        np.testing.assert_allclose(rows[f"{row}.robot.joint_reaction_impulses"], hit.first.reaction, rtol=1e-12)
        np.testing.assert_allclose(rows[f"{row}.target.contact_twist_after"], hit.second.twist_after, rtol=1e-12)
        contact, joints = rows[f"{row}.energy_lost.contact"], rows[f"{row}.energy_lost.joints"]
        assert rows[f"{row}.energy_lost"] == pytest.approx(contact + joints, abs=1e-14)
        assert contact > 0.0
        assert joints > 0.0


BAD = {
    "unknown frame": (chain(frame="hnd"), r"frame.*no frame 'hnd'.*did you mean 'hand'"),
    "unknown robot": (chain(robot="yoshida"), r"robot.*did you mean 'yoshida1992'"),
    "unknown key": (chain(colision=[]), r"unknown key 'colision'.*did you mean 'collision'"),
    "unknown configuration": (chain(start={"configuration": "M"}), "configuration 'M'"),
    "resistance": (chain(case=[{"name": "a", "resistance": 1.5}]), r"case\[0\].*resistance.*1.5"),
    "locked": (chain(case=[{"name": "a", "locked": ["joint9"]}]), r"case\[0\].*no joint 'joint9'"),
    "two cases": (chain(case=[{"name": "a"}, {"name": "a"}]), "two are called 'a'"),
    "zero plane": (chain(map={"plane": [0, 0, 0]}), "no direction"),
    "no target": (chain(collision=[{"name": "a", "normal": [1, 0, 0]}]), "no target"),
    "target of nothing": (chain(target={}), "neither a body nor a robot"),
    "target without inertia": (chain(target={"mass": 1.0}), r"target: inertia.*missing"),
    "target frame": (chain(target={"robot": "cai2023", "frame": "foot"}), r"target: frame.*no frame 'foot'"),
    "point target": (chain(target={"mass": 1.0, "inertia": [0, 0, 0]}), "target.*no inertia about some axis"),
    "zero normal": (chain(**TARGET, collision=[{"name": "a", "normal": [0, 0, 0]}]), r"collision\[0\].*no direction"),
    "apart": (chain(**TARGET, collision=[{"name": "a", "normal": [-1, 0, 0]}]), r"collision\[0\].*do not approach"),
    "restitution": (
        chain(**TARGET, collision=[{"name": "a", "normal": [1, 0, 0], "restitution": 2}]),
        r"collision\[0\].*restitution",
    ),
    "optimise direction": (chain(optimise=[{"name": "a", "direction": [0, 0, 0]}]), r"optimise\[0\].*no direction"),
    "optimise case": (chain(optimise=[{"name": "a", "direction": [1, 0, 0], "case": "fre"}]), "did you mean 'free'"),
    "bounds": (chain(optimise=[{"name": "a", "direction": [1, 0, 0], "bounds": {"joint1": [1.0]}}]), "is not a pair"),
    "bounds twice": (
        chain(optimise=[{"name": "a", "direction": [1, 0, 0], "bounds": RANGE, "bounds_deg": RANGE}]),
        r"optimise\[0\].*both 'bounds' and 'bounds_deg'",
    ),
    "seed": (chain(optimise=[{"name": "a", "direction": [1, 0, 0], "seed": -1}]), r"optimise\[0\].seed"),
    "slide bounds in degrees": (
        slides(optimise=[{"name": "a", "direction": [1, 0, 0], "bounds_deg": {"joint1.slide_z": [-1, 1]}}]),
        r"bounds_deg.*prismatic.*'bounds' in SI",
    ),
    "slide rates in degrees": (slides(start={"rates_deg": [1.0] * 8}), r"rates_deg.*prismatic.*'rates' in SI"),
    "slide joints in degrees": (slides(start={"joints_deg": [1.0] * 8}), r"joints_deg.*prismatic.*'joints' in SI"),
    "no contacts": (
        chain(**TARGET, collision=[{"name": "a", "normal": [1, 0, 0], "contact": {"frequencies": []}}]),
        r"collision\[0\], case 'free'.*one or more frequencies",
    ),
    "grasp without target": (chain(grasp_velocity=[{"name": "a"}]), r"grasp_velocity\[0\].*no target"),
    "two angles": (chain(start={"joints": [0, 0], "joints_deg": [0, 0]}), "both 'joints' and 'joints_deg'"),
    "quaternion": (chain(start={"quaternion": [2, 0, 0, 0]}), "norm 2"),
    "joints": (chain(start={"joints": [0.0]}), "joints: has 1 numbers"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_told_with_their_place(name: str) -> None:
    document, match = BAD[name]
    with pytest.raises(InputError, match=match):
        run_here(document)


def test_a_scenario_with_a_mistake_ends_with_status_2_and_writes_nothing(tmp_path: Path) -> None:
    scenario = tmp_path / "bad.toml"
    scenario.write_text('study = "impact"\nrobot = "yoshida1992"\nframe = "hnd"\n')
    assert main(["run", str(scenario), "-o", str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()


def test_the_papers_page_and_scene_in_a_browser(paper: Result, tmp_path: Path) -> None:
    check_pages(paper, tmp_path)
