"""Yoshida 1992 and scenario files: rows, figures, certificates, errors with their place."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from spacearm.cli import main
from spacearm.errors import InputError
from spacearm.impact.crosscheck import tensor_by_mujoco
from spacearm.impact.scenario import run
from spacearm.impact.tensor import impact_point
from spacearm.model import catalogue
from spacearm.papers import PAPERS
from spacearm.result import Result
from spacearm.scenarios import run_scenario
from support.population import member, member_state

EXAMPLES = Path(__file__).parents[2] / "examples"
RANGE = {"joint1": [0.0, 1.0]}
PLANE = {"map": {"plane": [0.0, 0.0, 1.0], "directions": 91}}
TARGET = {"target": {"mass": 1.0, "inertia": [0.1, 0.1, 0.1], "velocity": [1.0, 0.0, 0.0]}}


def chain(**more: object) -> dict[str, object]:
    return {"study": "impact", "robot": "yoshida1992", "frame": "hand", "start": {"posture": "L"}, **PLANE, **more}


def slides(**more: object) -> dict[str, object]:
    return {"study": "impact", "robot": "zhang2020", "frame": "hand", "map": {"directions": 50}, **more}


def run_here(document: dict[str, object], **options: bool) -> Result:
    return run(document, folder=Path(), **options)


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
    assert not [row.quantity for row in paper.rows if row.verdict == "differs"]
    assert {row.quantity for row in paper.rows if row.verdict == "agrees"} >= {
        f"virtual_mass.{case}.{what}" for case in ("fixed", "free", "half") for what in ("peak", "peak_direction")
    }


def test_the_papers_figures_and_certificate(paper: Result) -> None:
    assert {"fig6a", "fig6b", "posture"} <= {figure.name for figure in paper.figures}
    assert paper.sound
    assert paper.certificate["momentum"].value < 1e-12
    assert paper.certificate["elastic_energy"].value < 1e-12
    assert paper.certificate["grasp_twists"].value < 1e-12
    assert paper.certificate["hybrid_dynamics"].value < 1e-12
    assert paper.certificate["cross_check"]["mujoco"].value < 1e-12
    assert paper.data is not None
    assert paper.data["absolute_mass"].attrs["units"] == "kg"
    peak = float(paper.data["absolute_mass"].sel(case="fixed").max())
    assert peak == pytest.approx(3.0, rel=1e-5)


def test_the_command_line_writes_the_papers_folder(tmp_path: Path) -> None:
    assert main(["reproduce", "yoshida1992", "-o", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "yoshida1992" / "results.json").read_text())
    assert any(row["quantity"] == "virtual_mass.half.peak" and row["verdict"] == "agrees" for row in found["rows"])
    assert (tmp_path / "yoshida1992" / "figures" / "fig6a.html").is_file()


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
    assert result.sound
    assert result.certificate["momentum"].value < 1e-12
    assert result.figures


@pytest.mark.parametrize("name", catalogue.names())
def test_every_robot_of_the_catalogue_runs(name: str) -> None:
    document = {
        "robot": name, "frame": "hand", "map": {"directions": 200},
        "target": {"robot": "wojtunik2023", "frame": "hand", "posture": "start", "velocity": [-0.1, 0.0, 0.02]},
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
        "robot": "xu2017", "frame": "hand", "start": {"posture": "normal"}, "case": [{"name": "free"}],
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


BAD = {
    "unknown frame": (chain(frame="hnd"), r"frame.*no frame 'hnd'.*did you mean 'hand'"),
    "unknown robot": (chain(robot="yoshida"), r"robot.*did you mean 'yoshida1992'"),
    "unknown key": (chain(colision=[]), r"unknown key 'colision'.*did you mean 'collision'"),
    "unknown posture": (chain(start={"posture": "M"}), "posture 'M'"),
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
    "bounds": (chain(optimise=[{"name": "a", "direction": [1, 0, 0], "bounds": {"joint1": [1.0]}}]), "lower and upper"),
    "bounds twice": (
        chain(optimise=[{"name": "a", "direction": [1, 0, 0], "bounds": RANGE, "bounds_deg": RANGE}]),
        r"optimise\[0\].*'joint1' are also in 'bounds_deg'",
    ),
    "seed": (chain(optimise=[{"name": "a", "direction": [1, 0, 0], "seed": -1}]), r"optimise\[0\].seed"),
    "slide bounds in degrees": (
        slides(optimise=[{"name": "a", "direction": [1, 0, 0], "bounds_deg": {"joint1.slide_z": [-1, 1]}}]),
        r"bounds_deg.*is a slide.*in m",
    ),
    "slide rates in degrees": (slides(start={"rates_deg": [1.0] * 8}), r"rates_deg.*slides.*'rates', in rad and m"),
    "slide joints in degrees": (slides(start={"joints_deg": [1.0] * 8}), r"joints_deg.*slides.*'joints', in rad and m"),
    "no contacts": (
        chain(**TARGET, collision=[{"name": "a", "normal": [1, 0, 0], "contact": {"frequencies": []}}]),
        r"collision\[0\], case 'free'.*one or more frequencies",
    ),
    "grasp without target": (chain(grasp_velocity=[{"name": "a"}]), r"grasp_velocity\[0\].*no target"),
    "two angles": (chain(start={"joints": [0, 0], "joints_deg": [0, 0]}), "both given"),
    "quaternion": (chain(start={"quaternion": [2, 0, 0, 0]}), "unit length"),
    "joints": (chain(start={"joints": [0.0]}), r"expected \(\.\.\., 2\)"),
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
