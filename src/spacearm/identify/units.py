"""Degrees where radians are meant: rates and angles of the same thing tell them apart."""

from __future__ import annotations

import numpy as np

from spacearm.errors import InputError
from spacearm.typing import Array

#: Degrees in a radian, and how near a factor must be to it, as a share.
DEGREES, NEAR = 180.0 / np.pi, 0.1


def ask_about_degrees(changes: Array, expected: Array, names: tuple[str, str], place: str) -> None:
    """Refuse ``changes`` that are 57 times what is ``expected`` of them, or the 57th part; NaN counts nowhere.

    ``names``: of both, for the question.
    """
    there = np.isfinite(changes) & np.isfinite(expected)
    a, b = changes[there], expected[there]
    both, own = float(a @ b), float(b @ b)
    if not own > 0.0 or both < 0.9 * np.sqrt(own * float(a @ a)):  # they do not move together: noise, or a wrong column
        return
    factor, (what, other) = both / own, names
    for size, question in ((factor, f"are the {what} in degrees?"), (1.0 / factor, f"are the {other} in degrees?")):
        if abs(size / DEGREES - 1.0) < NEAR:
            share = f"{factor:.3g} times" if factor > 1.0 else f"1 / {1.0 / factor:.3g} of"
            raise InputError(
                f"{what} are {share} the differences of the {other}: {question}",
                place=place,
                hint='expected both in radians, or their unit stated, such as unit = "deg"',
            )
