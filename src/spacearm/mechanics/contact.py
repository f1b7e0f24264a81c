"""The force between two surfaces that touch: normal force with dissipation, Coulomb friction that sticks.

Normal: ``N = k d^n (1 + chi d')`` with the indentation d, n = 1 (linear) or 3/2 (Hertz), after K. H. Hunt and
F. R. E. Crossley, J. Applied Mechanics 42 (1975). Two bodies alone part at e times their closing speed v where, with
``x = chi v``::

    x (1 + e) = ln((1 + x) / (1 - e x))

whatever stiffness, exponent and masses are: the restitution e asked for gives x, the speed at touch gives chi. That is
the law of a blow. A touch that lasts much longer, or is too slow for a blow, has settled: ``N = k d^n + c d'`` with the
damper c that lets a given mass come to rest at once.

Tangential: surfaces stick with an elastic displacement s and ``f = -k_t (s + T v)``, v the slip velocity, T = chi d in
a blow and that of a damper like c beside it or, once settled, alone; cut to a length of mu N, until the spring alone,
``k_t |s|``, and the whole exceed that. Then they slip with ``f = -mu N u``. The direction u follows the slip velocity
over a length of ``R = mu N / k_t``, the displacement at which surfaces slip. They stick again where the displacement
would have to shrink faster than R does: ``u . v < dR/dt``. Nothing creeps.

Torsion about the normal, of a patch with the effective radius r, is the same in one dimension: twist in place of
displacement, spin in place of slip, ``mu N r`` in place of ``mu N``, ``k_t r^2`` in place of ``k_t``.

World axes, SI units. The discrete state (open, stuck, slipping) changes only at events that the integrator locates, by
the maps ``touched``, ``slipped`` and ``stuck``; between events all forces are continuous, with kinks where
they are cut. Adhesion, rolling friction and a static coefficient above the sliding one are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np

from spacearm.mechanics.shapes import Touch, length_of
from spacearm.mechanics.spatial import SX

#: Smallest restitution that a law gives: below it the damper would be stiff beyond use. 0 is met within that.
LEAST_RESTITUTION = 5e-4
#: Slip after which the direction of friction has followed, at least, m: of surfaces as stiff along as across. It goes
#: to zero with k / k_t, as R does: so that stiff contacts tend to Coulomb's law.
_SHORTEST = 2e-5
#: Damping ratio of a touch that has settled, of the mass that is given.
_RATIO = 0.7
#: After so many radians of the spring with that mass a touch has settled: the longest blow, of the least restitution,
#: takes about 70.
SETTLING = 500.0
#: In place of chi: of a touch that has settled.
SETTLED = -1.0
#: States of a contact in its memory.
OPEN, STUCK, SLIPPING = 0, 1, 2


def damping_number(restitution: float) -> float:
    """x = chi v of a restitution from 0 to 1 (see the module's text), by bisection on ``e x``."""
    e = max(float(restitution), LEAST_RESTITUTION)
    if e >= 1.0:
        return 0.0
    # z = e x lies in (0, 1); 1 - z falls below what a float can tell it from 0 for small e, where z = 1 will do.
    z = min(1.5 * (1.0 / e**2 - 1.0) / (1.0 / e**3 + 1.0), 1.0 - 1e-9)
    # Bisection, because the residual is nearly vertical at z = 1; 200 halvings pass the resolution of a float.
    low, high = 0.3 * z, 1.0
    for _ in range(200):
        value = np.log1p(z / e) - np.log1p(-z) - z * (1.0 + e) / e if z < 1.0 else np.inf
        low, high = (z, high) if value < 0.0 else (low, z)
        z = 0.5 * (low + high)
    return float(z / e)


@dataclass(frozen=True)
class ContactLaw:
    """Symbols of a contact law's numbers."""

    stiffness: SX  # N/m, or N/m^1.5 for Hertz
    hertz: bool
    damping: SX  # the damping number x
    slowest: SX  # m/s: a touch below it is not a blow
    mass: SX  # kg, that a touch which has settled is damped for
    friction: SX | None = None
    tangential: SX | None = None  # N/m
    damped: SX | None = None  # whether the tangential spring has a damper of its own in blows too
    patch: SX | None = None  # m, effective radius of torsional friction

    def elastic(self, depth: SX) -> SX:
        # 1e-300 under the root: its derivative at zero depth stays finite.
        deep = ca.fmax(depth, 0)
        return self.stiffness * deep * (ca.sqrt(deep + 1e-300) if self.hertz else 1)

    def spring_energy(self, depth: SX) -> SX:
        """Energy in the normal spring, J."""
        return self.elastic(depth) * ca.fmax(depth, 0) / (2.5 if self.hertz else 2.0)

    def normal(self, depth: SX, rate: SX, chi: SX) -> SX:
        """Normal force, N, at an indentation (m) that grows at ``rate``."""
        # Settled, the damper follows the slope of the spring at this depth: the damping ratio is the same at any load.
        steepness = self.stiffness * (1.5 * ca.sqrt(ca.fmax(depth, 0) + 1e-300) if self.hertz else 1)
        damper = 2 * _RATIO * ca.sqrt(steepness * self.mass)
        elastic = self.elastic(depth)
        return ca.if_else(chi < 0, elastic + damper * rate, elastic * (1 + chi * rate))

    def chi(self, rate: SX) -> SX:
        """Damping number chi of a contact that closes at this rate, s/m."""
        return ca.if_else(rate > self.slowest, self.damping / ca.fmax(rate, self.slowest), SETTLED)

    def lag(self, depth: SX, chi: SX) -> SX:
        """T, s: what the tangential damper is to its spring."""
        assert self.damped is not None
        damper = 2 * _RATIO * ca.sqrt(self.mass / self.tangential)
        return ca.if_else(chi < 0, damper, chi * ca.fmax(depth, 0) + self.damped * damper)

    def duration(self, rate: SX) -> SX:
        """Time, s, after which a touch that began at this rate has settled."""
        speed = ca.fmax(rate, self.slowest)
        depth = speed * ca.sqrt(self.mass / self.stiffness)
        if self.hertz:
            depth = (1.25 * self.mass * speed**2 / self.stiffness) ** 0.4
        return SETTLING * depth / speed


@dataclass(frozen=True)
class ContactForces:
    """What acts at a touch, and what its memory does.

    Memory: state, chi, time at which it settles (s), with friction s or u (3).
    """

    size: SX  # of the normal force, N
    tangential: SX  # (3,) on the second body
    slip: SX  # (3,) velocity of the second surface on the first, m/s
    rate: SX  # of the memory
    touched: SX  # the memory after touch
    slipped: SX | None  # after it breaks loose
    stuck: SX | None  # after it sticks again
    strength: SX | None  # what is left of friction's strength while it sticks, N2
    radius: SX | None  # R, m
    stored: SX  # elastic energy, J


def contact_forces(law: ContactLaw, touch: Touch, velocity: SX, time: SX, memory: SX) -> ContactForces:
    """Forces of a touch whose second body moves at ``velocity`` relative to the first there."""
    state, chi, until = memory[0], memory[1], memory[2]
    depth, normal = -touch.gap, touch.normal
    closing = -ca.dot(normal, velocity)
    closed = state > 0.5
    # Never a pull: surfaces that part faster than the spring follows carry nothing.
    size = ca.if_else(closed, ca.fmax(law.normal(depth, closing, chi), 0), 0)
    stored = ca.if_else(closed, law.spring_energy(depth), 0)
    slip = velocity + normal * closing
    fresh, end = law.chi(closing), time + law.duration(closing)
    if law.friction is None or law.tangential is None:
        nothing = ca.SX.zeros(3)
        return ContactForces(size, nothing, slip, ca.SX.zeros(3), ca.vertcat(STUCK, fresh, end), *(None,) * 4, stored)
    stiff, bound = law.tangential, law.friction * size
    # The normal turns with the bodies: what of the stored displacement lies along it now is not a tangential spring.
    s = memory[3:6] - normal * ca.dot(normal, memory[3:6])
    slipping = state > 1.5
    full = stiff * (s + law.lag(depth, chi) * slip)
    pull = full * ca.fmin(1, bound / length_of(full))
    along = s / length_of(s)
    radius = bound / stiff
    shortest = _SHORTEST * (1 if law.hertz else law.stiffness / stiff)
    # Only the part across u turns it, so that u keeps its length; over R + shortest, which keeps the rate finite where
    # the normal force, and R with it, vanishes.
    follow = (slip - along * ca.dot(along, slip)) / (radius + shortest)
    tangential = -ca.if_else(closed, ca.if_else(slipping, bound * along, pull), 0)
    rate = ca.if_else(closed, ca.if_else(slipping, follow, slip), 0)
    # At touch the bound grows from zero: slow slip sticks to it, fast slip outruns it. Where the touch is not a blow,
    # the load makes it grow, which is not known here: surfaces stick at first, and slip at once if that is too little.
    growth = 0 if law.hertz else law.friction * law.stiffness * closing * (1 + ca.fmax(fresh, 0) * closing) / stiff
    speed = length_of(slip)
    fast = ca.logic_and(speed > growth, fresh >= 0)
    at_touch = ca.if_else(fast, slip / speed, 0)
    # While it slips the spring is stretched by R: its energy is 1/2 k_t R^2, and the ledger needs it.
    spring = ca.if_else(slipping, 0.5 * bound * radius, 0.5 * stiff * ca.dot(s, s))
    return ContactForces(
        size,
        tangential,
        slip,
        ca.vertcat(0, 0, 0, rate),
        ca.vertcat(ca.if_else(fast, SLIPPING, STUCK), fresh, end, at_touch),
        ca.vertcat(SLIPPING, chi, until, pull / length_of(pull)),
        ca.vertcat(STUCK, chi, until, radius * along),
        bound * bound - ca.fmin(ca.dot(full, full), stiff * stiff * ca.dot(s, s)),
        radius,
        stored + ca.if_else(closed, spring, 0),
    )


@dataclass(frozen=True)
class ContactTorsion:
    """Moment of friction about the normal, and what its memory does. Memory: state, twist or sense of the spin."""

    moment: SX  # on the second body, N m
    rate: SX  # of the memory
    touched: SX  # the memory after touch
    slipped: SX  # after it breaks loose
    stuck: SX  # after it sticks again
    strength: SX  # what is left of its strength while it sticks, (N m)2
    radius: SX  # twist at which it slips, rad
    stored: SX  # elastic energy, J


def contact_torsion(
    law: ContactLaw, touch: Touch, closing: SX, size: SX, chi: SX, angular_rate: SX, memory: SX
) -> ContactTorsion:
    """Moment about the normal in a patch of contact.

    ``angular_rate`` is that of the second body against the first, rad/s; ``size`` the normal force, N.
    """
    assert law.friction is not None
    assert law.tangential is not None
    assert law.patch is not None
    state, s = memory[0], memory[1]
    closed, slipping = state > 0.5, state > 1.5
    # A rotation shears a patch of radius r by r times the angle, and its force has the arm r: stiffness k_t r^2, and at
    # most the moment mu N r.
    stiff, bound = law.tangential * law.patch**2, law.friction * size * law.patch
    full = stiff * (s + law.lag(-touch.gap, chi) * angular_rate)
    pull, radius = ca.fmax(-bound, ca.fmin(bound, full)), bound / stiff
    fresh = law.chi(closing)
    # While a touch begins, the bound grows with the normal force. A rotation that is faster than the bound over the
    # stiffness grows slips at once. Hertz's force has no slope at first: there any rotation slips.
    growth = (
        0
        if law.hertz
        else law.friction * law.stiffness * closing * (1 + ca.fmax(fresh, 0) * closing) * law.patch / stiff
    )
    fast = ca.logic_and(ca.fabs(angular_rate) > growth, fresh >= 0)
    sense = ca.if_else(angular_rate >= 0, 1, -1)
    spring = ca.if_else(slipping, 0.5 * bound * radius, 0.5 * stiff * s * s)
    return ContactTorsion(
        -ca.if_else(closed, ca.if_else(slipping, bound * s, pull), 0),
        ca.vertcat(0, ca.if_else(ca.logic_and(closed, ca.logic_not(slipping)), angular_rate, 0)),
        ca.vertcat(ca.if_else(fast, SLIPPING, STUCK), ca.if_else(fast, sense, 0)),
        ca.vertcat(SLIPPING, ca.if_else(full >= 0, 1, -1)),
        ca.vertcat(STUCK, radius * s),
        # Squares, since a magnitude has a kink where the moment passes zero.
        bound * bound - ca.fmin(full * full, stiff * stiff * s * s),
        radius,
        ca.if_else(closed, spring, 0),
    )
