"""Closed loops of a robot at a state: how far they are open, configurations that close them, the forces that keep them.

Method: Gauss-Newton on the residuals of :mod:`spacearm.mechanics.constraints`. Each step is the smallest change of the
joints that may move (metres and radians alike) that closes the loops to first order, by a singular value
decomposition, so that redundant loops need no care; a step that opens them further is halved. Rates follow by the same
Jacobian: the smallest change of the joint rates that lets the loops stay closed.

A residual may also vanish with the two axes of a hinge opposed. ``facing`` tells the two apart: such a configuration
is another assembly of the mechanism and an error, not a solution. A run starts only with loops that are closed in
position and rate; the motion program then keeps them so by accelerations, and the certificate judges what is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.engine import Kernel, mechanics_of
from spacearm.errors import InputError
from spacearm.mechanics.motion import LoadFrame, loop_program
from spacearm.mechanics.structure import Keyed, structure
from spacearm.model import Robot, edit
from spacearm.simulate.state import State
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.simulate.motion import RobotMotion

#: A run starts only with loops that are closed to this (m, rad; m/s, rad/s).
OPEN = 1e-8
#: Newton's steps towards a closed configuration, and halvings of a step.
MOST_STEPS, MOST_HALVINGS = 200, 30
#: Singular values below this fraction of the largest: a direction that the loops do not hold.
RANK = 1e-10
#: Share in a motion that the loops permit below which a joint does not take part in it.
STUCK = 1e-7
#: Residuals below this are closed, m or rad: a few roundings of lengths of some metres.
EXACT = 1e-14


class LoopTerms(NamedTuple):
    """Residuals (..., m), their rates (..., m), the Jacobian (..., m, n) by the joints, and ``facing`` (..., loops)."""

    residual: Array
    rate: Array
    jacobian: Array
    facing: Array


def loop_terms(robot: Robot, joints: npt.ArrayLike, rates: npt.ArrayLike | None = None) -> LoopTerms:
    """Terms of all closed loops at joint positions and rates (..., n)."""
    mechanics, at = mechanics_of(robot), np.asarray(joints, dtype=np.float64)
    velocity = np.zeros((*at.shape[:-1], 6 + robot.n))
    velocity[..., 6:] = 0.0 if rates is None else rates
    found = mechanics.evaluate(mechanics.kernel("loops"), joints=at, velocity=velocity)
    return LoopTerms(found["residual"], found["rate"], found["loop_jacobian"], found["facing"])


def loop_gap(robot: Robot, joints: npt.ArrayLike) -> Array:
    """Largest residual (...) of any loop, m or rad: how far the loops are open; infinite if one is the wrong way round.

    Args:
        joints: positions (..., n).
    """
    if not robot.loops:
        return np.zeros(np.shape(joints)[:-1])
    terms = loop_terms(robot, joints)
    return np.where((terms.facing > 0.0).all(axis=-1), np.abs(terms.residual).max(axis=-1), np.inf)


def close_loops(robot: Robot, joints: npt.ArrayLike | Mapping[str, float], *, held: Sequence[str] = ()) -> Array:
    """Joint positions (n) near these at which all loops are closed.

    Args:
        joints: positions (n), or positions by joint (the others at zero).
        held: joints that stay where they are: the crank of a linkage.
    """
    q = _positions(robot, joints)
    free = _movable(robot, held)
    if not robot.loops:
        return q
    terms = loop_terms(robot, q)
    size = float(np.linalg.norm(terms.residual))
    for _ in range(MOST_STEPS):
        if np.abs(terms.residual).max() < EXACT:
            break
        step = np.zeros(robot.n)
        # Least squares of least norm: redundant rows and idle joints need no choice, and the joints stay near.
        step[free] = -np.linalg.lstsq(terms.jacobian[:, free], terms.residual, rcond=RANK)[0]
        # A turn of more than half a radian at once leaves the neighbourhood in which the step means anything.
        step *= min(1.0, 0.5 / max(float(np.abs(step).max()), 1e-300))
        for _ in range(MOST_HALVINGS):
            further = loop_terms(robot, q + step)
            left = float(np.linalg.norm(further.residual))
            if left < size:
                break
            step *= 0.5
        else:
            break
        q, terms, size = q + step, further, left
    gap = float(np.abs(terms.residual).max())
    if gap > 0.1 * OPEN:
        raise InputError(
            f"the loops of robot {robot.name!r} cannot be closed from there: {gap:.3g} m or rad are left",
            place="close_loops",
            hint="hold fewer joints, or begin nearer to a closed configuration",
        )
    if not np.all(terms.facing > 0.0):
        raise InputError(
            f"the loops of robot {robot.name!r} close with axes that are opposed",
            place="close_loops",
            hint="begin nearer to the intended configuration",
        )
    return q


def close_state(robot: Robot, state: State, *, held: Sequence[str] = ()) -> State:
    """The state near this one in which all loops are closed and stay so: see :func:`close_loops`.

    Args:
        held: joints that keep their positions and rates.
    """
    state.check(robot)
    if not robot.loops:
        return state
    q, free = close_loops(robot, state.joints, held=held), _movable(robot, held)
    # Rates at the closed configuration: those of the open one belong to another Jacobian.
    terms = loop_terms(robot, q, state.rates)
    velocity = state.velocity.copy()
    velocity[6:][free] -= np.linalg.lstsq(terms.jacobian[:, free], terms.rate, rcond=RANK)[0]
    left = float(np.abs(loop_terms(robot, q, velocity[6:]).rate).max())
    if left > 0.1 * OPEN * max(1.0, float(np.abs(state.rates).max(initial=0.0))):
        raise InputError(
            f"the held joints of robot {robot.name!r} cannot move like this: {left:.3g} m/s or rad/s are left in its "
            "loops",
            place="close_state",
            hint="hold fewer joints, or give them rates that the loops allow",
        )
    return State(state.position, state.quaternion, q, velocity)


def freeze_joints(robot: Robot, joints: Mapping[str, float]) -> Robot:
    """The robot with these joints rigid (rad or m), and with them all joints of loops that they leave no motion.

    A linkage whose crank is frozen is one body: what remains is a tree, where no other loop is.
    """
    q = close_loops(robot, {robot.joint(name).name: value for name, value in joints.items()}, held=[*joints])
    rigid, free = dict(joints), _movable(robot, [*joints])
    # Motions that the loops permit span the null space of their Jacobian: a joint without a share in any of them is
    # held.
    if robot.loops and free:
        _, values, directions = np.linalg.svd(loop_terms(robot, q).jacobian[:, free])
        moves = np.abs(directions[np.count_nonzero(values > RANK * values.max(initial=0.0)) :])
        rest = [k for at, k in enumerate(free) if np.all(moves[:, at] < STUCK)]
        rigid |= {robot.joint_names[k]: float(q[k]) for k in rest}
    return edit.freeze(robot, rigid)


def check_closure(robot: Robot, state: State, place: str = "simulate") -> None:
    """Raise an error if a run cannot start so: a loop is open, or about to open."""
    if not robot.loops:
        return
    hint = "close_state(robot, state, held=[...]) gives the state near it in which they are closed"
    gap = float(loop_gap(robot, state.joints))
    if not gap <= OPEN:
        how = f"open by {gap:.3g} m or rad" if np.isfinite(gap) else "closed with axes that are opposed"
        raise InputError(f"the loops of robot {robot.name!r} are {how} at the start", place=place, hint=hint)
    # Relative to the rates: a fast linkage cannot be closed to the last bit.
    rate = float(np.abs(loop_terms(robot, state.joints, state.rates).rate).max())
    if not rate <= OPEN * max(1.0, float(np.abs(state.rates).max(initial=0.0))):
        raise InputError(
            f"the loops of robot {robot.name!r} open at {rate:.3g} m/s or rad/s at the start", place=place, hint=hint
        )


def loop_forces(model: RobotMotion, inputs: Array, parameters: Mapping[str, Array]) -> dict[str, Array]:
    """Forces of the loops (T, 6 or 1) by name, from recorded inputs (T, ...) of a motion kernel."""
    robot = model.robot
    if not robot.loops:
        return {}
    key = structure(robot, [load.frame for load in model.loads]), model.loads
    # Forces are not integrated: they are computed again from the inputs of the motion program at each sample.
    kernel = _loop_kernel(Keyed(key, (robot, model.loads)))
    given = {
        name: inputs[:, place]
        for name, place in model.kernel.inputs.items()
        if place.stop <= inputs.shape[1] and place.stop > place.start
    }
    own = {name: value for name, value in parameters.items() if name in kernel.inputs and np.size(value)}
    own |= kernel.derive(own)
    return dict(kernel({**given, **{name: np.broadcast_to(v, (len(inputs), *np.shape(v))) for name, v in own.items()}}))


@lru_cache(maxsize=32)
def _loop_kernel(made: Keyed[tuple[Robot, tuple[LoadFrame, ...]]]) -> Kernel:
    return Kernel(loop_program(*made.value))


def _positions(robot: Robot, joints: npt.ArrayLike | Mapping[str, float]) -> Array:
    if isinstance(joints, Mapping):
        q = np.zeros(robot.n)
        for name, value in joints.items():
            q[robot.joint_index(name)] = checks.number(value, f"position of joint {name!r}", place="close_loops")
        return q
    return checks.array(joints, "joint positions", (robot.n,)).copy()


def _movable(robot: Robot, held: Sequence[str]) -> list[int]:
    names = (held,) if isinstance(held, str) else held
    still = {robot.joint_index(name) for name in names}
    return [i for i in range(robot.n) if i not in still]
