"""An outcome as an xarray Dataset with names and units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.capture.capture_run import CaptureRun
from spacearm.model.layout import Layout

if TYPE_CHECKING:
    import xarray as xr

    from spacearm.capture.target import Caught


def dataset(outcome: CaptureRun, caught: Caught | None = None) -> xr.Dataset:
    """Base, deformations, loads, energies and momentum shares over time."""
    import xarray as xr

    robot = outcome.robot
    rows = [robot.joint_index(name) for name in outcome.axes]
    at = Layout(robot.n)
    shares = outcome.momentum_budget(caught)
    values: dict[str, tuple[tuple[str, ...], Any, str, str]] = {
        "base_velocity": (("time", "xyz"), outcome.base_velocity, "m/s", "velocity of the base origin, world axes"),
        "base_rate": (("time", "xyz"), outcome.base_rate, "rad/s", "angular velocity of the base, world axes"),
        "base_angles": (("time", "xyz"), outcome.base_angles, "rad", "attitude of the base, Rot(x) Rot(y) Rot(z)"),
        "base_position": (("time", "xyz"), outcome.states[:, :3], "m", "base origin in the world"),
        "deformation": (("time", "axis"), outcome.states[:, at.joints][:, rows], "m or rad", "soft axes"),
        "deformation_rate": (
            ("time", "axis"),
            outcome.states[:, at.rates][:, rows],
            "m/s or rad/s",
            "soft axes",
        ),
        "joint_wrenches": (
            ("time", "joint", "entry"),
            outcome.joint_wrenches,
            "N or N m",
            "wrench that a joint passes on to its parent, parent axes",
        ),
        "base_vibration": (
            ("time", "entry"),
            outcome.base_vibration,
            "m/s or rad/s",
            "base velocity less the united body's, base axes",
        ),
        "damper_energy": (("time", "axis"), outcome.damper_energy[:, rows], "J", "energy that each damper absorbed"),
        "momentum": (
            ("time", "group", "xyz"),
            np.stack(list(shares.linear.values()), 1),
            "kg m/s",
            "momentum of base, arm, target, world axes",
        ),
        "angular_momentum": (
            ("time", "group", "xyz"),
            np.stack(list(shares.angular.values()), 1),
            "kg m2/s",
            "angular momentum of base, arm, target about the mass centre of all, world axes",
        ),
    }
    for name, series in outcome.energies.items():
        values[f"energy_{name}"] = (("time",), series, "J", f"energy: {name}")
    data = {
        name: (dims, np.ascontiguousarray(array), {"units": unit, "long_name": text})
        for name, (dims, array, unit, text) in values.items()
    }
    coords = {
        "time": ("time", outcome.times, {"units": "s", "long_name": "time"}),
        "xyz": ["x", "y", "z"],
        "axis": list(outcome.axes),
        "joint": list(robot.joint_names),
        "entry": ["fx", "fy", "fz", "mx", "my", "mz"],
        "group": list(shares.linear),
    }
    return xr.Dataset(data, coords=coords, attrs={"robot": robot.name})
