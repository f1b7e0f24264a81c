"""Damaged measurement files: an error with file and place, whatever the file does to the library that reads it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from scipy.io import savemat

from spacearm.errors import InputError
from spacearm.measure import formats, read_record
from spacearm.study import run_scenario
from support import ROOT

FUZZER = ROOT / "tools" / "fuzz_measurements.py"
TIME = np.arange(0.0, 1.0, 0.1)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    savemat(tmp_path / "good.mat", {"time": TIME, "q": 2.0 * TIME})
    return tmp_path / "good.mat"


def refused(path: Path, column: str = "q") -> InputError:
    with pytest.raises(InputError) as caught:
        read_record(path, {"q": column})
    assert caught.value.file == path
    assert caught.value.place
    return caught.value


def test_a_share_of_the_fuzz_campaign() -> None:
    command = [sys.executable, str(FUZZER), "--count", "300", "--seed", "7", "--every", "100"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "300 cases, 0 faults" in done.stdout


STUBS = {
    "crash": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "loop": "while True: pass",
    "exit": "raise SystemExit(3)",
}


@pytest.mark.parametrize(
    ("stub", "message"), [("crash", "crashed .SIGSEGV"), ("loop", "takes too long"), ("exit", "crashed .status 3")]
)
def test_what_a_library_does_to_its_process(
    stub: str, message: str, good: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The caller gets an error with the place that was read last, and the next file is read again."""
    script = tmp_path / "stub.py"
    script.write_text(f'import sys\nsys.stdin.readline()\nprint(\'{{"at": "column 7"}}\', flush=True)\n{STUBS[stub]}\n')
    formats.SERVICE.close()
    with monkeypatch.context() as patch:
        patch.setattr(formats.SERVICE, "script", script)
        patch.setattr(formats, "SECONDS", 2.0)
        error = refused(good)
    assert error.place == "column 7"
    assert message.replace(".", "(") in error.message
    assert formats.SERVICE.process is None
    assert np.array_equal(read_record(good, {"q": "q"})["q"], 2.0 * TIME)


def test_one_worker_serves_many_files_and_is_started_again_when_it_has_gone(good: Path) -> None:
    read_record(good, {"q": "q"})
    first = formats.SERVICE.process
    read_record(good, {"q": "q"})
    assert first is not None
    assert formats.SERVICE.process is first
    first.kill()
    first.wait(timeout=10)
    read_record(good, {"q": "q"})
    assert formats.SERVICE.process is not first


def test_declared_sizes_are_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "huge.nc"
    with h5py.File(path, "w") as file:
        file["time"] = TIME
        file.create_dataset("q", shape=(10**12,), dtype="f8")  # takes no room in the file
    began = time.monotonic()
    assert "declares 1000000000000 values" in refused(path).message
    assert time.monotonic() - began < 10.0
    with h5py.File(path, "w") as file:
        file["time"] = TIME
        file.create_dataset("q", data=np.zeros(20_000_000), chunks=(20_000_000,), compression="gzip")
    monkeypatch.setattr(formats, "BYTES", 200 << 20)
    assert "more than" in refused(path).message  # 160 MB of zeros from 150 kB: unpacking them needs twice as much


def test_values_of_other_files_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(TIME.tobytes())
    with h5py.File(tmp_path / "other.nc", "w") as other:
        other["q"] = TIME
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file["time"] = TIME
        file["link"] = h5py.ExternalLink(str(tmp_path / "other.nc"), "/q")
        file.create_dataset("raw", shape=(10,), dtype="f8", external=[(str(tmp_path / "secret.bin"), 0, 80)])
        layout = h5py.VirtualLayout((10,), "f8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.nc"), "q", (10,))
        file.create_virtual_dataset("virtual", layout)
    for name in ("link", "raw", "virtual"):
        assert "another file" in refused(tmp_path / "a.nc", name).message


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": {"b": TIME}}, "struct"),
        ("1.5", "text"),
        (TIME + 1j, "complex"),
        (np.array([TIME, "x"], dtype=object), "cells"),
        (np.zeros((3, 4, 5)), "shape"),
    ],
)
def test_matlab_variables_that_hold_no_column(value: object, message: str, tmp_path: Path) -> None:
    savemat(tmp_path / "a.mat", {"time": TIME, "q": value})
    assert message in refused(tmp_path / "a.mat").message


@pytest.mark.parametrize("column", [[str(t) for t in TIME], [[t] for t in TIME], [{"a": t} for t in TIME]])
def test_parquet_columns_that_hold_no_numbers(column: list[object], tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"time": TIME, "q": column}), tmp_path / "a.parquet")
    assert "holds" in refused(tmp_path / "a.parquet").message


def test_packed_netcdf_values(tmp_path: Path) -> None:
    """Scale, offset and missing values as xarray, an independent reader, understands them."""
    import xarray

    data = xarray.Dataset({"q": ("time", [0.5, 1.5, np.nan, 2.5])}, coords={"time": [0.0, 1.0, 2.0, 3.0]})
    packing = {"dtype": "i2", "scale_factor": 0.25, "add_offset": 1.0, "_FillValue": -999}
    data.to_netcdf(tmp_path / "a.nc", engine="h5netcdf", encoding={"q": packing})
    found = read_record(tmp_path / "a.nc", {"q": "q"}, missing="drop", gaps="keep")
    with xarray.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as opened:
        assert found["q"].tolist() == opened["q"].dropna("time").values.tolist() == [0.5, 1.5, 2.5]
    assert found.dropped == 1


@pytest.mark.parametrize(
    ("content", "message", "place"),
    [
        (b"time,q\n0,1\n1,2\x003\n", "is not a number", "line 3, column 'q'"),
        (b"time,q\n0,1\n1,1_0\n", "is not a number", "line 3, column 'q'"),
        ("time,q\n0,1\n1,٣\n".encode(), "is not a number", "line 3, column 'q'"),
        # With its mark UTF-16 is read (test_text_table.py), without it nobody knows what it is.
        ("time,q\n0,1\n".encode("utf-16-le"), "no such column", "column 'time'"),
        (b"time,q\n0,1\n\xff\n", "UTF-8", "line"),
        (b"time,q\n0,1\n1," + b"9" * (1 << 20) + b"\n", "longer than", "line 3"),
        (b"time,q\n0,1\n1,1e300\n", "larger than any measurable", "column 'q'"),
        (b"time,q\n0,1\n1\x85,2\n", "UTF-8", "line"),
        (b"\x1b[31m,\x1b[32m\n0,1\n", "no such column", "column 'time'"),
    ],
)
def test_text_files(content: bytes, message: str, place: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    error = refused(path)
    assert message in error.message
    assert place in error.place
    assert str(error).isprintable()


def test_a_file_with_too_few_samples_is_named(tmp_path: Path) -> None:
    """What is found out after reading is still the measured file's fault, not the scenario's."""
    names = ("joint1", "joint1.motor", "joint2", "joint3")
    (tmp_path / "few.csv").write_text(f"time,{','.join(names)}\n0,0,0,0,0\n1,0,0,0,0\n")
    columns = "".join(f'"{name}" = {{ column = "{name}" }}\n' for name in names)
    head = 'study = "joint-identification"\nrobot = "wojtunik2023_printed"\nframe = "hand"\nangle = "measured"\n'
    test = f'[[test]]\nname = "a"\nfile = "few.csv"\n[test.columns]\n{columns}'
    (tmp_path / "scenario.toml").write_text(head + test)
    with pytest.raises(InputError, match="expected at least 4") as caught:
        run_scenario(tmp_path / "scenario.toml")
    assert caught.value.file == tmp_path / "few.csv"
    assert caught.value.place == "test 'a'"


def test_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    assert "is not a file" in refused(tmp_path / "folder.csv").message
