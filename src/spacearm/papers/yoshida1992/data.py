"""Settings of Yoshida et al. (1992), Sec. 6."""

from __future__ import annotations

from typing import Any

NAME = "yoshida1992"
#: Line styles follow this order: the paper draws free solid, fixed broken, half dotted.
CASES: dict[str, dict[str, Any]] = {"free": {}, "fixed": {"locked": "all"}, "half": {"resistance": 0.5}}
POSTURE, HAND, PLANE = "L", "hand", (0.0, 0.0, 1.0)
#: The paper gives neither mass nor speed of the mass point.
STRIKER_MASS, STRIKER_SPEED = 1.0, 1.0  # kg, m/s
DIRECTIONS = 1801
FREQUENCIES = (1e2, 1e3, 1e4, 1e5)  # rad/s
