"""A hit with Coulomb friction: Routh's integration over the normal impulse, in space.

With the compliance C = S (G1* + G2*) S^T of the contact point (3 x 3) and the relative velocity w = v2 - v1, the normal
impulse p on the first system takes the place of time. While surfaces slide along t (the direction of w_t), friction
is mu t::

    dw/dp = -C (n + mu t)

In space t turns meanwhile. Where sliding stops, f = -C_tt^-1 C_tn is what it takes to stick: if that is at most mu the
surfaces do, else they slide anew along the one t that stays, (mu C_tt + lambda) t = -C_tn with lambda > 0. The hit ends
by a hypothesis of restitution, of the closing speed u = n . w::

    newton      u' = -e u
    poisson     p' = (1 + e) p_c, where u(p_c) = 0
    energetic   the normal force gives back e^2 of the work put in (Stronge): never more energy than there was
    contact     the integral of u / (1 + chi u) dp vanishes: what ``simulate.Contact`` of the same
                restitution tends to as its stiffness grows, tangentially faster than along the normal

For a hit that slides in one direction throughout, or not at all, all four are the same; for e = 0 always, and for e = 1
the last two. After E. J. Routh, Dynamics of a System of Rigid Bodies (1905); W. J. Stronge, Impact Mechanics (2000);
J. A. Batlle, J. Applied Mechanics 63 (1996).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from spacearm.errors import SimulationError
from spacearm.mechanics.contact import damping_number
from spacearm.typing import Array

Hypothesis = Literal["newton", "poisson", "energetic", "contact"]
HYPOTHESES: tuple[str, ...] = get_args(Hypothesis)
#: Sliding has stopped where it is this slow, relative to the velocity before.
STOPPED = 1e-14
_RTOL, _ATOL = 1e-12, 1e-15


class Hit(NamedTuple):
    """Impulse on the first system (3), relative velocity after (3), share of the normal impulse at which sliding stops
    (NaN where it never does)."""

    impulse: Array
    after: Array
    stopped: float


class Sliding(NamedTuple):
    """What surfaces did in hits with friction.

    Args:
        before, after: velocity (..., 3) of the second surface along the first, m/s, world axes.
        stopped: share of the normal impulse (...) at which sliding stopped, NaN where it never did.
    """

    before: Array
    after: Array
    stopped: Array

    @property
    def words(self) -> Array:
        """``slides`` throughout, ``sticks`` in the end, or ``slides anew`` after it stopped."""
        still = np.linalg.norm(self.after, axis=-1) <= 1e-9 * np.linalg.norm(self.before, axis=-1)
        return np.where(np.isnan(self.stopped), "slides", np.where(still, "sticks", "slides anew"))


class _Point(NamedTuple):
    """A place on the way: relative velocity, impulse, and the integral of u (or of u / (1 + chi u)) dp."""

    velocity: Array
    impulse: Array
    work: float


def frictional_hit(
    compliance: Array, velocity: Array, normal: Array, restitution: float, friction: float, hypothesis: str
) -> Hit:
    """One hit; ``velocity`` closes along ``normal``."""
    # In units in which the velocity and the compliance along the normal are one.
    speed, ease = float(np.linalg.norm(velocity)), float(normal @ compliance @ normal)
    course = _Course(compliance / ease, velocity / speed, normal, restitution, friction, hypothesis)
    return Hit(course.end.impulse * speed / ease, course.end.velocity * speed, course.stopped)


class _Course:
    """The way from touch to parting: sliding while the direction turns, then a straight rest."""

    def __init__(self, c: Array, w: Array, n: Array, e: float, mu: float, hypothesis: str) -> None:
        self.c, self.n, self.mu, self.e, self.hypothesis = c, n, mu, e, hypothesis
        self.across = np.eye(3) - np.outer(n, n)
        self.closing = float(n @ w)
        self.chi = damping_number(e) / self.closing if hypothesis == "contact" and e > 0.0 else 0.0
        self.turned: _Point | None = None  # where compression ends
        self.stopped = np.nan
        point = self._slide(_Point(w, np.zeros(3), 0.0))
        self.end = point if self._over(point) else self._straight(point)

    def _over(self, at: _Point) -> bool:
        return self.turned is not None and bool(self._left(at) <= 1e-13)

    def _left(self, at: _Point) -> float:
        """What is left until the end, of a point after compression: positive until then."""
        u = float(self.n @ at.velocity)
        assert self.turned is not None
        if self.e == 0.0 or self.hypothesis == "newton":
            return u + self.e * self.closing
        if self.hypothesis == "poisson":
            return float((1.0 + self.e) * (self.n @ self.turned.impulse) - self.n @ at.impulse)
        return at.work if self.hypothesis == "contact" else at.work - (1.0 - self.e**2) * self.turned.work

    def _slide(self, start: _Point) -> _Point:
        """Until sliding stops or the hit is over.

        The variable is sigma, d sigma = dp / (|w_t| (1 + chi u)): nothing is divided by a speed that vanishes.
        """
        point = start
        for until in (lambda at: float(self.n @ at.velocity), self._left):
            if until == self._left:
                self.turned = point
            if until(point) > 0.0 and self._slides(point):
                point = self._slide_until(point, until)
            if not self._slides(point):
                break
        return point

    def _slip(self, at: _Point) -> float:
        return float(np.linalg.norm(self.across @ at.velocity))

    def _slides(self, at: _Point) -> bool:
        return self._slip(at) > 2.0 * STOPPED

    def _slide_until(self, start: _Point, until: Callable[[_Point], float]) -> _Point:
        def rate(_: float, y: Array) -> Array:
            slip, u = self.across @ y[:3], float(self.n @ y[:3])
            size, slow = float(np.sqrt(slip @ slip)), 1.0 + self.chi * u
            push = size * self.n + self.mu * slip
            return slow * np.concatenate([-self.c @ push, push, [size * u / max(slow, 1e-300)]])

        def point(y: Array) -> _Point:
            return _Point(y[:3], y[3:6], float(y[6]))

        stops = [lambda _, y: until(point(y)), lambda _, y: self._slip(point(y)) - STOPPED]
        for stop in stops:
            stop.terminal, stop.direction = True, -1.0  # type: ignore[attr-defined]
        y = np.concatenate([start.velocity, start.impulse, [start.work]])
        with np.errstate(all="ignore"):  # a step that is too long overflows, and is taken back
            found = solve_ivp(
                rate, (0.0, np.inf), y, method="DOP853", rtol=_RTOL, atol=_ATOL, events=stops, first_step=1e-3
            )
        if found.status != 1:
            raise SimulationError("the hit does not come to an end", place="contact")
        return point(found.y[:, -1])

    def _straight(self, start: _Point) -> _Point:
        """From where sliding stops: stuck, or sliding in a direction that stays; in closed form."""
        push = self.n + self._held()
        u, fall = float(self.n @ start.velocity), float(self.n @ self.c @ push)

        def after(p: float) -> _Point:
            speed = u - fall * p
            work = 0.5 * (u * u - speed * speed) / fall
            if self.chi:
                work = (self._stored(u) - self._stored(speed)) / fall
            return _Point(start.velocity - p * (self.c @ push), start.impulse + p * push, start.work + work)

        before = float(self.n @ start.impulse)
        if self.turned is None:
            self.turned = after(u / fall)
        point = after(self._rest(start, u, fall))
        self.stopped = before / float(self.n @ point.impulse)
        return point

    def _held(self) -> Array:
        """Friction on the first surface for a unit of normal impulse, where nothing slides."""
        basis = np.linalg.svd(self.n[None])[2][1:]
        tt, tn = basis @ self.c @ basis.T, basis @ self.c @ self.n
        f = np.linalg.solve(tt, -tn)
        if np.linalg.norm(f) > self.mu:

            def along(bend: float) -> Array:
                return np.linalg.solve(self.mu * tt + bend * np.eye(2), -tn)

            most = 2.0 * float(np.linalg.norm(tn))
            bend = brentq(lambda x: float(np.linalg.norm(along(x))) - 1.0, 0.0, most, xtol=1e-300, rtol=1e-15)
            f = self.mu * along(bend)
        return np.asarray(basis.T @ f)

    def _stored(self, u: float) -> float:
        """The integral of u / (1 + chi u) du."""
        return float((self.chi * u - np.log1p(self.chi * u)) / self.chi**2)

    def _rest(self, start: _Point, u: float, fall: float) -> float:
        """Normal impulse that is left."""
        assert self.turned is not None
        if self.e == 0.0 or self.hypothesis == "newton":
            return (u + self.e * self.closing) / fall
        if self.hypothesis == "poisson":
            return float(self.n @ ((1.0 + self.e) * self.turned.impulse - start.impulse))
        if self.chi:
            # 1 + chi u' = exp(z): u' itself cannot be told from -1 / chi where e is small.
            whole = self.chi**2 * (self._stored(u) + fall * start.work)
            z = brentq(lambda z: np.expm1(z) - z - whole, -2.0 - whole, 0.0, xtol=1e-300, rtol=1e-15)
            return float(u - np.expm1(z) / self.chi) / fall
        give = start.work if self.hypothesis == "contact" else start.work - (1.0 - self.e**2) * self.turned.work
        return float(u + np.sqrt(u * u + 2.0 * fall * give)) / fall
