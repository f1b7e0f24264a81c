"""Measured data from files: units, column maps, and what is refused."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from scipy.io import savemat

from spacearm.errors import InputError
from spacearm.measure import Column, Record, formats, read_record
from spacearm.measure.formats import match_files

TIME = np.arange(0.0, 1.0, 0.1)
ANGLE = np.linspace(-10.0, 350.0, TIME.size)


def write_csv(path: Path, text: str | None = None) -> Path:
    if text is None:
        rows = [f"{t:.3f};{a:.17g}" for t, a in zip(TIME, ANGLE, strict=True)]
        text = "# a comment\nt;q deg\n" + "\n".join(rows) + "\n"
    path.write_text(text, encoding="utf-8")
    return path


def test_csv_with_units(tmp_path: Path) -> None:
    data = read_record(
        write_csv(tmp_path / "a.csv"), {"joint1": Column("q deg", "deg", expects="rad")}, time=Column("t", "s")
    )
    assert np.allclose(data["joint1"], np.deg2rad(ANGLE), rtol=1e-15)
    assert data.units["joint1"] == "rad"
    assert np.isclose(data.step, 0.1)
    assert data.stack(["joint1", "joint1"]).shape == (10, 2)


def test_same_from_netcdf_and_matlab(tmp_path: Path) -> None:
    import xarray
    from scipy.io import savemat

    both = np.stack([ANGLE, 2 * ANGLE], axis=1)
    xarray.Dataset({"q": (("time", "joint"), both)}, coords={"time": TIME}).to_netcdf(
        tmp_path / "a.nc", engine="h5netcdf"
    )
    savemat(tmp_path / "a.mat", {"time": TIME, "q": both})
    for name in ("a.nc", "a.mat"):
        data = read_record(tmp_path / name, {"second": Column("q[1]", "deg")})
        assert np.allclose(data["second"], np.deg2rad(2 * ANGLE)), name


def test_fields_of_structs_and_rows_of_matrices(tmp_path: Path) -> None:
    from scipy.io import savemat

    log = {"clock": {"t": TIME}, "states": np.stack([np.zeros(TIME.size), ANGLE])}
    savemat(tmp_path / "a.mat", {"log": log})
    with h5py.File(tmp_path / "b.mat", "w", userblock_size=512) as file:  # since MATLAB 7.3: axes reversed
        file["log/clock/t"], file["log/states"] = TIME[:, None], log["states"].T
    (tmp_path / "b.mat").open("r+b").write(b"MATLAB 7.3 MAT-file".ljust(116) + bytes(8) + b"\x00\x02IM")
    for name in ("a.mat", "b.mat"):
        data = read_record(tmp_path / name, {"q": Column("log.states[1,:]", "deg")}, time="log.clock.t")
        assert np.allclose(data["q"], np.deg2rad(ANGLE), rtol=1e-15), name
    for column, hint in (
        ("log.speed", "states"),
        ("log", "clock, states"),
        ("log.states", r"'log.states\[0,:\]' its first row"),
        ("log.states[15]", "is a row"),
    ):
        with pytest.raises(InputError, match=hint):
            read_record(tmp_path / "a.mat", {"q": column}, time="log.clock.t")


def test_copies_of_a_slow_sensor_are_no_readings(tmp_path: Path) -> None:
    text = "time,x,y\n0.0,1,5\n0.1,1,5\n0.2,2,5\n0.3,2,5\n0.4,3,6\n0.5,4,6\n"
    path = write_csv(tmp_path / "a.csv", text)
    data = read_record(
        path, {"x": Column("x", fresh=True), "both": Column(["x", "y"], fresh=True), "y": "y"}, missing="keep"
    )
    assert np.array_equal(data["x"], [1, np.nan, 2, np.nan, 3, 4], equal_nan=True)
    # Of two columns only one has to be new.
    assert np.array_equal(data["both"][:, 1], [5, np.nan, 5, np.nan, 6, 6], equal_nan=True)
    assert np.array_equal(data["y"], [5, 5, 5, 5, 6, 6])


def test_stamps_that_came_early_or_late_are_put_back_to_the_pace(tmp_path: Path) -> None:
    """Rows every 50 ms repeat poses read at 10 Hz; some waited and came all at once, two never came."""
    truth = np.delete(0.1 * np.arange(60), [33, 34])
    stamps = truth.copy()
    stamps[10] += 0.05
    stamps[20:23] += [0.15, 0.1, 0.05]
    stamps[45] -= 0.1  # beside the reading before it, by the same stamp
    rows = [f"{t:.3f},{np.sin(k):.9f}" for k, t in enumerate(stamps)]
    copies = [f"{t + 0.001:.3f},{np.sin(k):.9f}" for k, t in enumerate(stamps) if k not in (20, 21, 22, 44)]
    text = "\n".join(sorted(rows + copies, key=lambda row: float(row.split(",")[0])))
    path = write_csv(tmp_path / "a.csv", f"time,x\n{text}\n")
    data = read_record(path, {"x": Column("x", every=0.1), "raw": "x"}, missing="keep", gaps="keep", repeats="merge")
    own = data.channel("x")
    assert np.allclose(own.values, np.sin(np.arange(58)), atol=1e-8)
    assert np.allclose(own.times, truth, atol=1e-9)
    assert data.channel("raw").times.size == 58 + 54 - 1
    with pytest.raises(InputError, match="the clock has a pace"):
        read_record(path, {"x": "x"}, time=Column("time", every=0.1))
    with pytest.raises(InputError, match="fewer than two readings that differ"):
        read_record(write_csv(tmp_path / "b.csv", "time,x\n0,1\n1,1\n"), {"x": Column("x", every=0.1)})


def test_a_clock_that_counts_since_1970_may_count_from_the_first_row(tmp_path: Path) -> None:
    stamps = 1_637_309_640_123_456_000 + np.arange(6) * 2_000_000  # ns: doubles hold them to 256 ns
    rows = "\n".join(f"{stamp},{k}" for k, stamp in enumerate(stamps))
    path = write_csv(tmp_path / "a.csv", f"stamp,q\n{rows}\n")
    data = read_record(path, {"q": "q"}, time=Column("stamp", "ns", from_first=True, offset=-1.0))
    assert np.allclose(data.channel("q").times, -1.0 + 0.002 * np.arange(6), rtol=0.0, atol=3e-7)


def test_parquet_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"time": TIME, "q": ANGLE}), path)
    assert np.allclose(read_record(path, {"q": Column("q", "deg")})["q"], np.deg2rad(ANGLE))
    with pytest.raises(InputError, match="'p'"):
        read_record(path, {"q": "p"})
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match=r"a\.parquet"):
        read_record(path, {"q": "q"})


def test_wrap_around_is_undone_only_on_request(tmp_path: Path) -> None:
    wrapped = (np.cumsum(np.full(TIME.size, 50.0)) + 180.0) % 360.0 - 180.0
    text = "time,q\n" + "\n".join(f"{t},{q}" for t, q in zip(TIME, wrapped, strict=True))
    path = write_csv(tmp_path / "w.csv", text)
    plain = read_record(path, {"q": Column("q", "deg")})["q"]
    turned = read_record(path, {"q": Column("q", "deg", unwrap=True)})["q"]
    assert np.abs(np.diff(plain)).max() > 5.0
    assert np.allclose(np.diff(turned), np.deg2rad(50.0))


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("time,q\n0,1\n0.1,2\n", {"a": "qq"}, "no such column.*did you mean 'q'"),
        ("time,q\n0,1\n0.2,2\n0.1,3\n", {"a": "q"}, "time goes from 0.2 s to 0.1 s at sample 2"),
        ("time,q\n0,1\n0.1,2\n0.2,3\n0.9,4\n1.0,5\n", {"a": "q"}, "no samples between 0.2 s and 0.9 s"),
        ("time,q\n0,1\n0.1,nan\n0.2,3\n", {"a": "q"}, "sample 1 of 'a' is not a finite number"),
        ("time,q\n0,1\n0.1,\n0.2,3\n", {"a": "q"}, "sample 1 of 'a'"),
        ("time,q\n0,1\n0.1,2,3\n", {"a": "q"}, "line 3: has 3 cells"),
        ("time,q\n0,1\n0.1,two\n", {"a": "q"}, "line 3, column 'q': 'two' is not a number"),
        ("time,q,q\n0,1,1\n0.1,2,2\n", {"a": "q"}, "twice"),
        ("time,q\n0,1\n0.1,2\n", {"a": Column("q", "mm", expects="rad")}, "is in 'mm'.*expected a unit of rad"),
        ("time,q\n0,1\n0.1,2\n", {"a": Column("q", "dgree")}, "unit 'dgree' is not known"),
        ("time,q\n0,1\n0.1,2\n", {"a": Column("q", "mm", unwrap=True)}, "cannot be unwrapped"),
        ("", {"a": "q"}, "no header"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, columns: dict[str, Column | str], message: str) -> None:
    path = write_csv(tmp_path / "bad.csv", text)
    with pytest.raises(InputError, match=message) as caught:
        read_record(path, columns)
    assert caught.value.file == path or "bad.csv" in str(caught.value)


def test_unequal_lengths(tmp_path: Path) -> None:
    from scipy.io import savemat

    savemat(tmp_path / "u.mat", {"time": TIME, "q": ANGLE[:-1]})
    with pytest.raises(InputError, match="differ in length: 'time' 10, 'q' 9"):
        read_record(tmp_path / "u.mat", {"q": "q"})
    with pytest.raises(InputError, match="has 9 samples, time has 10"):
        Record.from_columns("a", TIME, {"q": ANGLE[:-1]})


def test_rows_are_dropped_only_when_told(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "n.csv", "time,q\n0,1\n0.1,nan\n0.2,3\n0.3,4\n0.4,5\n")
    data = read_record(path, {"q": "q"}, missing="drop", gaps="keep")
    assert data.dropped == 1
    assert data["q"].tolist() == [1.0, 3.0, 4.0, 5.0]
    with pytest.raises(InputError, match="no samples between"):
        read_record(path, {"q": "q"}, missing="drop")


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_record(tmp_path / "none.csv", {"q": "q"})
    with pytest.raises(InputError, match="not a table"):
        read_record(tmp_path / "none.docx", {"q": "q"})
    for name in ("broken.mat", "broken.nc"):
        (tmp_path / name).write_bytes(b"nothing of the kind")
        with pytest.raises(InputError, match="cannot be read"):
            read_record(tmp_path / name, {"q": "q"})


def written_by_others(folder: Path) -> list[Path]:
    """The same two columns, in degrees, in every format, written by the libraries that own them."""
    import h5py
    import pandas
    import xarray
    from scipy.io import savemat

    table = pandas.DataFrame({"time": TIME, "q": ANGLE})
    table.to_csv(folder / "a.csv", index=False)
    table.to_csv(folder / "a.tsv", index=False, sep="\t")
    table.to_parquet(folder / "a.parquet")
    data = xarray.Dataset({"q": ("time", ANGLE)}, coords={"time": TIME})
    data.to_netcdf(folder / "four.nc", engine="h5netcdf")
    data.to_netcdf(folder / "classic.nc", engine="scipy", format="NETCDF3_CLASSIC")
    savemat(folder / "five.mat", {"time": TIME, "q": ANGLE}, format="5")
    savemat(folder / "four.mat", {"time": TIME, "q": ANGLE}, format="4")
    savemat(folder / "packed.mat", {"time": TIME[:, None], "q": ANGLE[:, None]}, do_compression=True)
    with h5py.File(folder / "seven.mat", "w", userblock_size=512) as file:  # as MATLAB 7.3 lays it out
        for name, values in (("time", TIME), ("q", ANGLE)):
            file[name] = values[None]
            file[name].attrs["MATLAB_class"] = np.bytes_("double")
    with (folder / "seven.mat").open("r+b") as raw:
        text = b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Mon Jan  1 00:00:00 2024 HDF5 schema 1.00 ."
        raw.write(text.ljust(116) + bytes(8) + bytes([0, 2]) + b"IM")
    with h5py.File(folder / "a.h5", "w") as file:
        file["time"], file["q"] = TIME, ANGLE
    np.savez(folder / "a.npz", time=TIME, q=ANGLE)
    np.savez_compressed(folder / "packed.npz", time=TIME, q=ANGLE)
    return sorted(folder.iterdir())


def test_all_formats_hold_the_same(tmp_path: Path) -> None:
    paths = written_by_others(tmp_path)
    assert len(paths) == 12
    for path in paths:
        record = read_record(path, {"joint1": Column("q", "deg", "rad")})
        assert np.allclose(record["joint1"], np.deg2rad(ANGLE), rtol=1e-15), path
        assert np.allclose(record.times, TIME, rtol=1e-15), path
        with pytest.raises(InputError, match="no such column"):
            read_record(path, {"joint1": "w"})


def test_a_file_states_its_units(tmp_path: Path) -> None:
    """Units of NetCDF, HDF5 and Parquet files count unless others are given."""
    import h5py
    import pandas
    import xarray

    known = {"units": "degrees"}
    data = xarray.Dataset({"q": ("time", ANGLE, known)}, coords={"time": ("time", 1e3 * TIME, {"units": "ms"})})
    for engine in ("h5netcdf", "scipy"):
        data.to_netcdf(tmp_path / f"{engine}.nc", engine=engine)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["log/time"], file["log/q"] = 1e3 * TIME, np.stack([ANGLE, ANGLE], axis=1)
        file["log/time"].attrs["unit"], file["log/q"].attrs["units"] = "ms", "deg"
    fields = [pyarrow.field(n, "f8", metadata={"units": u}) for n, u in (("time", "ms"), ("q", "deg"))]
    parquet.write_table(pyarrow.table([1e3 * TIME, ANGLE], pyarrow.schema(fields)), tmp_path / "a.parquet")
    for path in sorted(tmp_path.iterdir()):
        names = ("log/time", "log/q[1]") if path.suffix == ".h5" else ("time", "q")
        record = read_record(path, {"q": names[1], "own": Column(names[1], "rad")}, time=names[0])
        assert np.allclose(record["q"], np.deg2rad(ANGLE)), path
        assert np.allclose(record["own"], ANGLE), path
        assert np.allclose(record.times, TIME), path
        assert record.units["q"] == "rad"
    start = pandas.Timestamp("2024-03-01")
    dates = xarray.Dataset({"q": ("time", ANGLE)}, coords={"time": start + pandas.to_timedelta(TIME, "s")})
    dates.to_netcdf(tmp_path / "dates.nc", encoding={"time": {"units": "milliseconds since 2024-03-01"}})
    assert np.allclose(read_record(tmp_path / "dates.nc", {"q": "q"}).times, TIME)
    data["q"].attrs["units"] = "furlongs"
    data.to_netcdf(tmp_path / "odd.nc")
    with pytest.raises(InputError, match="furlongs"):
        read_record(tmp_path / "odd.nc", {"q": "q"})


def test_hostile_archives_end_in_words(tmp_path: Path) -> None:
    """Pickled objects, lying headers and links to other files are refused."""
    import io
    import zipfile

    import h5py

    np.savez(tmp_path / "pickled.npz", time=TIME, q=np.array([{"a": 1}] * TIME.size, dtype=object))
    with pytest.raises(InputError, match="cells or objects"):
        read_record(tmp_path / "pickled.npz", {"q": "q"})
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as archive:
        archive.writestr("time.npy", head.getvalue())
    with pytest.raises(InputError, match="too many for a file of this size"):
        read_record(tmp_path / "huge.npz", {"q": "q"})
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["log/q"] = ANGLE
    with h5py.File(tmp_path / "link.h5", "w") as file:
        file["time"], file["log"] = TIME, h5py.ExternalLink("secret.h5", "/log")
    with pytest.raises(InputError, match="no such column"):
        read_record(tmp_path / "link.h5", {"q": "log/q"})


def test_rows_of_one_time_become_one_with_the_last_reading_of_each_column(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "twice.csv", "time,q,r\n0,1,5\n0.1,2,6\n0.1,0,7\n0.2,3,-3.14159\n0.2,4,-3.14159\n")
    columns = {"a": Column("q", dropout=[0.0]), "b": Column("r", dropout=[-3.14159])}
    with pytest.raises(InputError, match=r"rows 1 and 2 have the same time, 0\.1 s \(2 such rows\)"):
        read_record(path, columns, missing="keep")
    data = read_record(path, columns, missing="keep", repeats="merge")
    np.testing.assert_array_equal(data.times, [0.0, 0.1, 0.2])
    np.testing.assert_array_equal(data["a"], [1.0, 2.0, 4.0])
    np.testing.assert_array_equal(data["b"], [5.0, 7.0, np.nan])


@pytest.mark.parametrize(
    "pattern", ["*.csv", "a/*", "**/*.csv", "*/b?.csv", "a/**/[xb]*.csv", "a/b1.csv", "a/*/../*.csv", "none*"]
)
def test_patterns_match_as_by_pathlib(pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a bounded number of entries, whether they match or not."""
    for name in ("x.csv", "a/b1.csv", "a/b2.csv", "a/c/x9.csv", "a/c/d/b.csv", "e/b3.csv", "e/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert sorted(match_files(tmp_path, pattern)) == sorted(set(tmp_path.glob(pattern)))
    monkeypatch.setattr(formats, "MOST_ENTRIES", 0)
    if pattern != "a/b1.csv":
        with pytest.raises(InputError, match="would look at more than 0 files"):
            match_files(tmp_path, pattern)


def test_signals_of_a_simulink_log_with_time(tmp_path: Path) -> None:
    """To Workspace, "structure with time": an array of structs, one for each signal."""
    times = np.arange(5) * 0.1
    signals = [
        {"values": np.column_stack([times, 2.0 * times]), "label": "pose"},
        {"values": 3.0 * times, "label": "u"},
    ]
    savemat(tmp_path / "a.mat", {"out": {"time": times, "signals": signals}})
    columns: dict[str, Column | str] = {"y": "out.signals[0].values[1]", "u": "out.signals[1].values"}
    read = read_record(tmp_path / "a.mat", columns, time="out.time")
    assert np.allclose(read["y"], 2.0 * times)
    assert np.allclose(read["u"], 3.0 * times)
    for wrong, message in (
        ("out.signals.values", r"2 structs in an array \(expected their number: 'out\.signals\[0\]\.values'"),
        ("out.signals[2].values", r"'signals' has 2 entries"), ("out.signals[0].label", "holds text"),
        ("out.signals[0].vals", "did you mean 'values'"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            read_record(tmp_path / "a.mat", {"x": wrong}, time="out.time")
