"""The identified robot as a file of the result's folder, where the result can be trusted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from spacearm.result import Result, Row


def with_robot(result: Result, name: str, text: Callable[[], str], obstacle: str = "") -> Result:
    """The result with a robot file of this name, or with the reason why there is none.

    Args:
        text: makes the file's content.
        obstacle: why there can be no such robot; empty when there can. A result that is not sound is one always.
    """
    why = obstacle or ("" if result.sound else "the result is not sound")
    if not why:
        return replace(result, settings={**result.settings, "written": name}, files={**result.files, name: text()})
    note = f"{name} was not written: {why}"
    return replace(
        result,
        settings={**result.settings, "written": ""},
        rows=[*result.rows, Row("written", None, note=note)],
        summary=f"{result.summary}\n\n{note}.",
    )
