"""An impact with Coulomb friction: Routh's integration over the normal impulse, in space.

With the compliance C = S (G1* + G2*) S^T of the contact point (3 x 3) and the relative velocity w = v2 - v1, the normal
impulse p on the first system takes the place of time. While surfaces slide along t (the direction of w_t), friction is
mu t::

    dw/dp = -C (n + mu t)

In space t turns meanwhile, towards a direction in which it stays; from there on, and in a plane from the start, the way
is straight and known in closed form. Where sliding stops, f = -C_tt^-1 C_tn is what it takes to stick: if that is at
most mu the surfaces do, else they slide anew along the one t that stays, (mu C_tt + lambda) t = -C_tn with lambda > 0.
The hit ends by a hypothesis of restitution, of the closing speed u = n . w::

    newton      u' = -e u
    poisson     p' = (1 + e) p_c, where u(p_c) = 0
    energetic   the normal force gives back e^2 of the work put in (Stronge): never more energy than there was
    contact     the integral of u / (1 + chi u) dp vanishes: what ``simulate.Contact`` of the same
                restitution tends to as its stiffness grows, tangentially faster than along the normal

For a hit that slides in one direction throughout, or not at all, all four are the same; for e = 0 always, and for e = 1
the last two. After E. J. Routh, Dynamics of a System of Rigid Bodies (1905); W. J. Stronge, Impact Mechanics (2000); J.
A. Batlle, J. Applied Mechanics 63 (1996).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple, get_args

import casadi as ca
import numpy as np
from scipy.optimize import brentq

from spacearm.engine import Kernel
from spacearm.engine.phase import Functions, make_solver_phase, make_system
from spacearm.engine.signals import merge
from spacearm.engine.solver import EndReason, Options
from spacearm.engine.system import make_code
from spacearm.engine.warm import ensure_loops
from spacearm.errors import SimulationError
from spacearm.mechanics import Program
from spacearm.mechanics.contact import damping_number
from spacearm.typing import Array

Hypothesis = Literal["newton", "poisson", "energetic", "contact"]
HYPOTHESES: tuple[str, ...] = get_args(Hypothesis)
#: Sliding has stopped where it is this slow, relative to the velocity before.
STOPPED = 1e-14
#: The direction of sliding counts as constant if it rotates this little, relative to the compliance.
SETTLED = 1e-11
_RTOL, _ATOL, _MAX_STEPS = 1e-12, 1e-15, 100_000
#: Units of the solver's variable, which locates events to 1e-13 of one, in an impact as long as its compression.
_UNITS = 1024.0


class FrictionalHit(NamedTuple):
    """Impulse on the first system (3), relative velocity after (3), fraction of the normal impulse at which sliding
    stops (NaN if it never does).
    """

    impulse: Array
    after: Array
    stopped: float


class Sliding(NamedTuple):
    """Sliding of surfaces in impacts with friction.

    Args:
        before, after: velocity (..., 3) of the second surface along the first, m/s, world axes.
        stopped: fraction of the normal impulse (...) at which sliding stopped, NaN if it never did.
    """

    before: Array
    after: Array
    stopped: Array

    @property
    def words(self) -> Array:
        """``slides`` throughout, ``sticks`` at the end, or ``slides anew`` after it stopped."""
        still = np.linalg.norm(self.after, axis=-1) <= 1e-9 * np.linalg.norm(self.before, axis=-1)
        return np.where(np.isnan(self.stopped), "slides", np.where(still, "sticks", "slides anew"))


class _Point(NamedTuple):
    """A point of the integration: relative velocity, impulse, and the integral of u (or of u / (1 + chi u)) dp."""

    velocity: Array
    impulse: Array
    work: float


class _CurvedSliding(NamedTuple):
    """Sliding in a changing direction: kernels of the rates and of the events that end it."""

    rates: Kernel
    watched: Kernel


@lru_cache(maxsize=1)
def _compile_curved_sliding() -> _CurvedSliding:
    """Kernels in the variable sigma, d sigma = dp / (s (1 + chi u)), s = |w_t|, which avoids division by a vanishing
    speed.

    The state is (ln s, direction of sliding, u, impulse along the tangents and the normal, work).
    """
    state, c, numbers, until = (ca.SX.sym(*x) for x in (("state", 7), ("c", 3, 3), ("numbers", 3), ("until", 4)))
    (log_s, angle, u), (mu, chi, unit) = ca.vertsplit(state[:3]), ca.vertsplit(numbers)
    s, slow = ca.exp(log_s), 1.0 + chi * u
    # Polar coordinates of the slip: s and its angle separate the sliding speed from its direction. The rate of the
    # angle has 1/s in Cartesian form; the variable sigma removes it.
    push = ca.vertcat(mu * ca.cos(angle), mu * ca.sin(angle), 1.0)
    pull = c @ push
    along = ca.cos(angle) * pull[0] + ca.sin(angle) * pull[1]
    across = ca.cos(angle) * pull[1] - ca.sin(angle) * pull[0]
    rate = unit * ca.vertcat(slow * ca.vertcat(-along, -across, -s * pull[2], s * push), s * u)
    # Events, each at a falling zero: the end of compression or of the hit, sliding stopped, direction settled.
    ends = ca.vertcat(
        ca.dot(until, ca.vertcat(u, state[5:], 1.0)),
        log_s - np.log(STOPPED),
        ca.fabs(across) - SETTLED * ca.norm_2(ca.vec(c[:2, :])),
    )
    inputs = {"state": state, "compliance": c, "numbers": numbers, "until": until}
    rates = Program("turning_slip", inputs, {"rate": rate, "ends": ends})
    known = rates.event_inputs(7)
    return _CurvedSliding(Kernel(rates), Kernel(Program("turning_slip_ends", known, {"ends": known["ends"]})))


def frictional_hit(
    compliance: Array, velocity: Array, normal: Array, restitution: float, friction: float, hypothesis: str
) -> FrictionalHit:
    """One impact; ``velocity`` closes along ``normal``."""
    # In units in which the velocity and the compliance along the normal are one; the normal is the third axis.
    speed, ease = float(np.linalg.norm(velocity)), float(normal @ compliance @ normal)
    axes = np.vstack([np.linalg.svd(normal[None])[2][1:], normal])
    c, w = axes @ compliance @ axes.T / ease, axes @ velocity / speed
    schedule = _HitIntegration(c, w, restitution, friction, hypothesis)
    impulse, after = schedule.end.impulse @ axes, schedule.end.velocity @ axes
    return FrictionalHit(impulse * speed / ease, after * speed, schedule.stopped)


class _HitIntegration:
    """Integration from touch to separation: sliding while the direction changes, straight sliding, and the motion after
    it.

    Axes are two tangents and the normal.
    """

    def __init__(self, c: Array, w: Array, e: float, mu: float, hypothesis: str) -> None:
        self.c, self.mu, self.e, self.hypothesis = c, mu, e, hypothesis
        self.closing = float(w[2])
        self.chi = damping_number(e) / self.closing if hypothesis == "contact" and e > 0.0 else 0.0
        self.compressed: _Point | None = None  # where compression ends
        self.stopped = np.nan
        self.end, over = self._slide(_Point(w, np.zeros(3), 0.0))
        if not over:
            before = self.end.impulse[2]
            self.end, over = self._slide_straight(self.end, np.append(self._sticking_friction(), 1.0))
            self.stopped = float(before / self.end.impulse[2])
        if not (over and np.isfinite(self.end.impulse).all()):
            raise SimulationError("the impact does not end", place="contact")

    def _end_condition(self) -> Array:
        """Coefficients a of the remaining quantity, a . (u, p, work, 1): of compression, then of the impact; positive
        until the end.
        """
        if self.compressed is None:
            return np.array([1.0, 0.0, 0.0, 0.0])
        if self.e == 0.0 or self.hypothesis == "newton":
            return np.array([1.0, 0.0, 0.0, self.e * self.closing])
        if self.hypothesis == "poisson":
            return np.array([0.0, -1.0, 0.0, (1.0 + self.e) * self.compressed.impulse[2]])
        # Work is counted from the touch: the part 1 - e^2 of the work of compression stays in the contact.
        kept = 0.0 if self.hypothesis == "contact" else (1.0 - self.e**2) * self.compressed.work
        return np.array([0.0, 0.0, 1.0, -kept])

    def _end_value(self, at: _Point) -> float:
        return float(self._end_condition() @ [at.velocity[2], at.impulse[2], at.work, 1.0])

    def _slide(self, point: _Point) -> tuple[_Point, bool]:
        """Slide until sliding stops or the impact is over, and report which."""
        # At most two parts: compression and restitution, each ended by its own event.
        for _ in range(2):
            if self._slides_straight(point):
                break
            point, reached = self._slide_along_curve(point)
            if not reached:
                break
            ended, self.compressed = self.compressed is not None, self.compressed or point
            if ended or self._end_value(point) <= 0.0 or self.e == 0.0:
                return point, True
        slip = float(np.hypot(*point.velocity[:2]))
        if slip <= 2.0 * STOPPED:
            return point, False
        push = np.append(self.mu * point.velocity[:2] / slip, 1.0)
        # Along a settled direction slip falls linearly with p and stops after slip / braking; it never does where the
        # coupling through C_tn speeds it up.
        braking = float(point.velocity[:2] @ (self.c @ push)[:2]) / slip
        return self._slide_straight(point, push, slip / braking if braking > 0.0 else np.inf)

    def _direction_rate(self, direction: Array) -> float:
        """Rate of change of the sliding direction, per unit of normal impulse and of slip."""
        pull = self.c[:2] @ np.append(self.mu * direction, 1.0)
        return float(direction[0] * pull[1] - direction[1] * pull[0])

    def _slides_straight(self, at: _Point) -> bool:
        """Whether it does not slide, or slides in a constant direction."""
        slip = float(np.hypot(*at.velocity[:2]))
        if slip <= 2.0 * STOPPED:
            return True
        return abs(self._direction_rate(at.velocity[:2] / slip)) <= 2.0 * SETTLED * float(np.linalg.norm(self.c[:2]))

    def _slide_along_curve(self, start: _Point) -> tuple[_Point, bool]:
        """Slide until the condition of :meth:`_end_condition`, until sliding stops or its direction is constant;
        whether the first.
        """
        ensure_loops()
        code, ends = _compile_curved_sliding()
        slip, u = np.hypot(*start.velocity[:2]), start.velocity[2]
        # A unit of sigma about 1/1024 of the compression: the solver locates events to an absolute share of a unit.
        unit = min(1.0, self.closing / slip) / (1.0 + self.chi * self.closing) / _UNITS
        inp, places = np.zeros(code.n_in), code.inputs
        inp[places["compliance"]], inp[places["until"]] = self.c.ravel(), self._end_condition()
        inp[places["numbers"]] = self.mu, self.chi, unit
        watched = Functions(ends.address(1), ends.n_in, [-1] * 3, [True] * 3)
        system = make_system(make_code(code.address(1), 7, 7), inp, code.n_out, merge([], 1e15), functions=watched)
        stage = make_solver_phase(system, Options(1, 0.0, _RTOL, np.full(7, _ATOL), np.inf, _MAX_STEPS, 1))
        angle = np.arctan2(start.velocity[1], start.velocity[0])
        if stage.run(np.array([np.log(slip), angle, u, *start.impulse, start.work])) != EndReason.TERMINAL_EVENT:
            raise SimulationError("the impact does not end", place="contact")
        log_s, angle, u, *impulse, work = system.work.y
        slip = np.exp(log_s) * np.array([np.cos(angle), np.sin(angle)])
        return _Point(np.append(slip, u), np.array(impulse), float(work)), stage.record.log[0, 2] == 0.0

    def _slide_straight(self, start: _Point, push: Array, most: float = np.inf) -> tuple[_Point, bool]:
        """Continue with a constant push for this normal impulse or until the impact is over, and report which."""
        pull = self.c @ push
        u, fall = float(start.velocity[2]), float(pull[2])

        def point_after(p: float) -> _Point:
            middle = u - 0.5 * fall * p
            if self.chi and abs(fall * p) > 1e-7 * abs(u):  # else the midpoint has all digits
                work = (self._velocity_integral(u) - self._velocity_integral(u - fall * p)) / fall
            else:
                work = p * middle / (1.0 + self.chi * middle)
            return _Point(start.velocity - p * pull, start.impulse + p * push, start.work + work)

        # Compression may end inside this straight part; its impulse and work are needed by the hypotheses.
        if self.compressed is None and fall > 0.0 and u / fall <= most:
            self.compressed = point_after(u / fall)
        rest = np.inf if self.compressed is None else self._rest(start, u, fall)
        over = bool(rest <= most)
        return point_after(rest if over else most), over

    def _sticking_friction(self) -> Array:
        """Friction (2) on the first surface per unit of normal impulse, when nothing slides."""
        tt, tn = self.c[:2, :2], self.c[:2, 2]
        f = np.linalg.solve(tt, -tn)
        if np.linalg.norm(f) > self.mu:

            def friction_at(bend: float) -> Array:
                return np.asarray(np.linalg.solve(self.mu * tt + bend * np.eye(2), -tn), dtype=np.float64)

            # Bracket of the root: |along(0)| > 1 since sticking needs more than mu, and for bend = 2 |C_tn| the
            # solution is shorter than |C_tn| / bend = 1/2 because C_tt is positive definite.
            most = 2.0 * float(np.linalg.norm(tn))
            bend = brentq(lambda x: float(np.linalg.norm(friction_at(x))) - 1.0, 0.0, most, xtol=1e-300, rtol=1e-15)
            f = self.mu * friction_at(bend)
        return np.asarray(f, dtype=np.float64)

    def _velocity_integral(self, u: float) -> float:
        """The integral of u / (1 + chi u) du."""
        # 1 + chi u > 0 on every true path; rounding at a small e may touch -1, where the logarithm ends.
        x = max(self.chi * u, np.nextafter(-1.0, 0.0))
        return float((x - np.log1p(x)) / self.chi**2)

    def _rest(self, start: _Point, u: float, fall: float) -> float:
        """Remaining normal impulse on a straight path; infinite if it does not end."""
        left = self._end_value(start)
        if self.e == 0.0 or self.hypothesis == "newton":
            return left / fall if fall > 0.0 else np.inf
        if self.hypothesis == "poisson":
            return left
        if self.chi and fall != 0.0:
            # 1 + chi u' = exp(z): u' itself cannot be distinguished from -1 / chi where e is small.
            whole = self.chi**2 * (self._velocity_integral(u) + fall * start.work)
            if whole < 0.0 or (fall < 0.0 < u):
                return np.inf
            z = brentq(lambda z: np.expm1(z) - z - whole, -2.0 - whole, 0.0, xtol=1e-300, rtol=1e-15)
            return float(u - np.expm1(z) / self.chi) / fall
        # Energetic: the work left is a quadratic in p. Of its two roots the later one ends the hit; in the second form
        # of the result nothing cancels.
        root = float(np.sqrt(max(square := u * u + 2.0 * fall * left, 0.0)))
        if square < 0.0 or (fall <= 0.0 < u):
            return np.inf
        return (u + root) / fall if u > 0.0 else 2.0 * left / (root - u)
