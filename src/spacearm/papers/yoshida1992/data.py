"""Data of Yoshida et al. (1992), Sec. 6, and the tolerances of the comparison with it."""

from __future__ import annotations

from typing import Any

#: Line styles follow this order: the paper draws free solid, fixed broken, half dotted.
CASES: dict[str, dict[str, Any]] = {"free": {}, "fixed": {"locked": "all"}, "half": {"resistance": 0.5}}
POSTURE, HAND, PLANE = "L", "hand", (0.0, 0.0, 1.0)
TOTAL_MASS = 3.0  # kg
#: The paper gives neither mass nor speed of the mass point.
STRIKER_MASS, STRIKER_SPEED = 1.0, 1.0  # kg, m/s
DIRECTIONS = 1801
FREQUENCIES = (1e2, 1e3, 1e4, 1e5)  # rad/s
#: Stated tolerances: the paper gives whole degrees and one decimal of a kilogram.
DEGREE, KILOGRAM = 0.5, 0.05
#: What counts as psi = 0, deg.
ZERO_ANGLE = 1e-6
WITHIN_DEGREE, WITHIN_KILOGRAM = f"within {DEGREE} deg", f"within {KILOGRAM} kg"
SECTION = "Sec. 6"
