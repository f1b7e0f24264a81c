"""Runs on disk: NetCDF 4 with names and units for any reader, and the raw arrays needed to restore the run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from spacearm.engine.solver import EndReason
from spacearm.errors import InputError
from spacearm.mechanics.motion import LoadFrame
from spacearm.model.files import robot_text, write_atomically
from spacearm.model.toml_read import robot_from_toml
from spacearm.result import Certificate, json_value
from spacearm.simulate.commands import CommandLog
from spacearm.simulate.motion import robot_motion
from spacearm.simulate.run.ledger import Ledger
from spacearm.simulate.run.run import Run, Track
from spacearm.simulate.run.segment import Occurrence, Stats
from spacearm.simulate.state import State
from spacearm.simulate.world import World

#: Value of the file's attribute ``spacearm_run``; an unknown one is rejected.
FORMAT = 1
_ARRAYS = {"integrated": "y", "inputs": "input", "outputs": "output", "stuck": "dof"}
_ENERGIES = tuple(each.name for each in fields(Ledger) if each.name != "entries")


def save_run(run: Run, path: str | Path) -> Path:
    """Write a run as NetCDF 4: each system's samples as a group ``track0``, ``track1``, ... with names and units.

    Commands of sampled laws and readings of their sensors are the groups ``law0``, ``law1``, ... of its phases.
    """
    import xarray as xr

    path = Path(path)
    # Robots as their own files' text: readable by any version that reads robot files.
    about = {
        "format": FORMAT,
        "reason": run.reason.name,
        "why": run.why,
        "end_time": run.end_time,
        "events": [asdict(event) for event in run.events],
        "stats": asdict(run.stats),
        "certificate": None if run.certificate is None else json_value(run.certificate),
        "phase_starts": run.phase_starts,
        "locked": run.world.locked,
        "overrides": run.world.overrides,
        "start": {name: state.vector for name, state in run.start.items()},
        "ends": None if run.ends is None else {name: state.vector for name, state in run.ends.items()},
        "systems": {name: robot_text(robot, "toml") for name, robot in run.world.systems.items()},
        "commands": [log.settings() for log in run.commands],
        "tracks": [
            {
                "name": track.name,
                "robot": robot_text(track.robot, "toml"),
                "robots": [[first, robot_text(robot, "toml")] for first, robot in track.robots],
                "loads": [asdict(load) for load in track.model.loads],
                "energies": track.ledger is not None,
                "ledger": track.model.ledger,
                "attrs": track.attrs,
            }
            for track in run.tracks
        ],
    }
    groups = {"/": xr.Dataset(attrs={"spacearm_run": json.dumps(json_value(about))})}
    for number, track in enumerate(run.tracks):
        # The solver's own arrays beside the labelled ones: the restored run is the same bit for bit.
        raw = {f"raw_{name}": (("time", size), getattr(track, name)) for name, size in _ARRAYS.items()}
        groups[f"track{number}"] = track.data.assign(raw).assign(_energies(track.ledger))
    for number, log in enumerate(run.commands):
        groups[f"law{number}"] = log.data().assign(raw_margin=(("time", "limited"), log.margins))
    if run.ledger is not None:
        groups["energies"] = xr.Dataset(_energies(run.ledger))
    # Packed in memory first: an interrupted write leaves the old file, not half of a new one.
    write_atomically(path, _pack_groups(groups))
    return path


def _energies(ledger: Ledger | None) -> dict[str, Any]:
    return {} if ledger is None else {f"raw_{name}": ("time", getattr(ledger, name)) for name in _ENERGIES}


def _pack_groups(groups: Mapping[str, Any]) -> bytes:
    """All groups as one file, in memory."""
    import xarray as xr

    # Lowest level: most of the gain for little of the time; shuffling bytes helps with doubles.
    packed = {"zlib": True, "complevel": 1, "shuffle": True}
    encoding = {
        f"/{name.strip('/')}": {
            str(key): packed for key, values in data.variables.items() if values.dtype.kind in "fiub" and values.size
        }
        for name, data in groups.items()
    }
    return bytes(xr.DataTree.from_dict(groups).to_netcdf(engine="h5netcdf", encoding=encoding))


def load_run(path: str | Path) -> Run:
    """Read a run that :meth:`Run.to_netcdf <spacearm.simulate.Run.to_netcdf>` wrote, to display and to compare.

    Its segments and changes are not kept: it cannot be cross-checked again.
    """
    import xarray as xr

    path = Path(path)
    if not os.path.isfile(path):  # false for a name that no file can have, too
        raise InputError("there is no such file", file=path)
    try:
        with xr.open_datatree(path, engine="h5netcdf") as tree:
            # A file of another kind is told apart from a damaged one.
            if "spacearm_run" not in tree.attrs:
                hint = "expected a file of Run.to_netcdf; xarray.open_datatree reads data.nc of a folder of results"
                raise InputError("does not hold a run", file=path, hint=hint)
            about = json.loads(tree.attrs["spacearm_run"])
            if about["format"] != FORMAT:
                raise InputError(f"is of format {about['format']}", file=path, hint=f"this version reads {FORMAT}")
            tracks = [_track(entry, tree[f"track{k}"].to_dataset()) for k, entry in enumerate(about["tracks"])]
            logs = [
                CommandLog.from_file(entry, tree[f"law{k}"].to_dataset())
                for k, entry in enumerate(about.get("commands", ()))
            ]
            whole = _ledger(tree["energies"].to_dataset()) if "energies" in tree.children else None
    except (OSError, KeyError, ValueError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        hint = "expected a file written by Run.to_netcdf"
        raise InputError(f"does not hold a run: {error}", file=path, hint=hint) from error
    return Run(
        World(
            {name: robot_from_toml(text) for name, text in about["systems"].items()},
            tuple(about["locked"]),
            about["overrides"],
        ),
        _states(about["start"]),
        EndReason[about["reason"]],
        about["why"],
        about["end_time"],
        tuple(Occurrence(**event) for event in about["events"]),
        Stats(**about["stats"]),
        None if about["certificate"] is None else Certificate.from_json(about["certificate"]),
        tuple(about["phase_starts"]),
        tuple(tracks),
        whole,
        (),
        None if about["ends"] is None else _states(about["ends"]),
        tuple(logs),
    )


def _states(table: Mapping[str, Any]) -> dict[str, State]:
    return {name: State.from_vector(np.array(vector)) for name, vector in table.items()}


def _track(entry: Mapping[str, Any], data: Any) -> Track:
    model = robot_motion(
        robot_from_toml(entry["robot"]), [LoadFrame(**load) for load in entry["loads"]], entry["ledger"]
    )
    arrays: dict[str, Any] = {name: np.ascontiguousarray(data[f"raw_{name}"].values) for name in _ARRAYS}
    # NetCDF has no truth values: they come back as bytes.
    arrays["stuck"] = arrays["stuck"].astype(bool)
    ledger = _ledger(data) if entry["energies"] else None
    forces: dict[str, Any] = {}
    if "loop_force" in data:
        forces |= {str(name): data["loop_force"].sel(loop=name).values for name in data["loop"].values}
    if "gear_force" in data:
        forces |= {str(name): data["gear_force"].sel(gear=[name]).values for name in data["gear"].values}
    arrays |= {"ledger": ledger, "attrs": entry["attrs"], "loop_forces": forces}
    robots = tuple((int(first), robot_from_toml(text)) for first, text in entry.get("robots", ()))
    return Track(entry["name"], model, data["time"].values, **arrays, robots=robots)


def _ledger(data: Any) -> Ledger:
    return Ledger(**{name: data[f"raw_{name}"].values for name in _ENERGIES})
