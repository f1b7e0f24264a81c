"""An ejection as a sequence of phases: one on the rail for each segment of the springs' force curve, separation,
flight.

Also the loads on the rail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np

from spacearm.ejection.rig import Rig
from spacearm.ejection.separation_device import ForceSegment
from spacearm.engine import mechanics_of
from spacearm.model.base import BASE_DOFS
from spacearm.model.layout import Layout
from spacearm.simulate import Event, Phase, RunContext, Separate, Switch
from spacearm.simulate.bodies import elastic_energy
from spacearm.simulate.changes import Change
from spacearm.simulate.overrides import robot_parameters
from spacearm.simulate.run.run import Track
from spacearm.typing import Array

#: Largest number of quarter periods of the whole arm, as one mass, within which it must have left the rail.
PATIENCE = 20.0
#: Systems of the world: the arm is also mounted on the first.
SATELLITE, ARM = "satellite", "arm"


def spring_of(segment: ForceSegment) -> tuple[float, float, float]:
    """Stiffness (N/m), rest (m) and constant force (N) of the rail's joint that represent the springs."""
    return (0.0, 0.0, segment.force) if segment.constant else (*segment.spring, 0.0)


def base_on_rail(rig: Rig, rotating: bool) -> tuple[tuple[str, ...], dict[str, float]]:
    """Locked degrees of freedom of the satellite, and those kept at their velocity."""
    if rig.device.heavy and rotating:
        return (), dict.fromkeys(BASE_DOFS, 0.0)
    return rig.rail_locks, {}


def phase_on_rail(rig: Rig, quarter: float, segment: ForceSegment, **more: object) -> Phase:
    """Phase until the arm has passed the segment; ``quarter`` is its quarter period as one mass, s."""
    until = Event(rig.rail, segment.end, "rising")
    return Phase(PATIENCE * quarter, until=until, name="on the rail", **more)  # type: ignore[arg-type]


def build_phases(
    rig: Rig,
    rotating: bool,
    flight: float,
    sample: float,
    locked: Sequence[str],
    friction: bool,
    limits: Literal["report", "stop", "ignore"],
) -> Callable[[RunContext], Iterator[Phase | Change]]:
    """Phases from the release to the end of the flight; they end early if the arm does not leave the rail."""

    def items(context: RunContext) -> Iterator[Phase | Change]:
        quarter, (_, kept) = rig.device.quarter_period(rig.arm.mass), base_on_rail(rig, rotating)
        # One phase for each linear segment: the solver never integrates across a kink of the force, which would reduce
        # its order there and delay the event at the end of the segment.
        for segment in rig.device.segments:
            push = 0.0
            if not rig.device.linear:
                stiffness, rest, push = spring_of(segment)
                yield Switch(stiffness={rig.rail: stiffness}, rest={rig.rail: rest})
            yield phase_on_rail(
                rig,
                quarter,
                segment,
                locked=locked,
                accelerations=kept,
                forces={rig.rail: push} if push else {},
                friction=friction,
                limits=limits,
                sample=quarter / 400.0,
            )
            # The phase ended by its time limit or a joint limit and not by the rail's event: the arm has not left.
            if not any(event.kind == "event" and event.name == rig.rail for event in context.events):
                return
        yield Separate(rig.rail, ARM)
        yield Phase(
            flight,
            locked=[f"{ARM}/{name}" for name in (*rig.out_of_plane, *locked)],
            accelerations={f"{SATELLITE}/{name}": value for name, value in kept.items()},
            friction=friction,
            limits=limits,
            sample=sample,
            name="flight",
        )

    return items


def constant_spring_work(rig: Rig) -> float:
    """Work (J) of springs with a constant force, which the run books as work of a drive."""
    constant = [segment for segment in rig.device.segments if segment.constant and not rig.device.linear]
    return float(sum(segment.force * (segment.end - segment.start) for segment in constant))


def elastic_on_rail(rig: Rig, states: Array) -> Array:
    """Energy (T,) of the arm's own springs, and the remaining energy of the device's springs along the rail, J."""
    own = robot_parameters(rig.mounted_robot)
    stiffness = own["stiffness"].copy()
    stiffness[0] = 0.0  # the rail's springs are added unchanged
    elastic = elastic_energy(rig.mounted_robot, states, stiffness, own["rest"], own["coupling"])
    return elastic + rig.device.remaining_energy(states[:, 7])


def rail_loads(rig: Rig, run: Track) -> tuple[Array, Array]:
    """Force across the rail (T, 3) and moment (T, 3) about the arm's base, base axes, exerted by the rail on the arm.

    The total wrench on the arm's base, by inverse dynamics of the arm alone, less the forces of springs and friction
    along the rail.
    """
    n, direction = rig.arm.n, rig.device.direction
    arm, _ = rig.split(run.states)
    change = run.outputs[:, run.model.nx - run.robot.dofs : run.model.nx]
    velocity = run.states[:, Layout(n + 1).velocity]
    travel, speed = run.states[:, 7:8] * direction, velocity[:, 6:7] * direction
    # Acceleration of the arm's base from that of the satellite's frame, both as rates of components in moving axes:
    # d/dt (v + w x r + r') with r along the rail. No Coriolis factor 2 appears, because inverse_dynamics takes the
    # rates of the components and adds w x v itself.
    linear = change[:, :3] + np.cross(change[:, 3:6], travel) + np.cross(velocity[:, 3:6], speed)
    linear = linear + change[:, 6:7] * direction
    acceleration = np.concatenate([linear, change[:, 3:6], change[:, 7:]], axis=1)
    # Inverse dynamics needs all that acts on the base: springs and rail together. The springs' part is known, and taken
    # off.
    wrench = mechanics_of(rig.arm).inverse_dynamics(arm[:, Layout(n).joints], arm[:, Layout(n).velocity], acceleration)[
        :, :6
    ]
    force = wrench[:, :3] - (wrench[:, :3] @ direction)[:, None] * direction
    return force, wrench[:, 3:] - rig.device.moment(run.states[:, 7])
