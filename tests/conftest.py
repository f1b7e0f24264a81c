"""Shared by all tests."""

from __future__ import annotations

import hypothesis
import pytest

# The same examples on every run and machine; a slow machine is not a failure.
hypothesis.settings.register_profile("spacearm", derandomize=True, deadline=None)
hypothesis.settings.load_profile("spacearm")


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What rich reads from the environment must not decide a test."""
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
