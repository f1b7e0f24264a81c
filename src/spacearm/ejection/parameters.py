"""Numbers that each sample of a batch may have of its own, in the order of the loop's inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from spacearm.ejection.loop import Table
from spacearm.ejection.mass import mounted_inertia
from spacearm.ejection.rig import Rig
from spacearm.errors import InputError, did_you_mean
from spacearm.simulate.motion import Motion, motion
from spacearm.typing import Array


def shapes(rig: Rig) -> dict[str, tuple[int, ...]]:
    """What may be overridden, with the shape of one sample's value."""
    n = rig.arm.n
    joints = dict.fromkeys(("static", "coulomb", "damping"), (n,))
    return {**joints, "inertia": (n + 1, 10), "spring": (), "stiffness": (), "compression": ()}


def count_samples(
    rig: Rig, configurations: Array, given: Mapping[str, Array], others: Mapping[str, int] | None = None
) -> int:
    """How many samples configurations (B, n), overrides and ``others`` (numbers of samples) make; one serves all."""
    if configurations.ndim != 2:
        raise InputError(
            f"configurations have shape {configurations.shape}", place="batch", hint=f"expected (B, {rig.arm.n})"
        )
    known = shapes(rig)
    sizes = {"configurations": len(configurations), **(others or {})}
    for name, value in given.items():
        if name not in known:
            raise InputError(f"there is no parameter {name!r}", place="overrides", hint=did_you_mean(name, known))
        shape = known[name]
        if value.ndim not in (len(shape), len(shape) + 1) or value.shape[value.ndim - len(shape) :] != shape:
            expected = ", ".join(str(size) for size in shape)
            raise InputError(f"{name!r} has shape {value.shape}", place="overrides", hint=f"expected (B, {expected})")
        if not np.all(np.isfinite(value)):
            raise InputError(f"{name!r} holds numbers that are not finite", place="overrides")
        if value.ndim > len(shape):
            sizes[name] = len(value)
    count = 0 if 0 in sizes.values() else max(sizes.values())
    for name, size in sizes.items():
        if size not in (1, count):
            raise InputError(f"{name!r} has {size} samples, others have {count}", place="batch")
    return count


@dataclass(frozen=True, eq=False)
class Parameters:
    """Rows for the loop: one for each sample, or one for all."""

    rail: Array  # kernel input from the inertias on, mounted arm
    flight: Array  # the same of the arm alone
    static: Array  # (B or 1, n) friction of the arm's joints
    coulomb: Array
    rail_friction: tuple[float, float]  # static and Coulomb friction of the rail, N
    quarter: float  # s, longest quarter period of any sample's arm as one mass
    inertia: Array | None  # (B or 1, bodies, 10) of the arm, where they are not its own
    pieces: Array  # (B or 1, pieces, 3): end of each piece of the springs' curve (m), stiffness, rest; none if linear

    @classmethod
    def of(cls, rig: Rig, given: Mapping[str, Array]) -> Parameters:
        """From overrides that :func:`count_samples` has accepted."""
        mounted, arm = motion(rig.mounted, (), False), motion(rig.arm, (), False)
        own, alone = mounted.parameters(), arm.parameters()
        rail: dict[str, Array] = {}
        free: dict[str, Array] = {}
        if "inertia" in given:
            rows = given["inertia"].reshape(-1, 10 * len(rig.arm.bodies))
            free["inertia"], rail["inertia"] = rows, mounted_inertia(rig, rows)
        if "damping" in given:
            rows = np.atleast_2d(given["damping"])
            if np.any(rows < 0.0):
                raise InputError("damping is negative", place="overrides", hint="expected 0 or more")
            base, slide = np.zeros((len(rows), 6)), np.full((len(rows), 1), rig.device.damping)
            free["damping"] = np.concatenate([base, rows], axis=1)
            rail["damping"] = np.concatenate([base, slide, rows], axis=1)
        pieces = _pieces(rig, given)
        if "spring" in given and rig.device.linear:
            given = {**given, "stiffness": np.atleast_1d(given["spring"]) * rig.device.total_stiffness}
        for name, key, least in (("stiffness", "stiffness", 0.0), ("compression", "rest", rig.device.stroke)):
            if name in given:
                values = np.atleast_1d(given[name])
                if np.any(values <= 0.0) or np.any(values < least):
                    raise InputError(
                        f"{name} is {values.min():g}",
                        place="overrides",
                        hint=f"expected above zero, at least {least:g}",
                    )
                rail[key] = np.repeat(own[key][None], len(values), axis=0)
                rail[key][:, 0] = values
        static = np.atleast_2d(given.get("static", alone["static_friction"][6:]))
        coulomb = np.atleast_2d(given.get("coulomb", alone["coulomb_friction"][6:]))
        if np.any(coulomb < 0.0) or np.any(static < coulomb):
            raise InputError(
                "static friction is below Coulomb friction, or one is negative",
                place="overrides",
                hint="expected static >= coulomb >= 0",
            )
        grip = rig.device.friction
        pair = (0.0, 0.0) if grip is None else (grip.static, grip.coulomb)
        inertia = given["inertia"].reshape(-1, len(rig.arm.bodies), 10) if "inertia" in given else None
        tails = _tail(mounted, own, rail), _tail(arm, alone, free)
        return cls(*tails, static, coulomb, pair, _longest(rig, given), inertia, pieces)

    @property
    def mounted(self) -> Array | None:
        """Inertias of all bodies on the rail, flat; None where they are their own."""
        return None if self.inertia is None else self.rail[:, : 10 * (self.inertia.shape[1] + 1)]

    def bodies(self, first: int, last: int) -> Array | None:
        """Inertias of the arm's bodies in samples ``first`` to ``last``; None where they are its own."""
        if self.inertia is None or len(self.inertia) == 1:
            return self.inertia
        return self.inertia[first:last]

    def rows(self, first: int, last: int, joints: list[int]) -> Table:
        """Samples ``first`` to ``last``; friction of these joints only, the rail's in front where it has any."""

        def part(values: Array) -> Array:
            return values if len(values) == 1 else values[first:last]

        static, coulomb = part(self.static)[:, joints], part(self.coulomb)[:, joints]
        front = 1 if self.rail_friction[0] > 0.0 else 0
        before = [
            np.full((len(a), front), level) for a, level in zip((static, coulomb), self.rail_friction, strict=True)
        ]
        arrays = (
            part(self.rail),
            part(self.flight),
            np.concatenate([before[0], static], axis=1),
            np.concatenate([before[1], coulomb], axis=1),
            static,
            coulomb,
            part(self.pieces),
        )
        return Table(*(np.ascontiguousarray(array) for array in arrays))


def _pieces(rig: Rig, given: Mapping[str, Array]) -> Array:
    """The springs' curve for the loop, its force scaled for each sample; checks what may be overridden."""
    if "spring" in given and ("stiffness" in given or np.any(given["spring"] <= 0.0)):
        raise InputError(
            "'spring' is given with 'stiffness', or is not above zero",
            place="overrides",
            hint="expected a factor above zero, or a stiffness",
        )
    if rig.device.linear:
        return np.zeros((1, 0, 3))
    for name in ("stiffness", "compression"):
        if name in given:
            raise InputError(
                f"the springs have no common {name}", place="overrides", hint="'spring' is a factor on their force"
            )
    own = np.array([[piece.end, *piece.spring] for piece in rig.device.pieces])
    factor = np.atleast_1d(given.get("spring", np.ones(1)))
    pieces = np.repeat(own[None], factor.size, axis=0)
    pieces[:, :, 1] *= factor[:, None]
    return pieces


def _longest(rig: Rig, given: Mapping[str, Array]) -> float:
    """Quarter period (s) of the heaviest arm on the weakest springs of all samples."""
    mass = given["inertia"][..., 0].sum(axis=-1).max(initial=0.0) if "inertia" in given else rig.arm.mass
    softest = given["stiffness"].min(initial=np.inf) if "stiffness" in given else np.inf
    quarter = rig.device.quarter_period(max(mass, rig.arm.mass))
    if not rig.device.linear:
        return float(quarter / np.sqrt(min(given.get("spring", np.ones(1)).min(initial=1.0), 1.0)))
    own = rig.device.total_stiffness
    return float(quarter * np.sqrt(own / min(softest, own)))


def _tail(model: Motion, own: Mapping[str, Array], changes: Mapping[str, Array]) -> Array:
    """The kernel's input from the inertias on: one row, or one for each sample."""
    first = model.code.record
    count = max((len(value) for value in changes.values()), default=1)
    tail = np.zeros((count, model.kernel.n_in - first))
    for name, place in model.kernel.inputs.items():
        if place.start >= first and place.stop > place.start:
            tail[:, place.start - first : place.stop - first] = changes.get(name, own[name])
    return tail
