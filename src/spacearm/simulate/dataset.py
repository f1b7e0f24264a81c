"""A run's samples as an xarray Dataset with names and units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from spacearm.model.layout import QUATERNION, Layout
from spacearm.model.rotations import attitude_angles, rotation_matrices
from spacearm.simulate.ledger import Ledger
from spacearm.simulate.motion import Motion
from spacearm.typing import Array

if TYPE_CHECKING:
    import xarray as xr


ENERGIES = {
    "kinetic": "kinetic energy",
    "elastic": "energy in springs and couplings",
    "damping": "energy dissipated by dampers since the start",
    "coupling": "energy dissipated by dampers of couplings since the start",
    "friction": "energy dissipated by dry friction since the start",
    "drive": "work done by forces and drives since the start",
    "load": "work done by loads on frames since the start",
}


ANGLES = "roll, pitch, yaw of the base: world from base is Rz(yaw) Ry(pitch) Rx(roll)"


def dataset(
    model: Motion,
    times: Array,
    y: Array,
    inputs: Array,
    outputs: Array,
    stuck: npt.NDArray[np.bool_],
    account: Ledger | None,
    attrs: Mapping[str, Any],
) -> xr.Dataset:
    """Samples of the integrated vector, of the kernel's input and of its output at each time."""
    import xarray as xr

    robot, n = model.robot, model.robot.n
    rotation = rotation_matrices(y[:, QUATERNION])
    velocity = y[:, Layout(n).velocity]
    places = model.kernel.inputs
    mode = inputs[:, places["mode"]]
    variables: dict[str, tuple[tuple[str, ...], Any, str, str]] = {
        "base_position": (("time", "axis"), y[:, :3], "m", "base origin in the world"),
        "base_quaternion": (("time", "component"), y[:, QUATERNION], "1", "base to world rotation, w x y z"),
        "base_attitude": (("time", "angle"), attitude_angles(rotation), "rad", ANGLES),
        "base_velocity": (
            ("time", "axis"),
            np.einsum("tij,tj->ti", rotation, velocity[:, :3]),
            "m/s",
            "velocity of the base origin, world axes",
        ),
        "base_angular_velocity": (
            ("time", "axis"),
            np.einsum("tij,tj->ti", rotation, velocity[:, 3:6]),
            "rad/s",
            "angular velocity of the base, world axes",
        ),
        "joint_position": (("time", "joint"), y[:, Layout(n).joints], "rad or m", "joint positions"),
        "joint_velocity": (("time", "joint"), velocity[:, 6:], "rad/s or m/s", "joint rates"),
        "acceleration": (
            ("time", "dof"),
            outputs[:, Layout(n).velocity],
            "rad/s2 or m/s2",
            "rate of the generalised velocity (base: components in base axes)",
        ),
        "force": (("time", "dof"), inputs[:, places["force"]], "N or N m", "applied generalised force"),
        "reaction": (
            ("time", "dof"),
            outputs[:, model.code.reaction : model.code.reaction + robot.dofs],
            "N or N m",
            "force that drives or holds a driven, locked or stuck degree of freedom",
        ),
        "friction": (("time", "dof"), inputs[:, places["friction"]], "N or N m", "dry friction while slipping"),
        "mode": (("time", "dof"), mode.astype(np.int8), "1", "0 free, 1 driven, locked or stuck"),
        "stuck": (("time", "dof"), stuck, "1", "whether dry friction holds it"),
    }
    if model.loads:
        wrench = inputs[:, places["wrench"]].reshape(len(times), -1, 6)
        variables["wrench"] = (("time", "load", "entry"), wrench, "N or N m", "applied wrenches: force, then moment")
    if account is not None:
        for name, meaning in ENERGIES.items():
            variables[f"energy_{name}"] = (("time",), getattr(account, name), "J", meaning)
    coords = {
        "time": ("time", times, {"units": "s", "long_name": "time"}),
        "axis": ("axis", ["x", "y", "z"]),
        "angle": ("angle", ["roll", "pitch", "yaw"]),
        "component": ("component", ["w", "x", "y", "z"]),
        "joint": ("joint", list(robot.joint_names)),
        "dof": ("dof", list(robot.dof_names)),
        "joint_unit": ("joint", [joint.unit for joint in robot.joints]),
    }
    if model.loads:
        coords["load"] = ("load", [f"{load.frame} ({load.by or load.axes + ' axes'})" for load in model.loads])
        coords["entry"] = ("entry", ["fx", "fy", "fz", "mx", "my", "mz"])
    data = {
        name: (dims, np.ascontiguousarray(values), {"units": units, "long_name": text})
        for name, (dims, values, units, text) in variables.items()
    }
    return xr.Dataset(data, coords=coords, attrs=attrs)
