"""An ejection as a chain: a phase on the rail for each piece of the springs' force curve, the separation, the flight.

And what the rail has to carry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np

from spacearm.ejection.rig import Rig
from spacearm.ejection.separation_device import Piece
from spacearm.engine import mechanics_of
from spacearm.model.layout import Layout
from spacearm.model.robot import BASE_DOFS
from spacearm.simulate import Change, Event, Here, Phase, Separate, Switch, Track
from spacearm.simulate.bodies import elastic_energy
from spacearm.simulate.overrides import robot_parameters
from spacearm.typing import Array

#: The arm must have left the rail within so many quarter periods of the whole arm as one mass.
PATIENCE = 20.0
#: Systems of the world: the first is also what the arm is mounted on.
SATELLITE, ARM = "satellite", "arm"


def spring_of(piece: Piece) -> tuple[float, float, float]:
    """Stiffness (N/m), rest (m) and constant force (N) with which the rail's joint pushes as the springs do."""
    return (0.0, 0.0, piece.force) if piece.constant else (*piece.spring, 0.0)


def base_on_rail(rig: Rig, turning: bool) -> tuple[tuple[str, ...], dict[str, float]]:
    """Freedoms of the satellite that are locked, and those that are kept at their velocity."""
    if rig.device.heavy and turning:
        return (), dict.fromkeys(BASE_DOFS, 0.0)
    return rig.locked_on_rail, {}


def phase_on_rail(rig: Rig, quarter: float, piece: Piece, **more: object) -> Phase:
    """Until the arm has passed the piece; ``quarter`` is its quarter period as one mass, s."""
    until = Event(rig.rail, piece.end, "rising")
    return Phase(PATIENCE * quarter, until=until, name="on the rail", **more)  # type: ignore[arg-type]


def chain(
    rig: Rig,
    turning: bool,
    flight: float,
    sample: float,
    locked: Sequence[str],
    friction: bool,
    limits: Literal["report", "stop", "ignore"],
) -> Callable[[Here], Iterator[Phase | Change]]:
    """The arm from its release to the end of the flight; it ends early where the arm does not leave the rail."""

    def items(here: Here) -> Iterator[Phase | Change]:
        quarter, (_, kept) = rig.device.quarter_period(rig.arm.mass), base_on_rail(rig, turning)
        # One phase for each linear piece: the solver never integrates across a kink of the force, which would cost its
        # order there and make the event at the end of the piece late.
        for piece in rig.device.pieces:
            push = 0.0
            if not rig.device.linear:
                stiffness, rest, push = spring_of(piece)
                yield Switch(stiffness={rig.rail: stiffness}, rest={rig.rail: rest})
            yield phase_on_rail(
                rig,
                quarter,
                piece,
                locked=locked,
                accelerations=kept,
                forces={rig.rail: push} if push else {},
                friction=friction,
                limits=limits,
                sample=quarter / 400.0,
            )
            # The phase ended by its time limit or a joint limit and not by the rail's event: the arm has not left.
            if not any(event.kind == "event" and event.name == rig.rail for event in here.events):
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


def pushed_work(rig: Rig) -> float:
    """Work (J) of springs that push with a constant force, which the run books as that of a drive."""
    constant = [piece for piece in rig.device.pieces if piece.constant and not rig.device.linear]
    return float(sum(piece.force * (piece.end - piece.start) for piece in constant))


def elastic_on_rail(rig: Rig, states: Array) -> Array:
    """Energy (T,) of the arm's own springs, and what those of the device still give off along the rail, J."""
    own = robot_parameters(rig.mounted)
    stiffness = own["stiffness"].copy()
    stiffness[0] = 0.0  # the rail's springs are added as they are
    elastic = elastic_energy(rig.mounted, states, stiffness, own["rest"], own["coupling"])
    return elastic + rig.device.stored(states[:, 7])


def rail_loads(rig: Rig, run: Track) -> tuple[Array, Array]:
    """Force across the rail (T, 3) and moment (T, 3) about the arm's base, base axes: what the rail exerts on the arm.

    The whole wrench on the arm's base, by inverse dynamics of the arm alone, without what springs and friction give
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
    wrench = mechanics_of(rig.arm).inverse_dynamics(arm[:, Layout(n).joints], arm[:, Layout(n).velocity], acceleration)[
        :, :6
    ]
    force = wrench[:, :3] - (wrench[:, :3] @ direction)[:, None] * direction
    return force, wrench[:, 3:] - rig.device.moment(run.states[:, 7])
