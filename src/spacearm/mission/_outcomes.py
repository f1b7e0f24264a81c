"""Outcomes of the stages of a mission: margins of their limits, 1 is unused, 0 at the limit, below 0 beyond.

A stage succeeds where no limit is broken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from spacearm.mission._limits import order_limits
from spacearm.result import Limit
from spacearm.study.findings import NotedValue

#: How a limit is called that waiting may mend.
UNSETTLED = "not settled"


@dataclass(frozen=True, eq=False)
class StageOutcome:
    """Outcome of a stage: its limits and numbers."""

    stage: str
    begin: float  # s
    end: float
    limits: Sequence[Limit]
    numbers: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def binding_limit(self) -> Limit:
        """The limit that broke first, or has the least margin; that a stage has not settled is but what follows."""
        causes = [limit for limit in self.limits if limit.is_broken and limit.name != UNSETTLED]
        return min(causes or self.limits, key=order_limits, default=Limit("none", 0.0, 1.0))

    @property
    def margin(self) -> float:
        return self.binding_limit.margin

    @property
    def success(self) -> bool:
        return not self.binding_limit.is_broken

    def rows(self) -> dict[str, Any]:
        """Rows by name: success, margins, then the stage's own numbers."""
        each = {limit.name.replace(" ", "_"): NotedValue(limit.margin, limit.words) for limit in self.limits}
        return {
            "success": NotedValue(int(self.success), "" if self.success else self.binding_limit.words),
            "time": NotedValue(self.end - self.begin, "how long it lasted", "s"),
            "margin": {"": NotedValue(self.margin, f"least; {self.binding_limit.words}"), **each},
            "binding": self.binding_limit.name,
            **self.numbers,
        }
