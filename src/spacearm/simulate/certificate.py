"""What a run has kept: momentum, energy and constraints, from its recorded states by formulas of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spacearm.engine.friction import SLACK
from spacearm.result import Check
from spacearm.simulate.bodies import Centred, centred, elastic_energy, external, momentum, move
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
class Certificate:
    """All residuals of a run by name, each with its tolerance and meaning."""

    checks: Mapping[str, Check]

    @property
    def ok(self) -> bool:
        return all(check.holds for check in self.checks.values())

    def __getitem__(self, name: str) -> Check:
        return self.checks[name]

    def as_dict(self) -> dict[str, object]:
        """Plain numbers, for ``results.json``."""
        return {"ok": self.ok, **{name: check.to_json() for name, check in self.checks.items()}}

    def __str__(self) -> str:
        return "; ".join(
            f"{name} {check.value:.2e} ({'within' if check.holds else 'EXCEEDS'} {check.tolerance:.0e})"
            for name, check in self.checks.items()
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
    """The energy ledger at samples ``y`` (T, ny), with the kinetic energy in the world."""
    states = y[:, : model.nx]
    bodies = move(model.robot, states)
    kinetic = momentum(model.robot, bodies, states, parameters["inertia"], parameters["rotor"]).kinetic
    elastic = elastic_energy(model.robot, states, parameters["stiffness"], parameters["rest"], parameters["coupling"])
    sums = {name: y[:, place].sum(axis=1) for name, place in model.energies.items()}
    return Ledger(kinetic, elastic, **sums)


@dataclass(frozen=True)
class _Books:
    """What must balance at some instants, as seen from the mass centre; first axis: instants, the start first.

    ``inner`` is stored and dissipated energy less the work of joint drives; impulses and work are what came from
    outside since the start, the ``gross`` ones with every contributor's size instead of its direction.
    """

    motion: Centred
    time: float  # s, from the start to the last instant
    place: Array  # (T, 3) m, base's origin in the world
    way: Array  # (T, 3) m, that the mass centre should have gone since the start
    inner: Array  # (T,) J
    inner_scale: float  # J
    impulse: Array  # (T, 3) N s
    twist: Array  # (T, 3) N m s, about the mass centre
    work: Array  # (T,) J, against velocities relative to the mass centre
    gross: tuple[float, float, float]  # N s, N m s, J
    within: tuple[float, float]  # N s, N m s: of applied forces and dry friction in joints, each by its size


def inner_energy(model: Motion, parameters: Mapping[str, Array], y: Array, motion: Centred) -> tuple[Array, float]:
    """(T,) stored and dissipated energy less the work of joint drives, in the mass centre's frame; and its size, J."""
    states = y[:, : model.nx]
    elastic = elastic_energy(model.robot, states, parameters["stiffness"], parameters["rest"], parameters["coupling"])
    total, scale = motion.sums.kinetic + elastic, motion.sums.kinetic.max() + np.abs(elastic).max()
    for name, place in model.energies.items():
        if name == "load":
            continue
        # The first six of each but the couplings belong to the base: they act from outside.
        part = y[:, place] if name == "coupling" else y[:, place][:, 6:]
        total = total + (-1.0 if name == "drive" else 1.0) * part.sum(axis=1)
        scale += np.abs(part).max(axis=0, initial=0.0).sum()
    return total, float(scale)


def inner_scale(model: Motion, parameters: Mapping[str, Array], state: Array) -> float:
    """Kinetic energy in the mass centre's frame and elastic energy of one flat state, J."""
    y = np.zeros((1, model.plant.ny))
    y[0, : model.nx] = state
    motion = centred(model.robot, y[:, : model.nx], parameters["inertia"], parameters["rotor"])
    return inner_energy(model, parameters, y, motion)[1]


def energy_residual(model: Motion, parameters: Mapping[str, Array], y: Array) -> float:
    """Relative error of the energy balance between two instants ``y`` (2, ny), from integrated energies alone."""
    motion = centred(model.robot, y[:, : model.nx], parameters["inertia"], parameters["rotor"])
    inner, scale = inner_energy(model, parameters, y, motion)
    outside = {name: y[:, place] for name, place in model.energies.items()}
    terms = [outside["drive"][:, :6], -outside["damping"][:, :6], -outside["friction"][:, :6], outside["load"]]
    work = sum(float((part[1] - part[0]).sum()) for part in terms)
    gain = 0.0
    if any(np.any(part != 0.0) for part in terms):
        # Of the work from outside, a share went into the motion of the mass centre.
        gain = float(motion.mass * (motion.velocity[1] - motion.velocity[0]) @ (0.5 * motion.velocity.sum(axis=0)))
    drift = abs(inner[1] - inner[0] + gain - work)
    return _relative(drift, scale + abs(work - gain))


def certify(
    model: Motion,
    parameters: Mapping[str, Array],
    times: Array,
    y: Array,
    inputs: Array,
    audit: Array | None,
    stretches: Sequence[Stretch],
    tolerance: float = TOLERANCE,
    start: Array | None = None,
) -> Certificate:
    """Judge a run from its samples (and, where something acted from outside, from the audit rows of its steps).

    ``start``: the integrated vector (ny,), or the flat state alone, at the run's start: what everything is compared
    with. Without it, that is the first sample.
    """
    first = np.zeros((1, y.shape[1]))
    given = y[0] if start is None else np.asarray(start, dtype=np.float64)
    first[0, : given.size] = given
    rows = np.concatenate([first, y])
    if audit is not None and len(audit):
        books = _books_of_steps(model, parameters, rows, audit)
    else:
        instants = np.concatenate([[times[0] if start is None else 0.0], times])
        books = _books_of_samples(model, parameters, rows, instants, inputs)
    return Certificate(_balances(books, tolerance) | _constraints(model, times, y, inputs, stretches, tolerance))


def _relative(value: float, scale: float) -> float:
    if value == 0.0:
        return 0.0
    return float(value / scale) if scale > 0.0 else float("inf")


def _within(model: Motion, motion: Centred, inputs: Array, weight: Array) -> tuple[float, float]:
    """Impulses of applied forces and dry friction in joints by their sizes, as forces (N s) and moments (N m s)."""
    places = model.kernel.inputs
    sizes = np.abs(inputs[:, places["force"]][:, 6:]) + np.abs(inputs[:, places["friction"]][:, 6:])
    turning = np.array([joint.kind == "revolute" for joint in model.robot.joints], dtype=bool)
    push, twist = float(weight @ sizes[:, ~turning].sum(axis=1)), float(weight @ sizes[:, turning].sum(axis=1))
    return push + twist / motion.reach, twist + push * motion.reach


def _books_of_samples(model: Motion, parameters: Mapping[str, Array], y: Array, times: Array, inputs: Array) -> _Books:
    """From rows ``y`` (T, ny) at ``times``, the start first, of a run on which nothing acts from outside.

    The mass centre then goes at the velocity that it started with.
    """
    motion = centred(model.robot, y[:, : model.nx], parameters["inertia"], parameters["rotor"])
    nothing = np.zeros((len(y), 3))
    inner = inner_energy(model, parameters, y, motion)
    within = _within(model, motion, inputs, np.diff(times))
    since = times - times[0]
    way = since[:, None] * motion.velocity[0]
    return _Books(motion, since[-1], y[:, :3], way, *inner, nothing, nothing, np.zeros(len(y)), (0.0, 0.0, 0.0), within)


def _books_of_steps(model: Motion, parameters: Mapping[str, Array], y: Array, audit: Array) -> _Books:
    """From the start ``y[0]`` and audit rows: what is kept at the end of each step against what came from outside.

    That is summed by quadrature within each step.
    """
    robot, nx, plant = model.robot, model.nx, model.plant
    own = (parameters["inertia"], parameters["rotor"])
    places = model.kernel.inputs
    weight, rows = audit[:, 1], audit[:, 2:]
    inside = centred(robot, rows[:, :nx], *own)
    base = [
        rows[:, places["force"]][:, :6],
        rows[:, places["friction"]][:, :6],
        rows[:, plant.record : plant.record + 6],
        -parameters["damping"][:6] * rows[:, nx - robot.dofs : nx][:, :6],
    ]
    acting = external(robot, inside.bodies, model.loads, rows[:, places["wrench"]], base)
    ends = np.flatnonzero(weight == 0.0)

    def since_start(rate: Array) -> Array:
        summed = np.cumsum(weight.reshape(-1, *[1] * (rate.ndim - 1)) * rate, axis=0)[ends]
        return np.concatenate([np.zeros_like(summed[:1]), summed])

    energies = rows[:, plant.record + plant.nv :]
    steps = np.concatenate([y[:1], np.concatenate([rows[:, :nx], energies], axis=1)[ends]])
    motion = centred(robot, steps[:, :nx], *own)
    inner = inner_energy(model, parameters, steps, motion)
    gross = (
        float(weight @ np.linalg.norm(acting.force, axis=2).sum(axis=1)),
        float(weight @ np.linalg.norm(acting.moment, axis=2).sum(axis=1)),
        float(weight @ np.abs(acting.power).sum(axis=1)),
    )
    impulse, twist, work = (since_start(part.sum(axis=1)) for part in (acting.force, acting.moment, acting.power))
    way = since_start(inside.velocity)
    time = float(weight.sum())
    within = _within(model, inside, rows, weight)
    return _Books(motion, time, steps[:, :3], way, *inner, impulse, twist, work, gross, within)


def _balances(books: _Books, tolerance: float) -> dict[str, Check]:
    motion = books.motion
    speed = np.linalg.norm(motion.velocity, axis=1).max()
    rms = np.sqrt(2.0 * motion.mass * np.abs(motion.sums.kinetic).max())
    pushed = books.motion.mass * (motion.velocity - motion.velocity[0]) - books.impulse
    turned = motion.sums.angular - motion.sums.angular[0] - books.twist
    done = books.inner - books.inner[0] - books.work
    # The base's way first: at a large distance it is known better than its ends.
    gone = (books.place - books.place[0]) + (motion.centre - motion.centre[0]) - books.way
    # What rounding can do is no drift, however little moves; np.maximum keeps a NaN.
    noise = ROUNDING * motion.mass * speed
    linear = np.linalg.norm(pushed, axis=1).max() - noise - BALANCE * books.within[0]
    angular = np.linalg.norm(turned, axis=1).max() - noise * motion.reach - BALANCE * books.within[1]
    energy = np.abs(done).max() - noise * (rms / motion.mass + ROUNDING * speed)
    distance = np.abs(books.place).max()
    off = np.linalg.norm(gone, axis=1).max() - ROUNDING * (distance + speed * books.time)
    off -= BALANCE * books.within[0] / motion.mass * books.time
    linear, angular, energy, off = (float(np.maximum(value, 0.0)) for value in (linear, angular, energy, off))
    pushes = float(motion.sums.linear_scale.max() + rms) + books.gross[0]
    return {
        "linear_momentum": Check(
            _relative(linear, pushes),
            tolerance,
            "",
            "change of momentum less the impulse from outside, relative to the momenta of the bodies about the mass "
            "centre and to the impulses of all that acts",
        ),
        "mass_centre": Check(
            _relative(off, motion.reach + pushes / motion.mass * books.time),
            tolerance,
            "",
            "way of the mass centre less that of its velocity, relative to the robot's reach and to the way that the "
            "momenta and impulses of linear_momentum would carry its mass",
        ),
        "angular_momentum": Check(
            _relative(angular, float(motion.sums.angular_scale.max()) + books.gross[1]),
            tolerance,
            "",
            "change of angular momentum about the mass centre less the impulse from outside, relative to the sum of "
            "the bodies' shares and to the impulses of all that acts",
        ),
        "energy": Check(
            _relative(energy, books.inner_scale + books.gross[2]),
            tolerance,
            "",
            "drift of kinetic + elastic + dissipated - work in the mass centre's frame, relative to the largest of "
            "them summed",
        ),
    }


def _constraints(
    model: Motion, times: Array, y: Array, inputs: Array, stretches: Sequence[Stretch], tolerance: float
) -> dict[str, Check]:
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
    checks = {
        "quaternion": Check(norm, 1e-12, "", "largest deviation of the base quaternion's norm from 1"),
        "resting_velocity": Check(resting, 0.0, "", "largest speed of a degree of freedom that sticks or is locked"),
    }
    if any(stretch.prepared.paths for stretch in stretches):
        meaning = "largest deviation of driven joints from their paths"
        checks["path"] = Check(path, min(tolerance, 1e-10), "", meaning)
    return checks
