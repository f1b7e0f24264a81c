"""Types that every package uses."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

#: An array of float64; its shape is given where it matters.
Array: TypeAlias = npt.NDArray[np.float64]
