"""Dry friction without regularisation: every degree of freedom that has it is stuck or slips in one direction.

Stuck is driven at zero acceleration; the reaction tells what friction has to hold. Slipping is free with a constant
friction force. :func:`settle` finds which of the resting ones stay, and which way the others go.
"""

from __future__ import annotations

from spacearm.engine.loops import compile_inner
from spacearm.engine.system import System, rates
from spacearm.typing import Array

#: A reaction may exceed static friction by this share before the joint breaks loose: rounding is not a load.
SLACK = 1e-12


@compile_inner
def begin(system: System) -> None:
    """Status from the velocities of ``work.y`` alone: exactly zero is stuck."""
    friction = system.friction
    for i in range(friction.dof.size):
        velocity = system.work.y[system.code.speed[friction.dof[i]]]
        friction.status[i] = 0 if velocity == 0.0 else (1 if velocity > 0.0 else -1)


@compile_inner
def apply(system: System) -> None:
    """Write mode and friction force of each status into the kernel's input."""
    code, friction, inp = system.code, system.friction, system.work.inp
    for i in range(friction.dof.size):
        j = friction.dof[i]
        status = friction.status[i]
        inp[code.drive + j] = 0.0
        inp[code.mode + j] = 1.0 if status == 0 else 0.0
        inp[code.friction + j] = -status * friction.coulomb[i]


@compile_inner
def settle(system: System, piece: int, t: float, y: Array) -> bool:
    """Resolve the status of every degree of freedom at rest; whether that succeeded.

    First all that rest are held and the worst overload is let go, one after the other; one that was let go and would
    be pushed back is held again. Where that goes in circles, the same is done by least index at the Coulomb level,
    where the problem is a linear complementarity problem with a positive definite matrix and this rule ends
    (K. G. Murty, Opsearch 11 (1974)); its solution respects static friction because that is not the smaller one.
    """
    code, friction, work = system.code, system.friction, system.work
    count = friction.dof.size
    # Two attempts, since the first takes few evaluations and nearly always ends, and the second always ends.
    for attempt in range(2):
        rounds = 3 * count + 5 if attempt == 0 else 20 * count * count + 20
        for _ in range(rounds):
            apply(system)
            rates(system, piece, t, y, work.dy)
            change = -1
            worst = 1.0 + SLACK
            for i in range(count):
                j = friction.dof[i]
                at = code.speed[j]
                if y[at] != 0.0:
                    continue
                # A joint that was let go must accelerate in the direction of its slip: else friction would pull it
                # along.
                if friction.status[i] != 0:
                    if not friction.status[i] * work.dy[at] > 0.0:
                        change = i
                        break
                else:
                    bound = friction.static[i]
                    if attempt == 1:
                        bound = max(friction.coulomb[i], 1e-9 * bound)
                    load = abs(work.out[code.reaction + j]) / bound
                    if load > worst:
                        change = i
                        if attempt == 1:
                            break
                        worst = load
            if change < 0:
                return True
            if friction.status[change] != 0:
                friction.status[change] = 0
            else:
                # The reaction holds against the other forces: without it they push the other way.
                reaction = work.out[code.reaction + friction.dof[change]]
                friction.status[change] = -1 if reaction > 0.0 else 1
    return False
