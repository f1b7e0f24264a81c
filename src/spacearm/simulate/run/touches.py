"""Touches of contacts and stops in a run: impulse, peak force, indentation and lost energy of each.

Event functions have located the beginning and the end of each touch. Impulse and works are memory of the contact,
integrated with the state over the whole run: a touch's share is the difference of two rows. Rows are those of the
audit, at the nodes of every step, so that no touch falls between samples; a peak is the vertex of the parabola through
the largest row and its neighbours. Only rows about beginnings, ends and peaks are kept.

Newton's third law is checked too: wrenches that an element exerts between systems must add up to zero, by independent
kinematics (:mod:`spacearm.simulate.bodies`). World axes; N s, N, m, J.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from spacearm.simulate.bodies import evaluate_bodies, frame_pose
from spacearm.simulate.contact import ContactElement
from spacearm.simulate.run.ledger import ROUNDING
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.simulate.motion import WorldMotion
    from spacearm.simulate.run.segment import Occurrence
    from spacearm.simulate.world import World


#: Rows this near to an event, s, relative to the time, are at it.
SAME_TIME = 1e-14


@dataclass(frozen=True)
class TouchRecord:
    """A touch, from its beginning to its end or to the end of the run.

    ``impulse`` acts on the second body of a contact (world axes), N s; on a joint, N s or N m s, in its first entry.
    ``dissipated`` has what dampers, slip and the elastic energy left at release took; ``by_friction`` is the work put
    into the tangential force, of it. ``restitution`` is speed of parting by speed of closing; NaN while closed.
    """

    contact: str
    start: float  # s
    end: float  # s
    released: bool
    closing_speed: float  # m/s
    parting_speed: float  # m/s
    impulse: Array
    peak_force: float  # N
    indentation: float  # m, the largest
    dissipated: float  # J
    by_friction: float  # J

    @property
    def restitution(self) -> float:
        return self.parting_speed / self.closing_speed if self.released and self.closing_speed else float("nan")


@dataclass(eq=False)
class TouchLog:
    """Rows around each touch of one segment, for its report; their number does not grow with that of the steps.

    ``rows`` of each place: time, state, gap, normal force, closing speed, stored energy, works (2), impulse (3).
    """

    model: WorldMotion
    world: World
    rows: dict[str, list[Array]] = field(default_factory=dict)
    reaction: float = 0.0  # largest sum of wrenches that should be nothing, relative to them

    def add(self, audit: Array) -> None:
        """Add rows of whole steps."""
        elements = self.model.elements
        if elements is None or not len(audit):
            return
        self._add_reactions(audit)
        memory = audit[:, audit.shape[1] - elements.memory.size :]
        seen = elements.observations(self.world, audit[:, 2 : 2 + self.model.nx], audit[:, 0], memory)
        for element in self.world.elements:
            if isinstance(element, ContactElement):
                own = memory[:, elements.places[element.name]]
                for k, place in enumerate(element.places(self.world)):
                    values = [seen[f"{place}.{name}"][:, None] for name in ("gap", "normal", "closing", "stored")]
                    self._keep(place, audit[:, :1], values, element.touch_account(own, k))

    def _keep(self, place: str, times: Array, values: Sequence[Array], account: Array) -> None:
        rows = np.concatenate([times, account[:, :1], *values, account[:, 1:]], axis=1)
        closed = np.flatnonzero(rows[:, 1] > 0.5)
        # The last row of a buffer: the next buffer may begin inside a touch.
        kept = {len(rows) - 1}
        for run in np.split(closed, np.flatnonzero(np.diff(closed) > 1) + 1) if closed.size else ():
            # The row before a touch, its ends, and what lies around the largest force and the largest indentation.
            peaks = run[0] + np.array([np.argmax(rows[run, 3]), np.argmin(rows[run, 2])])
            kept |= {run[0] - 1, run[0], run[-1], *(peaks - 1), *peaks, *(peaks + 1)}
        self.rows.setdefault(place, []).append(rows[sorted(k for k in kept if 0 <= k < len(rows))])

    def _add_reactions(self, audit: Array) -> None:
        inputs = audit[:, 2:]
        for element in self.world.elements:
            if not element.internal:
                continue
            size, twist = np.zeros(len(audit)), np.zeros(len(audit))
            total = np.zeros((len(audit), 6))
            about: Array | None = None
            for system, frame in element.frames(self.world):
                part = next(part for part in self.model.parts if part.name == system)
                own = audit[:, part.audit][:, 2 : 2 + part.motion.nx]
                _, origin = frame_pose(part.motion.robot, evaluate_bodies(part.motion.robot, own), frame)
                # Moments are compared about the first frame; any common point would do.
                about = origin if about is None else about
                first = self.model.wrench(system, frame, "world", element.name)
                wrench = inputs[:, first : first + 6]
                arm = origin - about
                total += wrench
                total[:, 3:] += np.cross(arm, wrench[:, :3])
                size += np.linalg.norm(wrench[:, :3], axis=1)
                push = np.linalg.norm(wrench[:, :3], axis=1)
                twist += np.linalg.norm(wrench[:, 3:], axis=1) + np.linalg.norm(arm, axis=1) * push
            force, moment = np.linalg.norm(total[:, :3], axis=1), np.linalg.norm(total[:, 3:], axis=1)
            # Where both forces act at one point there is no moment to compare with: only what places are rounded by.
            moment = np.maximum(moment - ROUNDING * size.max(), 0.0)  # keeps a NaN
            for gap, scale in ((force, size.max()), (moment, twist.max())):
                if scale > 0.0:
                    self.reaction = float(np.maximum(self.reaction, gap.max() / scale))


def _peak(times: Array, values: Array) -> float:
    """The largest value, by the parabola through it and its neighbours."""
    k = int(np.argmax(values))
    if not 0 < k < len(values) - 1 or times[k - 1] == times[k] or times[k] == times[k + 1]:
        return float(values[k])
    t, v = times[k - 1 : k + 2] - times[k], values[k - 1 : k + 2]
    # Time scaled to the right neighbour: differences of 1e-9 s would make the fit singular.
    a, b, c = np.polyfit(t / t[2], v, 2)
    return float(c - b * b / (4.0 * a)) if a < 0.0 else float(v[1])


def collect_touches(logs: Sequence[TouchLog], events: Sequence[Occurrence], end: float) -> tuple[TouchRecord, ...]:
    """Every touch of a run, in the order of their beginnings."""
    found = []
    names = dict.fromkeys(name for log in logs for name in log.rows)
    for name in names:
        rows = np.concatenate([part for log in logs for part in log.rows.get(name, ())])
        # Touches of one place follow each other: each release ends the touch before it.
        own = [event for event in events if event.name == name and event.kind in ("touch", "release")]
        for k, event in enumerate(own):
            if event.kind != "touch":
                continue
            last = own[k + 1] if k + 1 < len(own) else None
            stop = end if last is None else last.time
            near = SAME_TIME * (1.0 + stop)
            inside = rows[(rows[:, 0] >= event.time - near) & (rows[:, 0] <= stop + near)]
            if not len(inside):
                continue
            before, after = inside[0], inside[-1]
            # Works and impulses are integrated over the whole run: a touch is their difference.
            change = after[6:] - before[6:]
            works = change[:2]
            found.append(
                TouchRecord(
                    name,
                    event.time,
                    stop if last is not None else float(after[0]),
                    last is not None,
                    float(before[4]),
                    float(-after[4]),
                    change[2:],
                    _peak(inside[:, 0], inside[:, 3]),
                    _peak(inside[:, 0], -inside[:, 2]),
                    float(works.sum() - (0.0 if last is not None else after[5])),
                    float(works[1]),
                )
            )
    return tuple(sorted(found, key=lambda touch: touch.start))
