"""Collision of two free-floating systems: velocities after the impact from those before it.

At the common contact point the systems exchange one impulse p (force, moment; world axes): the first gets p, the second
-p, and their contact twists jump by G1* p and -G2* p. Within the directions S that the contact can push in (one normal,
three translations, all six), the relative twist w = v2 - v1 is reversed and scaled by the restitution e::

    S w' = -e S w        S (G1* + G2*) S^T p_c = (1 + e) S w        p = S^T p_c

e = 0 is Yoshida's plastic grasp (Eqs. 27, 28), e = 1 his elastic impact (Eq. 30; Eq. 29 lacks a minus sign). Between no
friction and no sliding lies Coulomb's friction: :mod:`spacearm.impact.friction`.

What is conserved: momentum, because joint torques are internal; where a base is constrained, what holds it takes its
part. Kinetic energy changes by the work of the contact, ``-p . (w' + w) / 2 <= 0`` (zero for e = 1), and by the work of
the joints, ``t . (qd' + qd) / 2`` with their reaction impulses t. A free joint does no work, a locked one none if it
stands still (else its drive does). Joints that resist with one mu change it by ``-mu (1 - mu) / 2 g^T H*^-1 g - mu g .
qd`` (g = J*^T p): from rest that is a loss, so that even an elastic contact loses energy. When they move before the
impact, or with unequal mu, Eq. 10 is not passive and may add energy, which no resistance can: such a collision is not
:attr:`~Collision.sound`. Where unequal mu go so far that the contact's compliance is not positive definite, the
collision is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from spacearm.checks import array, one_of
from spacearm.engine.device import cupy
from spacearm.errors import InputError
from spacearm.impact._joint_modes import normalise
from spacearm.impact.floating import FloatingSystem
from spacearm.impact.friction import HYPOTHESES, Hypothesis, Sliding, frictional_hit
from spacearm.model import Robot
from spacearm.result import Certificate, Check
from spacearm.simulate import Attach, State, World
from spacearm.simulate.loops import loop_terms
from spacearm.typing import Array

Kind = Literal["normal", "friction", "point", "grasp"]
KINDS: tuple[str, ...] = ("normal", "friction", "point", "grasp")
#: Largest distance (m) between the origins of the two contact frames, besides rounding at large coordinates.
TOGETHER = 1e-9
#: Largest relative change of momentum, unexplained energy and energy from resisting joints in a sound collision.
CONSERVED = 1e-12
#: Largest error of the contact twist afterwards, relative to the closing twist alone, which may be small.
RESTITUTION = 1e-10
#: How far below zero rounding may take the least eigenvalue of a compliance whose diagonal is scaled to one.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class VelocityJump:
    """Velocity jump of one system in a collision.

    Attributes:
        before, after: generalised velocity (..., 6 + n), base part in base axes.
        reaction: impulse of each joint (..., n), N m s or N s: the load on a locked or resisting joint.
        twist_before, twist_after: of the contact frame (..., 6), world axes.
        joint_work: kinetic energy (...) that the joints, and the support of the base, removed (negative) or added, J.
        resistance_work: the part of it due to joints that are not locked: removed or added by Eq. 10, J.
        support: impulse (..., 6) of what holds a constrained base, base axes at its origin; zero for a free base.
        opening: largest rate (...) of the system's closed loops afterwards, relative to its fastest joint.
    """

    before: Array
    after: Array
    reaction: Array
    twist_before: Array
    twist_after: Array
    joint_work: Array
    resistance_work: Array
    support: Array
    opening: Array

    @property
    def change(self) -> Array:
        """Jump of the generalised velocity (..., 6 + n)."""
        return self.after - self.before


@dataclass(frozen=True, eq=False)
class Collision:
    """Result of a collision; leading dimensions are those of the inputs.

    Attributes:
        impulse: on the first system (..., 6): N s, N m s; world axes, at the contact point. The second gets -impulse.
        first, second: velocity jumps of the two systems.
        energy_before, energy_after: kinetic energy of both together, J.
        contact_work: work of the contact, J; minus the energy that it dissipates.
        momentum_before, momentum_after: of both together (..., 6), about the contact point, world axes.
        momentum_residual: largest change of the momentum, relative to the sum of its parts.
        energy_residual: energy that neither contact nor joints account for, relative to the initial energy.
        closing: relative twist (..., k) along the contact's directions before; afterwards it is -e times that.
        contact_residual: relative deviation from that, computed from the velocities after; for a plastic grasp the
            difference of the two contact twists.
        sliding: behaviour of the surfaces with friction, else None.
    """

    impulse: Array
    first: VelocityJump
    second: VelocityJump
    energy_before: Array
    energy_after: Array
    contact_work: Array
    momentum_before: Array
    momentum_after: Array
    momentum_residual: Array
    energy_residual: Array
    closing: Array
    contact_residual: Array
    sliding: Sliding | None = None

    @property
    def energy_lost(self) -> Array:
        """Kinetic energy lost in contact and joints, J."""
        return self.energy_before - self.energy_after

    @property
    def added_energy(self) -> Array:
        """Energy (...) that resisting joints add where they should dissipate, J: Eq. 10 is not passive."""
        one, two = self.first.resistance_work, self.second.resistance_work
        return np.maximum(one, 0.0) + np.maximum(two, 0.0)

    @property
    def sound(self) -> bool:
        """Whether the certificate holds for every sample of a batch."""
        return self.certificate.sound

    @property
    def certificate(self) -> Certificate:
        """The largest residual of each kind over a batch, relative."""
        energy = np.maximum(self.energy_before, self.energy_after)
        added = _ratio(self.added_energy, energy)
        remark = ""
        if np.any(added > CONSERVED):
            remark = f": {np.max(self.added_energy):.3g} J, which no resistance can; lock joints, or use another mu"
        found = {
            "momentum": (self.momentum_residual, CONSERVED, "change in a collision, relative"),
            "energy_account": (
                self.energy_residual, CONSERVED, "energy that neither contact nor joints account for, relative"
            ),
            "resistance_energy": (added, CONSERVED, f"energy that resisting joints add by Eq. 10, relative{remark}"),
            "restitution": (
                self.contact_residual, RESTITUTION, "contact twist after against -e times that before, relative"
            ),
        }  # fmt: skip
        if any(np.size(system.opening) for system in (self.first, self.second)):
            opening = np.array(max(np.max(system.opening, initial=0.0) for system in (self.first, self.second)))
            found["loops"] = (opening, RESTITUTION, "rate at which closed loops open afterwards, relative")
        if self.sliding is not None:
            given = _ratio(np.maximum(self.contact_work, 0.0), energy)
            note = "energy that the contact adds, relative; the hypotheses newton and poisson may"
            found["contact_energy"] = (given, CONSERVED, note)
        return Certificate(
            {
                name: Check(float(np.max(value, initial=0.0)), allowed, "", note)
                for name, (value, allowed, note) in found.items()
            }
        )


def selection(kind: str, normal: npt.ArrayLike | None) -> Array:
    """Directions (..., k, 6) in which a contact transmits impulse, as rows."""
    one_of(kind, KINDS, "kind of contact")
    if kind in ("normal", "friction"):
        if normal is None:
            raise InputError("is missing", place="normal", hint="a contact along a normal needs a vector")
        n = normalise(normal, "normal")
        return np.concatenate([n, np.zeros_like(n)], axis=-1)[..., None, :]
    if normal is not None:
        raise InputError(f"does not apply to kind {kind!r}", place="normal", hint="omit it, or use kind = 'normal'")
    return np.eye(6)[:3] if kind == "point" else np.eye(6)


def collide(
    first: FloatingSystem,
    second: FloatingSystem,
    *,
    kind: Kind = "normal",
    normal: npt.ArrayLike | None = None,
    restitution: npt.ArrayLike = 0.0,
    friction: npt.ArrayLike | None = None,
    hypothesis: Hypothesis = "energetic",
    apart: Literal["error", "ignore"] = "error",
) -> Collision:
    """Collision of two systems whose contact frames coincide (:meth:`FloatingSystem.move_to_contact`).

    Args:
        kind: ``normal``: frictionless, along one direction; ``friction``: Coulomb's, which slides, sticks or slides
            again; ``point``: no sliding, three translations; ``grasp``: rigid, all six directions.
        normal: world vector (..., 3) along which the first system is pushed: out of the second, into the first.
        restitution: 0 (plastic) to 1 (elastic).
        friction: Coulomb's coefficient (...), for kind ``friction``.
        hypothesis: definition of restitution where friction changes the normal velocity: see
            :mod:`spacearm.impact.friction`.
        apart: treatment of systems that move apart along the normal: an ``error``, or no impulse (``ignore``, for
            batches).
    """
    e = array(restitution, "restitution", least=0.0, most=1.0, hint="expected 0 (plastic) to 1 (elastic)")
    one_of(apart, ("error", "ignore"), "apart")
    _check_together(first, second)
    if (friction is None) == (kind == "friction"):
        remark = "is missing" if friction is None else f"does not apply to kind {kind!r}"
        raise InputError(
            remark, place="friction", hint="kind = 'friction' takes Coulomb's coefficient, the others none"
        )
    one_of(hypothesis, HYPOTHESES, "hypothesis")
    rows = selection(kind, normal)
    relative = second.twist - first.twist
    closing = np.einsum("...ki,...i->...k", rows, relative)
    if kind in ("normal", "friction"):
        closing = _closing_speed(closing, apart)
    if friction is not None:
        mu = array(friction, "friction", least=0.0)
        return _collide_with_friction(first, second, rows, relative[..., :3], closing, e, mu, hypothesis)
    # The k x k system is solved for the impulse along the contact's own directions: S (G1* + G2*) S^T is regular for k
    # < 6 too, and the wrench S^T p_c has no part along which the contact cannot push.
    size = np.linalg.solve(contact_compliance(first, second, rows), ((1.0 + e)[..., None] * closing)[..., None])
    impulse = (np.swapaxes(rows, -1, -2) @ size)[..., 0]
    jumps = [_jump(first, impulse), _jump(second, -impulse)]
    return _account(first, second, jumps[0], jumps[1], rows, impulse, closing, e)


def _collide_with_friction(
    first: FloatingSystem,
    second: FloatingSystem,
    rows: Array,
    relative: Array,
    closing: Array,
    e: Array,
    mu: Array,
    hypothesis: Hypothesis,
) -> Collision:
    """Collisions with friction, one sample after the other."""
    # Friction needs all three translations of the contact point. A moment is not transmitted, so the rotational rows of
    # G* do not enter.
    compliance = contact_compliance(first, second, np.eye(6)[:3])
    shape = np.broadcast_shapes(compliance.shape[:-2], closing.shape[:-1], e.shape, mu.shape)
    impulse, slips, stopped = np.zeros((*shape, 6)), np.zeros((2, *shape, 3)), np.full(shape, np.nan)
    normal = np.broadcast_to(rows[..., 0, :3], (*shape, 3))
    c, w = np.broadcast_to(compliance, (*shape, 3, 3)), np.broadcast_to(relative, (*shape, 3))
    u, e, mu = np.broadcast_to(closing[..., 0], shape), np.broadcast_to(e, shape), np.broadcast_to(mu, shape)
    after = np.array(w)
    # Sample by sample: each hit has its own sequence of sliding and sticking, which does not vectorise.
    for k in np.ndindex(shape):
        if u[k] > 0.0:  # otherwise they move apart, and their velocities do not change
            hit = frictional_hit(c[k], w[k], normal[k], float(e[k]), float(mu[k]), hypothesis)
            impulse[k][:3], after[k], stopped[k] = hit
        slips[0][k], slips[1][k] = (x[k] - normal[k] * (normal[k] @ x[k]) for x in (w, after))
    one, two = _jump(first, impulse), _jump(second, -impulse)
    found = _account(first, second, one, two, rows, impulse, closing, e)
    # The integration over the normal impulse gives a relative velocity, the impulse through G* gives another: their
    # difference is the residual. The test against -e times the closing speed, made in _account, holds for the
    # hypothesis of Newton only.
    missed = np.abs((two.twist_after - one.twist_after)[..., :3] - after).max(axis=-1)
    residual = _ratio(missed, np.linalg.norm(w, axis=-1))
    return replace(found, contact_residual=residual, sliding=Sliding(slips[0], slips[1], stopped))


def weld_after_grasp(first: FloatingSystem, second: FloatingSystem, *, prefix: str = "") -> tuple[Robot, State]:
    """Robot and state after a plastic grasp: the second system is welded to the first's contact frame.

    The velocities are those of ``collide(first, second, kind="grasp")``. The robot has the first one's base.

    Args:
        prefix: prefix of the names of the second's parts, if both systems have parts of the same name.
    """
    _check_together(first, second)
    if any(np.any(system.modes.resistance) for system in (first, second)):
        raise InputError("joints resist partially", place="resistance", hint="a weld needs them locked or free")
    pair = {"first": first, "second": second}
    world = World({name: system.robot for name, system in pair.items()})
    states = {name: system.state for name, system in pair.items()}
    held = []
    for name, system in pair.items():
        still = zip(system.robot.joint_names, system.modes.locked, strict=True)
        held += [f"{name}/{joint}" for joint, locked in still if locked]
    # The same change as in a run in time, so that both must agree: a check of one against the other.
    changed = Attach("second", f"first/{first.frame}", held, prefix).apply(world, states)
    return changed.world.systems["first"], changed.states["first"]


def effective_mass(
    first: FloatingSystem, second: FloatingSystem, *, kind: Kind = "normal", normal: npt.ArrayLike | None = None
) -> Array:
    """(S (G1* + G2*) S^T)^-1 (..., k, k): the effective inertia at the contact; for a normal, one mass in kg.

    A CuPy array on the GPU if the arrays of one of the systems are there.
    """
    return np.linalg.inv(contact_compliance(first, second, selection(kind, normal)))  # type: ignore[return-value]


def contact_compliance(first: FloatingSystem, second: FloatingSystem, rows: Array) -> Array:
    """S (G1* + G2*) S^T (..., k, k) for the rows of S. It must be finite and positive definite."""
    one, two, there = first.response.tensor, second.response.tensor, first.is_on_gpu or second.is_on_gpu
    if there:
        rows, one, two = map(cupy().asarray, (rows, one, two))
    inner: Array = rows @ (one + two) @ np.swapaxes(rows, -1, -2)
    if not np.all(np.isfinite(inner)):
        raise InputError(
            "compliance is infinite",
            place="contact",
            hint="a system has no inertia about some axis in this configuration",
        )
    resist = any(np.any(system.modes.resistance) for system in (first, second))
    if (resist or not there) and not _positive_definite(cupy().asnumpy(inner) if there else inner):
        raise InputError(
            "compliance is not positive definite",
            place="contact",
            hint="Eq. 10 with unequal resistances is not passive here; lock joints, or take one resistance for all",
        )
    return inner


def _positive_definite(compliance: Array) -> bool:
    """Whether x^T C x > 0 for all x, independent of the units of x; only unequal resistances can violate it."""
    diagonal = np.einsum("...ii->...i", compliance)
    if np.any(diagonal <= 0.0):
        return False
    # Jacobi scaling to a unit diagonal: translations (1/kg) and rotations (1/(kg m2)) have unlike units, and a fixed
    # threshold on their eigenvalues would depend on the choice of units.
    root = np.sqrt(diagonal)
    scaled = compliance / (root[..., :, None] * root[..., None, :])
    try:
        # Cholesky on the symmetric part: with unequal resistances C is not symmetric, and x^T C x depends on the
        # symmetric part alone. The shift accepts a compliance that is singular to rounding.
        np.linalg.cholesky(0.5 * (scaled + np.swapaxes(scaled, -1, -2)) + ROUNDING * np.eye(root.shape[-1]))
    except np.linalg.LinAlgError:
        return False
    return True


def _check_together(first: FloatingSystem, second: FloatingSystem) -> None:
    if first.is_on_gpu or second.is_on_gpu:
        hint = "expected NumPy arrays: collisions are computed on the CPU"
        raise InputError("arrays are on the GPU", place="collision", hint=hint)
    gap = np.abs(first.contact_point - second.contact_point).max(axis=-1)
    reach = TOGETHER + 1e-12 * np.abs(first.contact_point).max(axis=-1)
    if np.any(gap > reach):
        raise InputError(
            f"frames {first.frame!r} and {second.frame!r} lie {float(np.max(gap)):.3g} m apart",
            place="contact",
            hint="second.move_to_contact(first) brings them together",
        )


def _closing_speed(closing: Array, apart: str) -> Array:
    if apart == "ignore":
        return np.maximum(closing, 0.0)
    if np.any(closing <= 0.0):
        where = np.argwhere(closing[..., 0] <= 0.0)[0]
        sample = f" (sample {tuple(map(int, where))})" if closing.ndim > 1 else ""
        raise InputError(
            f"the systems do not approach along the normal: {float(closing[tuple(where)][0]):.6g} m/s{sample}",
            place="contact",
            hint="no collision; the normal points out of the second system into the first",
        )
    return closing


def _jump(system: FloatingSystem, impulse: Array) -> VelocityJump:
    response = system.response
    velocity = np.asarray(system.velocity)
    after = velocity + (response.velocity @ impulse[..., None])[..., 0]
    reaction = (response.reaction @ impulse[..., None])[..., 0]
    before = np.broadcast_to(velocity, after.shape)
    # An impulse works with the mean of the velocities before and after (both jump linearly with the impulse).
    works = 0.5 * reaction * (before + after)[..., 6:]
    work, resisting = works.sum(axis=-1), ((1.0 - system.modes.locked) * works).sum(axis=-1)
    # From the velocities after, not from G*: so that equal twists after a grasp are a check and not a tautology.
    twist = np.broadcast_to(system.twist, impulse.shape)
    support = system.support(impulse, after - before)
    work = work + 0.5 * np.einsum("...i,...i->...", support, (before + after)[..., :6])
    opening = np.zeros(0)
    if system.robot.loops:
        joints, rates = np.broadcast_arrays(np.asarray(system.joints), after[..., 6:])
        left = np.abs(loop_terms(system.robot, joints, rates).rate).max(axis=-1)
        opening = _ratio(left, np.abs(after).max(axis=-1))
    return VelocityJump(before, after, reaction, twist, system.twist_at(after), work, resisting, support, opening)


def _ratio(part: Array, whole: Array) -> Array:
    """part / whole, 0 where there is no whole."""
    return np.divide(part, whole, out=np.zeros(np.broadcast_shapes(part.shape, whole.shape)), where=whole > 0.0)


def _account(
    first: FloatingSystem,
    second: FloatingSystem,
    one: VelocityJump,
    two: VelocityJump,
    rows: Array,
    impulse: Array,
    closing: Array,
    e: Array,
) -> Collision:
    """Energies and momenta before and after, each computed from the velocities alone."""
    pairs = ((first, one), (second, two))
    energy_before = first.kinetic_energy(one.before) + second.kinetic_energy(two.before)
    energy_after = first.kinetic_energy(one.after) + second.kinetic_energy(two.after)
    both = (two.twist_before - one.twist_before) + (two.twist_after - one.twist_after)
    contact_work = -0.5 * np.einsum("...i,...i->...", impulse, both)
    # Kinetic energy from the velocities, work from the impulses: two independent computations whose difference is pure
    # error.
    unexplained = energy_after - energy_before - contact_work - one.joint_work - two.joint_work
    parts = [[s.momentum(v) for v in (j.before, j.after)] for s, j in pairs]
    before, after = parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]
    # Scale of the residual: the sum of the sizes of the four momenta, not the size of their sum, which may be zero (two
    # equal bodies that meet head on). For angular momentum the arm times the linear part is added, since about a far
    # contact point it is a difference of such numbers.
    scale = np.zeros((*impulse.shape[:-1], 2))
    for (system, _), both_momenta in zip(pairs, parts, strict=True):
        arm = np.linalg.norm(system.lever, axis=-1)
        for momentum in both_momenta:
            linear, angular = np.linalg.norm(momentum[..., :3], axis=-1), np.linalg.norm(momentum[..., 3:], axis=-1)
            scale = scale + np.stack([linear, angular + arm * linear], axis=-1)
    change = after - before
    # What holds a constrained base is an external source of momentum. Its impulse is moved from the base's origin to
    # the contact point and subtracted before momentum is checked for conservation.
    for system, jump in pairs:
        rotation, arm = system.base_at_contact
        force = np.einsum("...ij,...j->...i", rotation, jump.support[..., :3])
        moment = np.einsum("...ij,...j->...i", rotation, jump.support[..., 3:]) + np.cross(arm, force)
        change = change - np.concatenate([force, moment], axis=-1)
    size = np.stack([np.linalg.norm(change[..., :3], axis=-1), np.linalg.norm(change[..., 3:], axis=-1)], axis=-1)
    residual = _ratio(size, scale).max(axis=-1)
    missed = np.abs(np.einsum("...ki,...i->...k", rows, two.twist_after - one.twist_after) + e[..., None] * closing)
    missed = _ratio(missed.max(axis=-1), np.abs(closing).max(axis=-1))
    lacking = _ratio(np.abs(unexplained), np.maximum(energy_before, energy_after))
    return Collision(
        impulse, one, two, energy_before, energy_after, contact_work, before, after, residual, lacking, closing, missed
    )
