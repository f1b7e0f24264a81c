"""Parameters that may differ between samples of a batch of ejections: friction, damping, inertias, springs.

Overrides are given for the arm, but on the rail the mounted robot moves, with the satellite first and the rail as
joint 0: every row is made for both. A first axis of length B gives one value per sample; without it, one value applies
to all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from spacearm import checks
from spacearm.ejection.mass import prepend_satellite_inertia
from spacearm.ejection.rig import Rig
from spacearm.errors import InputError
from spacearm.simulate.overrides import robot_parameters
from spacearm.typing import Array


def shapes(rig: Rig) -> dict[str, tuple[int, ...]]:
    """Overridable parameters, with the shape of one sample's value."""
    n = rig.arm.n
    joints = dict.fromkeys(("static", "coulomb", "damping"), (n,))
    return {**joints, "inertia": (n + 1, 10), "spring": (), "stiffness": (), "compression": ()}


def count_samples(
    rig: Rig, configurations: Array, given: Mapping[str, Array], others: Mapping[str, int] | None = None
) -> int:
    """Number of samples from configurations (B, n), overrides and ``others`` (numbers of samples); a single one applies
    to all.
    """
    checks.array(configurations, "configurations", ("B", rig.arm.n), finite=False, place="batch")
    known = shapes(rig)
    sizes = {"configurations": len(configurations), **(others or {})}
    for name, value in given.items():
        checks.check_name(name, known, "parameter", place="overrides")
        shape = known[name]
        if value.ndim not in (len(shape), len(shape) + 1) or value.shape[value.ndim - len(shape) :] != shape:
            expected = ", ".join(str(size) for size in shape)
            raise InputError(f"{name!r} has shape {value.shape}", place="overrides", hint=f"expected (B, {expected})")
        checks.array(value, name, place="overrides")
        if value.ndim > len(shape):
            sizes[name] = len(value)
    count = 0 if 0 in sizes.values() else max(sizes.values())
    for name, size in sizes.items():
        if size not in (1, count):
            raise InputError(f"{name!r} has {size} samples, others have {count}", place="batch")
    return count


@dataclass(frozen=True, eq=False)
class EjectionParameters:
    """Overrides of the mounted arm and of the arm alone: a row for each sample, or one for all."""

    mounted: dict[str, Array]
    arm: dict[str, Array]
    springs: Array  # (B or 1, segments, 2): stiffness (N/m) and rest (m) of each segment of the springs' force curve
    quarter: float  # s, longest quarter period of any sample's arm as one mass

    @classmethod
    def from_overrides(cls, rig: Rig, given: Mapping[str, Array]) -> EjectionParameters:
        """Parameters of both robots from overrides that :func:`count_samples` has accepted."""
        mounted: dict[str, Array] = {}
        arm: dict[str, Array] = {}
        if "inertia" in given:
            arm["inertia"] = given["inertia"].reshape(-1, 10 * len(rig.arm.bodies))
            mounted["inertia"] = prepend_satellite_inertia(rig, arm["inertia"])
        if "damping" in given:
            rows = checks.array(np.atleast_2d(given["damping"]), "damping", least=0.0, place="overrides")
            mounted["damping"], arm["damping"] = _insert_rail(rows, rig.device.damping)
        own = robot_parameters(rig.arm)
        static, coulomb = (
            np.atleast_2d(given.get(name, own[f"{name}_friction"][6:])) for name in ("static", "coulomb")
        )
        if np.any(coulomb < 0.0) or np.any(static < coulomb):
            raise InputError(
                "static friction is below Coulomb friction, or one is negative",
                place="overrides",
                hint="expected static >= coulomb >= 0",
            )
        rail = rig.device.friction
        for name, rows in (("static", static), ("coulomb", coulomb)):
            on_rail = 0.0 if rail is None else getattr(rail, name)
            mounted[f"{name}_friction"], arm[f"{name}_friction"] = _insert_rail(rows, on_rail)
        return cls(mounted, arm, _springs(rig, given), _longest(rig, given))

    def select_segment(self, rig: Rig, k: int) -> dict[str, Array]:
        """Overrides of the mounted arm on a segment of the springs' force curve."""
        own, springs = robot_parameters(rig.mounted_robot), self.springs[:, k]
        found = dict(self.mounted)
        for name, column in (("stiffness", 0), ("rest", 1)):
            found[name] = np.repeat(own[name][None], len(springs), axis=0)
            found[name][:, 0] = springs[:, column]
        return found

    def bodies(self, chosen: slice) -> Array | None:
        """Inertias (B or 1, bodies, 10) of the arm in these samples; None if they are its own."""
        rows = self.arm.get("inertia")
        if rows is None:
            return None
        return (rows if len(rows) == 1 else rows[chosen]).reshape(-1, rows.shape[1] // 10, 10)


def _insert_rail(joints: Array, rail: float) -> tuple[Array, Array]:
    """Rows (B, n) of the arm's joints preceded by the base's zeros: with the rail's value, and without."""
    base, slide = np.zeros((len(joints), 6)), np.full((len(joints), 1), rail)
    return np.concatenate([base, slide, joints], axis=1), np.concatenate([base, joints], axis=1)


def _springs(rig: Rig, given: Mapping[str, Array]) -> Array:
    """The springs' force curve, scaled for each sample; validates the overrides."""
    device = rig.device
    if "spring" in given and ("stiffness" in given or np.any(given["spring"] <= 0.0)):
        raise InputError(
            "'spring' is given with 'stiffness', or is not above zero",
            place="overrides",
            hint="expected a factor above zero, or a stiffness",
        )
    for name in ("stiffness", "compression"):
        if name in given and not device.linear:
            raise InputError(
                f"the springs have no common {name}", place="overrides", hint="'spring' is a factor on their force"
            )
        least = device.stroke if name == "compression" else 0.0
        if name in given and (np.any(given[name] <= 0.0) or np.any(given[name] < least)):
            raise InputError(
                f"{name} is {np.min(given[name]):g}", place="overrides", hint=f"expected above zero, at least {least:g}"
            )
    # A factor on the force at the same travel is a factor on the stiffness with the same rest.
    factor = np.atleast_1d(given.get("spring", np.ones(1)))
    if device.linear:
        stiffness = np.atleast_1d(given.get("stiffness", factor * device.total_stiffness))
        rest = np.atleast_1d(given.get("compression", device.preload))
        return np.stack(np.broadcast_arrays(stiffness, rest), axis=-1)[:, None]
    pieces = np.repeat(np.array([segment.spring for segment in device.segments])[None], factor.size, axis=0)
    pieces[:, :, 0] *= factor[:, None]
    return pieces


def _longest(rig: Rig, given: Mapping[str, Array]) -> float:
    """Quarter period (s) of the heaviest arm on the weakest springs of all samples."""
    # The slowest sample decides how long one has to wait.
    mass = given["inertia"][..., 0].sum(axis=-1).max(initial=0.0) if "inertia" in given else rig.arm.mass
    # Of the device's own force. Both overrides at once have been refused.
    softest = given.get("spring", np.ones(1)).min(initial=1.0)
    if "stiffness" in given:
        softest = (given["stiffness"] / rig.device.total_stiffness).min(initial=1.0)
    return float(rig.device.quarter_period(max(mass, rig.arm.mass)) / np.sqrt(softest))
