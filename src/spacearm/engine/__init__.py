"""Machine code for a robot: one state, a batch in vector lanes, loops in time."""

from spacearm.engine.kernel import Kernel, NonFiniteWarning
from spacearm.engine.mechanics import Mechanics, mechanics_of

__all__ = ["Kernel", "Mechanics", "NonFiniteWarning", "mechanics_of"]
