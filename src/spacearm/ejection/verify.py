"""The same ejection once more with MuJoCo's dynamics, as the paper had ADAMS beside its own program.

Without dry friction both engines get the same problem. With it, MuJoCo has only a friction that creeps; but between
two events every joint either rests or slips under a constant torque, and both can be told to MuJoCo exactly. So the
recorded sequence of events is replayed: stuck joints locked, slipping ones under their Coulomb torque. What is
compared is then the whole motion; that the sequence is the right one, friction's own laws must show
(:func:`friction_laws`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from spacearm.ejection.rail import Stretch as RailStretch
from spacearm.ejection.rig import Rig
from spacearm.ejection.run import Ejection
from spacearm.result import Check
from spacearm.simulate import Phase, Run, State
from spacearm.simulate.crosscheck import CrossCheck, cross_check

#: Events nearer to each other than this are replayed as one, s.
_SAME = 1e-9
#: Excess of dry friction over its laws that rounding may bring, relative to static friction.
FRICTION_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Stretch:
    """Between two events: which degrees of freedom are stuck, and the friction force on those that slip."""

    start: float
    end: float
    stuck: tuple[str, ...]
    force: Mapping[str, float]


def stretches(run: Run, locked: tuple[str, ...] = ()) -> list[Stretch]:
    """Stick-slip history of a run from its events; times from the run's start."""
    robot = run.robot
    coulomb = {joint.name: joint.friction.coulomb for joint in robot.joints if joint.friction and joint.friction.static}
    rubbing = [name for name in coulomb if name not in locked]
    first = run.data.isel(time=0)
    status = {}
    for name in rubbing:
        rate = float(first["joint_velocity"].sel(joint=name))
        status[name] = int(np.sign(rate))
    history: list[Stretch] = []
    time = 0.0
    changes = [event for event in run.events if event.kind in ("stick", "slip", "reverse") and event.name in rubbing]

    def close(until: float) -> None:
        if until - time > _SAME:
            stuck = tuple(name for name in rubbing if status[name] == 0)
            force = {name: -status[name] * coulomb[name] for name in rubbing if status[name] != 0}
            history.append(Stretch(time, until, stuck, force))

    for event in changes:
        close(event.time)
        time = max(time, event.time) if event.time - time > _SAME else time
        status[event.name] = 0 if event.kind == "stick" else int(event.value)
    close(run.end_time)
    return history


def _replay(
    run: Run, start: State, locked: tuple[str, ...], friction: bool, stretch: RailStretch | None = None
) -> CrossCheck:
    """Compare a run with MuJoCo's, phase by phase between its events."""
    history = stretches(run, locked) if friction else []
    history = history or [Stretch(0.0, run.end_time, (), {})]
    given = {} if stretch is None else stretch.forces
    phases = []
    for part in history:
        span = max(part.end - part.start, 1e-9)
        forces = {name: given.get(name, 0.0) + part.force.get(name, 0.0) for name in {**given, **part.force}}
        phases.append(
            Phase(
                span,
                locked=(*locked, *part.stuck),
                accelerations={} if stretch is None else stretch.accelerations,
                forces=forces,
                friction=False,
                limits="ignore",
            )
        )
    same = replace(run, phase_starts=tuple(part.start for part in history))
    return cross_check(same, start, phases, overrides=None if stretch is None else stretch.overrides)


def check_in_mujoco(
    ejection: Ejection, *, friction: bool = True, locked: tuple[str, ...] = ()
) -> dict[str, CrossCheck]:
    """Differences on the rail (of each piece of the springs' curve) and in flight; ``friction`` as in the run."""
    rig, several = ejection.rig, len(ejection.stretches) > 1
    found = {}
    for k, part in enumerate(ejection.stretches):
        held = tuple(dict.fromkeys((*part.locked, *locked)))
        found[f"rail{k + 1}" if several else "rail"] = _replay(part.run, part.start, held, friction, part)
    start = State.from_vector(ejection.flight.states[0])
    found["flight"] = _replay(ejection.flight, start, (*rig.out_of_plane, *locked), friction)
    return found


def friction_laws(ejection: Ejection) -> float:
    """How far dry friction breaks its own laws at any sample, relative to the joint's static friction; 0 is right.

    A stuck joint holds at most its static friction; a slipping one is opposed by exactly its Coulomb friction.
    """
    worst = 0.0
    for run in (ejection.rail, ejection.flight):
        data = run.data
        for joint in run.robot.joints:
            if joint.friction is None or joint.friction.static == 0.0:
                continue
            rate = data["joint_velocity"].sel(joint=joint.name).values
            held = data["reaction"].sel(dof=joint.name).values
            drag = data["friction"].sel(dof=joint.name).values
            still = data["mode"].sel(dof=joint.name).values == 1
            over = np.where(
                still, np.abs(held) - joint.friction.static, np.abs(drag + np.sign(rate) * joint.friction.coulomb)
            )
            # The first instant of slip has no direction yet.
            over = np.where(~still & (rate == 0.0), 0.0, over)
            worst = max(worst, float(over.max(initial=0.0)) / joint.friction.static)
    return worst


def friction_check(ejection: Ejection) -> Check:
    """:func:`friction_laws` as a check of the certificate."""
    meaning = "excess of dry friction over its own laws, relative to static friction"
    joints = [joint for run in (ejection.rail, ejection.flight) for joint in run.robot.joints]
    if not any(joint.friction is not None and joint.friction.static > 0.0 for joint in joints):
        return Check.not_applicable(f"no joint has dry friction; {meaning}", FRICTION_TOLERANCE)
    return Check(friction_laws(ejection), FRICTION_TOLERANCE, "", meaning)


def frictionless(rig: Rig) -> Rig:
    """The rig without dry friction, damping kept: what MuJoCo can express on its own."""
    return rig.with_joints(friction=None)
