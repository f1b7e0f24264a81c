"""The same collision in time: a stiff contact in place of a jump.

Both systems move by their full nonlinear equations. Between their contact frames acts a wrench p that grows with the
integral s of their relative twist (world axes, at the first one's contact point). Loading and unloading follow two
slopes, so that a contact of restitution e gives back e^2 of the energy put in::

    loading     p = K s                            until p . ds/dt = 0, where s = s1
    unloading   p = K / e^2 (s - (1 - e^2) s1)     until p . ds/dt = 0 again (e = 0: none, they stay together)

In unloading the bracket is the variable, from e^2 s1 on: as a difference it would lose all digits when e is small.

K = omega^2 (S (G1* + G2*) S^T)^-1: with this stiffness all directions of the contact oscillate with one frequency omega
and reverse together, as the algebraic law assumes. Along a normal that is any stiffness k = omega^2 m. As omega grows,
velocities, impulse and joint reactions tend to those of :func:`spacearm.impact.collide`. The error falls as the
contact's duration, 1 / omega: it is due to the motion of the systems meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import casadi as ca
import numpy as np
import numpy.typing as npt

from spacearm.checks import check_exclusive, positive
from spacearm.engine import Kernel
from spacearm.engine.phase import Functions, make_solver_phase, make_system
from spacearm.engine.signals import merge
from spacearm.engine.solver import EndReason, Options
from spacearm.engine.system import make_code
from spacearm.engine.warm import ensure_loops
from spacearm.errors import InputError, SimulationError
from spacearm.impact._generalized import ForcedMotion, forced_motion
from spacearm.impact.collision import Collision, Kind, collide, effective_mass, selection
from spacearm.impact.floating import FloatingSystem
from spacearm.mechanics import Program
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.typing import Array

RTOL, ATOL = 1e-11, 1e-13
#: Steps after which loading or unloading is aborted. One takes about ten, more if systems rotate meanwhile.
MAX_STEPS = 4000
#: A radian of the contact's oscillation in units of time: the solver locates an event to 1e-13 of a unit.
_RADIAN = 1024.0
#: Units between samples.
_SAMPLE = 0.1 * _RADIAN

#: Largest number of contacts in one convergence study; each is a run.
MOST_CONTACTS = 1000


@dataclass(frozen=True, eq=False)
class ContactRun:
    """A finite-stiffness contact from touch to separation (or to rest, e = 0).

    Attributes:
        time: s, of the recorded instants.
        wrench: on the first system at its contact point (steps, 6): N, N m; world axes.
        relative: relative twist v2 - v1 at that point (steps, 6), world axes.
        duration: s.
        impulse: integral of ``wrench`` (6).
        first, second: generalised velocities at the end (6 + n).
        first_reaction, second_reaction: integrals of the joints' reactions (n).
        contact_work: work of the contact, J; with e < 1 the two slopes retain part of the energy put in.
        resistance_work: work of all joints that are not locked, J. If it is positive, Eq. 10 adds energy, and the
            contact is no more sound than the collision that it tends to (:attr:`Collision.sound`).
        energy_residual: kinetic energy at the end less that at touch and the work of contact and joints; relative.
        momentum_residual: change of the total momentum less the impulse of what holds the bases, relative.
    """

    time: Array
    wrench: Array
    relative: Array
    duration: float
    impulse: Array
    first: Array
    second: Array
    first_reaction: Array
    second_reaction: Array
    contact_work: float
    resistance_work: float
    energy_residual: float
    momentum_residual: float


@dataclass(frozen=True, eq=False)
class Convergence:
    """Finite-stiffness contacts compared with the jump that they tend to.

    Attributes:
        frequency: omega of each contact, rad/s.
        stiffness: along the normal, N/m (for other kinds: the largest eigenvalue of the translational part).
        error: largest difference of any velocity after the impact, relative to the largest jump; (runs).
        impulse_error: of the impulse, relative; (runs).
        order: fitted power of the duration with which ``error`` falls (1: as the duration); NaN for one contact.
        jump: the algebraic collision.
        runs: the contacts.
    """

    frequency: Array
    stiffness: Array
    error: Array
    impulse_error: Array
    order: float
    jump: Collision
    runs: tuple[ContactRun, ...]


class _Pair:
    """Right-hand side of two robots and the contact between them."""

    def __init__(self, first: Robot, first_frame: str, second: Robot, second_frame: str) -> None:
        self.first = Layout(first.n)
        self.second = Layout(second.n, self.first.stop)
        states = [ca.SX.sym("a", self.first.size), ca.SX.sym("b", self.second.size)]
        slip = ca.SX.sym("slip", 6)
        stiffness = ca.SX.sym("stiffness", 6, 6)
        # Both wrenches act at the first system's contact point. The second frame drifts off it while the contact lasts;
        # without the arm below, momentum would not be conserved.
        wrench = stiffness @ slip
        one = forced_motion(first, first_frame, "a", wrench, states[0])
        # Where the second's frame is does not depend on the push: build it once with none to get its place.
        nothing = forced_motion(second, second_frame, "b", ca.SX.zeros(6), states[1])
        arm = one.origin - nothing.origin
        opposite = -ca.vertcat(wrench[:3], wrench[3:] + ca.cross(arm, wrench[:3]))
        two = forced_motion(second, second_frame, "b", opposite, states[1])
        twist = ca.vertcat(two.twist[:3] + ca.cross(two.twist[3:], arm), two.twist[3:])
        relative = twist - one.twist
        powers = [_joint_powers(one, states[0], first.n, "a"), _joint_powers(two, states[1], second.n, "b")]
        works = [powers[0][0] + powers[1][0], powers[0][1] + powers[1][1]]
        parts = [one.rate, two.rate, relative, wrench, one.support + two.support, one.reaction[6:], two.reaction[6:]]
        parts += [*works, -ca.dot(wrench, relative)]
        unit = ca.SX.sym("unit", 1)  # of time, s
        inputs = {"a": states[0], "b": states[1], "slip": slip, "stiffness": stiffness, "unit": unit}
        inputs |= one.inputs | two.inputs
        # y = both states, slip, impulse, impulse of what holds the bases, joint reaction impulses, works of locked and
        # other joints and of the contact
        rate = unit * ca.vertcat(*parts)
        self.kernel = Kernel(Program("contact", inputs, {"rate": ca.densify(rate)}))
        self.states = self.second.stop
        self.size = self.kernel.n_out
        self.slip = slice(self.states, self.states + 6)
        quaternions = [at.quaternion.start for at in (self.first, self.second)]
        self.code = make_code(self.kernel.address(1), self.slip.stop, self.size, quaternion=quaternions)
        # The event function is the contact's power with the opposite sign, so that loading ends at a falling zero and
        # unloading at a rising one.
        known = self.kernel.program.event_inputs(self.code.nx)
        self.power = Kernel(Program("contact_power", known, {"power": -known["rate"][-1]}))


def _joint_powers(body: ForcedMotion, state: Any, n: int, prefix: str) -> tuple[Any, Any]:
    """Power of the reactions of locked joints, and of the others."""
    if not n:
        return ca.SX(0), ca.SX(0)
    locked, power = body.inputs[f"{prefix}_locked"], body.reaction[6:] * state[Layout(n).rates]
    return ca.dot(locked, power), ca.dot(1 - locked, power)


@lru_cache(maxsize=16)
def _pair(first: Robot, first_frame: str, second: Robot, second_frame: str) -> _Pair:
    return _Pair(first, first_frame, second, second_frame)


def simulate_contact(
    first: FloatingSystem,
    second: FloatingSystem,
    *,
    frequency: float | None = None,
    stiffness: float | None = None,
    kind: Kind = "normal",
    normal: npt.ArrayLike | None = None,
    restitution: float = 0.0,
) -> ContactRun:
    """A contact of finite stiffness between two systems whose contact frames have just met (no batches).

    Args:
        frequency: omega, rad/s; the contact lasts about a half period, pi / omega (1 + e) / 2.
        stiffness: instead of it, N/m, for kind ``normal``.
        kind, normal, restitution: as for :func:`~spacearm.impact.collide`.
    """
    _refuse_friction(kind)
    jump = collide(first, second, kind=kind, normal=normal, restitution=restitution)
    if jump.impulse.ndim != 1:
        raise InputError("is one run in time, not a batch", place="contact", hint="give single states")
    mass = effective_mass(first, second, kind=kind, normal=normal)
    omega = _frequency(frequency, stiffness, kind, mass)
    rows = selection(kind, normal)
    if not np.any(jump.closing):
        raise InputError(
            "the systems do not approach each other", place="contact", hint="no collision: nothing to simulate"
        )
    matrix = omega**2 * rows.T @ mass @ rows
    return _Run(first, second, matrix, omega, float(restitution)).run()


def _refuse_friction(kind: str) -> None:
    if kind == "friction":
        raise InputError("has no friction law", place="contact", hint="use a World with a Contact: spacearm.simulate")


def _frequency(frequency: float | None, stiffness: float | None, kind: str, mass: Array) -> float:
    given = {"frequency": frequency, "stiffness": stiffness}
    name = check_exclusive(given, required=True, place="contact")
    value = positive(given[str(name)], str(name), place="contact")
    if stiffness is None:
        return value
    if kind != "normal":
        raise InputError("is one number for several directions", place="stiffness", hint="give a frequency")
    return float(np.sqrt(value / mass[0, 0]))


class _Branch(NamedTuple):
    """Loading or unloading, sampled up to its end."""

    time: Array  # s, from its start
    y: Array  # see _Pair
    wrench: Array
    relative: Array


class _Run:
    """One contact: loading and, unless e = 0, unloading."""

    def __init__(
        self, first: FloatingSystem, second: FloatingSystem, stiffness: Array, omega: float, restitution: float
    ) -> None:
        # Lever arms would lose digits far from the origin: the origin is moved to the contact, and nothing else
        # changes.
        self.first, self.second = (system.translate(-first.contact_point) for system in (first, second))
        self.pair = _pair(first.robot, first.frame, second.robot, second.frame)
        self.stiffness, self.omega, self.e = stiffness, omega, restitution
        self.inputs = np.zeros(self.pair.kernel.n_in)
        places = self.pair.kernel.inputs
        for prefix, system in (("a", first), ("b", second)):
            robot = system.robot
            values = {
                "locked": system.modes.locked,
                "resistance": system.modes.resistance,
                "inertia": robot.inertia_parameters.ravel(),
                "rotor": robot.rotor_inertias,
            }
            for name, value in values.items():
                if f"{prefix}_{name}" in places:
                    self.inputs[places[f"{prefix}_{name}"]] = value
        ensure_loops()

    def run(self) -> ContactRun:
        y = np.zeros(self.pair.size)
        y[: self.pair.states] = np.concatenate([_state(self.first), _state(self.second)])
        branches = [self._branch(y, self.stiffness, self.omega, falling=True)]
        # Tested by its square: an e whose square underflows would divide the stiffness by zero.
        if self.e**2 > 0.0:
            peak = branches[0].y[-1].copy()
            peak[self.pair.slip] *= self.e**2
            branches.append(self._branch(peak, self.stiffness / self.e**2, self.omega / self.e, falling=False))
        return self._report(y, branches)

    def _branch(self, y: Array, stiffness: Array, omega: float, *, falling: bool) -> _Branch:
        """Integrate until the contact's power changes sign."""
        pair, unit = self.pair, 1.0 / (_RADIAN * omega)
        self.inputs[pair.kernel.inputs["stiffness"]] = stiffness.ravel()
        self.inputs[pair.kernel.inputs["unit"]] = unit
        # A linear contact reverses after a quarter period. Four times that is ample: beyond it the systems rotate in a
        # contact that is too soft to compare with a jump.
        end = 2.0 * np.pi * _RADIAN
        watched = Functions(pair.power.address(1), pair.power.n_in, [-1 if falling else 1], [True])
        system = make_system(pair.code, self.inputs, pair.size, merge([], end), functions=watched)
        # Absolute tolerances per component. Many start at zero (slip, impulse, work): the largest state sets a floor
        # for them.
        scale = np.abs(y) + 1e-3 * np.abs(y[: pair.states]).max()
        options = Options(1, 0.0, RTOL, ATOL * np.maximum(scale, 1e-9), np.inf, MAX_STEPS, 1)
        # The last sample is reserved for the end.
        stage = make_solver_phase(system, options, [*np.arange(0.0, end, _SAMPLE), np.inf], full=True)
        if stage.run(y) != EndReason.TERMINAL_EVENT:
            raise SimulationError(
                "the contact does not end",
                place="contact",
                hint="it is so soft that the systems rotate meanwhile: raise the frequency",
            )
        stage.keep_end()
        count, slip = int(stage.record.counts[0]), pair.slip
        times, path, rate = stage.record.times[:count], stage.record.y[:count], stage.record.out[:count]
        return _Branch(times * unit, path, path[:, slip] @ stiffness.T, rate[:, slip] / unit)

    def _report(self, start: Array, branches: list[_Branch]) -> ContactRun:
        first, states = self.first, self.pair.states
        offsets = np.cumsum([0.0, *(branch.time[-1] for branch in branches)])
        time = np.concatenate([branch.time + offset for branch, offset in zip(branches, offsets, strict=False)])
        end = branches[-1].y[-1]
        impulse, support, reactions = np.split(end[states + 6 : -3], [6, 12])
        energies = [self._kinetic(row) for row in (start, end)]
        balance = energies[1] - energies[0] - float(end[-3:].sum())
        # About the origin of the world, which is the contact point at touch.
        momenta = [self._momentum(row) for row in (start, end)]
        scale = np.abs(momenta).max() + float(np.abs(impulse).max())
        return ContactRun(
            time,
            np.concatenate([branch.wrench for branch in branches]),
            np.concatenate([branch.relative for branch in branches]),
            float(time[-1]),
            impulse,
            end[self.pair.first.velocity],
            end[self.pair.second.velocity],
            reactions[: first.robot.n],
            reactions[first.robot.n :],
            float(end[-1]),
            float(end[-2]),
            abs(balance) / max(energies),
            float(np.abs(momenta[1] - momenta[0] - support).max() / scale),
        )

    def _parts(self, y: Array) -> list[tuple[FloatingSystem, Array, Array, Array]]:
        found = []
        for system, at in ((self.first, self.pair.first), (self.second, self.pair.second)):
            base = np.concatenate([y[at.position], y[at.quaternion] / np.linalg.norm(y[at.quaternion])])
            found.append((system, base, y[at.joints], y[at.velocity]))
        return found

    def _kinetic(self, y: Array) -> float:
        return float(sum(s.point.mechanics.kinetic_energy(q, v) for s, _, q, v in self._parts(y)))

    def _momentum(self, y: Array) -> Array:
        parts = [s.point.mechanics.momentum(q, v, base=b, about=np.zeros(3)) for s, b, q, v in self._parts(y)]
        return parts[0] + parts[1]


def _state(system: FloatingSystem) -> Array:
    return np.concatenate([np.asarray(system.base), np.asarray(system.joints), np.asarray(system.velocity)])


def contact_convergence(
    first: FloatingSystem,
    second: FloatingSystem,
    frequencies: Sequence[float] | None = None,
    *,
    stiffnesses: Sequence[float] | None = None,
    kind: Kind = "normal",
    normal: npt.ArrayLike | None = None,
    restitution: float = 0.0,
) -> Convergence:
    """Contacts of increasing frequency (rad/s) or (kind ``normal``) stiffness (N/m), compared with the jump."""
    _refuse_friction(kind)
    jump = collide(first, second, kind=kind, normal=normal, restitution=restitution)
    mass = effective_mass(first, second, kind=kind, normal=normal)
    check_exclusive({"frequencies": frequencies, "stiffnesses": stiffnesses}, required=True, place="contact")
    if frequencies is None:
        frequencies = [_frequency(None, k, kind, mass) for k in stiffnesses or ()]
    omega = np.asarray(frequencies, dtype=np.float64)
    if omega.ndim != 1 or not 1 <= omega.size <= MOST_CONTACTS:
        raise InputError(
            f"has {omega.size} contacts",
            place="contact",
            hint=f"expected one or more frequencies, {MOST_CONTACTS} at most",
        )
    runs = tuple(
        simulate_contact(first, second, frequency=float(w), kind=kind, normal=normal, restitution=restitution)
        for w in omega
    )
    after = np.concatenate([jump.first.after, jump.second.after])
    largest = max(np.abs(jump.first.change).max(), np.abs(jump.second.change).max())
    error = np.array([np.abs(np.concatenate([run.first, run.second]) - after).max() for run in runs]) / largest
    missed = np.array([np.abs(run.impulse - jump.impulse).max() for run in runs]) / np.abs(jump.impulse).max()
    several = np.unique(omega).size > 1
    # Slope of log error over log omega. Duration falls as 1 / omega, hence the sign.
    order = float(-np.polyfit(np.log(omega), np.log(np.maximum(error, 1e-300)), 1)[0]) if several else np.nan
    stiff = omega**2 * np.abs(np.linalg.eigvals(mass[:3, :3])).max()
    return Convergence(omega, stiff, error, missed, order, jump, runs)
