"""Equivalent ejection mass: the effective mass, on the springs, of an arm whose joints yield.

The paper's Eqs. 11 and 15 invert a row vector; the mass that they mean is, with ``h`` the coupling of the rail's
direction with the free joints and ``H_r`` their inertia,

    m_eq = M - h^T H_r^-1 h

It is computed here as 1 over the rail's acceleration under one newton, by the articulated-body recursion on the mounted
arm: any joints may be free (a runtime value for each sample), any rail, and a satellite that recoils.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import casadi as ca
import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.ejection.rig import Rig
from spacearm.engine import Kernel
from spacearm.errors import InputError
from spacearm.mechanics import Program
from spacearm.mechanics.dynamics import hybrid_dynamics
from spacearm.mechanics.tree import Tree
from spacearm.model.base import BASE_DOFS
from spacearm.typing import Array


def mass_program(rig: Rig) -> Program:
    """Program with inputs ``joints``, ``free`` (n each; 1 free, 0 held), ``inertia`` (of the mounted robot), ``rotor``;
    output ``mass``.
    """
    tree = Tree(rig.mounted_robot)
    n = rig.arm.n
    joints, free = ca.SX.sym("joints", n), ca.SX.sym("free", n)
    inertia, rotor = ca.SX.sym("inertia", 10 * tree.bodies), ca.SX.sym("rotor", tree.rotors)
    # Which joints yield is an input, so that one program serves all combinations of brakes.
    base = ca.SX([1.0 if name in rig.rail_locks else 0.0 for name in BASE_DOFS])
    still = ca.SX.zeros(7 + n)
    push = ca.SX.zeros(7 + n)
    # One newton along the rail on an arm at rest: without velocity no other force acts, and 1 / acceleration is the
    # mass.
    push[6] = 1.0
    # The rail is free; a joint that is held is driven at zero acceleration.
    mode = ca.vertcat(base, 0.0, 1.0 - free)
    hybrid = hybrid_dynamics(
        tree, ca.vertcat(0.0, joints), still, push, still, mode, inertia, rotor, [None] * tree.bodies
    )
    inputs = {"joints": joints, "free": free, "inertia": inertia, "rotor": rotor}
    used = {name: symbol for name, symbol in inputs.items() if symbol.numel()}
    return Program("equivalent_mass", used, {"mass": ca.densify(1.0 / hybrid.acceleration[6])})


@lru_cache(maxsize=32)
def _kernel(rig: Rig) -> Kernel:
    return Kernel(mass_program(rig))


def free_mask(rig: Rig, free: Sequence[str] | npt.ArrayLike | None) -> Array:
    """1 for each free joint: from names, from a mask (..., n), or all of them."""
    n = rig.arm.n
    if free is None:
        return np.ones(n)
    if isinstance(free, str):
        free = [free]
    if isinstance(free, (list, tuple)) and all(isinstance(name, str) for name in free):
        mask = np.zeros(n)
        for name in free:
            mask[rig.arm.joint_index(str(name))] = 1.0
        return mask
    mask = np.asarray(free, dtype=np.float64)
    if mask.ndim == 0 or mask.shape[-1] != n or not np.all((mask == 0.0) | (mask == 1.0)):
        raise InputError("is neither joint names nor a mask", place="free joints", hint=f"expected (..., {n}) of 0, 1")
    return mask


def equivalent_mass(
    rig: Rig,
    joints: npt.ArrayLike,
    free: Sequence[str] | npt.ArrayLike | None = None,
    *,
    inertia: npt.ArrayLike | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Array:
    """Equivalent ejection mass (...), kg, at configurations (..., n), with the arm at rest at the start of the rail.

    Args:
        free: joints that move without friction, by name or as a mask (..., n); all if omitted.
        inertia: (..., n + 1, 10) in place of the arm's own, bodies in the arm's order.
    """
    configurations = checks.array(joints, "configuration", (..., rig.arm.n), finite=False)
    kernel = _kernel(rig)
    if rig.arm.n == 0:  # no joint yields: one number for all
        own = kernel({"inertia": rig.mounted_robot.inertia_parameters.ravel()})["mass"]
        return np.asarray(np.broadcast_to(own[0], configurations.shape[:-1]).copy())
    arrays: dict[str, npt.ArrayLike] = {"joints": configurations, "free": free_mask(rig, free)}
    arrays["inertia"] = (
        rig.mounted_robot.inertia_parameters.ravel() if inertia is None else prepend_satellite_inertia(rig, inertia)
    )
    if "rotor" in kernel.inputs:
        arrays["rotor"] = rig.mounted_robot.rotor_inertias
    return kernel(arrays, threads=threads, progress=progress)["mass"][..., 0]


def prepend_satellite_inertia(rig: Rig, inertia: npt.ArrayLike) -> Array:
    """Inertias of the arm's bodies (..., n + 1, 10) preceded by the satellite's, flat."""
    own = np.asarray(inertia, dtype=np.float64)
    bodies = len(rig.arm.bodies)
    if own.shape[-2:] == (bodies, 10):
        own = own.reshape(*own.shape[:-2], 10 * bodies)
    if own.shape[-1] != 10 * bodies:
        raise InputError(f"has shape {own.shape}", place="inertia", hint=f"expected (..., {bodies}, 10)")
    first = np.broadcast_to(rig.mounted_robot.inertia_parameters[0], (*own.shape[:-1], 10))
    return np.concatenate([first, own], axis=-1)


def joint_free_bound(rig: Rig, joint: str) -> float:
    """Smallest equivalent mass (kg) that freeing this joint alone can leave, at any configuration and for any inertias.

    With the joint's subtree of mass m, ``h = sum m_i (z x r_i) . e`` over it, and ``H = I_zz + sum m_i |z x r_i|^2``;
    Cauchy-Schwarz gives ``h^2 <= m sum m_i |z x r_i|^2 <= m H``, so ``M - h^2 / H >= M - m``. For a heavy satellite.
    """
    beyond = set(rig.arm.subtree(rig.arm.joint(joint).child))
    return float(sum(body.inertia.mass for body in rig.arm.bodies if body.name not in beyond))
