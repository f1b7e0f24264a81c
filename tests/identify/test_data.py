"""Measured data from files: units, column maps, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from spacearm.errors import InputError
from spacearm.identify import Column, Measurements, read_measurements

TIME = np.arange(0.0, 1.0, 0.1)
ANGLE = np.linspace(-10.0, 350.0, TIME.size)


def write_csv(path: Path, text: str | None = None) -> Path:
    if text is None:
        rows = [f"{t:.3f};{a:.17g}" for t, a in zip(TIME, ANGLE, strict=True)]
        text = "# a comment\nt;q deg\n" + "\n".join(rows) + "\n"
    path.write_text(text, encoding="utf-8")
    return path


def test_csv_with_units(tmp_path: Path) -> None:
    data = read_measurements(
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
        data = read_measurements(tmp_path / name, {"second": Column("q[1]", "deg")})
        assert np.allclose(data["second"], np.deg2rad(2 * ANGLE)), name


def test_parquet_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"time": TIME, "q": ANGLE}), path)
    assert np.allclose(read_measurements(path, {"q": Column("q", "deg")})["q"], np.deg2rad(ANGLE))
    with pytest.raises(InputError, match="'p'"):
        read_measurements(path, {"q": "p"})
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match=r"a\.parquet"):
        read_measurements(path, {"q": "q"})


def test_wrap_around_is_undone_only_on_request(tmp_path: Path) -> None:
    wrapped = (np.cumsum(np.full(TIME.size, 50.0)) + 180.0) % 360.0 - 180.0
    text = "time,q\n" + "\n".join(f"{t},{q}" for t, q in zip(TIME, wrapped, strict=True))
    path = write_csv(tmp_path / "w.csv", text)
    plain = read_measurements(path, {"q": Column("q", "deg")})["q"]
    turned = read_measurements(path, {"q": Column("q", "deg", unwrap=True)})["q"]
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
        read_measurements(path, columns)
    assert caught.value.file == path or "bad.csv" in str(caught.value)


def test_unequal_lengths(tmp_path: Path) -> None:
    from scipy.io import savemat

    savemat(tmp_path / "u.mat", {"time": TIME, "q": ANGLE[:-1]})
    with pytest.raises(InputError, match="differ in length: 'time' 10, 'q' 9"):
        read_measurements(tmp_path / "u.mat", {"q": "q"})
    with pytest.raises(InputError, match="has 9 samples, time has 10"):
        Measurements(TIME, {"q": ANGLE[:-1]})


def test_rows_are_dropped_only_when_told(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "n.csv", "time,q\n0,1\n0.1,nan\n0.2,3\n0.3,4\n0.4,5\n")
    data = read_measurements(path, {"q": "q"}, missing="drop", gaps="keep")
    assert data.dropped == 1
    assert data["q"].tolist() == [1.0, 3.0, 4.0, 5.0]
    with pytest.raises(InputError, match="no samples between"):
        read_measurements(path, {"q": "q"}, missing="drop")


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_measurements(tmp_path / "none.csv", {"q": "q"})
    with pytest.raises(InputError, match="not a table"):
        read_measurements(tmp_path / "none.docx", {"q": "q"})
    for name in ("broken.mat", "broken.nc"):
        (tmp_path / name).write_bytes(b"nothing of the kind")
        with pytest.raises(InputError, match="cannot be read"):
            read_measurements(tmp_path / name, {"q": "q"})
