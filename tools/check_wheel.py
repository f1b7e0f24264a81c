"""Build the wheel and use it in an empty environment, as a new user would.

    python tools/check_wheel.py              # fetches the dependencies
    python tools/check_wheel.py --no-deps    # takes them from the environment that runs this; fetches setuptools only

Needs the package ``build``, or ``pip`` alone with ``--no-deps``. The exit status is 0 where the wheel installs, has its
data files, and ``spacearm --help``, ``init``, ``check`` and ``run`` work.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run_command(*command: object, **options: str) -> None:
    """Run it; the exit status of this tool is 1 where it fails."""
    print("$", *command, flush=True)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | options
    done = subprocess.run(list(map(str, command)), check=False, cwd=tempfile.gettempdir(), env=environment)
    if done.returncode:
        sys.exit(f"{command[0]} failed with status {done.returncode}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--no-deps", action="store_true", help="dependencies of this environment")
    parser.add_argument("--no-run", action="store_true", help="without the run, which compiles for a minute")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        source = here / "source"  # a copy: what an earlier build left behind must not get into the wheel
        shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, source / name)
        if given.no_deps:
            run_command(sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "-w", here, source)
        else:
            run_command(sys.executable, "-m", "build", "--wheel", "-o", here, source)
        (wheel,) = here.glob("spacearm-*.whl")
        venv.create(here / "venv", with_pip=not given.no_deps)
        python, options = here / "venv" / "bin" / "python", {}
        if given.no_deps:
            # What is installed here stands behind the wheel's own files.
            target = here / "site"
            run_command(sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--target", target, wheel)
            behind = [path for path in sys.path if "site-packages" in path]
            options = {"PYTHONPATH": os.pathsep.join([str(target), *behind])}
        else:
            run_command(python, "-m", "pip", "install", "--quiet", wheel)
        command = (python, "-m", "spacearm.cli")
        code = f"import spacearm; assert {str(here)!r} in spacearm.__file__, spacearm.__file__"
        run_command(python, "-c", code, **options)
        run_command(*command, "--help", **options)
        run_command(*command, "init", "motion", "-o", here / "first", **options)
        run_command(*command, "check", "servicer", **options)
        if not given.no_run:
            run_command(*command, "run", here / "first" / "motion.toml", "-o", here / "results", **options)
    print("the wheel works")


if __name__ == "__main__":
    main()
