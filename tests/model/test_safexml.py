"""XML from strangers: what is not a file, too large, too deep or too much is refused, each bound by its name."""

from __future__ import annotations

import os
import threading

import pytest

from spacearm.errors import ModelError
from spacearm.model.safexml import Bounds, parse, read_file
from spacearm.model.urdf_read import read_urdf


def refused_at_once(path, read):
    """The error's text; a reader that waits for a device or a pipe would hang the test, so it runs beside."""
    found = []

    def attempt():
        try:
            read(path)
        except ModelError as error:
            found.append(str(error))

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(10.0)
    assert not thread.is_alive(), "still reading"
    return found[0]


def test_only_regular_files_are_read(tmp_path):
    pipe = tmp_path / "pipe.urdf"
    os.mkfifo(pipe)
    expected = "cannot be read: it is a device or a pipe (expected a regular file)"
    assert refused_at_once(pipe, read_urdf) == f"{pipe}: {expected}"
    zero = tmp_path / "zero.urdf"
    zero.symlink_to("/dev/zero")
    assert refused_at_once(zero, read_urdf) == f"{zero}: {expected}"
    with pytest.raises(ModelError, match="directory"):
        read_file(tmp_path)
    with pytest.raises(ModelError, match="cannot be read"):
        read_file("a\0b")


def test_a_file_is_read_up_to_its_bound(tmp_path):
    path = tmp_path / "a.xml"
    path.write_bytes(b"x" * 11)
    assert read_file(path, 11) == b"x" * 11
    with pytest.raises(ModelError, match="larger than 10 bytes"):
        read_file(path, 10)


@pytest.mark.parametrize(
    ("text", "bounds", "message"),
    [
        ("<a>" * 6 + "</a>" * 6, Bounds(depth=5), r"line 1: .* more than 5 levels deep .*Bounds\(depth=\.\.\.\)"),
        ("<a>\n" + "<b/>" * 5 + "</a>", Bounds(elements=5), r"line 2: .* more than 5 elements .*Bounds\(elements"),
        ("<a/>", Bounds(file_bytes=3), r"longer than 3 bytes .*Bounds\(file_bytes"),
    ],
)
def test_each_bound_is_named_with_the_way_to_lift_it(text, bounds, message):
    with pytest.raises(ModelError, match=message):
        parse(text, None, bounds=bounds)
    assert parse(text, None).tag == "a"


def test_deep_and_numerous_elements_are_refused_by_default():
    with pytest.raises(ModelError, match="nested more than"):
        parse("<a>" * 100_000, None)
    with pytest.raises(ModelError, match="elements"):
        parse("<a>" + "<b/>" * 1_000_000 + "</a>", None)


def test_elements_know_their_lines(tmp_path):
    root = parse("<a>\n <b/>\n\n <c\n x='1'/></a>", "a", file=tmp_path)
    assert [(each.tag, each.line, each.file) for each in root.iter()] == [
        ("a", 1, tmp_path),
        ("b", 2, tmp_path),
        ("c", 4, tmp_path),
    ]
