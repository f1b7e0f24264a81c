"""Logs of flight controllers, written by an encoder of the published format and read through orangebox."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.measure import read_record
from spacearm.measure.files import Column
from support.blackbox import blackbox_bytes, write_blackbox

COUNT = 200
TIME = 250 * np.arange(COUNT) + 60_270_150
GYRO = np.round(8000 * np.sin(0.05 * np.arange(COUNT))).astype(int)


def test_fields_come_as_they_were_logged(tmp_path: Path) -> None:
    path = write_blackbox(tmp_path / "a.BFL", {"time": TIME, "gyroADC[0]": GYRO, "gyroADC[1]": -GYRO})
    found = read_record(path, {"rate": Column(["gyroADC[0]", "gyroADC[1]"], scale=[1.0 / 16.384, -1.0], unit="deg/s")})
    assert np.allclose(found.times, 1e-6 * TIME, rtol=1e-15)  # the log's own unit: microseconds
    assert np.allclose(found["rate"][:, 0], np.deg2rad(GYRO / 16.384), rtol=1e-14)
    assert np.allclose(found["rate"][:, 1], np.deg2rad(GYRO), rtol=1e-14)


def test_a_log_that_breaks_off_is_read_to_its_last_frame(tmp_path: Path) -> None:
    whole = blackbox_bytes({"time": TIME, "gyroADC[0]": GYRO}, end=False)
    path = tmp_path / "cut.bbl"
    path.write_bytes(whole[:-2])
    found = read_record(path, {"rate": "gyroADC[0]"})
    assert COUNT - 3 <= found.times.size < COUNT
    assert np.array_equal(found["rate"], GYRO[: found.times.size])


def test_what_is_no_log_is_an_error_with_a_hint(tmp_path: Path) -> None:
    path = write_blackbox(tmp_path / "a.bfl", {"time": TIME, "gyroADC[0]": GYRO})
    with pytest.raises(InputError, match="no such column") as caught:
        read_record(path, {"rate": "gyroADC[7]"})
    assert "gyroADC" in caught.value.hint
    (tmp_path / "text.bfl").write_text("time,q\n0,1\n")
    with pytest.raises(InputError, match="no header of a Blackbox log"):
        read_record(tmp_path / "text.bfl", {"rate": "q"})
    (tmp_path / "two.bfl").write_bytes(2 * path.read_bytes())
    with pytest.raises(InputError, match="holds 2 logs"):
        read_record(tmp_path / "two.bfl", {"rate": "gyroADC[0]"})
    head = path.read_bytes().partition(b"I\x00")[0]
    (tmp_path / "empty.bfl").write_bytes(head)
    with pytest.raises(InputError, match=r"no frame|cannot be read"):
        read_record(tmp_path / "empty.bfl", {"rate": "gyroADC[0]"})


def test_scales_must_be_as_many_as_the_columns(tmp_path: Path) -> None:
    path = write_blackbox(tmp_path / "a.bfl", {"time": TIME, "gyroADC[0]": GYRO})
    with pytest.raises(InputError, match="2 scales for 1"):
        read_record(path, {"rate": Column("gyroADC[0]", scale=[1.0, 2.0])})
