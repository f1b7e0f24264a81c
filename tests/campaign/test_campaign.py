"""Campaigns: what is drawn, what is kept, and that interrupted, parallel and resumed ones leave the same bytes."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from spacearm.campaign import Store, report, run_campaign
from spacearm.campaign._work import run_one
from spacearm.campaign.decide import wilson_interval
from spacearm.campaign.execute import _one_blas_thread
from spacearm.campaign.plan import CampaignPlan, VaryTable
from spacearm.cli import main
from spacearm.deadline import time_limit
from spacearm.errors import InputError, SpacearmError
from spacearm.study import run_document
from support.campaigns import CAMPAIGN, SCENARIO, files, plan_of


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "blow.toml").write_text(SCENARIO)
    (tmp_path / "campaign.toml").write_text(CAMPAIGN)
    return tmp_path


# -- what is drawn -----------------------------------------------------------------------------------------------


def test_distributions_are_scipys() -> None:
    shares = np.linspace(0.01, 0.99, 25)
    cut = (0.5 - 2.0) / 0.4, (2.2 - 2.0) / 0.4
    cases: list[tuple[dict[str, Any], Any]] = [
        ({"kind": "uniform", "low": -1.0, "high": 3.0}, stats.uniform(-1.0, 4.0)),
        ({"kind": "log-uniform", "low": 0.1, "high": 10.0}, stats.loguniform(0.1, 10.0)),
        ({"kind": "normal", "mean": 2.0, "deviation": 0.4}, stats.norm(2.0, 0.4)),
        (
            {"kind": "normal", "mean": 2.0, "deviation": 0.4, "low": 0.5, "high": 2.2},
            stats.truncnorm(*cut, loc=2.0, scale=0.4),
        ),
    ]
    for keys, theirs in cases:
        ours = [VaryTable(key="x", **keys).value(float(share), 7.0) for share in shares]
        np.testing.assert_allclose(ours, theirs.ppf(shares), rtol=1e-12)
    relative = VaryTable(key="x", kind="normal", deviation=0.1, relative=True)
    np.testing.assert_allclose([relative.value(float(s), 7.0) for s in shares], 7.0 * stats.norm(1, 0.1).ppf(shares))


def test_wilson_is_scipys() -> None:
    for good, runs in ((0, 10), (3, 10), (10, 10), (250, 1000)):
        theirs = stats.binomtest(good, runs).proportion_ci(0.9, method="wilson")
        np.testing.assert_allclose(wilson_interval(good, runs, 0.9), (theirs.low, theirs.high), rtol=1e-10, atol=1e-15)


def test_a_run_is_its_scenario_with_other_numbers(place: Path) -> None:
    """Cell, dispersions and the robot's mass reach the study: the same by hand."""
    from spacearm.model import Inertia, catalogue

    plan = plan_of(place)
    outcome = run_one(plan, 1, 5)
    document = plan.document | {"target": plan.document["target"] | {"mass": 2.0}}
    restitution = outcome.drawn["collision[blow].restitution"]
    assert 0.0 < restitution < 1.0
    document["collision"] = [document["collision"][0] | {"restitution": restitution}]
    robot = catalogue.load("yoshida1992")
    heavier = [
        body if body.name != "rod2" else type(body)(
            body.name, Inertia(outcome.drawn["robot.body[rod2].mass"], body.inertia.com, body.inertia.tensor)
        )
        for body in robot.bodies
    ]  # fmt: skip
    robot = robot.replace(bodies=tuple(heavier))
    result = run_document(document, folder=place, robots={"yoshida1992": robot})
    rows = {row.quantity: row.value for row in result.rows}
    assert outcome.values["collision.blow.free.energy_lost"] == pytest.approx(
        rows["collision.blow.free.energy_lost"], rel=1e-13
    )
    assert outcome.success == (outcome.values["collision.blow.free.energy_lost"] <= 0.3)


# -- what is kept ------------------------------------------------------------------------------------------------


def test_killed_parallel_and_resumed_campaigns_leave_the_same_bytes(place: Path) -> None:
    plan = plan_of(place)
    whole = files(run_campaign(plan, place / "whole").folder)
    assert len(whole) == 6
    # Two processes.
    assert files(run_campaign(plan, place / "two", workers=2).folder) == whole
    # A killed call: some chunks are missing, one is half written.
    store = run_campaign(plan, place / "killed")
    for name in ("runs-000000-000002.parquet", "runs-000001-000000.parquet"):
        (store.folder / name).unlink()
    (store.folder / ".writing-x").write_bytes(b"half")
    assert files(run_campaign(plan, place / "killed").folder) == whole
    assert not (store.folder / ".writing-x").exists()
    # Jobs of an array, then what is left.
    for k in range(2):
        run_campaign(plan, place / "array", part=(k, 2))
    assert files(place / "array") == whole


def test_a_process_that_is_killed_is_gone_on_with(place: Path) -> None:
    text = CAMPAIGN.replace("runs = 12", "runs = 32")
    whole = files(run_campaign(plan_of(place, text), place / "whole").folder)
    command = [sys.executable, "-m", "spacearm.cli", "campaign", "run", "campaign.toml", "-o", "killed"]
    killed = 0
    for _ in range(3):
        before = len(files(place / "killed"))
        process = subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and len(files(place / "killed")) <= before + 1:
            time.sleep(0.01)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            killed += 1
        process.wait()
    assert killed
    assert 0 < len(files(place / "killed")) < len(whole)
    assert subprocess.run(command, cwd=place, capture_output=True, check=False).returncode == 0
    assert files(place / "killed") == whole


def test_a_cell_ends_when_it_is_sure_enough_however_many_work(place: Path) -> None:
    text = CAMPAIGN.replace("runs = 12", "runs = 40") + "[stop]\nhalf_width = 0.2\nleast = 8\n"
    plan = plan_of(place, text)
    one = files(run_campaign(plan, place / "one").folder)
    assert files(run_campaign(plan, place / "two", workers=2).folder) == one
    assert len(one) < 20
    for cell in range(2):
        kept = sum(name.startswith(f"runs-{cell:06d}") for name in one)
        counts = [Store(place / "one").successes(cell, chunk) for chunk in range(kept)]
        for end in range(2, kept + 1):  # sure at the last chunk, and not before
            good, runs = (sum(part) for part in zip(*counts[:end], strict=True))
            low, high = wilson_interval(good, runs, 0.95)
            assert (0.5 * (high - low) <= 0.2) == (end == kept)


def test_dask_gives_the_same_bytes_though_a_worker_dies(place: Path) -> None:
    distributed = pytest.importorskip("distributed")
    plan = plan_of(place)
    whole = files(run_campaign(plan, place / "whole").folder)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs="CRITICAL"
    ) as cluster:
        done: list[float] = []

        def report_progress(share: float, what: str) -> None:
            done.append(share)
            if len(done) == 1:
                victim = next(iter(cluster.workers.values()))
                os.kill(victim.pid, signal.SIGKILL)

        store = run_campaign(plan, place / "dask", workers=2, dask=cluster.scheduler_address, progress=report_progress)
    assert files(store.folder) == whole
    with pytest.raises(SpacearmError, match="no Dask scheduler"):
        run_campaign(plan, place / "nobody", dask="tcp://127.0.0.1:9")


def test_a_full_disk_is_told_and_nothing_breaks(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(place)
    whole = files(run_campaign(plan, place / "whole").folder)
    own, calls = os.fsync, [0]

    def full(descriptor: int) -> None:
        calls[0] += 1
        if calls[0] > 3:  # the manifest and two chunks
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        own(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SpacearmError, match=r"cannot write runs-.*No space left.*free some space"):
        run_campaign(plan, place / "full")
    monkeypatch.undo()
    assert len(files(place / "full")) == 2
    assert not list((place / "full").glob(".writing-*"))
    assert files(run_campaign(plan, place / "full").folder) == whole


def test_a_lost_scheduler_is_told_and_nothing_breaks(place: Path) -> None:
    pytest.importorskip("distributed")
    plan = plan_of(place)
    whole = files(run_campaign(plan, place / "whole").folder)
    address = place / "scheduler.json"
    commands = [["scheduler", "--port", "0", "--no-dashboard"], ["worker", "--nthreads", "1", "--no-dashboard"]]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "dask", *command, "--scheduler-file", str(address)],
            cwd=place,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for command in commands
    ]
    try:
        while not address.exists():
            assert started[0].poll() is None
            time.sleep(0.05)

        def report_progress(share: float, what: str) -> None:
            started[0].kill()

        with time_limit(60.0), pytest.raises(SpacearmError, match="run the same command to continue"):
            run_campaign(
                plan, place / "lost", dask=json.loads(address.read_text())["address"], progress=report_progress
            )
    finally:
        for process in started:
            process.kill()
            process.wait()
    kept = files(place / "lost")
    assert 0 < len(kept) < len(whole)
    assert kept.items() <= whole.items()
    assert files(run_campaign(plan, place / "lost").folder) == whole


# -- what comes out ----------------------------------------------------------------------------------------------


def test_report_and_replay(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = place / "out"
    assert main(["campaign", "run", str(place / "campaign.toml"), "-o", str(folder), "--json"]) == 0
    rows = {row["quantity"]: row["value"] for row in json.loads(capsys.readouterr().out)["studies"][0]["rows"]}
    table = Store.open(folder).read().to_pydict()
    assert rows["runs"] == 24
    for cell in range(2):
        of_cell = [good for good, c in zip(table["success"], table["cell"], strict=True) if c == cell]
        assert rows[f"success.cell{cell}"] == pytest.approx(np.mean(of_cell))
    lost = "collision.blow.free.energy_lost"
    assert rows[f"{lost}.percentile50"] == pytest.approx(np.median(table[lost]))
    assert (folder / "index.html").is_file()
    assert main(["campaign", "status", str(folder)]) == 0
    assert "24 of at most 24 runs in 2 cells" in capsys.readouterr().out
    assert main(["campaign", "replay", str(folder), "7", "--cell", "1", "-o", str(place / "again")]) == 0
    again = {row["quantity"]: row["value"] for row in json.loads((place / "again/results.json").read_text())["rows"]}
    k = next(i for i in range(24) if (table["cell"][i], table["run"][i]) == (1, 7))
    assert again[lost] == table[lost][k]  # to the last bit


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("blow.toml", "blown.toml", "there is no file 'blown.toml'"),
        ("collision[blow].restitution", "collision[bow].restitution", "there is no 'bow'.*did you mean 'blow'"),
        ("robot.body[rod2].mass", "robot.bodies[rod2].mass", "did you mean 'body'"),
        ("robot.body[rod2].mass", "target.robot", "expected a number there"),
        ("deviation = 0.05", "deviation = 0.0", "deviation"),
        ("low = 0.0", "low = 2.0", "low < high"),
        ("runs = 12", "runs = 0", "runs"),
        ('kind = "uniform"', 'kind = "even"', "kind"),
        ("values = [0.5, 2.0]", "values = []", "'key' and 'values', or 'cases'"),
        ("runs = 12", "runs = 12\nsampling = 'sobol'", "power of two"),
        ("runs = 12", "runs = 12\nwithout = ['maps']", "did you mean 'map'"),
    ],
)
def test_what_is_wrong_with_a_campaign_is_told(place: Path, old: str, new: str, words: str) -> None:
    assert old in CAMPAIGN
    with pytest.raises(InputError, match=words):
        plan_of(place, CAMPAIGN.replace(old, new, 1))


def test_folders_of_others_are_left_alone(place: Path) -> None:
    plan = plan_of(place)
    (place / "mine").mkdir()
    (place / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds no campaign"):
        run_campaign(plan, place / "mine")
    run_campaign(plan, place / "out")
    with pytest.raises(InputError, match="another campaign"):
        run_campaign(plan_of(place, CAMPAIGN.replace("runs = 12", "runs = 8")), place / "out")
    with pytest.raises(InputError, match="holds no campaign"):
        Store.open(place / "mine")


def test_a_scenario_that_always_fails_is_told_at_once(place: Path) -> None:
    (place / "blow.toml").write_text(SCENARIO.replace('"hand"', '"paw"'))
    with pytest.raises(SpacearmError, match=r"all 4 runs of the first chunk failed.*paw"):
        run_campaign(plan_of(place), place / "out")


def test_failed_runs_are_rows_and_no_success(place: Path) -> None:
    """A ball that comes from the other side does not hit: the study says so, and the campaign goes on."""
    plan = plan_of(
        place,
        CAMPAIGN.replace(
            "[[require]]", "[[vary]]\nkey = 'target.velocity[1]'\nkind = 'uniform'\nlow = -1.0\nhigh = 1.0\n[[require]]"
        ),
    )
    table = run_campaign(plan, place / "out").read().to_pydict()
    away = np.array(table["target.velocity[1]"]) < 0.0
    assert 0 < away.sum() < away.size
    assert [status == "failed" for status in table["status"]] == away.tolist()
    assert not np.any(np.array(table["success"])[away])
    assert all("collision[0]" in reason for reason, gone in zip(table["reason"], away, strict=True) if gone)
    assert report(Store.open(place / "out")).rows[0].value == 24


def test_processes_multiply_matrices_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of a BLAS in each of several processes take ten times as long as one, unless the user asks for them."""
    name = "OPENBLAS_NUM_THREADS"
    for given, seen in ((None, "1"), ("3", "3")):
        monkeypatch.delenv(name, raising=False)
        if given:
            monkeypatch.setenv(name, given)
        with _one_blas_thread(), ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            assert pool.submit(os.getenv, name).result() == seen
        assert os.environ.get(name) == given
    monkeypatch.delenv(name)
    assert main(["--version"]) == 0
    assert os.environ[name] == "1"


# -- rows that are called as a column, and rows that are not there -----------------------------------------------


def test_rows_called_as_a_column_of_the_campaign_stand_beside_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of missions, which have a verdict of their own: chunks differed in their types."""
    from spacearm.campaign import _work
    from spacearm.result import Row

    taken = {"success": True, "margin": 3.0, "collision[blow].restitution": 5.0, "mass": 7.0}
    rows_of = _work.make_rows
    monkeypatch.setattr(_work, "make_rows", lambda found: [*rows_of(found), *(Row(k, v) for k, v in taken.items())])
    text = CAMPAIGN.replace('rows = ["collision.*"]\n', "") + '[[require]]\nrow = "margin"\nmost = 2.0\n'
    store = run_campaign(plan_of(place, text), place / "out")
    table = store.read()
    for name, value in taken.items():
        assert table[f"result.{name}"].to_pylist() == [float(value)] * 24
    assert table["success"].to_pylist() == [False] * 24  # the campaign's own
    assert {*table["mass"].to_pylist()} == {0.5, 2.0}
    assert all(0.0 <= value <= 1.0 for value in table["collision[blow].restitution"].to_pylist())
    found = report(store)
    assert {row.quantity: row.value for row in found.rows}["runs"] == 24


def test_an_axis_is_not_called_as_a_column(place: Path) -> None:
    with pytest.raises(InputError, match=r"axis 'success'.*another name"):
        plan_of(place, CAMPAIGN.replace('name = "mass"', 'name = "success"'))


def test_a_requirement_on_a_row_that_is_not_there_is_told_after_the_first_run(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = CAMPAIGN.replace('row = "collision.blow.free.energy_lost"', 'row = "collision.blow.fre.energy_lost"')
    plan_of(place, text)
    assert main(["campaign", "run", str(place / "campaign.toml"), "-o", str(place / "out")]) == 2
    notes = " ".join(capsys.readouterr().err.split())
    assert "require[0].row: the scenario's results have no row 'collision.blow.fre.energy_lost'" in notes
    assert "did you mean 'collision.blow.free.energy_lost'?" in notes
    assert not list((place / "out").glob("*"))  # the mended one may have the folder
    plan_of(place, text.replace("collision.blow.fre.energy_lost", "?"))
    with pytest.raises(InputError, match=r"known: .*collision\.blow\.free"):
        run_campaign(CampaignPlan.read(place / "campaign.toml"), place / "out")


@pytest.mark.parametrize("rows", ['["nosuch"]', '["collision.*", "nosuch.?"]'])
def test_rows_that_are_not_there_are_told_after_the_first_run(
    place: Path, rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spacearm.campaign import _work, execute

    calls: list[int] = []

    def count(plan: CampaignPlan, cell: int, number: int) -> Any:
        calls.append(number)
        return run_one(plan, cell, number)

    monkeypatch.setattr(execute, "run_one", count)
    monkeypatch.setattr(_work, "run_one", count)
    with pytest.raises(InputError, match=r"rows\[[01]\].*no row 'nosuch"):
        run_campaign(plan_of(place, CAMPAIGN.replace('["collision.*"]', rows)), place / "out")
    assert calls == [0]
    assert not list((place / "out").glob("*"))
    run_campaign(plan_of(place), place / "out")
    assert sorted(calls[1:]) == sorted([*range(12)] * 2)  # the first run counts: it is not made twice


def test_rows_of_runs_that_ended_early_come_from_other_cells(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All runs of the first cell end at a limit, before they have all rows; the requirement on such a row is right."""
    from spacearm.campaign import _work
    from spacearm.result import Row

    rows_of, late = _work.make_rows, "collision.blow.free.energy_lost"

    def rows(found: Any) -> list[Row]:
        whole = list(rows_of(found))
        kept = [row for row in whole if row.quantity != late]
        early = len(seen) < 4
        seen.append(early)
        return [*(kept if early else whole), Row("success", float(not early))]

    seen: list[bool] = []
    monkeypatch.setattr(_work, "make_rows", rows)
    store = run_campaign(plan_of(place, CAMPAIGN.replace("runs = 12", "runs = 4")), place / "out")
    assert late in store.names()
    assert [value is None for value in store.read()[late].to_pylist()] == [True] * 4 + [False] * 4
    assert {row.quantity: row.value for row in report(store).rows}["success.cell0"] == 0.0


# -- signals -------------------------------------------------------------------------------------------------------


WORKERS = """
import time
from spacearm.campaign.execute import _Processes
if __name__ == "__main__":
    processes = _Processes(2)
    asleep = [processes.pool.submit(time.sleep, 60) for _ in range(2)]
    print(*processes.pool._processes, flush=True)
    time.sleep(60)
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_processes_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(WORKERS)
    with subprocess.Popen([sys.executable, "parent.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        time.sleep(5.0)  # at work, or still importing
        parent.kill()
    end = time.monotonic() + 15.0
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.1)
    left = [pid for pid in pids if alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert len(pids) == 2
    assert left == []


CLUSTER = """
import os, signal, subprocess, sys, types
from spacearm.campaign.execute import _cluster
from spacearm.cli.terminal import handle_signals

class LocalCluster:
    def __init__(self, **_):
        os.kill(os.getpid(), signal.SIGINT)  # Ctrl-C while processes are started
        code = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []), flush=True)"
        subprocess.run([sys.executable, "-c", code], check=True)
        print("started", flush=True)
    def close(self, timeout):
        print("closed", flush=True)
        raise AssertionError("Status.init")

sys.modules["distributed"] = types.SimpleNamespace(LocalCluster=LocalCluster, Client=lambda cluster, timeout: cluster)
try:
    with handle_signals(), _cluster(1, "local"):
        print("not here")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_waits_until_a_cluster_is_started() -> None:
    """Its processes do not hear it, and what goes wrong while it is closed is not told."""
    done = subprocess.run([sys.executable, "-c", CLUSTER], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["True", "started", "closed", "closed", "interrupted"], "")
