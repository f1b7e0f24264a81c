"""A run's samples as an xarray Dataset with names and units."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from spacearm.model.layout import QUATERNION, Layout
from spacearm.model.rotations import attitude_angles, rotation_matrices
from spacearm.simulate.motion import RobotMotion
from spacearm.simulate.run.ledger import Ledger
from spacearm.typing import Array

if TYPE_CHECKING:
    import pandas as pd
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


#: Entries of a wrench.
WRENCH = ["fx", "fy", "fz", "mx", "my", "mz"]
ANGLES = "roll, pitch, yaw of the base: world from base is Rz(yaw) Ry(pitch) Rx(roll)"


def label_dataset(coords: Mapping[str, Any], variables: Mapping[str, tuple[Any, ...]], **attrs: Any) -> xr.Dataset:
    """A dataset from variables (dimensions, values, unit, meaning); coordinates are lists, or such tuples too.

    Dimensions are a text with blanks between or, if names may contain blanks, a tuple. The meaning is optional.
    """
    import xarray as xr

    def entry(dims: str | tuple[str, ...], values: Any, unit: str, text: str = "") -> tuple[Any, Any, dict[str, str]]:
        about = {"units": unit, "long_name": text} if text else {"units": unit}
        return dims.split() if isinstance(dims, str) else dims, np.ascontiguousarray(values), about

    return xr.Dataset(
        {name: entry(*given) for name, given in variables.items()},
        {name: entry(*given) if isinstance(given, tuple) else given for name, given in coords.items()},
        attrs,
    )


def dataset(
    model: RobotMotion,
    times: Array,
    y: Array,
    inputs: Array,
    outputs: Array,
    stuck: npt.NDArray[np.bool_],
    account: Ledger | None,
    attrs: Mapping[str, Any],
    loops: Mapping[str, Array] | None = None,
) -> xr.Dataset:
    """Samples of the integrated vector, of the kernel's input and of its output at each time."""
    robot, at = model.robot, Layout(model.robot.n)
    rotation, places, reaction = rotation_matrices(y[:, QUATERNION]), model.kernel.inputs, model.code.reaction
    # The solver has them in base axes, trackers and observers in the world.
    velocity, angular_rate = (
        np.einsum("tij,tj->ti", rotation, y[:, p]) for p in (at.linear_velocity, at.angular_velocity)
    )
    held = "force that drives or holds a driven, locked or stuck degree of freedom"
    rate = "rate of the generalised velocity (base: components in base axes)"
    variables: dict[str, tuple[Any, ...]] = {
        "base_position": ("time axis", y[:, :3], "m", "base origin in the world"),
        "base_quaternion": ("time component", y[:, QUATERNION], "1", "base to world rotation, w x y z"),
        "base_attitude": ("time angle", attitude_angles(rotation), "rad", ANGLES),
        "base_velocity": ("time axis", velocity, "m/s", "velocity of the base origin, world axes"),
        "base_angular_velocity": ("time axis", angular_rate, "rad/s", "angular velocity of the base, world axes"),
        "joint_position": ("time joint", y[:, at.joints], "rad or m", "joint positions"),
        "joint_velocity": ("time joint", y[:, at.rates], "rad/s or m/s", "joint rates"),
        "acceleration": ("time dof", outputs[:, at.velocity], "rad/s2 or m/s2", rate),
        "force": ("time dof", inputs[:, places["force"]], "N or N m", "applied generalised force"),
        "reaction": ("time dof", outputs[:, reaction : reaction + robot.dofs], "N or N m", held),
        "friction": ("time dof", inputs[:, places["friction"]], "N or N m", "dry friction while slipping"),
        "mode": ("time dof", inputs[:, places["mode"]].astype(np.int8), "1", "0 free, 1 driven, locked or stuck"),
        "stuck": ("time dof", stuck, "1", "whether dry friction holds it"),
    }
    coords: dict[str, Any] = {
        "time": ("time", times, "s", "time"),
        "axis": ["x", "y", "z"],
        "angle": ["roll", "pitch", "yaw"],
        "component": ["w", "x", "y", "z"],
        "joint": list(robot.joint_names),
        "dof": list(robot.dof_names),
    }
    if model.loads:
        wrench = inputs[:, places["wrench"]].reshape(len(times), -1, 6)
        variables["wrench"] = ("time load entry", wrench, "N or N m", "applied wrenches: force, then moment")
        coords["load"] = [f"{load.frame} ({load.element or load.axes + ' axes'})" for load in model.loads]
        coords["entry"] = WRENCH
    # A gear has one force, a loop between frames six: two variables.
    joined = {name: own for name, own in (loops or {}).items() if own.shape[1] == len(WRENCH)}
    gears = {name: own for name, own in (loops or {}).items() if name not in joined}
    if joined:
        forces, meaning = np.stack([*joined.values()], axis=1), "on the second frame of a loop, in the first one's axes"
        variables["loop_force"] = ("time loop entry", forces, "N or N m", meaning)
        coords["loop"], coords["entry"] = [*joined], WRENCH
    if gears:
        efforts = np.concatenate([*gears.values()], axis=1)
        variables["gear_force"] = ("time gear", efforts, "N or N m", "on the first joint of a gear")
        coords["gear"] = [*gears]
    if account is not None:
        for name, meaning in ENERGIES.items():
            variables[f"energy_{name}"] = ("time", getattr(account, name), "J", meaning)
    found = label_dataset(coords, variables, **attrs)
    return found.assign_coords(joint_unit=("joint", [joint.unit for joint in robot.joints]))


def as_frame(data: xr.Dataset) -> pd.DataFrame:
    """A dataset as a table with a row for each time: columns ``variable.label``, units in ``attrs["units"]``.

    xarray's own table has a row for every combination of time, joint, axis and degree of freedom.
    """
    import pandas as pd

    columns: dict[str, npt.NDArray[Any]] = {}
    units: dict[str, str] = {}
    own = dict(zip(data["joint"].values, data["joint_unit"].values, strict=True)) if "joint_unit" in data.coords else {}
    for name, variable in data.data_vars.items():
        if "time" not in variable.dims:
            continue
        # A column for each combination of the other dimensions: one row for each time.
        others = [dim for dim in variable.dims if dim != "time"]
        values = variable.transpose("time", *others).values.reshape(data.sizes["time"], -1)
        labels = [[str(label) for label in data[dim].values] for dim in others]
        unit = str(variable.attrs.get("units", ""))
        # The order of product is that of reshape: the last dimension runs fastest.
        for k, parts in enumerate(itertools.product(*labels)):
            column = ".".join((str(name), *parts))
            columns[column] = values[:, k]
            units[column] = unit
            # Units such as "rad or m" are resolved by the kind of each joint.
            if " or " in unit and others == ["joint"]:
                units[column] = unit.split(" or ")[own[parts[0]] == "m"]
    found = pd.DataFrame(columns, index=pd.Index(data["time"].values, name="time"))
    found.attrs["units"] = {"time": "s", **units}
    return found
