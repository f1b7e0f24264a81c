"""Count what a reader crosses from a measured file to an estimate: modules and functions of spacearm that are called.

    python tools/count_walk.py [inertia | joint] [--list]

The second of two runs is counted, so that code is compiled and caches are full. ``inertia`` reads a CSV file of a
simulated experiment and identifies the inertias of all bodies; ``joint`` runs ``examples/measured-joint.toml``.
Expressions, comprehensions and the bodies of modules are not counted.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np

import spacearm

ROOT = Path(spacearm.__file__).parent
EXAMPLE = Path(__file__).parents[1] / "examples" / "measured-joint.toml"


def inertia_walk(folder: Path) -> Callable[[], object]:
    """From a CSV file to inertias with their standard deviations."""
    from spacearm.identify.inertia import (
        Prior,
        command_phases,
        identify,
        prepare_record,
        read_record,
        run_experiment,
        start_state,
        write_record,
    )
    from spacearm.measure import make_sensors, record_run
    from spacearm.model import catalogue
    from spacearm.simulate import spline

    robot = catalogue.load("xu2017")
    start = start_state(robot, "normal")
    swing = np.deg2rad([0, 15, 30, 15, 0, -15, -30, -15, 0])
    name, angle = robot.joint_names[0], start.joints[0]
    commands = {name: spline(np.arange(9) * 7.5, angle + swing)}
    sensors = make_sensors(mount=[0.1, -0.2, 0.3], period=1.0)
    run = run_experiment(robot, start, command_phases(robot, commands, 60.0), 1.0)
    record = prepare_record(robot, record_run(run, sensors, seed=1))
    path = write_record(record, robot, folder / "record.csv")
    nominal = robot.with_inertia_parameters(1.15 * robot.inertia_parameters)
    prior = Prior.from_nominal(nominal, 0.15)
    return lambda: identify(nominal, [read_record(path, robot, sensors)], prior=prior)


def joint_walk(folder: Path) -> Callable[[], object]:
    """From a scenario file with a measured joint to its stiffness, damping and friction."""
    from spacearm.study import run_scenario

    del folder
    return lambda: run_scenario(EXAMPLE)


def called_functions(walk: Callable[[], object]) -> set[tuple[str, str]]:
    """Module and name of each function of spacearm that is called meanwhile."""
    found = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(ROOT)):
            found.add((str(Path(code.co_filename).relative_to(ROOT)), code.co_qualname))

    sys.setprofile(note)
    try:
        walk()
    finally:
        sys.setprofile(None)
    return {(file, name) for file, name in found if not name.endswith(">")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("walk", nargs="?", choices=["inertia", "joint"], default="inertia")
    parser.add_argument("--list", action="store_true", help="name the functions of each module")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        walk = {"inertia": inertia_walk, "joint": joint_walk}[given.walk](Path(folder))
        walk()
        found = called_functions(walk)
    files = sorted({file for file, _ in found})
    print(f"{given.walk}: {len(files)} modules, {len(found)} functions")
    for file in files if given.list else ():
        print(f"{file}: {', '.join(sorted(name for own, name in found if own == file))}")


if __name__ == "__main__":
    main()
