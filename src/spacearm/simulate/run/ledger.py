"""The ledger of a run: energies at its samples, balances of external actions, an entry for each change.

Everything here is summed over bodies by :mod:`spacearm.simulate.bodies`, apart from the mechanics that was integrated.
Balances and entries are seen from the mass centre. Of balances only sums and largest values are kept, whatever the
number of steps.

Method: between two instants the momentum of a robot may change only by the impulse of what acts from outside, its
energy in the mass centre's frame only by the work of the same, less what dampers and friction took. Impulses and work
are summed with the Gauss points, or the implicit stages, of each step (audit rows), so the sums are as accurate as the
steps. The mass centre's frame is used because the common motion, however fast, would hide small losses behind a large
kinetic energy.

World axes, SI units; y (T, ny) holds the flat state and then the integrated energies. Nothing here corrects a run:
residuals are reported, and judged in :mod:`spacearm.simulate.run.certificate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spacearm.simulate.bodies import (
    CentredMotion,
    MomentumSums,
    centre_motion,
    cross,
    elastic_energy,
    evaluate_bodies,
    external_wrenches,
    inertia_about,
    momentum,
)
from spacearm.simulate.changes import Change, ChangeResult, exhaust_impulse
from spacearm.simulate.motion import RobotMotion
from spacearm.simulate.state import State
from spacearm.simulate.world import World
from spacearm.typing import Array

#: Samples processed together: large enough for speed, small enough for the memory of any machine.
CHUNK = 4096
#: Audit rows processed together: poses and velocities of all bodies then fit into the processor's cache.
BLOCK = 256
#: Fraction of the mass centre's speed that is rounding in every body's velocity, summed over many steps.
ROUNDING = 2e-14


def relative(value: Array | float, scale: Array | float) -> Array:
    """Quotient of ``value`` and ``scale``, of one or many; zero for a value of zero, else infinite without a scale."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found = np.where(np.greater(scale, 0.0), np.divide(value, scale), np.inf)
    return np.where(np.equal(value, 0.0), 0.0, found)


class Centred(NamedTuple):
    """What balances compare, at one instant or at many."""

    place: Array  # (..., 3) m, of the base
    centre: Array  # (..., 3) m, mass centre from there
    velocity: Array  # (..., 3) m/s, of the mass centre
    angular: Array  # (..., 3) N m s about it
    inner: Array  # (...) J: see :func:`inner_energy`


def balance_gaps(
    mass: Array | float, now: Centred, start: Centred, impulse: Array, twist: Array, displacement: Array, work: Array
) -> dict[str, Array]:
    """Gaps of the balances, (..., 3) and for the energy (...): changes since the start less what came from outside.

    Args:
        impulse, twist, work: of all external actions since the start, about the mass centre and in its frame.
        way: of the mass centre by its velocity, m.
    """
    return {
        "linear": mass * (now.velocity - start.velocity) - impulse,
        "angular": now.angular - start.angular - twist,
        # The base's displacement first: at a large distance it is known better than its end points.
        "gone": (now.place - start.place) + (now.centre - start.centre) - displacement,
        "energy": now.inner - start.inner - work,
    }


def inner_energy(
    model: RobotMotion, parameters: Mapping[str, Array], y: Array, motion: CentredMotion
) -> tuple[Array, Array]:
    """Stored and dissipated energy (T,) less the work of joint drives, in the mass centre's frame, J.

    Also the largest magnitude of each of its parts, J.
    """
    parts = inner_energies(model, parameters, y, motion)
    return parts.sum(axis=1), np.abs(parts).max(axis=0)


def inner_energies(model: RobotMotion, parameters: Mapping[str, Array], y: Array, motion: CentredMotion) -> Array:
    """(T, parts) of :func:`inner_energy`; parameters are the same for all rows, or (T, ...)."""
    springs = [parameters[name] for name in ("stiffness", "rest", "coupling")]
    parts = [motion.sums.kinetic[:, None], elastic_energy(model.robot, y[:, : model.nx], *springs)[:, None]]
    for name, place in model.energies.items():
        if name != "load":
            # The first six of each but the couplings belong to the base: they are external.
            part = y[:, place] if name == "coupling" else y[:, place][:, 6:]
            parts.append(-part if name == "drive" else part)
    return np.concatenate(parts, axis=1)


class _Acting(NamedTuple):
    """External actions at audit rows (T,), summed over their causes."""

    force: Array  # (T, 3) N
    moment: Array  # (T, 3) N m
    power: Array  # (T,) W
    pushes: Array  # (T,) N, sums of the magnitudes
    twists: Array  # (T,) N m
    powers: Array  # (T,) W


def _reach(motion: CentredMotion) -> Array:
    """(1,) largest distance of a body's frame from the mass centre, m."""
    return np.asarray(np.linalg.norm(motion.bodies.origin, axis=2).max(keepdims=True)[0])


def _parts(sums: MomentumSums) -> tuple[Array, ...]:
    return tuple(getattr(sums, part.name) for part in fields(MomentumSums))


class Balance:
    """Balances of momentum and energy of one robot since the start of a run.

    Either every step is given as audit rows (:meth:`add_steps`), which include external actions, or, without external
    actions, samples (:meth:`add_samples`).

    Args:
        start: the integrated vector (ny,) at the start, the reference of all comparisons.
        time: of the start, s.
    """

    def __init__(self, model: RobotMotion, parameters: Mapping[str, Array], start: Array, time: float = 0.0) -> None:
        self.model, self.parameters = model, parameters
        self.time = 0.0  # s since the start
        self.mass = 0.0  # kg
        self.impulse, self.twist = np.zeros(3), np.zeros(3)  # N s, N m s about the mass centre: external
        self.work = 0.0  # J, of the same, against velocities relative to the mass centre
        self.displacement = np.zeros(3)  # m, expected displacement of the mass centre
        self.gross = np.zeros(3)  # N s, N m s, J: sums of the magnitudes of all contributors
        self.within = np.zeros(2)  # N s, N m s: sums of the magnitudes of applied forces and dry friction in joints
        self.largest: dict[str, Array] = {}  # sizes and residuals
        self._begin, self._last = time, time
        rows = start[None]
        motion = self._centre_rows(rows)
        _, _, tensor = inertia_about(model.robot, motion.bodies, parameters["inertia"], parameters["rotor"])
        # Radius of gyration about the mass centre: the lever that turns a force scale into a moment scale.
        self.gyration = float(np.sqrt(np.trace(tensor[0]) / motion.mass))  # m
        inner, sizes = inner_energy(model, parameters, rows, motion)
        self._start = Centred(rows[0, :3], motion.centre[0], motion.velocity[0], motion.sums.angular[0], inner[0])
        self._enlarge("inner", sizes)
        self._update_extremes(motion, _reach(motion)[0], np.array([0]), rows, *(np.zeros((1, 3)),) * 3, np.zeros(1))

    @property
    def reach(self) -> float:
        """Largest distance of a body's frame from the mass centre, m; one metre where there is none."""
        return float(self.largest["reach"]) or 1.0

    @property
    def inner_impulses(self) -> tuple[float, float]:
        """``within`` as forces (N s) and as moments (N m s), one converted into the other with the robot's reach."""
        push, twist = self.within
        return float(push + twist / self.reach), float(twist + push * self.reach)

    def add_steps(self, audit: Array) -> None:
        """Audit rows of whole steps: Gauss points, by which impulses and work are summed, and each step's end."""
        if not len(audit):
            return
        nx, code = self.model.nx, self.model.code
        weight, rows = audit[:, 1], audit[:, 2:]
        with np.errstate(over="ignore", invalid="ignore"):  # a failed run; its residuals are not numbers
            ends = np.flatnonzero(weight == 0.0)
            blocks: list[tuple[Array, ...]] = []
            for first in range(0, len(rows), BLOCK):
                motion, acts = self._centre_block(rows, first, ends)
                # Of the bodies only what the balances need: poses of all rows together would not fit into the cache.
                blocks.append((_reach(motion), motion.centre, motion.velocity, *_parts(motion.sums), *acts))
            reaches, centre, velocity, *others = (np.concatenate(each) for each in zip(*blocks, strict=True))
            count = len(fields(MomentumSums))
            motion = replace(motion, centre=centre, velocity=velocity, sums=MomentumSums(*others[:count]))
            reach, acting = reaches.max(), _Acting(*others[count:])

            # Running sums over Gauss points, read at the ends of steps, where the weight is zero: a drift within a
            # buffer shows even if it cancels by its end.
            def accumulate(before: Array | float, rate: Array) -> Array:
                return np.asarray(before + np.cumsum(weight.reshape(-1, *[1] * (rate.ndim - 1)) * rate, axis=0)[ends])

            impulse = accumulate(self.impulse, acting.force)
            twist = accumulate(self.twist, acting.moment)
            work = accumulate(self.work, acting.power)
            displacement = accumulate(self.displacement, motion.velocity)
            push = weight @ acting.pushes
            # One contributor may be many forces whose moments cancel, such as those at the corners of a standing box:
            # the moment of each is known only as accurately as the force.
            self.gross += [
                push,
                weight @ acting.twists + self.gyration * push,
                weight @ acting.powers,
            ]
            self._add_within(rows, weight)
            energies = rows[:, code.record + code.speed.size :]
            y = np.concatenate([rows[ends, :nx], energies[ends]], axis=1)
            self._update_extremes(motion, reach, ends, y, impulse, twist, displacement, work)
        self.impulse, self.twist, self.displacement, self.work = (
            impulse[-1],
            twist[-1],
            displacement[-1],
            float(work[-1]),
        )
        self.time += float(weight.sum())

    def _centre_block(
        self, rows: Array, first: int, ends: npt.NDArray[np.int64]
    ) -> tuple[CentredMotion, tuple[Array, ...]]:
        """Motion and external actions (see ``_Acting``) of a block of audit rows; sums over the bodies at ``ends``."""
        model, code, nx = self.model, self.model.code, self.model.nx
        places, some = model.kernel.inputs, rows[first : first + BLOCK]
        motion = self._centre_rows(some, ends[(ends >= first) & (ends < first + BLOCK)] - first)
        base = [
            some[:, places["force"]][:, :6],
            some[:, places["friction"]][:, :6],
            some[:, code.record : code.record + 6],
            # Damping of the base's own degrees of freedom acts from outside, like drag.
            -self.parameters["damping"][:6] * some[:, nx - code.speed.size : nx][:, :6],
        ]
        acting = external_wrenches(model.robot, motion.bodies, model.loads, some[:, places["wrench"]], base)
        force, moment, power = acting.force, acting.moment, acting.power
        sizes = np.linalg.norm(force, axis=2), np.linalg.norm(moment, axis=2), np.abs(power)
        return motion, tuple(each.sum(axis=1) for each in (force, moment, power, *sizes))

    def add_samples(self, times: Array, y: Array, inputs: Array) -> None:
        """Samples of a run without external actions: its mass centre keeps the initial velocity."""
        # In chunks, because poses and velocities of all bodies are held for all rows at once.
        for first in range(0, len(times), CHUNK):
            rows = slice(first, first + CHUNK)
            motion = self._centre_rows(y[rows])
            count = len(motion.velocity)
            self._add_within(inputs[rows], np.diff(times[rows], prepend=self._last))
            self._last = float(times[rows][-1])
            self.time = self._last - self._begin
            # Without external action the mass centre moves uniformly: the reference is exact, no sum of steps is
            # needed.
            displacement = (times[rows] - self._begin)[:, None] * self._start.velocity
            nothing = np.zeros((count, 3))
            self._update_extremes(
                motion, _reach(motion)[0], np.arange(count), y[rows], nothing, nothing, displacement, np.zeros(count)
            )

    def _centre_rows(self, rows: Array, at: npt.NDArray[np.int64] | None = None) -> CentredMotion:
        """Motion about the mass centre, from the states at the head of each row; ``at``: at some of them only."""
        own = (self.parameters["inertia"], self.parameters["rotor"])
        motion = centre_motion(self.model.robot, rows[:, : self.model.nx], *own, at)
        self.mass = motion.mass
        return motion

    def _add_within(self, inputs: Array, weight: Array) -> None:
        places = self.model.kernel.inputs
        # Internal forces cancel in every balance, but only to rounding of their own size: the certificate allows for
        # that.
        sizes = np.abs(inputs[:, places["force"]][:, 6:]) + np.abs(inputs[:, places["friction"]][:, 6:])
        revolute = np.array([joint.kind == "revolute" for joint in self.model.robot.joints], dtype=bool)
        self.within += [weight @ sizes[:, ~revolute].sum(axis=1), weight @ sizes[:, revolute].sum(axis=1)]

    def _update_extremes(
        self,
        motion: CentredMotion,
        reach: Array,
        at: npt.NDArray[np.int64],
        y: Array,
        impulse: Array,
        twist: Array,
        displacement: Array,
        work: Array,
    ) -> None:
        """Compute all balances at the instants ``at`` of ``motion`` (integrated vector ``y``), and keep the largest.

        ``reach``: largest distance of a body's frame from the mass centre, m.
        """
        sums, velocity, centre = motion.sums, motion.velocity[at], motion.centre[at]
        inner, sizes = inner_energy(self.model, self.parameters, y, motion)
        self._enlarge("inner", sizes)
        self._enlarge("reach", reach)
        self._enlarge("distance", np.abs(y[:, :3]).max())
        self._enlarge("speed", np.linalg.norm(velocity, axis=1).max())
        self._enlarge("kinetic", np.abs(sums.kinetic).max())
        self._enlarge("linear_scale", sums.linear_scale.max())
        self._enlarge("angular_scale", sums.angular_scale.max())
        now = Centred(y[:, :3], centre, velocity, sums.angular, inner)
        for name, gap in balance_gaps(motion.mass, now, self._start, impulse, twist, displacement, work).items():
            self._enlarge(name, (np.linalg.norm(gap, axis=1) if gap.ndim > 1 else np.abs(gap)).max())

    def _enlarge(self, name: str, value: Array | np.floating) -> None:
        self.largest[name] = np.maximum(self.largest.get(name, 0.0), value)  # keeps a NaN


@dataclass(frozen=True, eq=False)
class LedgerEntry:
    """A change in the ledger. Momenta are in world axes, moments about the mass centre of all just before.

    Args:
        time: s.
        text: what changed.
        phase: number of the phase that it ended.
        before, after: momentum of all systems (force and moment, N s and N m s) in the mass centre's frame before.
        lost: energy lost, kinetic and elastic, J.
        changed: result of the change: impulses, external impulse, kinetic energy lost.
        residuals: ``momentum``, ``energy``, ``mass``: relative errors by which the change is checked.
    """

    time: float
    text: str
    phase: int
    before: Array
    after: Array
    lost: float
    change: Change = field(repr=False)
    changed: ChangeResult = field(repr=False)
    residuals: Mapping[str, float]


@dataclass(frozen=True)
class _Sums:
    """Sums over all systems of a world at an instant, relative to a moving point."""

    mass: float
    centre: Array  # from the point, m
    inertia: Array  # (3, 3) about the point
    momentum: Array  # (6,)
    scale: Array  # (2,) of its parts
    kinetic: float
    elastic: float


def _sums(world: World, states: Mapping[str, State], point: Array, velocity: Array) -> _Sums:
    total: list[_Sums] = []
    for (name, robot), own in zip(world.systems.items(), world.parameters, strict=True):
        rows = states[name].vector[None].copy()
        # Shifted before anything is summed: moments about a distant origin would lose the digits that are compared.
        rows[:, :3] -= point
        seen = evaluate_bodies(robot, rows)
        seen.velocity[...] -= velocity
        sums = momentum(robot, seen, rows, own["inertia"], own["rotor"])
        mass, first, tensor = inertia_about(robot, seen, own["inertia"], own["rotor"])
        elastic = elastic_energy(robot, rows, own["stiffness"], own["rest"], own["coupling"])
        both = np.concatenate([sums.linear[0], sums.angular[0]])
        scale = np.array([sums.linear_scale[0], sums.angular_scale[0]])
        total.append(_Sums(mass, first[0], tensor[0], both, scale, float(sums.kinetic[0]), float(elastic[0])))
    found = [sum(getattr(each, part.name) for each in total) for part in fields(_Sums)]
    return replace(_Sums(*found), centre=found[1] / found[0])


def record_change(
    world: World, states: Mapping[str, State], change: Change, changed: ChangeResult, time: float, phase: int
) -> LedgerEntry:
    """The entry of a change, from the states on both sides of it."""
    still = np.zeros(3)
    # Twice: the first pass finds the mass centre and its velocity, the second sums about them, where nothing large
    # cancels.
    first = _sums(world, states, still, still)
    centre, velocity = first.centre, first.momentum[:3] / first.mass
    before = _sums(world, states, centre, velocity)
    after = _sums(changed.world, changed.states, centre, velocity)
    outside = changed.external.copy()
    # The change states its external impulse about its own point; the sums are about the mass centre.
    outside[3:] += cross(changed.point - centre, outside[:3])
    # What leaves takes its momentum along, here relative to the mass centre before.
    gone = changed.exhaust[:, 0]
    outside += exhaust_impulse(changed.exhaust, centre, velocity)
    gain = after.momentum - before.momentum
    slip = gain - outside
    scale = before.scale + after.scale + [np.linalg.norm(outside[:3]), np.linalg.norm(outside[3:])]
    # In the world frame, unlike that of the mass centre, external impulses also work on the common motion.
    lost = before.kinetic - after.kinetic - float(velocity @ gain[:3])
    lost += 0.5 * float(gone.sum()) * float(velocity @ velocity)
    reach = float(np.sqrt(np.trace(before.inertia) / before.mass))
    # Moments include those of the bodies' momenta, and possible rounding of the common velocity is not an error.
    scale[1] += reach * scale[0]
    noise = ROUNDING * before.mass * float(np.linalg.norm(velocity)) * np.array([1.0, reach])
    gaps = np.maximum(np.linalg.norm(slip.reshape(2, 3), axis=1) - noise, 0.0)  # keeps a NaN
    # What the exhaust takes is a part of the scale: relative to the mass centre nothing else may move.
    energies = before.kinetic + after.kinetic + (abs(lost) if gone.size else 0.0)
    shifts = (
        float(relative(float(np.linalg.norm(after.centre - before.centre)), reach)),
        float(relative(float(np.abs(after.inertia - before.inertia).max()), float(np.trace(before.inertia)))),
    )
    residuals = {
        "momentum": max(map(float, relative(gaps, scale))),
        "energy": float(relative(abs(lost - changed.lost), energies)),
        # Where mass leaves, mass centre and inertia have to change: by how much is the tank's matter.
        "mass": max(abs(after.mass + float(gone.sum()) - before.mass) / before.mass, 0.0 if gone.size else max(shifts)),
    }
    # After the residuals: impulses work on kinetic energy only, springs may be removed or switched as well.
    lost += before.elastic - after.elastic
    return LedgerEntry(time, changed.text, phase, before.momentum, after.momentum, lost, change, changed, residuals)


@dataclass(frozen=True)
class Ledger:
    """Energies at the samples, J; dissipation and work since the start."""

    kinetic: Array
    elastic: Array
    damping: Array
    coupling: Array
    friction: Array
    drive: Array
    load: Array
    lost: Array  # in changes
    entries: tuple[LedgerEntry, ...] = ()  # one for each change

    def __repr__(self) -> str:
        return f"Ledger({self.kinetic.size} samples, {len(self.entries)} changes)"

    @property
    def balance(self) -> Array:
        """The quantity that should be constant: stored and dissipated energy less the work done on the robot."""
        stored = self.kinetic + self.elastic
        return stored + self.damping + self.coupling + self.friction + self.lost - self.drive - self.load

    @property
    def scale(self) -> float:
        return float(sum(np.abs(part).max(initial=0.0) for name, part in vars(self).items() if name != "entries"))


def energy_ledger(model: RobotMotion, parameters: Mapping[str, Array], y: Array) -> Ledger:
    """The energy ledger at samples ``y`` (T, ny), with the kinetic energy in the world."""
    states = y[:, : model.nx]
    kinetic = np.zeros(len(y))
    for first in range(0, len(y), CHUNK):
        rows = slice(first, first + CHUNK)
        bodies = evaluate_bodies(model.robot, states[rows])
        moving = momentum(model.robot, bodies, states[rows], parameters["inertia"], parameters["rotor"])
        kinetic[rows] = moving.kinetic
    elastic = elastic_energy(model.robot, states, parameters["stiffness"], parameters["rest"], parameters["coupling"])
    sums = {name: y[:, place].sum(axis=1) for name, place in model.energies.items()}
    return Ledger(kinetic, elastic, lost=np.zeros(len(y)), **sums)


def inner_scale(model: RobotMotion, parameters: Mapping[str, Array], state: Array) -> float:
    """Kinetic energy in the mass centre's frame and elastic energy of one flat state, J."""
    y = np.zeros((1, model.code.ny))
    y[0, : model.nx] = state
    motion = centre_motion(model.robot, y[:, : model.nx], parameters["inertia"], parameters["rotor"])
    return float(inner_energy(model, parameters, y, motion)[1].sum())


def energy_residual(model: RobotMotion, parameters: Mapping[str, Array], y: Array) -> float:
    """Relative error of the energy balance between two instants ``y`` (2, ny), from integrated energies alone."""
    motion = centre_motion(model.robot, y[:, : model.nx], parameters["inertia"], parameters["rotor"])
    inner, sizes = inner_energy(model, parameters, y, motion)
    outside = {name: y[:, place] for name, place in model.energies.items()}
    terms = [outside["drive"][:, :6], -outside["damping"][:, :6], -outside["friction"][:, :6], outside["load"]]
    work = sum(float((part[1] - part[0]).sum()) for part in terms)
    gain = 0.0
    if any(np.any(part != 0.0) for part in terms):
        # Part of the external work went into the motion of the mass centre.
        gain = float(motion.mass * (motion.velocity[1] - motion.velocity[0]) @ (0.5 * motion.velocity.sum(axis=0)))
    drift = abs(inner[1] - inner[0] + gain - work)
    return float(relative(drift, float(sizes.sum()) + abs(work - gain)))
