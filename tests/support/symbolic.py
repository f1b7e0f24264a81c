"""The mechanics of one robot through CasADi's own interpreter: no machine code, so 216 robots take seconds.

Compiled kernels are held against this interpreter in ``test_kernels_against_casadi.py``, on every kind of program.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import casadi as ca
import numpy as np

from spacearm.mechanics import dynamics, kinematics, momentum, regressor
from spacearm.mechanics.tree import Tree
from spacearm.model import Robot
from spacearm.typing import Array
from support.random_robots import RandomState


class Symbolic:
    """Quantities of the mechanics at a state, as NumPy arrays; those of frames are called ``frame1.jacobian``."""

    def __init__(self, robot: Robot, *quantities: str) -> None:
        self.robot = robot
        tree = Tree(robot)
        sym, dofs = ca.SX.sym, robot.dofs
        names = ["position", "quaternion", "joints", "velocity", "acceleration", "force", "drive", "mode", "inertia"]
        sizes = [3, 4, robot.n, dofs, dofs, dofs, dofs, dofs, 10 * tree.bodies]
        x = {name: sym(name, size) for name, size in zip(names, sizes, strict=True)}
        x["rotor"] = sym("rotor", tree.rotors)
        x["wrench"] = sym("wrench", 6 * len(robot.frames))
        q, v, inertia, rotor = x["joints"], x["velocity"], x["inertia"], x["rotor"]
        places = tree.placements(q)
        base = kinematics.base_pose(x["position"], x["quaternion"])
        pushes: list[Any] = [None] * tree.bodies
        for k, frame in enumerate(robot.frames):
            wrench = x["wrench"][6 * k : 6 * k + 6]
            push = kinematics.wrench_on_body(tree, places, x["quaternion"], frame, wrench, "world")
            body = robot.body_index(frame.body)
            pushes[body] = push if pushes[body] is None else pushes[body].plus(push)
        none: list[Any] = [None] * tree.bodies

        @cache
        def at_base() -> Any:
            return momentum.momentum(tree, q, v, inertia, rotor)

        def centre() -> Any:
            return base.origin + base.rotation @ momentum.centre_of_mass(tree, q, inertia)[1]

        @cache
        def hybrid() -> Any:
            return dynamics.hybrid_dynamics(tree, q, v, x["force"], x["drive"], x["mode"], inertia, rotor, pushes)

        @cache
        def mass_matrix() -> Any:
            return dynamics.mass_matrix(tree, q, inertia, rotor)

        def inverse(acceleration: Any, loads: list[Any]) -> Any:
            return dynamics.inverse_dynamics(tree, q, v, acceleration, inertia, rotor, loads)

        @cache
        def forces() -> regressor.Regressor:
            return regressor.dynamics_regressor(tree, q, v, x["acceleration"], rotor)

        @cache
        def momenta() -> regressor.Regressor:
            return regressor.momentum_regressor(tree, q, v, rotor)

        makers: dict[str, Callable[[], Any]] = {
            "mass_matrix": mass_matrix,
            "inverse_dynamics": lambda: inverse(x["acceleration"], pushes),
            "bias": lambda: inverse(ca.SX.zeros(dofs), none),
            "acceleration": lambda: hybrid().acceleration,
            "reaction": lambda: hybrid().reaction,
            "momentum_at_base": lambda: at_base().stack(),
            "momentum_at_origin": lambda: momentum.momentum_about(at_base(), base, ca.SX.zeros(3)),
            "momentum_at_centre": lambda: momentum.momentum_about(at_base(), base, centre()),
            "centre": centre,
            "kinetic_energy": lambda: momentum.kinetic_energy(tree, q, v, inertia, rotor),
            "dynamics_regressor": lambda: forces().matrix,
            "dynamics_offset": lambda: forces().offset,
            "momentum_regressor": lambda: momenta().matrix,
            "momentum_offset": lambda: momenta().offset,
        }
        for frame in robot.frames:
            pose = partial(kinematics.frame_pose, tree, places, base, frame)
            jacobian = partial(kinematics.frame_jacobian, tree, places, base, frame)
            makers[f"{frame.name}.rotation"] = lambda pose=pose: pose().rotation  # type: ignore[misc]
            makers[f"{frame.name}.origin"] = lambda pose=pose: pose().origin  # type: ignore[misc]
            makers[f"{frame.name}.jacobian"] = jacobian
            makers[f"{frame.name}.generalized_jacobian"] = lambda jacobian=jacobian: (  # type: ignore[misc]
                kinematics.generalized_jacobian(jacobian(), mass_matrix())
            )
        chosen = [name for name in makers if name in quantities or name.split(".")[-1] in quantities]
        y = {name: makers[name]() for name in chosen}
        self._inputs = x
        self._outputs = list(y)
        self._vectors = {name for name, value in y.items() if value.shape[1] == 1 and "jacobian" not in name}
        self._function = ca.Function("chosen", list(x.values()), [ca.densify(value) for value in y.values()])

    def __call__(self, state: RandomState, **more: Array) -> dict[str, Array]:
        """All quantities at ``state``; ``more`` gives acceleration, force, drive, mode, wrench, inertia, rotor."""
        given = {
            "position": state.position,
            "quaternion": state.quaternion,
            "joints": state.joints,
            "velocity": state.velocity,
            "inertia": self.robot.inertia_parameters.ravel(),
            "rotor": self.robot.rotor_inertias,
            **more,
        }
        unknown = set(given) - set(self._inputs)
        assert not unknown, unknown
        values = self._function.call(
            [given.get(name, np.zeros(symbol.shape[0])) for name, symbol in self._inputs.items()]
        )
        arrays = {name: np.array(value) for name, value in zip(self._outputs, values, strict=True)}
        return {name: value.ravel() if name in self._vectors else value for name, value in arrays.items()}
