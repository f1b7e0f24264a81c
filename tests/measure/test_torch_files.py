"""Tensors of ``torch.save`` without torch: numbers as they are stored, and nothing of the file is run."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.measure import SampleRate, read_record
from support import ROOT
from support.torch_files import DOUBLES, FLOATS, TENSOR, tensor_bytes, tensor_description

TOSS = ROOT / "tests" / "validation" / "data" / "cube" / "0.pt"


def write(path: Path, pickled: bytes, numbers: bytes, order: bytes | None = None) -> Path:
    path.write_bytes(tensor_bytes(pickled, numbers, order))
    return path


def test_a_measured_toss_is_read_as_it_is_stored() -> None:
    with zipfile.ZipFile(TOSS) as archive:
        stored = np.frombuffer(archive.read("archive/data/0")).reshape(-1, 13)
    record = read_record(TOSS, {"x": "[4]", "w": "[0]"}, time=SampleRate(148.0))
    assert np.array_equal(record["x"], stored[:, 4])
    assert np.array_equal(record["w"], stored[:, 0])
    assert np.allclose(record.channel("x").times, np.arange(len(stored)) / 148.0)
    assert np.abs(np.linalg.norm(stored[:, :4], axis=1) - 1.0).max() < 1e-9


def test_other_tensors(tmp_path: Path) -> None:
    values = np.arange(12.0)
    single = write(
        tmp_path / "a.pt", tensor_description(TENSOR, FLOATS, (5, 2), (2, 1), 2), values.astype("<f4").tobytes()
    )
    assert np.array_equal(read_record(single, {"q": "[1]"}, time="[0]")["q"], values[3::2])
    ordered = write(tmp_path / "b.pt", tensor_description(TENSOR, DOUBLES, (6, 2), (2, 1)), values.tobytes(), b"little")
    assert np.array_equal(read_record(ordered, {"q": "[1]"}, time="[0]")["q"], values[1::2])


@pytest.mark.parametrize(
    ("pickled", "message"),
    [
        (tensor_description(TENSOR, DOUBLES, (6, 2), (1, 6)), "strides"),
        (tensor_description(TENSOR, DOUBLES, (7, 2), (2, 1)), "shape"),
        (tensor_description(TENSOR, DOUBLES, (2_000_000_000, 2_000_000_000), (2, 1)), "too many"),
        (tensor_description(TENSOR, DOUBLES, (-6, 2), (2, 1)), "too many"),
        (tensor_description(TENSOR, b"torch\nLongStorage", (6, 2), (2, 1)), "float64"),
        (tensor_description(b"os\nsystem", DOUBLES, (6, 2), (2, 1)), "float64"),
        (pickle.dumps({"weights": [1.0, 2.0]}, 2), "more than one tensor"),
        (pickle.dumps((print, ("run",)), 2), "float64"),
        (b"\x80\x02", "cannot be read|float64"),
        (b"junk", "cannot be read"),
        (b"\x80\x02tQ.", "cannot be read"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, pickled: bytes, message: str) -> None:
    file = write(tmp_path / "bad.pt", pickled, np.arange(12.0).tobytes())
    with pytest.raises(InputError, match=message) as caught:
        read_record(file, {"q": "[1]"}, time="[0]")
    assert caught.value.file == file


def test_other_archives_and_byte_orders_are_refused(tmp_path: Path) -> None:
    good = tensor_description(TENSOR, DOUBLES, (6, 2), (2, 1))
    big = write(tmp_path / "big.pt", good, np.arange(12.0).tobytes(), b"big")
    with pytest.raises(InputError, match="little-endian"):
        read_record(big, {"q": "[1]"}, time="[0]")
    (tmp_path / "cut.pt").write_bytes(TOSS.read_bytes()[:3000])
    with pytest.raises(InputError, match="cannot be read"):
        read_record(tmp_path / "cut.pt", {"q": "[1]"}, time="[0]")
    np.savez(tmp_path / "other", a=np.zeros(3))
    (tmp_path / "other.npz").rename(tmp_path / "other.pt")
    with pytest.raises(InputError, match="no description"):
        read_record(tmp_path / "other.pt", {"q": "[1]"}, time="[0]")
    with pytest.raises(InputError, match="so many columns"):
        read_record(TOSS, {"q": "[13]"}, time="[0]")
    with pytest.raises(InputError, match="no such column"):
        read_record(TOSS, {"q": "x"}, time="[0]")


def test_text_without_header(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(" 0   1  2\n 0.5 3 4\n1 5 6\n")
    assert list(read_record(tmp_path / "a.txt", {"q": "[2]"}, time="[0]")["q"]) == [2.0, 4.0, 6.0]
    (tmp_path / "b.csv").write_text("0,1,2\n0.5,,4\n1.5,7,5\n")
    record = read_record(tmp_path / "b.csv", {"q": "[1]"}, time=SampleRate(2.0, 1.0), missing="keep")
    assert record["q"][0] == 1.0
    assert np.isnan(record["q"][1])
    assert list(record.channel("q").times) == [1.0, 1.5, 2.0]
    # A header of numbers is one where it is asked for.
    assert list(read_record(tmp_path / "b.csv", {"q": "2"}, time="0")["q"]) == [4.0, 5.0]
    (tmp_path / "c.csv").write_text("0,1\n1\n")
    with pytest.raises(InputError, match="1 cells"):
        read_record(tmp_path / "c.csv", {"q": "[1]"}, time="[0]")
    with pytest.raises(InputError, match="rate"):
        SampleRate(0.0)
