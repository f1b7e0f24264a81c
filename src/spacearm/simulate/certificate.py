"""What a run has kept: momentum, energy and constraints, from its recorded states by formulas of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spacearm.model.parts import Array
from spacearm.simulate.bodies import elastic_energy, external_wrench, momentum, move
from spacearm.simulate.motion import Motion, Prepared, path_values

#: Largest error, relative to what moves, that a run may show before it warns.
TOLERANCE = 1e-8


class CertificateWarning(UserWarning):
    """A run did not keep what it should have kept."""


@dataclass(frozen=True)
class Check:
    """One residual against its tolerance."""

    name: str
    value: float
    tolerance: float
    meaning: str

    @property
    def ok(self) -> bool:
        return bool(self.value <= self.tolerance)  # a NaN is not


@dataclass(frozen=True)
class Certificate:
    """All residuals of a run."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    def __getitem__(self, name: str) -> Check:
        return next(check for check in self.checks if check.name == name)

    def as_dict(self) -> dict[str, object]:
        """Plain numbers, for ``results.json``."""
        rows = {
            c.name: {"value": c.value, "tolerance": c.tolerance, "ok": c.ok, "meaning": c.meaning} for c in self.checks
        }
        return {"ok": self.ok, **rows}

    def __str__(self) -> str:
        return "; ".join(
            f"{c.name} {c.value:.2e} ({'within' if c.ok else 'EXCEEDS'} {c.tolerance:.0e})" for c in self.checks
        )


@dataclass(frozen=True)
class Stretch:
    """The samples of one phase and the time at which it began."""

    prepared: Prepared
    start: float
    first: int
    last: int


@dataclass(frozen=True)
class Ledger:
    """Energies at the samples, J; what was dissipated or done since the start."""

    kinetic: Array
    elastic: Array
    damping: Array
    coupling: Array
    friction: Array
    drive: Array
    load: Array

    @property
    def balance(self) -> Array:
        """What should stay constant: stored and dissipated energy less the work done on the robot."""
        stored = self.kinetic + self.elastic
        return stored + self.damping + self.coupling + self.friction - self.drive - self.load

    @property
    def scale(self) -> float:
        parts = (self.kinetic, self.elastic, self.damping, self.coupling, self.friction, self.drive, self.load)
        return float(sum(np.abs(part).max(initial=0.0) for part in parts))


def energy_ledger(model: Motion, parameters: Mapping[str, Array], y: Array) -> Ledger:
    """The energy ledger at samples ``y`` (T, ny)."""
    states = y[:, : model.nx]
    bodies = move(model.robot, states)
    kinetic = momentum(model.robot, bodies, states, parameters["inertia"], parameters["rotor"]).kinetic
    elastic = elastic_energy(model.robot, states, parameters["stiffness"], parameters["rest"], parameters["coupling"])
    sums = {name: y[:, place].sum(axis=1) for name, place in model.energies.items()}
    return Ledger(kinetic, elastic, **sums)


def certify(
    model: Motion,
    parameters: Mapping[str, Array],
    times: Array,
    y: Array,
    inputs: Array,
    audit: Array | None,
    stretches: Sequence[Stretch],
    tolerance: float = TOLERANCE,
) -> Certificate:
    """Judge a run from its samples (and, where something acted from outside, from the audit rows of its steps)."""
    account = energy_ledger(model, parameters, y)
    drift = np.abs(account.balance - account.balance[0])
    checks = [
        *_momentum(model, parameters, y, audit, tolerance),
        Check(
            "energy",
            _relative(drift.max(), account.scale),
            tolerance,
            "drift of kinetic + elastic + dissipated - work, relative to the largest of them summed",
        ),
        *_constraints(model, times, y, inputs, stretches, tolerance),
    ]
    return Certificate(tuple(checks))


def _relative(value: float, scale: float) -> float:
    if value == 0.0:
        return 0.0
    return float(value / scale) if scale > 0.0 else float("inf")


def _momentum(
    model: Motion, parameters: Mapping[str, Array], y: Array, audit: Array | None, tolerance: float
) -> list[Check]:
    robot, nx = model.robot, model.nx
    names = ("linear_momentum", "angular_momentum")
    impulses = [np.zeros((1, 3)), np.zeros((1, 3))]
    states = y[:, :nx]
    meaning = "drift of momentum about the world's origin, relative to the sum of the bodies' shares"
    if audit is not None and len(audit):
        # From step to step: momentum at the ends against the impulse by quadrature within.
        places = model.kernel.inputs
        weight, rows = audit[:, 1], audit[:, 2:]
        bodies = move(robot, rows[:, :nx])
        reaction = rows[:, model.plant.record :]
        velocity = rows[:, nx - robot.dofs : nx]
        base = rows[:, places["force"]][:, :6] + rows[:, places["friction"]][:, :6] + reaction[:, :6]
        base = base - parameters["damping"][:6] * velocity[:, :6]
        force, moment = external_wrench(robot, bodies, model.loads, rows[:, places["wrench"]], base)
        ends = np.flatnonzero(weight == 0.0)
        impulses = [
            np.concatenate([np.zeros((1, 3)), np.cumsum(weight[:, None] * part, axis=0)[ends]])
            for part in (force, moment)
        ]
        states = np.concatenate([y[:1, :nx], rows[ends, :nx]])
        meaning += " and the impulse, which is taken out"
    sums = momentum(robot, move(robot, states), states, parameters["inertia"], parameters["rotor"])
    checks = []
    for name, value, scale, given in zip(
        names, (sums.linear, sums.angular), (sums.linear_scale, sums.angular_scale), impulses, strict=True
    ):
        residual = np.linalg.norm(value - value[0] - given, axis=1).max()
        size = scale.max() + np.linalg.norm(given, axis=1).max()
        checks.append(Check(name, _relative(residual, size), tolerance, meaning))
    return checks


def _constraints(
    model: Motion, times: Array, y: Array, inputs: Array, stretches: Sequence[Stretch], tolerance: float
) -> list[Check]:
    robot, nx = model.robot, model.nx
    velocity = y[:, nx - robot.dofs : nx]
    mode = inputs[:, model.kernel.inputs["mode"]]
    resting = path = 0.0
    for stretch in stretches:
        rows = slice(stretch.first, stretch.last)
        if stretch.first >= stretch.last:
            continue
        still = mode[rows] != 0.0
        moved = [index for index in stretch.prepared.driven if index not in stretch.prepared.locked]
        still[:, moved] = False
        resting = max(resting, float(np.abs(velocity[rows][still]).max(initial=0.0)))
        for joint, position, rate in path_values(stretch.prepared, times[rows] - stretch.start):
            gap = np.abs(y[rows, 7 + joint] - position) / (1.0 + np.abs(position))
            slip = np.abs(velocity[rows, 6 + joint] - rate) / (1.0 + np.abs(rate))
            path = max(path, float(gap.max()), float(slip.max()))
    norm = float(np.abs(np.linalg.norm(y[:, 3:7], axis=1) - 1.0).max())
    checks = [
        Check("quaternion", norm, 1e-12, "largest deviation of the base quaternion's norm from 1"),
        Check("resting_velocity", resting, 0.0, "largest speed of a degree of freedom that sticks or is locked"),
    ]
    if any(stretch.prepared.paths for stretch in stretches):
        checks.append(Check("path", path, min(tolerance, 1e-10), "largest deviation of driven joints from their paths"))
    return checks
