"""The reproduction of Wojtunik 2023: every row that it promises, what must hold, what the paper's set-up does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spacearm.papers import PAPERS
from spacearm.papers.wojtunik2023 import claims, runs
from spacearm.papers.wojtunik2023 import data as wojtunik2023_data
from spacearm.papers.wojtunik2023.runs import gear
from spacearm.report import write_result
from spacearm.result import Result, Verdict
from support.pages import check_pages


@pytest.fixture(scope="module")
def result() -> Result:
    """With half of the repetitions for the intervals, to the same bounds."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (runs, claims):
            patch.setattr(module, "REPETITIONS", 100)
        return PAPERS["wojtunik2023"].reproduce()


@pytest.fixture(scope="module")
def rows(result: Result) -> dict[str, object]:
    return {row.quantity: row.value for row in result.rows}


def test_it_is_sound(result: Result) -> None:
    """Energy, noise-free recovery, four standard deviations, coverage over repetitions, Eq. 17, the engine."""
    assert result.sound
    certificate = result.certificate
    assert certificate["energy_drift"].tolerance <= 1e-6
    assert certificate["noise_free_recovery"].tolerance <= 1e-6
    for name in ("motor_inertia", "stiffness", "damping", "offset"):
        assert 0.90 <= certificate[f"coverage.{name}"].value + 0.94 <= 0.98


def test_the_promised_rows_are_there(rows: dict[str, object]) -> None:
    names = ("motor_inertia", "stiffness", "damping")
    promised = [f"test{n}.{name}" for n in range(1, 6) for name in (*names, "offset")]
    promised += [f"{name}.sd" for name in promised]
    promised += [f"table2.{kind}.{name}" for kind in ("mean", "sd") for name in names]
    promised += ["evaluations.nelder_mead", "evaluations.levenberg_marquardt", "hessian.J"]
    promised += ["bias.rigid_torque.motor_inertia", "bias.rigid_torque.stiffness"]
    assert [name for name in promised if name not in rows] == []


def test_verdicts_are_honest(result: Result) -> None:
    found = {row.quantity: row for row in result.rows}
    names = ("motor_inertia", "stiffness", "damping")
    inputs = [found[f"test{n}.{name}"] for n in range(1, 6) for name in names]
    assert all(row.verdict is Verdict.NO_EVIDENCE and "put into the simulation" in row.note for row in inputs)
    assert found["test2.offset"].verdict is Verdict.NO_EVIDENCE
    assert found["test1.offset"].verdict is Verdict.NOT_RECOVERABLE
    assert found["test2.offset"].paper == 2.8
    assert found["hessian.J"].verdict is Verdict.AGREES
    assert "simulated" in result.summary


def test_claims_have_verdicts(result: Result) -> None:
    found = {row.quantity: row for row in result.rows}
    assert found["claim.motor_over_link.lowest"].value == pytest.approx(51.8, abs=0.1)
    assert found["claim.motor_over_link.highest"].value == pytest.approx(147.6, abs=0.1)
    assert found["claim.motor_over_link.lowest"].verdict is Verdict.DIFFERS
    assert found["claim.cad_stiffness.test2"].verdict is Verdict.CONSISTENT
    assert found["claim.cad_stiffness.mean"].value == pytest.approx(8.1 / 5.47)
    for name, share in (("J_C", 1.0), ("J_B", 1e-2), ("J_A", 1e-4)):
        assert found[f"gear.{name}"].value == pytest.approx(share, rel=1e-9)
    verdicts = [found[f"gear.{name}"].verdict.value for name in ("J_C", "J_B", "J_A")]
    assert verdicts == ["no evidence", "differs", "differs"]
    signs = {"+++": 1.00, "++-": 1.05, "+-+": 1.47, "+--": 2.01}
    for sign, ratio in signs.items():
        row = found[f"gear.base_attitude.ratio.{sign}"]
        assert row.value == pytest.approx(ratio, abs=0.01)
        assert row.verdict is Verdict.NOT_RECOVERABLE


def test_what_hangs_on_accelerations_that_are_not_printed_is_not_recoverable(result: Result) -> None:
    """The offset makes the damping surer with any accelerations; inertia and stiffness only with some."""
    found = {row.quantity: row for row in result.rows}
    assert found["claim.offset.damping"].verdict is Verdict.AGREES
    for name in ("motor_inertia", "stiffness"):
        assert found[f"claim.offset.{name}"].verdict is Verdict.NOT_RECOVERABLE
        assert found[f"claim.offset.{name}"].value > 1.0  # with those assumed
    assert found["claim.offset.broken"].value == 7
    assert "of 24 sets" in found["claim.offset.broken"].note


def test_the_main_conclusion_has_a_row(result: Result) -> None:
    """A linear joint's damping hardly scatters; with dry friction in the spring it does, as the paper's does."""
    row = {row.quantity: row for row in result.rows}["claim.nonlinear_friction"]
    assert row.verdict is Verdict.NOT_RECOVERABLE
    assert row.paper == 1.0
    assert row.value < 0.15
    assert "by 0.57" in row.note


def test_both_readings_of_the_rigid_reference(result: Result) -> None:
    """With the candidate's motor inertia the fit reaches the noise in every test; without, it does not in test 2."""
    found = {row.quantity: row for row in result.rows}
    for k in range(1, 6):
        perfect, bare = (found[f"claim.flexible_over_rigid.{reading}.test{k}"] for reading in ("candidate", "bare"))
        assert perfect.value > 2.0
        assert 1.0 < bare.value < 1.2
        assert perfect.verdict is bare.verdict is Verdict.NO_EVIDENCE
    assert found["bias.rigid_torque.chi2"].value == pytest.approx(1.0, abs=0.15)
    assert found["bias.rigid_torque_bare.chi2"].value > 100.0


def test_agrees_only_what_could_have_failed(result: Result) -> None:
    agreeing = {row.quantity for row in result.rows if row.verdict is Verdict.AGREES}
    assert agreeing == {"claim.offset.damping", "hessian.J"}
    consistent = {row.quantity for row in result.rows if row.verdict is Verdict.CONSISTENT}
    assert len(consistent) == 10
    assert all(name.startswith(("table2.", "claim.")) for name in consistent)


def test_the_papers_set_up_is_biased_and_ours_is_not(result: Result, rows: dict[str, float]) -> None:
    assert rows["bias.rigid_torque.chi2"] == pytest.approx(1.0, abs=0.15)
    assert rows["bias.rigid_torque.motor_inertia"] > 3.0
    assert rows["bias.rigid_torque.stiffness"] > 1.0
    assert abs(rows["bias.motor_angle.motor_inertia"]) < 0.6
    assert abs(rows["bias.torque.motor_inertia"]) < 0.01
    assert rows["bias.rigid_torque_and_attitude.chi2"] > 10.0


def test_what_is_measured_decides_what_is_known(rows: dict[str, float]) -> None:
    """A geared motor's inertia is not in the angle; the base's attitude or the torque brings it in."""
    assert rows["identifiability.geared.motor_angle.angle.motor_inertia"] > 1.0
    assert rows["identifiability.geared.motor_angle.angle_attitude.motor_inertia"] < 0.1
    assert rows["identifiability.geared.motor_angle.angle_torque.motor_inertia"] < 0.1
    assert rows["identifiability.geared.torque.angle_motor.motor_inertia"] < 0.01
    assert rows["identifiability.printed.motor_angle.angle.motor_inertia"] < 0.1


def test_the_simplex_stalls_and_is_cured(rows: dict[str, int]) -> None:
    assert rows["stall.nelder_mead"] >= 3
    assert rows["stall.cured"] == rows["stall.starts"]
    assert rows["evaluations.nelder_mead"] > 5 * rows["evaluations.levenberg_marquardt"]


def test_little_offset_means_little_knowledge(result: Result, rows: dict[str, float]) -> None:
    assert rows["offset_curve.damping.-0.2deg"] > 3.0 * rows["offset_curve.damping.2.8deg"]
    curve = result.data["relative_sd_angle_damping"]
    assert 0.05 < float(curve.start_offset[int(np.argmax(curve.values))]) < 0.2  # what the acceleration holds, not zero
    assert float(curve.max()) > 20.0 * rows["offset_curve.damping.2.8deg"]


def test_friction_is_found_only_where_it_is(rows: dict[str, object]) -> None:
    assert rows["law.truth_linear"] == "linear"
    assert rows["law.truth_stribeck"] == "stribeck"


def test_gearing_matters_to_the_base(rows: dict[str, float]) -> None:
    """By a factor of two, or hardly, as the accelerations go."""
    found = gear()
    assert rows["gear.base_attitude.printed"] == pytest.approx(found.printed)
    assert found.ratios[-1, -1] == pytest.approx(found.printed / found.geared, rel=1e-12)
    assert found.ratios[1, 1] == pytest.approx(1.00, abs=0.01)
    assert found.ratios[-1, 1] == pytest.approx(1.47, abs=0.01)


def test_the_folder_can_be_written(result: Result, tmp_path: object) -> None:
    write_result(result, tmp_path)  # type: ignore[arg-type]
    assert result.files["tables.csv"].count("\n") == 21
    names = [figure.name for figure in result.figures]
    assert names[:3] == ["bias", "deflections", "table2"]
    assert {"offsets", "stalls", "response"} <= set(names)
    curves = [np.ptp(trace.x) for trace in result.figures[names.index("profiles")].plot.data]
    assert max(curves) > 3.0 * min(curves)  # what is known well and what is not


def test_figures_four_to_eight_have_the_rigid_reference_and_one_scale(result: Result) -> None:
    plots = {figure.name: figure.plot for figure in result.figures}
    for name in ("fig04-08", "deflections"):
        rigid = [trace for trace in plots[name].data if trace.name == "rigid reference"]
        assert len(rigid) == 5
        ranges = {axis.range for axis in plots[name].select_yaxes() if axis.range is not None}
        assert len(ranges) == 1
    # a motor from 7.5 deg with 0.6 deg/s2 for 10 s
    np.testing.assert_allclose(np.asarray(plots["fig04-08"].data[1].y)[[0, -1]], [7.5, 37.5], atol=1e-9)
    colours = {t.line.color for plot in plots.values() for t in plot.data if t.name == "rigid reference"}
    assert len(colours) == 1


def test_equation_17_is_symmetric_and_has_the_printed_corner() -> None:
    matrix = wojtunik2023_data.motor_matrix(np.array([3.0, 2.0, 1.0]))
    assert np.array_equal(matrix, matrix.T)
    assert matrix[0, 0] == 6.0
    assert matrix[3, 3] == 0.0
    assert matrix[0, 4] == 3.0
    assert matrix[1, 4] == 0.0


def test_the_papers_page_and_scene_in_a_browser(result: Result, tmp_path: Path) -> None:
    check_pages(result, tmp_path)
