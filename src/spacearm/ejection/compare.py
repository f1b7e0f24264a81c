"""The full run and the segmented algorithm as columns of one table, as the paper compared theory and ADAMS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spacearm.ejection.rig import Rig
from spacearm.ejection.run import Ejection, eject
from spacearm.ejection.segmented import SegmentedEjection, run_segmented


@dataclass(frozen=True)
class ComparedQuantity:
    """One quantity of one configuration by both methods; joint variations in deg or mm, velocity in mm/s."""

    configuration: str
    quantity: str
    unit: str
    full: float
    segmented: float

    @property
    def error(self) -> float:
        """Error of the approximation: segmented / full - 1, negative if its magnitude is smaller; NaN if the full value
        is 0.
        """
        return self.segmented / self.full - 1.0 if self.full else float("nan")


@dataclass(frozen=True, eq=False)
class MethodComparison:
    """Result of :func:`compare_methods`."""

    lines: tuple[ComparedQuantity, ...]
    full: dict[str, Ejection]
    segmented: dict[str, SegmentedEjection]

    def __str__(self) -> str:
        head = f"{'configuration':<12} {'quantity':<20} {'full':>10} {'segmented':>10} {'error':>8}  unit"
        rows = [
            f"{line.configuration:<12} {line.quantity:<20} {line.full:>10.4g} {line.segmented:>10.4g} "
            f"{'' if np.isnan(line.error) else f'{100.0 * line.error:.1f} %':>8}  {line.unit}"
            for line in self.lines
        ]
        return "\n".join([head, *rows])


def compare_quantities(name: str, run: Ejection, parts: SegmentedEjection) -> list[ComparedQuantity]:
    """Time, velocity, variations at separation, angular velocity (magnitude) and the time of stable flight."""
    found = [
        ComparedQuantity(name, "time", "s", run.time, parts.time),
        ComparedQuantity(name, "velocity", "mm/s", 1e3 * run.velocity, 1e3 * parts.velocity),
    ]
    for i, joint in enumerate(run.rig.arm.joints):
        scale, unit = (180.0 / np.pi, "deg") if joint.kind == "revolute" else (1e3, "mm")
        values = scale * float(run.variation[i]), scale * float(parts.variation[i])
        found.append(ComparedQuantity(name, joint.name, unit, *values))
    spin = np.degrees(np.linalg.norm(run.angular_velocity)), np.degrees(np.linalg.norm(parts.angular_velocity))
    found.append(ComparedQuantity(name, "angular velocity", "deg/s", float(spin[0]), float(spin[1])))
    found.append(ComparedQuantity(name, "stable time", "s", run.stable_time, parts.stable_time))
    return found


def compare_methods(
    rig: Rig, configurations: Sequence[str] | dict[str, npt.ArrayLike], *, step: float = 0.02, flight: float = 10.0
) -> MethodComparison:
    """Both methods for configurations by name, or for named joint positions."""
    chosen = configurations if isinstance(configurations, dict) else {name: name for name in configurations}
    full = {name: eject(rig, joints, flight=flight) for name, joints in chosen.items()}
    parts = {name: run_segmented(rig, joints, step=step) for name, joints in chosen.items()}
    found = [line for name in chosen for line in compare_quantities(name, full[name], parts[name])]
    return MethodComparison(tuple(found), full, parts)
