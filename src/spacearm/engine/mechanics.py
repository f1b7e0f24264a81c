"""The mechanics of one robot as compiled functions.

Each method is a program of :mod:`spacearm.mechanics.programs`, compiled when it is first called and evaluated for any
batch shape. Kernels are cached by structure, geometry and names: robots that differ only in their inertias share them,
since inertias are inputs. What the robot itself gives (inertias, rotors, a base at the world's origin) is filled in
where a call does not; a caller's inertias replace the robot's, and so does all that follows from them.

Inputs may be arrays on a GPU, where the results then are; in float64 they have the processor's bits. Shapes and frames
are those of the programs: generalised vectors (..., 6 + n) with the base's part in base axes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.engine.device import Device, Precision, cupy, is_device_array, to_cupy
from spacearm.engine.kernel import Kernel
from spacearm.errors import InputError
from spacearm.mechanics import Program, build
from spacearm.mechanics.motion import LoadFrame
from spacearm.mechanics.structure import Keyed, structure
from spacearm.model import Robot
from spacearm.typing import Array

_IDENTITY = {"position": np.zeros(3), "quaternion": np.array([1.0, 0.0, 0.0, 0.0])}


class Mechanics:
    """Kinematics and dynamics of a robot, compiled when first called.

    Joint positions are (..., n); generalised velocities, accelerations and forces (..., 6 + n): the base's linear and
    angular part in base axes, then the joints. ``base`` is the base's pose in the world, (..., 7): position and
    quaternion (w, x, y, z); without it the base frame is the world frame. Every function takes ``inertia``,
    (..., n + 1, 10), to replace the robot's own. All accept and return any leading batch shape.

    With ``device="gpu"``, batches run on an NVIDIA GPU; so they do without that word where an argument is there. With
    ``precision="float32"`` they run there in single precision, and their results have it.
    """

    def __init__(self, robot: Robot, *, device: Device = "cpu", precision: Precision = "float64") -> None:
        self.robot = robot
        self.device = checks.one_of(device, ("cpu", "gpu"), "device")
        self.precision = checks.one_of(precision, ("float64", "float32"), "precision")
        self._constants = {"inertia": robot.inertia_parameters.ravel(), "rotor": robot.rotor_inertias}

    # -- programs -----------------------------------------------------------------------------------------------

    def program(self, name: str, **options: Any) -> Program:
        """The symbolic program of this name: see :mod:`spacearm.mechanics.programs`."""
        return build(self.robot, name, **options)

    def kernel(self, name: str, **options: Any) -> Kernel:
        """The compiled program of this name, kept for the next call."""
        return self._find_kernel((), name, options)

    def derivative(self, name: str, output: str, *wrt: str, **options: Any) -> Kernel:
        """Compiled first derivatives of a program's output: outputs ``d_<output>_d_<input>``."""
        return self._find_kernel((output, *wrt), name, options)

    def _find_kernel(self, derivative: tuple[str, ...], name: str, options: dict[str, Any]) -> Kernel:
        frames = [options["frame"]] if "frame" in options else [load.frame for load in options.get("loads", ())]
        key = structure(self.robot, frames), derivative, name, *sorted(options.items())
        return _kernel(Keyed(key, (self.robot, derivative, name, options)))

    def evaluate(
        self, kernel: Kernel, base: npt.ArrayLike | None = None, **arrays: npt.ArrayLike | None
    ) -> dict[str, Array]:
        """Run a kernel of this robot, with the robot's own inertias where none are given."""
        # What has no numbers says nothing: a body without joints has joint positions of length zero.
        given = {name: value for name, value in arrays.items() if value is not None}
        given = {name: value for name, value in given.items() if name in kernel.inputs or np.size(value)}
        for name in given:
            if name not in kernel.inputs:
                hint = "name the frames that it acts on in 'loads'" if name == "wrench" else ""
                raise InputError(f"{kernel.program.name} does not use {name!r}", hint=hint)
        own = self._constants
        if "inertia" in given:  # what follows from it is not the robot's own either
            own = {name: value for name, value in own.items() if name not in kernel.program.derived}
        else:
            own |= kernel.derive(own)
        given |= {name: value for name, value in own.items() if name in kernel.inputs and name not in given}
        given |= self._pose(kernel, base)
        used = {name: value for name, value in given.items() if name in kernel.inputs}
        return kernel(used, device=self.device, precision=self.precision)

    def _pose(self, kernel: Kernel, base: npt.ArrayLike | None) -> dict[str, Array]:
        if "position" not in kernel.inputs and "quaternion" not in kernel.inputs:
            return {}
        if base is None:
            return _IDENTITY
        if is_device_array(base):  # not looked through
            there: Any = to_cupy(cupy(), base)
            return {"position": there[..., :3], "quaternion": there[..., 3:]}
        hint = "expected (..., 7): position, w, x, y, z"
        pose = checks.array(base, "base pose", (..., 7), finite=False, hint=hint)
        checks.unit_vector(pose[..., 3:], "base quaternion", (..., 4), finite=False)
        return {"position": np.ascontiguousarray(pose[..., :3]), "quaternion": np.ascontiguousarray(pose[..., 3:])}

    # -- dynamics -----------------------------------------------------------------------------------------------

    def mass_matrix(self, joints: npt.ArrayLike, *, inertia: npt.ArrayLike | None = None) -> Array:
        """Joint-space inertia H (..., 6 + n, 6 + n)."""
        return self.evaluate(self.kernel("mass_matrix"), joints=joints, inertia=inertia)["mass_matrix"]

    def mass_blocks(self, joints: npt.ArrayLike, *, inertia: npt.ArrayLike | None = None) -> tuple[Array, Array, Array]:
        """Blocks of H: base (6, 6), coupling (6, n), arm (n, n).

        Degrees of freedom that the robot's base lacks have rows and columns of the identity: H_b^-1 H_bm is then the
        reaction of the base that is there.
        """
        matrix = self.mass_matrix(joints, inertia=inertia)
        if locked := self.robot.base.locked_indices:
            matrix = matrix.copy()
            matrix[..., locked, :], matrix[..., :, locked] = 0.0, 0.0
            matrix[..., locked, locked] = 1.0
        return matrix[..., :6, :6], matrix[..., :6, 6:], matrix[..., 6:, 6:]

    def bias(self, joints: npt.ArrayLike, velocity: npt.ArrayLike, *, inertia: npt.ArrayLike | None = None) -> Array:
        """Velocity-dependent force c (..., 6 + n) in H a + c = force."""
        return self.evaluate(self.kernel("bias"), joints=joints, velocity=velocity, inertia=inertia)["bias"]

    def inverse_dynamics(
        self,
        joints: npt.ArrayLike,
        velocity: npt.ArrayLike,
        acceleration: npt.ArrayLike,
        *,
        loads: tuple[LoadFrame, ...] = (),
        wrench: npt.ArrayLike | None = None,
        base: npt.ArrayLike | None = None,
        inertia: npt.ArrayLike | None = None,
    ) -> Array:
        """Generalised force that gives this acceleration while ``wrench`` (..., 6 for each load) acts."""
        kernel = self.kernel("inverse_dynamics", loads=loads)
        return self.evaluate(
            kernel, base, joints=joints, velocity=velocity, acceleration=acceleration, wrench=wrench, inertia=inertia
        )["force"]

    def forward_dynamics(
        self,
        joints: npt.ArrayLike,
        velocity: npt.ArrayLike,
        force: npt.ArrayLike,
        *,
        loads: tuple[LoadFrame, ...] = (),
        wrench: npt.ArrayLike | None = None,
        base: npt.ArrayLike | None = None,
        inertia: npt.ArrayLike | None = None,
    ) -> Array:
        """Acceleration of the robot with every degree of freedom free."""
        kernel = self.kernel("forward_dynamics", loads=loads)
        return self.evaluate(
            kernel, base, joints=joints, velocity=velocity, force=force, wrench=wrench, inertia=inertia
        )["acceleration"]

    def hybrid_dynamics(
        self,
        joints: npt.ArrayLike,
        velocity: npt.ArrayLike,
        force: npt.ArrayLike,
        drive: npt.ArrayLike,
        mode: npt.ArrayLike,
        *,
        loads: tuple[LoadFrame, ...] = (),
        wrench: npt.ArrayLike | None = None,
        base: npt.ArrayLike | None = None,
        inertia: npt.ArrayLike | None = None,
    ) -> tuple[Array, Array]:
        """Accelerations and reactions; ``mode`` is 0 (free) or 1 (driven with acceleration ``drive``) for each dof."""
        # What is on a GPU is not looked through.
        chosen = np.zeros(1) if is_device_array(mode) else np.asarray(mode, dtype=np.float64)
        if not np.all((chosen == 0) | (chosen == 1)):
            raise InputError("mode has entries other than 0 and 1", hint="expected 0 (free) or 1 (driven) for each dof")
        result = self.evaluate(
            self.kernel("hybrid_dynamics", loads=loads),
            base,
            joints=joints,
            velocity=velocity,
            force=force,
            drive=drive,
            mode=mode,
            wrench=wrench,
            inertia=inertia,
        )
        return result["acceleration"], result["reaction"]

    # -- kinematics ---------------------------------------------------------------------------------------------

    def body_poses(self, joints: npt.ArrayLike, *, base: npt.ArrayLike | None = None) -> tuple[Array, Array]:
        """Origins (..., n + 1, 3) and rotation matrices (..., n + 1, 3, 3) of all bodies in the world."""
        result = self.evaluate(self.kernel("body_poses"), base, joints=joints)
        rotation = result["rotation"]
        return result["origin"], rotation.reshape(*rotation.shape[:-2], -1, 3, 3)

    def frame_pose(
        self, frame: str, joints: npt.ArrayLike, *, base: npt.ArrayLike | None = None
    ) -> tuple[Array, Array]:
        """Origin (..., 3) and rotation matrix (..., 3, 3) of a frame in the world."""
        result = self.evaluate(self.kernel("frame_pose", frame=frame), base, joints=joints)
        return result["origin"], result["rotation"]

    def jacobian(self, frame: str, joints: npt.ArrayLike, *, base: npt.ArrayLike | None = None) -> Array:
        """Map (..., 6, 6 + n) from generalised velocity to the frame's twist at its origin, world axes."""
        return self.evaluate(self.kernel("jacobian", frame=frame), base, joints=joints)["jacobian"]

    def frame_velocity(
        self, frame: str, joints: npt.ArrayLike, velocity: npt.ArrayLike, *, base: npt.ArrayLike | None = None
    ) -> Array:
        """Twist (..., 6) of a frame at its origin, world axes."""
        kernel = self.kernel("frame_velocity", frame=frame)
        return self.evaluate(kernel, base, joints=joints, velocity=velocity)["twist"]

    def frame_acceleration(
        self,
        frame: str,
        joints: npt.ArrayLike,
        velocity: npt.ArrayLike,
        acceleration: npt.ArrayLike,
        *,
        base: npt.ArrayLike | None = None,
    ) -> Array:
        """Acceleration of a frame's origin and its angular acceleration (..., 6), world axes."""
        kernel = self.kernel("frame_acceleration", frame=frame)
        return self.evaluate(kernel, base, joints=joints, velocity=velocity, acceleration=acceleration)["acceleration"]

    def generalized_jacobian(
        self,
        frame: str,
        joints: npt.ArrayLike,
        *,
        base: npt.ArrayLike | None = None,
        inertia: npt.ArrayLike | None = None,
    ) -> Array:
        """J* (..., 6, n): the frame's twist, world axes, for joint rates at zero momentum.

        The base reacts with the degrees of freedom that it has; with a held base, J* is that of the joints alone.
        """
        kernel = self.kernel("generalized_jacobian", frame=frame)
        return self.evaluate(kernel, base, joints=joints, inertia=inertia)["generalized_jacobian"]

    # -- momentum and energy ------------------------------------------------------------------------------------

    def momentum(
        self,
        joints: npt.ArrayLike,
        velocity: npt.ArrayLike,
        *,
        base: npt.ArrayLike | None = None,
        about: npt.ArrayLike | str = "origin",
        inertia: npt.ArrayLike | None = None,
    ) -> Array:
        """Linear momentum and angular momentum (..., 6), world axes; ``about`` a world point, "origin" or "com"."""
        if isinstance(about, str):
            if about not in ("origin", "com"):
                raise InputError(f"momentum about {about!r}", hint="expected a point, 'origin' or 'com'")
            about = np.zeros(3) if about == "origin" else self.centre_of_mass(joints, base=base, inertia=inertia)
        kernel = self.kernel("momentum")
        return self.evaluate(kernel, base, joints=joints, velocity=velocity, point=about, inertia=inertia)["momentum"]

    def kinetic_energy(
        self, joints: npt.ArrayLike, velocity: npt.ArrayLike, *, inertia: npt.ArrayLike | None = None
    ) -> Array:
        """Kinetic energy (...), J."""
        kernel = self.kernel("kinetic_energy")
        return self.evaluate(kernel, joints=joints, velocity=velocity, inertia=inertia)["kinetic_energy"][..., 0]

    def centre_of_mass(
        self, joints: npt.ArrayLike, *, base: npt.ArrayLike | None = None, inertia: npt.ArrayLike | None = None
    ) -> Array:
        """Mass centre of the whole robot in the world (..., 3)."""
        return self.evaluate(self.kernel("centre_of_mass"), base, joints=joints, inertia=inertia)["centre_of_mass"]

    # -- regressors ---------------------------------------------------------------------------------------------

    def dynamics_regressor(
        self, joints: npt.ArrayLike, velocity: npt.ArrayLike, acceleration: npt.ArrayLike
    ) -> tuple[Array, Array]:
        """Matrix (..., 6 + n, 10(n + 1)) and offset (..., 6 + n): force = matrix @ parameters + offset (rotors)."""
        kernel = self.kernel("dynamics_regressor")
        result = self.evaluate(kernel, joints=joints, velocity=velocity, acceleration=acceleration)
        return result["regressor"], result["offset"]

    def momentum_regressor(self, joints: npt.ArrayLike, velocity: npt.ArrayLike) -> tuple[Array, Array]:
        """Matrix (..., 6, 10(n + 1)) and offset (..., 6) of the momentum at the base's origin, base axes."""
        result = self.evaluate(self.kernel("momentum_regressor"), joints=joints, velocity=velocity)
        return result["regressor"], result["offset"]


@lru_cache(maxsize=256)
def _kernel(made: Keyed[tuple[Robot, tuple[str, ...], str, dict[str, Any]]]) -> Kernel:
    """Robots that differ in their numbers alone share it."""
    robot, derivative, name, options = made.value
    program = build(robot, name, **options)
    return Kernel(program.jacobian(*derivative) if derivative else program)


@lru_cache(maxsize=64)
def mechanics_of(robot: Robot) -> Mechanics:
    """The robot's :class:`Mechanics`, made once: equal robots share one."""
    return Mechanics(robot)
