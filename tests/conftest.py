"""Shared by all tests."""

from __future__ import annotations

import signal

import hypothesis
import pytest

from support import chromium

# The same examples on every run and machine; a slow machine is not a failure.
hypothesis.settings.register_profile("spacearm", derandomize=True, deadline=None)
hypothesis.settings.load_profile("spacearm")


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What rich reads from the environment must not decide a test."""
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_is_heard() -> None:
    """Python leaves Ctrl-C ignored where its parent ignores it, as a shell does for jobs in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A machine without a browser leaves pages untried; nobody shall take that for a pass."""
    if any("Chromium" in str(report.longrepr) for report in terminalreporter.getreports("skipped")):
        terminalreporter.section("pages in a browser", sep="!", red=True, bold=True)
        terminalreporter.line(chromium.ADVICE, red=True)
