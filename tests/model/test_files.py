"""Files of robots on disk: names, endings, rights, what is replaced and what is left alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from spacearm.errors import InputError, ModelError
from spacearm.model import (
    catalogue,
    load,
    save,
)
from spacearm.model.files import file_format, robot_text
from spacearm.model.mounts import find_robot
from spacearm.model.robot_import import Reading
from spacearm.model.toml_read import robot_from_toml
from spacearm.model.toml_write import toml_text
from support.robot_files import ARM, BASE, ELBOW


def test_file_and_place_are_named(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text(BASE.replace("mass = 10", "mass = -1"))
    with pytest.raises(ModelError) as caught:
        load(path)
    assert str(caught.value) == f"{path}: body[0].mass ('base'): mass is -1 (expected at least 0)"
    assert caught.value.file == path


def test_byte_order_mark_and_windows_line_ends(tmp_path):
    path = tmp_path / "windows.toml"
    path.write_bytes(b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode())
    assert load(path) == robot_from_toml(BASE)


def _make(path, kind):
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "not UTF-8":
        path.write_bytes(b'[robot]\nname = "\xff"\n')
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(17 * 2**20)
    elif kind == "empty":
        path.touch()
    elif kind == "binary":
        path.write_bytes(bytes(range(256)))


@pytest.mark.parametrize(
    ("kind", "note"),
    [
        ("missing", "there is no such file"),
        ("folder", "is a folder"),
        ("pipe", "is not a plain file"),
        ("not UTF-8", "byte 16: is not UTF-8 text"),
        ("binary", "byte 128: is not UTF-8 text"),
        ("huge", "is larger than 16 MB"),
        ("empty", "file is empty"),
    ],
)
def test_files_that_are_none(tmp_path, kind, note):
    path = tmp_path / "robot.toml"
    _make(path, kind)
    with pytest.raises(ModelError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: {note}")


@pytest.mark.parametrize("path", ["a\0b.toml", "a" * 5000 + ".toml", "tests/test_toml.py/robot.toml"])
def test_names_that_no_file_can_have(path):
    with pytest.raises(ModelError):
        load(path)


def test_unreadable_file(tmp_path, monkeypatch):
    path = tmp_path / "robot.toml"
    path.write_text(BASE)

    def denied(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(ModelError, match="cannot be read: Permission denied"):
        load(path)


@pytest.mark.parametrize("name", ["robot.yaml", "robot", "robot.toml.bak"])
def test_unknown_ending(tmp_path, name):
    with pytest.raises(ModelError, match=r"\.toml, \.urdf, \.xml, \.mjcf"):
        load(tmp_path / name)
    with pytest.raises(ModelError):
        save(robot_from_toml(BASE), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_endings():
    assert [file_format(f"a{e}") for e in (".toml", ".TOML", ".urdf", ".xml", ".mjcf")] == [
        "toml",
        "toml",
        "urdf",
        "mjcf",
        "mjcf",
    ]
    with pytest.raises(InputError, match="format is 'yaml'"):
        robot_text(robot_from_toml(BASE), "yaml")


def test_save_replaces_whole_files_and_keeps_their_permissions(tmp_path):
    path = tmp_path / "r.toml"
    robot = robot_from_toml(BASE)
    assert save(robot, path) == path
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    path.chmod(0o640)
    save(robot, path, comments=["second"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.read_text().startswith("# second\n")
    assert load(path) == robot
    assert list(tmp_path.iterdir()) == [path]


def test_failed_save_leaves_everything_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "r.toml"
    path.write_text("precious")
    robot = robot_from_toml(BASE)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="cannot be written: No space left on device"):
        save(robot, path)
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]
    monkeypatch.undo()
    with pytest.raises(InputError, match="cannot be written"):
        save(robot, tmp_path / "nowhere" / "r.toml")
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        save(robot, tmp_path / "folder.toml")


def test_comments_cannot_break_the_file():
    robot = robot_from_toml(BASE)
    text = toml_text(robot, ["identified from run 3", "mass = 7\n[robot]\r\nname = 'x'", "bell \a, nul \0, tab \t", ""])
    assert robot_from_toml(text) == robot
    assert text.startswith("# identified from run 3\n# mass = 7\n# [robot]\n# name = 'x'\n# bell \\x07, nul \\x00, tab")


@pytest.mark.filterwarnings("ignore::spacearm.model.notices.LossyConversion")
@pytest.mark.parametrize("ending", ["urdf", "xml"])
def test_comments_of_xml_files(tmp_path, ending):
    robot = catalogue.load("xu2017")
    comments = ["--> <robot/> <!-- a ---- b -", "\a\0 second & third"]
    plain = load(save(robot, tmp_path / f"plain.{ending}"))
    path = save(robot, tmp_path / f"told.{ending}", comments=comments)
    assert load(path) == plain
    assert "second & third" in path.read_text(encoding="utf-8")


def test_a_whole_file_in_place_of_its_path_is_told_in_one_short_line():
    text = (BASE + ARM + ELBOW) * 50
    for name in (text, text + ".toml", "x" * 5000 + ".toml", "x" * 5000 + ".urdf", "x" * 5000 + ".xml"):
        with pytest.raises(InputError) as caught:
            load(name)
        assert len(str(caught.value)) < 300
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("options", [{"base": "link1"}, {"base_mass": 3.0}])
def test_a_base_of_ones_own_is_not_ignored(tmp_path, options):
    """Robots of spacearm's own files have theirs, those of the catalogue too."""
    save(catalogue.load("xu2017"), tmp_path / "arm.toml")
    for source in ("xu2017", tmp_path / "arm.toml"):
        with pytest.raises(InputError, match="options for URDF and MJCF"):
            load(source, **options)
    with pytest.raises(InputError, match="options for URDF and MJCF"):
        find_robot("xu2017", reading=Reading(**options))
