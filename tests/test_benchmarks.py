"""The benchmarks do the same work in every engine; that their numbers are good is for ``make bench`` to show."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from support import ROOT

sys.path.insert(0, str(ROOT))

from benchmarks import (
    batch,
    common,
    control,
    environments,
    growth,
    identify_captured,
    memory,
    sensitivity,
    startup,
    stepwise,
    trajectory,
)
from benchmarks import robots as bench_robots
from benchmarks.__main__ import names, run
from benchmarks.peers import Mujoco, Pinocchio

from spacearm.engine import Mechanics, benchmark
from spacearm.model import Robot

ROBOTS = {
    "arm": bench_robots.arm,
    "skew": lambda: bench_robots.skew_chain(7),
    "chain": lambda: bench_robots.arm_chain(3),
}


@pytest.fixture(params=ROBOTS)
def robot(request: pytest.FixtureRequest) -> Robot:
    return ROBOTS[request.param]()


def test_one_trajectory_ends_in_the_same_state(robot: Robot) -> None:
    times, difference = trajectory.compare(robot, count=50, rounds=1)
    assert difference < 1e-10
    assert set(times) == {"spacearm", "MuJoCo", "MuJoCo, defaults", "Pinocchio, Python loop"}
    assert all(value > 0 for value in times.values())


def test_a_shorter_trajectory_would_be_seen(robot: Robot) -> None:
    """The comparison above can fail: one step more or less is far more than its tolerance."""
    mujoco = Mujoco(robot)
    start = bench_robots.states(robot, 1)
    mujoco.start(mujoco.full(start)[0], 1e-3)
    mujoco.run(50)
    ends = benchmark.Rollouts(robot).run(np.repeat(start, 2, axis=0), 49)
    assert np.abs(ends - mujoco.state()).max() > 1e-5


def test_lean_mujoco_moves_as_usual_mujoco(robot: Robot) -> None:
    ends = []
    for lean in (True, False):
        mujoco = Mujoco(robot, lean=lean)
        mujoco.start(mujoco.full(bench_robots.states(robot, 1))[0], 1e-3)
        mujoco.run(50)
        ends.append(mujoco.state())
    np.testing.assert_allclose(ends[0], ends[1], rtol=0, atol=1e-12)


def test_pinocchio_gives_the_same_accelerations(robot: Robot) -> None:
    peer = Pinocchio(robot)
    samples = bench_robots.states(robot, 5)
    q, v = peer.split(samples)
    force = np.random.default_rng(1).normal(size=v.shape)
    ours = Mechanics(robot).forward_dynamics(samples[:, 7 : 7 + robot.n], v, force)
    np.testing.assert_allclose(ours, peer.accelerations(q, v, force), rtol=0, atol=1e-9 * np.abs(ours).max())


def test_closed_loops_end_in_the_same_state() -> None:
    times, difference = control.loops(bench_robots.arm(), size=8, count=10, rounds=1)
    assert set(times) == {"open", "closed", "mujoco"}
    assert difference < 1e-10


def test_batches_end_in_the_same_states(robot: Robot) -> None:
    _, difference = batch.rollouts(robot, size=24, count=10, rounds=1)
    assert difference < 1e-10
    _, difference = batch.accelerations(robot, size=24, rounds=1)
    assert difference < 1e-9


def test_sensitivities_agree() -> None:
    """Exact ones to the reference's own error, differences to theirs."""
    times, errors = sensitivity.compare(bench_robots.arm(), count=20, rounds=1)
    assert errors["spacearm"] < 1e-8
    assert errors["spacearm"] < errors["MuJoCo, central differences"] < errors["MuJoCo, one-sided differences"] < 1e-3
    assert set(times) == {*errors, "one"}


def test_growth_compares_the_same_motion() -> None:
    for joints in (1, 4):
        times, difference = growth.compare(joints, count=20, rounds=1)
        assert difference < 1e-11
        assert set(times) == {"one", "batch", "mujoco"}
    seconds, few = growth.build_time(1)
    assert seconds > 0
    assert few < growth.build_time(2)[1]


def test_memory_is_measured_and_threads_agree() -> None:
    found = memory.measure(size=50_000)
    assert found["same"] is True
    assert found["inputs"] == 50_000 * 33 * 8 + 80 * 8
    assert found["outputs"] == 50_000 * 13 * 8
    assert found["beyond1"] < 0.5 * found["outputs"]


def test_first_calls_are_measured_by_stage() -> None:
    fresh, cached = startup.first_calls(rounds=1)
    assert set(fresh) == {"roll-out", "forward dynamics"}
    assert list(cached["stages"])[-1] == "machine code"


def test_rows_know_whether_their_target_is_met() -> None:
    assert common.Row("a", 2.0, "s", "b", 14.0, 6.0).ratio == 7.0
    assert common.Row("a", 2.0, "s", "b", 14.0, 6.0).met is True
    assert common.Row("a", 2.0, "s", "b", 10.0, 6.0).met is False
    assert common.Row("a", 2.0, "s", target=1.0).met is False
    assert common.Row("a", 0.5, "s", target=1.0).met is True
    assert common.Row("a", 0.5, "s").met is None


def test_engines_take_turns() -> None:
    order: list[str] = []
    tasks = {name: common.Task(lambda name=name: order.append(name)) for name in "ab"}  # type: ignore[misc]
    assert set(common.alternate(tasks, rounds=3)) == {"a", "b"}
    assert "".join(order) == "ab" * 4


def test_parts_are_found_and_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert names()[:6] == ["trajectory", "batch", "sensitivity", "growth", "startup", "memory"]
    assert "common" not in names()
    keys = ("inputs", "outputs", "beyond1", "beyond2", "time1", "time2", "same")
    monkeypatch.setattr(memory, "measure", lambda: dict.fromkeys(keys, 1.0))
    assert run(["memory", "--json", str(tmp_path / "rows.json")]) == 0
    written = json.loads((tmp_path / "rows.json").read_text())
    assert [row["what"] for row in written["parts"]["memory"]][:2] == ["inputs", "outputs"]
    assert "mujoco" in written["machine"]
    assert "1e6 states" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        run(["nonsense"])


def test_a_captured_body_is_weighed_at_the_bound() -> None:
    """MuJoCo's motion, two records with other noise, the drawing 30 % off; then thrust 3 % stronger than stated."""
    rows = {row.what: row for row in identify_captured.seeds(2)}
    assert rows["mass: root mean square error"].value < 0.01  # kg of 103
    assert rows["held body: largest root mean square error of a parameter / its bound"].value < 2.5
    assert rows["held body: estimates called sound"].value == 1.0
    found = identify_captured.weigh(identify_captured.record(0, "thrust"))
    assert not found.certificate().sound
    assert found.suspects[0].name == "thrust"


def test_short_benchmark_of_the_command_line() -> None:
    seen: list[float] = []
    rows = benchmark.run(lambda part, _: seen.append(part))
    assert all(value > 0 and unit for _, value, unit in rows)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_environments_of_a_capture_are_timed_beside_mujocos_with_the_same_motion() -> None:
    assert environments.difference(count=2, periods=2) < 1e-10
    times = environments.compare(rounds=1, many=8, peers=2)
    assert set(times) == {"spacearm", "MuJoCo", "MuJoCo, physics alone"}
    assert all(value > 0 for value in times.values())


def test_single_steps_are_timed_beside_mujoco() -> None:
    times = stepwise.compare(bench_robots.arm(), count=3, rounds=1)
    assert set(times) == {"adaptive", "RK4", "many", "MuJoCo"}
    assert all(value > 0 for value in times.values())
