"""Text files as loggers of other people write them: the same columns come from each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.measure import Column, read_record

TIME, ANGLE = np.array([0.0, 0.1, 0.2, 0.3]), np.array([0.5, -1.25, 2.0, 3.75])
COMMA = "0,0;0,5\n0,1;-1,25\n0,2;2,0\n0,3;3,75\n"
ROWS = "0.0,0.5\n0.1,-1.25\n0.2,2.0\n0.3,3.75\n"


@pytest.mark.parametrize(
    ("text", "scale"),
    [
        ("time;q\n" + COMMA, 1.0),
        ("time\tq\n" + COMMA.replace(";", "\t"), 1.0),
        ("time q\n" + ROWS.replace(",", " "), 1.0),
        ("  time   q\n" + ROWS.replace(",", "   "), 1.0),
        ("# time,q\n" + ROWS, 1.0),
        ("% time q\n" + ROWS.replace(",", " "), 1.0),
        ("Lab,7\nDate,2021-03-06\n\ntime,q\n" + ROWS, 1.0),
        ("# made by hand\n#\ntime,q\n" + ROWS, 1.0),
        ("time,q,\n" + ROWS.replace("\n", ",\n"), 1.0),
        ("time,q\n" + ROWS.replace("\n", ",\n"), 1.0),
        ('"time", "q"\n' + ROWS.replace(",", ", "), 1.0),
        ("time [s],q [deg]\n" + ROWS, np.pi / 180.0),
        ("time (ms);q (°)\n" + COMMA.replace("0,1;", "100;").replace("0,2;", "200;").replace("0,3;", "300;"),
         np.pi / 180.0),
        ("time,q\ns,deg\n" + ROWS, np.pi / 180.0),
        ("time,q\n[s],[deg]\n" + ROWS, np.pi / 180.0),
        ("time,q\r\n" + ROWS.replace("\n", "\r\n"), 1.0),
        ("time,q\n" + ROWS + "0.4", 1.0),
        ("time,q\n" + ROWS.replace("0.0,", "12:00:00.0,").replace("0.1,", "12:00:00.1,")
         .replace("0.2,", "12:00:00.2,").replace("0.3,", "12:00:00.3,"), 1.0),
        ("time,q\n" + "".join(f"2021-03-06T15:51:00.{k}00Z,{a}\n" for k, a in enumerate(ANGLE)), 1.0),
        ("time,q\n" + "".join(f"{1.6e18 + k * 1e8:.0f},{a}\n" for k, a in enumerate(ANGLE)), 0.0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_the_same_columns_come_from_each(tmp_path: Path, text: str, scale: float, encoding: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode(encoding))
    # A scale of zero marks nanoseconds here, which no header states.
    clock = Column("time", "" if scale else "ns", from_first=True)
    data = read_record(path, {"q": "q"}, time=clock)
    assert np.allclose(data.channel("q").times, TIME, rtol=0.0, atol=3e-7)
    assert np.allclose(data["q"], (scale or 1.0) * ANGLE, rtol=1e-15)
    # A stated unit comes before that of the header.
    assert np.allclose(read_record(path, {"q": Column("q", "rad")}, time=clock)["q"], ANGLE)


@pytest.mark.parametrize("mark", ["", "NaN", "nan", "NA", "N/A", "#N/A", "null", "None", "-", "--"])
def test_marks_of_missing_readings(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "a.dat"
    path.write_text(f"time,q\n0.0,0.5\n0.1,{mark}\n0.2,2.0\n")
    assert np.array_equal(read_record(path, {"q": "q"}, missing="keep")["q"], [0.5, np.nan, 2.0], equal_nan=True)


def test_flags_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("time,caught\n0,FALSE\n1,false\n2,True\n")
    assert np.array_equal(read_record(path, {"c": "caught"})["c"], [0.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # With commas between columns, a decimal comma makes one cell more.
        ("time,q\n0,5,1\n", "line 2: has 3 cells"),
        ("time,q\n0.0,1\n0.1\n0.2,3\n", "line 3: has 1 cells"),
        ("time,q\n0.0,1_0\n", "'1_0' is not a number"),
        ("time,q\n0.0,1.5.2\n", "is not a number"),
        ("Lab,7\ntime,speed\n0,1\n", "known: speed, time"),
        ("0,1\n1,2\n", "has no header"),
        ("q [deg],q (rad),time\n1,2,3\n", "twice"),
    ],
)
def test_slips_are_told_with_their_place(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_record(tmp_path / "a.csv", {"q": "q"})


@pytest.mark.parametrize(("name", "message"), [("a.ulg", "ulog2csv"), ("a.bag", "CSV"), ("a.docx", r"\.csv")])
def test_files_that_are_no_tables_say_what_makes_one(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / name).write_bytes(b"nothing")
    with pytest.raises(InputError, match=message):
        read_record(tmp_path / name, {"q": "q"})


VICON = """Trajectories
100
,,sat:hull,,,sat:tip,,
Frame,Sub Frame,X,Y,Z,X,Y,Z
,,mm,mm,mm,mm,mm,mm
1501,0,1,2,3,4,5,6
1502,0,1,2,3,,,
1503,0,1,2,3,7,8,9
"""
MOTIVE = """Format Version,1.23,Take Name,one,Length Units,Millimeters

,Type,Rigid Body,Rigid Body,Rigid Body,Marker
,Name,hull,hull,hull,tip
,,Rotation,Rotation,Position,Position
Frame,Time (Seconds),X,Y,X,X
0,0.00,0.1,0.2,1000,2000
1,0.01,0.1,0.2,1001,
2,0.02,0.1,0.2,1002,2002
"""


def test_columns_of_motion_capture_are_named_by_the_lines_above_them(tmp_path: Path) -> None:
    path = tmp_path / "vicon.csv"
    path.write_text(VICON)
    columns: dict[str, Column | str] = {"tip": "tip/Y", "hull": "sat:hull/Z"}
    read = read_record(path, columns, time=Column("Frame", scale=0.01, from_first=True), missing="keep")
    assert np.allclose(read["tip"], [5e-3, np.nan, 8e-3], equal_nan=True)  # the row of units counts
    assert np.allclose(read["hull"], 3e-3)
    assert np.allclose(read.times, [0.0, 0.01, 0.02])
    numbered = read_record(path, {"tip": "[6]"}, time=Column("[0]", from_first=True), missing="keep")
    assert np.allclose(numbered["tip"], [5.0, np.nan, 8.0], equal_nan=True)
    for wrong, message in (
        ("X", r"'X': occurs twice.*'group/X'.*'\[2\]', '\[5\]'"),
        ("hand/X", r"known: .*sat:hull/X"),
    ):
        with pytest.raises(InputError, match=message):
            read_record(path, {"x": wrong}, time="Frame")
    path = tmp_path / "motive.csv"
    path.write_text(MOTIVE)
    columns = {"x": Column("hull/Position/X", "mm"), "q": "hull/Rotation/X", "tip": Column("tip/X", "mm")}
    read = read_record(path, columns, time="Time", missing="keep")
    assert np.allclose(read["x"], [1.0, 1.001, 1.002])
    assert np.allclose(read["q"], 0.1)
    assert np.allclose(read["tip"], [2.0, np.nan, 2.002], equal_nan=True)


def test_numbers_of_lists_in_cells(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('time,valves,status\n0,"[1, 0, 1]",OK\n1,"array(\'d\', [0.5, 0, 2])",OK\n2,(0 0 3),OK\n3,,OK\n')
    read = read_record(path, {"last": "valves[2]", "first": "valves[0]"}, missing="keep")
    assert np.allclose(read["last"], [1.0, 2.0, 3.0, np.nan], equal_nan=True)
    assert np.allclose(read["first"], [1.0, 0.5, 0.0, np.nan], equal_nan=True)
    for wrong, message in (
        ("valves", r"line 2, column 'valves'.*'valves\[0\]' is the first"), ("valves[3]", r"list has 3 numbers"),
        ("status[0]", r"line 2.*'OK' is not a list"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            read_record(path, {"x": wrong}, missing="keep")
