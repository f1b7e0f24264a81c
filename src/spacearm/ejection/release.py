"""Motion of an arm at the instant of its release: from a tumbling satellite, with moving joints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.ejection.rig import Rig
from spacearm.engine import mechanics_of
from spacearm.errors import InputError
from spacearm.simulate.state import State
from spacearm.typing import Array


@dataclass(frozen=True, eq=False)
class ReleaseState:
    """Motion at the release; at rest if omitted.

    An infinitely heavy satellite keeps rotating at ``angular_velocity`` about the device's pivot. One with an inertia
    rotates freely; satellite and arm together then have no linear momentum, so velocities are relative to their common
    mass centre.

    Args:
        rates: of the arm's joints (n,), or (B, n) for a batch; rad/s or m/s.
        angular_velocity: of the satellite (3,) or (B, 3), rad/s, in its axes at the release, which are the world's.
    """

    rates: npt.ArrayLike | None = None
    angular_velocity: npt.ArrayLike | None = None

    def check_rates(self, rig: Rig) -> tuple[Array, Array]:
        """Rates (..., n) and angular velocity (..., 3), checked against the rig."""
        found = []
        for name, value, size in (("rates", self.rates, rig.arm.n), ("angular_velocity", self.angular_velocity, 3)):
            given = np.zeros(size) if value is None else checks.numbers(value, name, place="release")
            shape = ("B", size) if given.ndim == 2 else (size,)
            found.append(np.array(checks.array(given, name, shape, place="release")))
        rates, angular_velocity = found
        out = [i - 3 for i in range(3, 6) if i not in rig.free_base]
        if np.any(angular_velocity[..., out] != 0.0):
            raise InputError(
                f"the angular velocity {angular_velocity.tolist()} leaves the table",
                place="release",
                hint=f"expected one about {rig.table}, the table's normal",
            )
        return rates, angular_velocity

    @property
    def is_rotating(self) -> bool:
        """Whether the satellite rotates."""
        return self.angular_velocity is not None and bool(np.any(np.asarray(self.angular_velocity) != 0.0))

    def velocity(self, rig: Rig, joints: Array, inertia: Array | None = None) -> Array:
        """Generalised velocity (..., 7 + n) of the mounted arm at configurations (..., n), the rail at rest.

        ``inertia``: inertias of the mounted robot's bodies, flat, if they are not its own.
        """
        rates, angular_velocity = self.check_rates(rig)
        lead = np.broadcast_shapes(joints.shape[:-1], rates.shape[:-1], angular_velocity.shape[:-1])
        # Base velocity, the rail's rate (zero: the latch holds until now), then the arm's rates.
        found = np.zeros((*lead, 7 + rig.arm.n))
        found[..., 3:6], found[..., 7:] = angular_velocity, rates
        if rig.device.heavy:
            if rig.device.pivot is not None:
                # v = -w x r with r from the base's origin to the pivot, which is at rest.
                found[..., :3] = np.cross(rig.device.pivot, found[..., 3:6])
            return found
        if not np.any(found):
            return found
        at = np.concatenate([np.zeros((*lead, 1)), np.broadcast_to(joints, (*lead, rig.arm.n))], axis=-1)
        # The linear rows of the mass matrix give the momentum; subtracting M times a common velocity removes it.
        matrix = mechanics_of(rig.mounted_robot).mass_matrix(at, inertia=inertia)
        momentum = np.einsum("...ij,...j->...i", matrix[..., :3, :], found)
        found[..., :3] = -momentum / matrix[..., 0, 0][..., None]
        held = [i for i in range(3) if i not in rig.free_base]
        # A table takes what it does not let move: only momentum in its plane is conserved.
        found[..., held] = 0.0
        return found

    def start(self, rig: Rig, joints: Array) -> State:
        """The mounted arm at the release, springs compressed."""
        configuration = np.concatenate([[0.0], joints])
        return State(np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]), configuration, self.velocity(rig, joints))
