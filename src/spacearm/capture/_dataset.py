"""An outcome as an xarray Dataset with names and units."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spacearm import study
from spacearm.capture.capture_run import CaptureRun
from spacearm.model.layout import Layout

if TYPE_CHECKING:
    import xarray as xr

    from spacearm.capture.target import CaughtTarget


def dataset(run: CaptureRun, caught: CaughtTarget | None = None) -> xr.Dataset:
    """Base, deformations, loads, energies and momentum shares over time."""
    robot, at = run.robot, Layout(run.robot.n)
    soft = [robot.joint_index(name) for name in run.axes]
    shares = run.momentum_budget(caught)
    linear, angular = (np.stack(list(part.values()), 1) for part in (shares.linear, shares.angular))
    about = "angular momentum of base, arm, target about the mass centre of all, world axes"
    passed, shaking = (
        "wrench that a joint transmits to its parent, parent axes",
        "base velocity relative to the united body",
    )
    return study.dataset(
        {
            "time": ("time", run.times, "s", "time"),
            "xyz": ["x", "y", "z"],
            "axis": list(run.axes),
            "joint": list(robot.joint_names),
            "entry": ["fx", "fy", "fz", "mx", "my", "mz"],
            "group": list(shares.linear),
        },
        {
            "base_velocity": ("time xyz", run.base_velocity, "m/s", "velocity of the base origin, world axes"),
            "base_rate": ("time xyz", run.base_rate, "rad/s", "angular velocity of the base, world axes"),
            "base_angles": ("time xyz", run.base_angles, "rad", "attitude of the base, Rot(x) Rot(y) Rot(z)"),
            "base_position": ("time xyz", run.states[:, :3], "m", "base origin in the world"),
            "deformation": ("time axis", run.states[:, at.joints][:, soft], "m or rad", "soft axes"),
            "deformation_rate": ("time axis", run.states[:, at.rates][:, soft], "m/s or rad/s", "soft axes"),
            "joint_wrenches": ("time joint entry", run.joint_wrenches, "N or N m", passed),
            "base_vibration": ("time entry", run.base_vibration, "m/s or rad/s", f"{shaking}, base axes"),
            "damper_energy": ("time axis", run.damper_energy[:, soft], "J", "energy that each damper absorbed"),
            "momentum": ("time group xyz", linear, "kg m/s", "momentum of base, arm, target, world axes"),
            "angular_momentum": ("time group xyz", angular, "kg m2/s", about),
            **{f"energy_{name}": ("time", series, "J", f"energy: {name}") for name, series in run.energies.items()},
        },
        robot=robot.name,
    )
