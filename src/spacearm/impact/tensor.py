"""The extended generalized inertia tensor (Ex-GIT) of a free-floating robot at a frame.

Yoshida, Kurazume, Sashida, Umetani (1992), Eqs. 8 to 16, with the joint resistance where it acts, in joint space::

    G* = J* H*^-1 (E - mu) J*^T + R_h M^-1 R_h^T

G* maps a wrench at the frame to the frame's acceleration, or an impulse to its velocity jump. With the same ``mu`` for
all joints, G* is symmetric; with unequal ones it is not, contrary to the paper's Eq. 16. Locked joints (constraints)
leave it symmetric.

Frames: wrench and twist in world axes at the frame's origin, force (N) before moment (N m); the base's part in base
axes at its origin. Leading dimensions (...) of configurations, base poses, joint modes and inertias broadcast, so that
maps and batches are one call. Nothing here depends on velocities: an impact is over before they change the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from spacearm.checks import numbers
from spacearm.engine import Kernel, Mechanics, mechanics_of
from spacearm.engine.device import Device, Precision, as_native_array, cupy, is_device_array
from spacearm.errors import InputError
from spacearm.impact._generalized import direction_program, tensor_program
from spacearm.impact._joint_modes import JointModes, Locked, Resistance, normalise
from spacearm.mechanics import Program
from spacearm.model import Robot
from spacearm.simulate.loops import OPEN, loop_gap, loop_terms
from spacearm.typing import Array

#: Largest ratio of principal inertias of a base that can be inverted in double precision: excludes a point mass, a
#: line.
SINGULAR = 1e14


@dataclass(frozen=True, eq=False)
class ImpulseResponse:
    """Response to an impulse (force, moment; world axes, at the frame's origin), as matrices (..., rows, 6).

    Attributes:
        tensor: G*, to the jump of the frame's twist (world axes, at its origin).
        base: to the jump of the base's velocity (base axes, at its origin).
        rates: to the jump of the joint rates.
        reaction: to the reaction impulses of locked and resisting joints.
    """

    tensor: Array
    base: Array
    rates: Array
    reaction: Array

    @property
    def velocity(self) -> Array:
        """Matrix (..., 6 + n, 6) from impulse to the jump of the generalised velocity."""
        return np.concatenate([self.base, self.rates], axis=-2)


class Conditions(TypedDict, total=False):
    """State of a robot when it is struck; every key is optional.

    Attributes:
        base: pose of the base (..., 7): position, quaternion (w, x, y, z); without it base axes are world axes.
        locked: joints held by a constraint.
        resistance: mu, 0 to 1, of the joints that are not locked.
        inertia: other inertia parameters (..., n + 1, 10).
    """

    base: npt.ArrayLike | None
    locked: Locked
    resistance: Resistance
    inertia: npt.ArrayLike | None


class ImpactPoint:
    """A robot that is struck at one of its frames. Functions are compiled when first needed.

    ``joints`` are positions (..., n) or the name of a configuration; ``given`` are :class:`Conditions`.

    Args:
        robot: any robot; a single body is a robot without joints.
        frame: the struck frame, or a body's name.
        device: where batches run, "cpu" or "gpu"; arrays on a GPU are processed there in any case.
        precision: "float32", on the GPU only: single precision.
    """

    def __init__(self, robot: Robot, frame: str, *, device: Device = "cpu", precision: Precision = "float64") -> None:
        robot.frame(frame)  # raises for an unknown one
        _check_base(robot)
        self.robot = robot
        self.frame = frame
        usual = (device, precision) == ("cpu", "float64")
        self.mechanics = mechanics_of(robot) if usual else Mechanics(robot, device=device, precision=precision)

    @cached_property
    def _response(self) -> Kernel:
        return Kernel(tensor_program(self.robot, self.frame))

    @cached_property
    def _tensor(self) -> Kernel:
        # The same expressions with fewer outputs: only what G* needs is compiled.
        program = self._response.program
        return Kernel(Program("impact_tensor_alone", program.inputs, {"tensor": program.outputs["tensor"]}))

    @cached_property
    def _direction(self) -> Kernel:
        return Kernel(direction_program(self.robot, self.frame))

    def _inputs(
        self,
        joints: npt.ArrayLike | str | None,
        base: npt.ArrayLike | None = None,
        locked: Locked = "none",
        resistance: Resistance = 0.0,
        inertia: npt.ArrayLike | None = None,
    ) -> dict[str, npt.ArrayLike | None]:
        modes = JointModes.from_options(self.robot, locked, resistance)
        chosen = self.configuration(joints)
        if self.robot.loops and not is_device_array(chosen):
            check_closed(self.robot, chosen)
        return {
            "joints": chosen,
            "base": as_native_array(base),
            "locked": modes.locked,
            "resistance": modes.resistance,
            "inertia": as_native_array(inertia),
        }

    def configuration(self, joints: npt.ArrayLike | str | None) -> Array:
        """Joint positions (..., n) from numbers, the name of a configuration, or None (all zero)."""
        if joints is None or isinstance(joints, str):
            return self.robot.configuration(joints or "zero")
        return as_native_array(joints) if is_device_array(joints) else numbers(joints, "joints")

    def tensor(self, joints: npt.ArrayLike | str | None = None, **given: Unpack[Conditions]) -> Array:
        """G* (..., 6, 6), world axes."""
        return self.mechanics.evaluate(self._tensor, **self._inputs(joints, **given))["tensor"]

    def response(self, joints: npt.ArrayLike | str | None = None, **given: Unpack[Conditions]) -> ImpulseResponse:
        """The complete response to an impulse at the frame."""
        found = self.mechanics.evaluate(self._response, **self._inputs(joints, **given))
        none = found["tensor"][..., :0, :]
        return ImpulseResponse(found["tensor"], found["base"], found.get("rates", none), found.get("reaction", none))

    def acceleration(
        self, direction: npt.ArrayLike, joints: npt.ArrayLike | str | None = None, **given: Unpack[Conditions]
    ) -> Array:
        """Acceleration (..., 3) of the frame's origin under a unit force along ``direction`` (..., 3), world axes.

        At one configuration that is G11* n for all directions at once; for many configurations each is solved for its
        direction alone. Leading shapes broadcast.
        """
        n = normalise(direction)
        inputs = self._inputs(joints, **given)
        # One tensor, any number of directions: a 3 x 3 product each, against a solve each in the other branch.
        if inputs["inertia"] is None and all(value is None or np.ndim(value) <= 1 for value in inputs.values()):
            block: Any = self.tensor(joints, **given)[:3, :3]
            there = is_device_array(n) or is_device_array(block)
            n, block = (cupy().asarray(n), cupy().asarray(block)) if there else (n, block)
            # Not by BLAS: its threads bring nothing for three columns and cost much on a busy machine.
            found: Array = np.einsum("...j,ij->...i", n, block)
            return found
        return self.mechanics.evaluate(self._direction, direction=n, **inputs)["twist"][..., :3]


@lru_cache(maxsize=32)
def impact_point(robot: Robot, frame: str, device: Device = "cpu", precision: Precision = "float64") -> ImpactPoint:
    """The compiled functions of this robot and frame, kept for the next call."""
    return ImpactPoint(robot, frame, device=device, precision=precision)


def extended_inertia_tensor(
    robot: Robot,
    frame: str,
    joints: npt.ArrayLike | str | None = None,
    *,
    device: Device = "cpu",
    precision: Precision = "float64",
    **given: Unpack[Conditions],
) -> Array:
    """G* (..., 6, 6) of a robot at a frame, world axes: see :class:`ImpactPoint`."""
    return impact_point(robot, frame, device, precision).tensor(joints, **given)


def check_closed(robot: Robot, joints: Array, rates: Array | None = None) -> None:
    """Raise an error if closed loops are open at some of these positions (..., n), or open at these rates."""
    hint = "close_loops(robot, joints), or close_state(robot, state), gives the nearest in which they are closed"
    gap = float(np.max(loop_gap(robot, joints), initial=0.0))
    if not gap <= OPEN:
        how = f"open by {gap:.3g} m or rad" if np.isfinite(gap) else "closed with axes that are opposed"
        raise InputError(f"the loops of robot {robot.name!r} are {how}", place="joints", hint=hint)
    if rates is not None:
        at, moving = np.broadcast_arrays(joints, rates)
        speed = float(np.abs(loop_terms(robot, at, moving).rate).max(initial=0.0))
        if not speed <= OPEN * max(1.0, float(np.abs(rates).max(initial=0.0))):
            text = f"the loops of robot {robot.name!r} open at {speed:.3g} m/s or rad/s"
            raise InputError(text, place="velocity", hint=hint)


def _check_base(robot: Robot) -> None:
    """Raise an error if the united body lacks inertia about an axis, so that nothing resists its rotation."""
    # With joints, a body without inertia of its own may still be carried by others; a singular matrix then shows as an
    # infinite compliance, which collisions refuse.
    if robot.n:
        return
    inertia = robot.bodies[0].inertia
    moments = np.linalg.eigvalsh(inertia.tensor)
    if moments[0] <= 0.0 or moments[-1] / moments[0] > SINGULAR:
        raise InputError(
            "has no inertia about some axis",
            place=f"body {robot.bodies[0].name!r}",
            hint="give a point mass a size, for example that of a small ball: a central impact does not depend on it",
        )
