"""What tests of the command line share."""

from __future__ import annotations

from pathlib import Path

import pytest

Capture = pytest.CaptureFixture[str]


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
