"""Dry friction without regularisation: every degree of freedom that has it is stuck or slips in one direction.

Stuck is driven at zero acceleration; the reaction tells what friction has to hold. Slipping is free with a constant
friction force. :func:`settle` finds which of the resting ones stay, and which way the others go.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spacearm.engine.loops import compiled
from spacearm.engine.plant import Plant, Work, rates
from spacearm.engine.signals import Signals
from spacearm.typing import Array

#: A reaction may exceed static friction by this share before the joint breaks loose: rounding is no load.
SLACK = 1e-12


class Contact(NamedTuple):
    """The degrees of freedom with dry friction, and their state."""

    dof: Any  # (f,) int64
    static: Array  # (f,) N or N m, more than zero
    coulomb: Array  # (f,)
    status: Any  # (f,) int64: 0 stuck, +1 or -1 the direction of slip


@compiled
def begin(plant: Plant, contact: Contact, y: Array) -> None:
    """Status from the velocities alone: exactly zero is stuck."""
    for i in range(contact.dof.size):
        velocity = y[plant.nx - plant.nv + contact.dof[i]]
        contact.status[i] = 0 if velocity == 0.0 else (1 if velocity > 0.0 else -1)


@compiled
def apply(plant: Plant, contact: Contact, inp: Array) -> None:
    """Write mode and friction force of each status into the kernel's input."""
    for i in range(contact.dof.size):
        j = contact.dof[i]
        status = contact.status[i]
        inp[plant.drive + j] = 0.0
        inp[plant.mode + j] = 1.0 if status == 0 else 0.0
        inp[plant.friction + j] = -status * contact.coulomb[i]


@compiled
def settle(plant: Plant, signals: Signals, piece: int, t: float, y: Array, contact: Contact, work: Work) -> bool:
    """Resolve the status of every degree of freedom at rest; whether that succeeded.

    First all that rest are held and the worst overload is let go, one after the other; one that was let go and would
    be pushed back is held again. Where that goes in circles, the same is done by least index at the Coulomb level,
    where the problem is a linear complementarity problem with a positive definite matrix and this rule ends
    (K. G. Murty, Opsearch 11 (1974)); its solution respects static friction because that is not the smaller one.
    """
    count = contact.dof.size
    for attempt in range(2):
        rounds = 3 * count + 5 if attempt == 0 else 20 * count * count + 20
        for _ in range(rounds):
            apply(plant, contact, work.inp)
            rates(plant, signals, piece, t, y, work, work.dy)
            change = -1
            worst = 1.0 + SLACK
            for i in range(count):
                j = contact.dof[i]
                at = plant.nx - plant.nv + j
                if y[at] != 0.0:
                    continue
                if contact.status[i] != 0:
                    if not contact.status[i] * work.dy[at] > 0.0:
                        change = i
                        break
                else:
                    bound = contact.static[i]
                    if attempt == 1:
                        bound = max(contact.coulomb[i], 1e-9 * bound)
                    load = abs(work.out[plant.reaction + j]) / bound
                    if load > worst:
                        change = i
                        if attempt == 1:
                            break
                        worst = load
            if change < 0:
                return True
            if contact.status[change] != 0:
                contact.status[change] = 0
            else:
                # The reaction holds against the other forces: without it they push the other way.
                reaction = work.out[plant.reaction + contact.dof[change]]
                contact.status[change] = -1 if reaction > 0.0 else 1
    return False


def make_contact(dof: Any, static: Any, coulomb: Any) -> Contact:
    """For these degrees of freedom; those without any dry friction are left out."""
    dofs = np.asarray(dof, dtype=np.int64)
    stick = np.asarray(static, dtype=np.float64)
    slide = np.asarray(coulomb, dtype=np.float64)
    kept = stick > 0.0
    return Contact(dofs[kept], stick[kept], slide[kept], np.zeros(int(kept.sum()), dtype=np.int64))
