"""Tosses of a cube with MuJoCo, beside ``spacearm run examples/lab/cube-tosses.toml``: same page, starts and search.

    python tools/cube_mujoco.py FOLDER [--step 0.0005] [--page PAGE] [--average mean]

``FOLDER`` is ``assets`` of a clone of github:DAIRLab/dair_pll (BSD-3). Records, measured starts, errors, the number of
points of the search and its seed are those of the page. MuJoCo has as many numbers to tune: friction, and time constant
and damping ratio of its contacts (``solref``), with the elliptic friction cone.
"""

from __future__ import annotations

import argparse
import time
import tomllib
from pathlib import Path

import mujoco
import numpy as np

from spacearm.errors import SimulationError
from spacearm.model.document import validate_tables
from spacearm.study.scenario import Session
from spacearm.typing import Array
from spacearm.validation._quantities import ATTITUDE
from spacearm.validation._tuning import RecordErrors, TunedRecord, prepare_records, tune_numbers
from spacearm.validation.scenario import ValidationFile

PAGE = Path(__file__).parents[1] / "examples" / "lab" / "cube-tosses.toml"
#: Numbers that MuJoCo has in place of the page's.
NUMBERS = [
    {"key": "friction", "low": 0.03, "high": 0.6},
    {"key": "time constant", "low": 2e-3, "high": 0.06, "log": True},
    {"key": "damping ratio", "low": 0.05, "high": 2.0, "log": True},
]


def write_model(record: TunedRecord, step: float, values: Array) -> str:
    """MJCF of the cube and the table."""
    file = record.measured.file
    body = record.measured.robot.bodies[0]
    half = 0.5 * np.array([file.contact[0].first.x, file.contact[0].first.y, file.contact[0].first.z], dtype=float)
    moments = np.diag(body.inertia.tensor)
    friction, constant, ratio = values
    gravity = " ".join(map(str, file.gravity or (0.0, 0.0, 0.0)))
    surface = f'friction="{friction} 0 0" solref="{constant} {ratio}" condim="3"'
    return f"""<mujoco><option timestep="{step}" gravity="{gravity}" cone="elliptic" integrator="implicitfast"/>
    <worldbody><geom type="plane" size="0 0 1" {surface}/><body><freejoint/>
    <inertial pos="0 0 0" mass="{body.inertia.mass}" diaginertia="{moments[0]} {moments[1]} {moments[2]}"/>
    <geom type="box" size="{half[0]} {half[1]} {half[2]}" {surface}/></body></worldbody></mujoco>"""


def predict(record: TunedRecord, step: float, values: Array) -> RecordErrors:
    """Errors of MuJoCo's run from the measured start."""
    model = mujoco.MjModel.from_xml_string(write_model(record, step, values))
    data = mujoco.MjData(model)
    start = next(iter(record.measured.start_states.values()))
    data.qpos[:3], data.qpos[3:7] = start.position, start.quaternion
    # Both have the angular velocity in body axes; MuJoCo has the velocity in the world's.
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, np.asarray(start.quaternion))
    data.qvel[:3], data.qvel[3:] = turn.reshape(3, 3) @ start.velocity[:3], start.velocity[3:6]
    times = next(iter(record.measured.readings.values())).times
    places, attitudes = [], []
    for at in times:
        while data.time < at - 0.5 * step:
            mujoco.mj_step(model, data)
        places.append(data.qpos[:3].copy())
        attitudes.append(data.qpos[3:7].copy())
    found = np.hstack([places, attitudes])
    if not np.all(np.isfinite(found)) or data.warning[mujoco.mjtWarning.mjWARN_BADQACC].number:
        raise SimulationError("MuJoCo's run is unstable", place="run")
    return record.errors(dict(zip(("base_x", "base_y", "base_z", *ATTITUDE), found.T, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--step", type=float, default=5e-4, help="s")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--average", choices=("mean", "median"), default="median", help="of the losses")
    given = parser.parse_args()
    tables = tomllib.loads(given.page.read_text()) | {"data": str(given.folder.absolute())}
    tables["tune"] |= {"number": NUMBERS, "average": given.average}
    file = validate_tables(ValidationFile, tables)
    session = Session(given.page.parent, False, lambda share, what: None, {})
    tuned, others, failed = prepare_records(file, session)
    table, begin = file.tune, time.process_time()
    assert table is not None

    def judge(record: int, values: Array) -> RecordErrors:
        return predict(tuned[record], given.step, values)

    tuning = tune_numbers(table, len(tuned), judge, lambda done, whole: None)
    seconds = time.process_time() - begin
    print(f"{len(tuning.points)} points, {len(tuned)} records, {seconds:.0f} s; {len(failed)} not predicted")
    for number, value, low, high in zip(table.number, tuning.values, *tuning.interval, strict=True):
        print(f"{number.key:15s} {value:.4g} ({low:.3g} to {high:.3g})")
    for label, records in (("tuned on", tuned), ("held out", others)):
        errors = [predict(record, given.step, tuning.values) for record in records]
        place = np.array([each.place for each in errors]) / table.length
        angle = np.degrees([each.rotation for each in errors])
        root = len(errors) ** 0.5
        print(
            f"{label} {len(errors)}: {100 * place.mean():.1f} +- {100 * place.std(ddof=1) / root:.1f} % of "
            f"{table.length:g} m (median {100 * np.median(place):.1f}), {angle.mean():.1f} +- "
            f"{angle.std(ddof=1) / root:.1f} deg (median {np.median(angle):.1f})"
        )


if __name__ == "__main__":
    main()
