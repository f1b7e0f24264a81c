"""Checks of conserved quantities of a run: momentum, energy and constraints, by independent formulas.

Each check is a residual relative to a scale: the magnitudes of motions and forces, summed, so that cancellation (two
large impulses that add to nothing) does not make a small error look large. A residual above the tolerance is compared
with the possible effect of rounding before it counts: velocities carry the rounding of the common motion, forces that
of the state.

The formulas (:mod:`spacearm.simulate.bodies`, :mod:`spacearm.simulate.run.ledger`) share nothing with the mechanics
that was integrated, so that a wrong term in the equations of motion shows as drift. A certificate cannot detect wrong
parameters, or an error of the model that itself conserves momentum and energy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from spacearm.engine.friction import SLACK
from spacearm.result import Certificate, Check
from spacearm.simulate.loops import loop_gap
from spacearm.simulate.motion import RobotMotion
from spacearm.simulate.run.ledger import ROUNDING, Balance, Ledger, relative
from spacearm.simulate.run.segment import Segment
from spacearm.simulate.system_loop import system_loops
from spacearm.typing import Array

#: Largest relative error of a run without a warning.
TOLERANCE = 1e-8
#: Fraction of the impulse of joint forces to which their balance is known: dry friction holds this much more.
BALANCE = SLACK
#: Largest error, relative to what took part, of momentum and mass in a change.
CHANGE_TOLERANCE = 1e-10
#: How far a residual that is the sum of what it is compared with may exceed it by rounding, as a factor.
LAST_BITS = 1.0 + 1e-12
#: Energies below this, J, are rounding of a system at rest: the ledger has nothing to compare.
NO_ENERGY = 1e-25


class CertificateWarning(UserWarning):
    """A run did not conserve what it should have conserved."""


def certify(
    segments: Sequence[Segment], ledger: Ledger, tolerance: float = TOLERANCE, kept: tuple[float, float] = (0.0, 0.0)
) -> Certificate:
    """Certificate of a run from the samples of its segments, or from the balances of their steps if there were external
    actions, and from the entries of its changes. ``kept``: relative and absolute tolerance of its integration.
    """
    found: dict[str, dict[str, Check]] = {}
    for segment in segments:
        record, rows = segment.record, segment.rows
        times, y, inputs = record.times[rows], record.y[rows], record.inp[rows]
        balances = segment.balances or (None,) * len(segment.model.parts)
        for part, own, balance in zip(segment.model.parts, segment.parameters, balances, strict=True):
            start, columns = segment.start[part.layout.whole], inputs[:, part.inputs]
            found[f"{part.name} from {segment.time:.6g} s on"] = balance_checks(
                part.motion, own, times, y[:, part.y], columns, balance, tolerance, start, segment.time, kept
            )
        # Constraints are those of the whole segment: they are added to the last system's entry, once.
        name, checks = found.popitem()
        found[name] = {
            **checks,
            **_constraints(segment, times, y, inputs, tolerance),
            **_loops(segment, times, y, tolerance),
        }
        if any(element.internal for element in segment.world.elements):
            meaning = "largest sum of the wrenches that a force element exerts between systems, relative to them"
            found[name]["third_law"] = Check(segment.touches.reaction, CHANGE_TOLERANCE, "", meaning)
    return Certificate.worst(found) | _changes(ledger, tolerance)


def _loops(segment: Segment, times: Array, y: Array, tolerance: float) -> dict[str, Check]:
    """The largest opening of the closed loops of all systems, and between them."""
    parts = [part for part in segment.model.parts if part.motion.robot.loops]
    gaps = [float(loop_gap(part.motion.robot, y[:, part.layout.joints]).max()) for part in parts]
    elements, between = segment.model.elements, system_loops(segment.world)
    if between and elements is not None:
        memory = y[:, elements.tail(y.shape[1])]
        seen = elements.observations(segment.world, y[:, : segment.model.nx], times, memory)
        gaps += [float(seen[f"{loop.name}.gap"].max()) for loop in between]
    if not gaps:
        return {}
    gap = float(np.max(gaps))  # keeps a NaN
    return {"loops": Check(gap, tolerance, "", "largest opening of a closed loop, m or rad")}


def _changes(ledger: Ledger, tolerance: float) -> dict[str, Check]:
    """Conservation checks of changes."""
    entries = ledger.entries
    if not entries:
        return {}
    texts = ", ".join(f"{entry.text} at {entry.time:.6g} s" for entry in entries[:3])
    what = texts if len(entries) <= 3 else f"{texts}, and {len(entries) - 3} more"
    meanings = {
        "momentum": (CHANGE_TOLERANCE, "change of linear and angular momentum less the external impulse"),
        "energy": (tolerance, "kinetic energy lost less the work of the impulses, relative to the initial energy"),
        "mass": (CHANGE_TOLERANCE, "jump of mass, mass centre and inertia of all systems together"),
    }
    checks = {
        f"change_{name}": Check(max(entry.residuals[name] for entry in entries), limit, "", f"{meaning}; {what}")
        for name, (limit, meaning) in meanings.items()
    }
    # Over all segments: an error in a change's own booking shows here even if each segment is balanced.
    drift, scale = ledger.balance - ledger.balance[:1], ledger.scale
    meaning = "drift of kinetic + elastic + dissipated + lost in changes - work over the whole run, relative to them"
    if not scale <= NO_ENERGY:  # keeps a NaN
        checks["ledger"] = Check(float(np.abs(drift).max() / scale), tolerance, "", meaning)
    return checks


def balance_checks(
    model: RobotMotion,
    parameters: Mapping[str, Array],
    times: Array,
    y: Array,
    inputs: Array,
    balance: Balance | None = None,
    tolerance: float = TOLERANCE,
    start: Array | None = None,
    time: float = 0.0,
    kept: tuple[float, float] = (0.0, 0.0),
) -> dict[str, Check]:
    """Momentum and energy of one robot.

    ``start``: the integrated vector (ny,), or the flat state alone, at the start at ``time``: the reference of all
    comparisons. Without it, the first sample. ``kept``: see :func:`certify`.
    """
    if balance is None:
        given, begin = (y[0], times[0]) if start is None else (np.asarray(start, dtype=np.float64), time)
        whole = np.concatenate([given, np.zeros(y.shape[1] - given.size)])
        balance = Balance(model, parameters, whole, begin)
        balance.add_samples(times, y, inputs)
    return _check_balances(balance, tolerance, *kept)


class BalanceError(NamedTuple):
    """The largest residual of a balance, of one run or (B,) of many, and what it is compared with.

    Args:
        rounding: part of the residual that may be rounding, however small the motion.
        scale: sizes of motions and actions that took part.
        unseen: a scale due to velocities that the integration does not resolve.
    """

    residual: Array | float
    rounding: Array | float
    scale: Array | float
    unseen: Array | float
    meaning: str


#: Why a balance has nothing to look at.
_REASONS = ("", "moves", "moves by more than rounding", "moves by more than the integration resolves")


def judge(error: BalanceError, tolerance: Array | float) -> tuple[Array, Array]:
    """Relative errors, and why each has nothing to look at (0: it has), as an index of ``_REASONS``."""
    # A residual counts relative to what took part. Of a system at rest nothing took part: rounding over rounding says
    # nothing, and the check does not apply.
    value = relative(error.residual, error.scale)
    beyond = value > tolerance
    # Only beyond the tolerance: rounding must not be subtracted from a residual that passes by itself.
    rest = relative(np.maximum(np.subtract(error.residual, error.rounding), 0.0), error.scale)  # keeps a NaN
    value = np.where(beyond, rest, value)
    # The residual is at most the scale, but for its last bits, and that is below what the integration resolves: their
    # quotient is meaningless. A larger residual comes from elsewhere, however small it is.
    unseen = beyond & np.less_equal(error.residual, LAST_BITS * error.scale) & np.less_equal(error.scale, error.unseen)
    nothing = (value == 0.0) & (beyond | np.equal(error.scale, 0.0))
    return value, np.select([unseen, nothing & beyond, nothing], [3, 2, 1], 0)


def _check_balances(balance: Balance, tolerance: float, rtol: float, atol: float) -> dict[str, Check]:
    errors = balance_errors(
        {name: size.sum() for name, size in balance.largest.items()},
        balance.mass,
        balance.reach,
        balance.time,
        balance.gross,
        balance.inner_impulses,
        (rtol, atol),
    )
    checks = {}
    # All at once: the numbers of one are few.
    residuals, roundings, scales, unseen, _ = map(np.array, zip(*errors.values(), strict=True))
    judged = zip(*judge(BalanceError(residuals, roundings, scales, unseen, ""), tolerance), strict=True)
    for (name, error), (value, reason) in zip(errors.items(), judged, strict=True):
        why = f"nothing {_REASONS[int(reason)]}; {error.meaning}"
        found = Check(float(value), tolerance, "", error.meaning)
        checks[name] = Check.not_applicable(why, tolerance) if reason else found
    return checks


def balance_errors(
    largest: Mapping[str, Array],
    mass: Array | float,
    reach: Array | float,
    time: float,
    gross: Array | Sequence[Array],
    inner: tuple[float, float] = (0.0, 0.0),
    kept: tuple[float, float] = (0.0, 0.0),
) -> dict[str, BalanceError]:
    """The errors of momentum, mass centre and energy of one run, or of many at once: numbers, or (B,).

    Args:
        largest: of the residuals of :func:`~spacearm.simulate.run.ledger.balance_gaps`, and of ``speed``, ``distance``,
            ``kinetic``, ``linear_scale``, ``angular_scale``, ``inner``.
        gross: sizes of the external impulse, moment and work.
        inner: impulse and moment of the forces in joints.
        kept: see :func:`certify`.
    """
    (push, twist), (rtol, atol), speed = inner, kept, largest["speed"]
    # Momentum that the kinetic energy would have in one direction: a scale that does not vanish when momenta cancel.
    rms = np.sqrt(2.0 * mass * largest["kinetic"])
    # Velocities have the rounding of the common one and, where forces follow the state, of lengths, per second.
    noise = ROUNDING * mass * (speed + reach)
    blur = noise / mass + atol + rtol * reach  # m/s, best accuracy of the velocities
    # Internal forces are balanced to a fraction only (friction with slack): not an error of the integration.
    pushes = largest["linear_scale"] + rms + gross[0]
    return {
        "linear_momentum": BalanceError(
            largest["linear"],
            noise + BALANCE * push,
            pushes,
            mass * blur,
            "change of momentum less the external impulse, relative to the momenta of the bodies about the mass "
            "centre and to the impulses of all actions",
        ),
        "mass_centre": BalanceError(
            largest["gone"],
            ROUNDING * (largest["distance"] + speed * time) + BALANCE * push / mass * time,
            reach + pushes / mass * time,
            0.0,
            "displacement of the mass centre less the integral of its velocity, relative to the robot's reach and to "
            "the distance over which the momenta and impulses of linear_momentum would carry its mass",
        ),
        "angular_momentum": BalanceError(
            largest["angular"],
            noise * reach + BALANCE * twist,
            largest["angular_scale"] + gross[1],
            mass * blur * reach,
            "change of angular momentum about the mass centre less the external impulse, relative to the sum of "
            "the bodies' shares and to the impulses of all actions, forces at the radius of gyration",
        ),
        "energy": BalanceError(
            largest["energy"],
            noise * (rms + noise + gross[0]) / mass,
            largest["inner"] + gross[2],
            blur * (rms + gross[0] + push),
            "drift of kinetic + elastic + dissipated - work in the mass centre's frame, relative to the largest of "
            "them summed",
        ),
    }


def _constraints(segment: Segment, times: Array, y: Array, inputs: Array, tolerance: float) -> dict[str, Check]:
    model = segment.model
    velocity = y[:, model.code.speed]
    mode = inputs[:, model.kernel.inputs["mode"]]
    resting = path = 0.0
    rested = False
    for prepared, begin, rows in segment.spans:
        if rows.start >= rows.stop:
            continue
        still = mode[rows] != 0.0
        # Driven along a path is not at rest; locked is. Both have mode 1.
        still[:, [index for index in prepared.driven if index not in prepared.locked]] = False
        rested = rested or bool(still.any())
        resting = max(resting, float(np.abs(velocity[rows][still]).max(initial=0.0)))
        for index, signal in prepared.paths:
            position, rate = signal(times[rows] - begin), signal.derivative()(times[rows] - begin)
            gap = np.abs(y[rows, model.positions[index]] - position) / (1.0 + np.abs(position))
            slip = np.abs(velocity[rows, index] - rate) / (1.0 + np.abs(rate))
            path = max(path, float(gap.max()), float(slip.max()))
    norms = [np.linalg.norm(y[:, at : at + 4], axis=1) for at in model.code.quaternion]
    slowest = "largest speed of a degree of freedom that sticks or is locked"
    checks = {
        "quaternion": Check(
            float(np.abs(np.array(norms) - 1.0).max()),
            1e-12,
            "",
            "largest deviation of the base quaternion's norm from 1",
        ),
        # A limit of zero: the loop sets these speeds to exact zeros, so any other number is a fault.
        "resting_velocity": Check(resting, 0.0, "", slowest)
        if rested
        else Check.not_applicable(f"nothing sticks or is locked at any sample; {slowest}", 0.0),
    }
    if any(prepared.paths for prepared in segment.prepared):
        meaning = "largest deviation of driven joints from their paths"
        checks["path"] = Check(path, min(tolerance, 1e-10), "", meaning)
    return checks
