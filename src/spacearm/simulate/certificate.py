"""What a run has kept: momentum, energy and constraints, from its recorded states by formulas of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spacearm.engine.friction import SLACK
from spacearm.model.layout import QUATERNION, Layout
from spacearm.result import Certificate, Check
from spacearm.simulate.bodies import centred, elastic_energy, momentum, move
from spacearm.simulate.books import CHUNK, Books, inner_energy
from spacearm.simulate.motion import Motion, Prepared, path_values
from spacearm.typing import Array

#: Largest error, relative to what moves, that a run may show before it warns.
TOLERANCE = 1e-8
#: Share of the mass centre's speed that is rounding in every body's velocity, summed over many steps.
ROUNDING = 2e-14
#: Share of the impulse of forces within joints to which their balance is known: dry friction holds this much more.
BALANCE = SLACK


class CertificateWarning(UserWarning):
    """A run did not keep what it should have kept."""


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
    """The energy ledger at samples ``y`` (T, ny), with the kinetic energy in the world."""
    states = y[:, : model.nx]
    kinetic = np.zeros(len(y))
    for first in range(0, len(y), CHUNK):
        rows = slice(first, first + CHUNK)
        bodies = move(model.robot, states[rows])
        moving = momentum(model.robot, bodies, states[rows], parameters["inertia"], parameters["rotor"])
        kinetic[rows] = moving.kinetic
    elastic = elastic_energy(model.robot, states, parameters["stiffness"], parameters["rest"], parameters["coupling"])
    sums = {name: y[:, place].sum(axis=1) for name, place in model.energies.items()}
    return Ledger(kinetic, elastic, **sums)


def inner_scale(model: Motion, parameters: Mapping[str, Array], state: Array) -> float:
    """Kinetic energy in the mass centre's frame and elastic energy of one flat state, J."""
    y = np.zeros((1, model.code.ny))
    y[0, : model.nx] = state
    motion = centred(model.robot, y[:, : model.nx], parameters["inertia"], parameters["rotor"])
    return float(inner_energy(model, parameters, y, motion)[1].sum())


def energy_residual(model: Motion, parameters: Mapping[str, Array], y: Array) -> float:
    """Relative error of the energy balance between two instants ``y`` (2, ny), from integrated energies alone."""
    motion = centred(model.robot, y[:, : model.nx], parameters["inertia"], parameters["rotor"])
    inner, sizes = inner_energy(model, parameters, y, motion)
    outside = {name: y[:, place] for name, place in model.energies.items()}
    terms = [outside["drive"][:, :6], -outside["damping"][:, :6], -outside["friction"][:, :6], outside["load"]]
    work = sum(float((part[1] - part[0]).sum()) for part in terms)
    gain = 0.0
    if any(np.any(part != 0.0) for part in terms):
        # Of the work from outside, a share went into the motion of the mass centre.
        gain = float(motion.mass * (motion.velocity[1] - motion.velocity[0]) @ (0.5 * motion.velocity.sum(axis=0)))
    drift = abs(inner[1] - inner[0] + gain - work)
    return _relative(drift, float(sizes.sum()) + abs(work - gain))


def certify(
    model: Motion,
    parameters: Mapping[str, Array],
    times: Array,
    y: Array,
    inputs: Array,
    books: Books | None,
    stretches: Sequence[Stretch],
    tolerance: float = TOLERANCE,
    start: Array | None = None,
) -> Certificate:
    """Judge a run from its samples, and from the books of its steps where something acted from outside.

    ``start``: the integrated vector (ny,), or the flat state alone, at the run's start: what everything is compared
    with. Without it, that is the first sample.
    """
    if books is None:
        given = y[0] if start is None else np.asarray(start, dtype=np.float64)
        books = Books(
            model, parameters, np.pad(given, (0, y.shape[1] - given.size)), times[0] if start is None else 0.0
        )
        books.add_samples(times, y, inputs)
    return Certificate(_balances(books, tolerance) | _constraints(model, times, y, inputs, stretches, tolerance))


def _relative(value: float, scale: float) -> float:
    if value == 0.0:
        return 0.0
    return float(value / scale) if scale > 0.0 else float("inf")


def _balance(residual: Array, rounding: float, scale: float, tolerance: float, meaning: str) -> Check:
    """A residual relative to its scale. What rounding can do is no drift, however little moves."""
    value = _relative(float(residual), scale)
    if value > tolerance:
        value = _relative(float(np.maximum(residual - rounding, 0.0)), scale)  # keeps a NaN
        if value == 0.0:
            return Check.not_applicable(f"nothing moves by more than rounding; {meaning}", tolerance)
    if value == scale == 0.0:
        return Check.not_applicable(f"nothing moves; {meaning}", tolerance)
    return Check(value, tolerance, "", meaning)


def _balances(books: Books, tolerance: float) -> dict[str, Check]:
    largest, mass, reach = {name: size.sum() for name, size in books.largest.items()}, books.mass, books.reach
    speed = largest["speed"]
    rms = np.sqrt(2.0 * mass * largest["kinetic"])
    noise = ROUNDING * mass * speed
    push, twist = books.impulses_within
    pushes = float(largest["linear_scale"] + rms + books.gross[0])
    return {
        "linear_momentum": _balance(
            largest["linear"],
            noise + BALANCE * push,
            pushes,
            tolerance,
            "change of momentum less the impulse from outside, relative to the momenta of the bodies about the mass "
            "centre and to the impulses of all that acts",
        ),
        "mass_centre": _balance(
            largest["gone"],
            ROUNDING * (largest["distance"] + speed * books.time) + BALANCE * push / mass * books.time,
            reach + pushes / mass * books.time,
            tolerance,
            "way of the mass centre less the integral of its velocity, relative to the robot's reach and to the way "
            "that the momenta and impulses of linear_momentum would carry its mass",
        ),
        "angular_momentum": _balance(
            largest["angular"],
            noise * reach + BALANCE * twist,
            float(largest["angular_scale"] + books.gross[1]),
            tolerance,
            "change of angular momentum about the mass centre less the impulse from outside, relative to the sum of "
            "the bodies' shares and to the impulses of all that acts",
        ),
        "energy": _balance(
            largest["energy"],
            noise * (rms / mass + ROUNDING * speed),
            float(largest["inner"] + books.gross[2]),
            tolerance,
            "drift of kinetic + elastic + dissipated - work in the mass centre's frame, relative to the largest of "
            "them summed",
        ),
    }


def _constraints(
    model: Motion, times: Array, y: Array, inputs: Array, stretches: Sequence[Stretch], tolerance: float
) -> dict[str, Check]:
    robot = model.robot
    velocity = y[:, Layout(robot.n).velocity]
    mode = inputs[:, model.kernel.inputs["mode"]]
    resting = path = 0.0
    rested = False
    for stretch in stretches:
        rows = slice(stretch.first, stretch.last)
        if stretch.first >= stretch.last:
            continue
        still = mode[rows] != 0.0
        moved = [index for index in stretch.prepared.driven if index not in stretch.prepared.locked]
        still[:, moved] = False
        rested = rested or bool(still.any())
        resting = max(resting, float(np.abs(velocity[rows][still]).max(initial=0.0)))
        for joint, position, rate in path_values(stretch.prepared, times[rows] - stretch.start):
            gap = np.abs(y[rows, Layout(robot.n).joint(joint)] - position) / (1.0 + np.abs(position))
            slip = np.abs(velocity[rows, 6 + joint] - rate) / (1.0 + np.abs(rate))
            path = max(path, float(gap.max()), float(slip.max()))
    norm = float(np.abs(np.linalg.norm(y[:, QUATERNION], axis=1) - 1.0).max())
    slowest = "largest speed of a degree of freedom that sticks or is locked"
    checks = {
        "quaternion": Check(norm, 1e-12, "", "largest deviation of the base quaternion's norm from 1"),
        "resting_velocity": Check(resting, 0.0, "", slowest)
        if rested
        else Check.not_applicable(f"nothing sticks or is locked at any sample; {slowest}", 0.0),
    }
    if any(stretch.prepared.paths for stretch in stretches):
        meaning = "largest deviation of driven joints from their paths"
        checks["path"] = Check(path, min(tolerance, 1e-10), "", meaning)
    return checks
