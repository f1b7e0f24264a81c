"""Where a capsule meets a capsule: two places on the line along which they lie, in closed form on CasADi scalars.

Two axes that cross are nearest at one pair of points, two that are parallel along a whole stretch, of which the nearest
pair is any: at the smallest rotation it jumps from one end to the other. The ends of the stretch do not jump. So both
places begin where one axis ends beside the other, and move towards the nearest pair as the angle of the axes grows: no
further from it than ``_REACH`` of both radii divided by the sine of that angle. Axes that clearly cross have one place.

The nearest pair of two segments is that of C. Ericson, Real-Time Collision Detection (2005), section 5.1.9. Lengths in
m. The gap at a place is the true distance there, both shifted so that the least is the distance of the capsules.
"""

from __future__ import annotations

import casadi as ca

from spacearm.mechanics.patches import Place
from spacearm.mechanics.spatial import SX

#: Distance of a place from the nearest pair times the sine of the angle between the axes, of the sum of the radii.
_REACH = 0.05
#: Sine of the angle between the axes up to which there are two places, and from which on there is one.
_ALONG, _ACROSS = 0.25, 0.5
#: Length of the stretch below which its ends become one place, of the smaller radius.
_TOGETHER = 0.1
#: Least lift of a place that does not count, of the smaller radius; twice the penetration is added to it.
_LIFT = 1e-3
_TINY = 1e-200


def _clip(value: SX, low: float | SX, high: float | SX) -> SX:
    return ca.fmin(ca.fmax(value, low), high)


def nearest_on_segment(point: SX, a: SX, b: SX) -> SX:
    """The point of a segment that is nearest to a point."""
    along = b - a
    return a + _clip(ca.dot(point - a, along) / ca.dot(along, along), 0, 1) * along


def _nearest_share(a: tuple[SX, SX], b: tuple[SX, SX]) -> SX:
    """Where the first of two segments is nearest to the second: between the lines if both points lie within, else at
    one of four ends. 0 at its start, 1 at its end."""
    d1, d2, apart = a[1] - a[0], b[1] - b[0], a[0] - b[0]
    aa, bb, ab = ca.dot(d1, d1), ca.dot(d2, d2), ca.dot(d1, d2)
    p, q = ca.dot(d1, apart), ca.dot(d2, apart)
    det = aa * bb - ab * ab
    # det / (aa bb) is the squared sine of the angle: below 1e-12 lines count as parallel, and the ends alone decide.
    # The distance is then off by no more than the lines diverge over their length.
    crossing = det > 1e-12 * aa * bb
    safe = ca.if_else(crossing, det, 1)
    s, t = (ab * q - bb * p) / safe, (aa * q - ab * p) / safe
    inside = ca.logic_and(ca.logic_and(crossing, ca.logic_and(s >= 0, s <= 1)), ca.logic_and(t >= 0, t <= 1))
    # Where the lines' nearest points lie beyond a segment, the nearest pair has an end of one of the two.
    shares = [ca.SX(0), ca.SX(1), *(_clip(ca.dot(end - a[0], d1) / aa, 0, 1) for end in b)]
    best, least = ca.SX(0), ca.SX(0)
    for k, share in enumerate(shares):
        point = a[0] + share * d1
        square = ca.sumsqr(nearest_on_segment(point, *b) - point)
        closer = square < least if k else ca.SX(1)
        best, least = ca.if_else(closer, share, best), ca.if_else(closer, square, least)
    return ca.if_else(inside, _clip(s, 0, 1), best)


def capsule_capsule(
    first: tuple[SX, SX], second: tuple[SX, SX], radii: tuple[float, float], fallback: SX
) -> list[Place]:
    """Two places of capsules about these segments; ``fallback`` is the normal where their axes meet."""
    reach, thin = sum(radii), min(radii)
    start, along = first[0], first[1] - first[0]
    length = ca.sqrt(ca.dot(along, along))
    own = along / length
    other = second[1] - second[0]
    cross = ca.cross(own, other)
    sine = ca.sqrt(ca.dot(cross, cross) / ca.dot(other, other) + _TINY)

    # The stretch beside the other capsule, in arc length on the first axis: its ends do not depend on small angles.
    ends = [ca.dot(end - start, own) for end in second]
    low, high = (_clip(end(*ends), 0, length) for end in (ca.fmin, ca.fmax))
    nearest = length * _nearest_share(first, second)
    far = _REACH * reach / ca.fmax(sine, 1e-9)
    low, high = nearest + _clip(low - nearest, -far, 0), nearest + _clip(high - nearest, 0, far)
    # What becomes one place does so in the middle of a short stretch, and at the nearest pair of axes that cross: this
    # pair jumps only where the axes are parallel, and does not count there.
    crossed = _clip((sine - _ALONG) / (_ACROSS - _ALONG), 0, 1)
    short = _clip(1 - (high - low) / (_TOGETHER * thin), 0, 1)
    one = 1 - (1 - crossed) * (1 - short)
    target = crossed * nearest + (1 - crossed) * 0.5 * (low + high)

    def touch(share: SX) -> tuple[SX, SX, SX]:
        """Gap, point on the first surface and normal where the first axis has come this far."""
        centre = start + share * own
        apart = nearest_on_segment(centre, *second) - centre
        distance = ca.sqrt(ca.dot(apart, apart) + _TINY)
        normal = ca.if_else(distance > 1e-90, apart / distance, fallback)
        return distance - reach, centre + radii[0] * normal, normal

    least, _, _ = touch(nearest)
    places = [touch(end + one * (target - end)) for end in (low, high)]
    # A second place that has become one with the first must not count twice: it is lifted clear of the contact, by more
    # than any penetration, and so exerts nothing.
    lifted = places[0][0], places[1][0] + one * (_LIFT * thin + 2 * ca.fmax(-least, 0))
    # The least gap is the capsules' true distance, at which the contact law's depth is measured.
    shift = least - ca.fmin(*lifted)
    gaps = [gap + shift for gap in lifted]
    return [(gap, point + 0.5 * gap * normal, normal) for gap, (_, point, normal) in zip(gaps, places, strict=True)]
