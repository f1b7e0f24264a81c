"""The commands and their options. Their implementation is in the other modules of this package."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, CycloptsError, MissingArgumentError, Parameter, Token, UnusedCliTokensError

from spacearm import __version__
from spacearm.cli.terminal import (
    FEW_ROWS,
    Terminated,
    handle_signals,
    last_interruption,
    print_message,
    print_warnings,
    silence,
)
from spacearm.deadline import time_limit as limited
from spacearm.errors import LONGEST_PATH, InputError, SpacearmError, TimeLimitError, clip_text, format_path, quote_text

#: Seconds; more than three years would not be noticed.
LONGEST_LIMIT = 1e8

#: A text given by mistake in place of a name.
LONG_WORD = re.compile(rf"\S{{{LONGEST_PATH + 1},}}")
app = App(
    name="spacearm",
    help="Dynamics of robot arms on free-floating satellites: impact, ejection, capture, identification.",
    version=f"spacearm {__version__}",
    version_flags=["--version"],
    help_format="plaintext",
    suppress_keyboard_interrupt=False,  # run_app handles it
)
catalogue_app = App(name="catalogue", help="Robots of the papers, as data files.", help_format="plaintext")
cache_app = App(name="cache", help="Compiled kernels and loops on disk.", help_format="plaintext")
campaign_app = App(name="campaign", help="Many runs of a scenario: maps, success rates.", help_format="plaintext")
app.command(catalogue_app)
app.command(campaign_app)
app.command(cache_app)


def _folder(_: object, tokens: Sequence[Token]) -> Path:
    """An empty text (a shell's unset variable) is not the current folder."""
    if not tokens[0].value.strip():
        raise ValueError("expected the name of a folder, '.' for this one")
    return Path(tokens[0].value)


Json = Annotated[bool, Parameter(name="--json", negative="", help="print JSON for scripts")]
Out = Annotated[
    Path,
    Parameter(
        name=["--out", "-o"],
        help="folder for the results, created if absent; older results of the study are replaced",
        converter=_folder,
    ),
]
Fresh = Annotated[bool, Parameter(negative="", help="run again what is already finished")]
CrossCheck = Annotated[bool, Parameter(negative="", help="run the same case in MuJoCo and report the difference")]


Repair = Annotated[bool, Parameter(negative="", help="replace invalid values by the nearest valid ones, and list them")]
Base = Annotated[str | None, Parameter(help="body to use as the base, if the file has several")]
BaseMass = Annotated[float | None, Parameter(help="mass (kg) of a base for which the file gives none")]
Outside = Annotated[bool, Parameter(negative="", help="let MJCF and xacro use files outside their folder or package")]


def _arguments(_: object, tokens: Sequence[Token]) -> list[str]:
    texts = [token.value for token in tokens]
    for text in texts:
        name, found, _value = text.partition(":=")
        if not found or not name.strip():
            raise ValueError("expected NAME:=VALUE")
    return texts


Arguments = Annotated[
    list[str] | None,
    Parameter(
        name="--argument", negative="", help="NAME:=VALUE of a xacro file; may be repeated", converter=_arguments
    ),
]


def _by_name(texts: Sequence[str] | None) -> dict[str, str]:
    """``NAME:=VALUE`` as a mapping."""
    return {name.strip(): value for name, _, value in (text.partition(":=") for text in texts or ())}


Strict = Annotated[bool, Parameter(negative="", help="fail if something would be lost")]
Fixed = Annotated[Path | None, Parameter(name=["--out", "-o"], help="file for the repaired robot")]


def _seconds(_: object, tokens: Sequence[Token]) -> float:
    try:
        seconds = float(tokens[0].value)
    except ValueError:
        seconds = math.nan
    if not 0.0 < seconds < LONGEST_LIMIT:
        raise ValueError(f"expected seconds above zero and below {LONGEST_LIMIT:g}")
    return seconds


Limit = Annotated[
    float | None,
    Parameter(name="--time-limit", help="stop after this many seconds, as Ctrl-C would", converter=_seconds),
]


def _rows(_: object, tokens: Sequence[Token]) -> int | None:
    text = tokens[0].value
    if text == "all":
        return None
    if not text.isdecimal() or not 0 < int(text) < sys.maxsize:
        raise ValueError("expected a number of rows, or 'all'")
    return int(text)


Rows = Annotated[
    int | None,
    Parameter(name="--rows", help="rows of the table to print, most important first; 'all' for all", converter=_rows),
]


@app.command
def check(
    file: str,
    /,
    *,
    repair: Repair = False,
    out: Fixed = None,
    base: Base = None,
    base_mass: BaseMass = None,
    outside: Outside = False,
    argument: Arguments = None,
    strict: Strict = False,
    json: Json = False,
) -> int:
    """Validate a robot and print its tree with masses and degrees of freedom.

    Parameters
    ----------
    file
        A robot file (TOML, URDF, MJCF) or the name of a catalogue robot. A file wins over a catalogue name.
    """
    from spacearm.cli.robots import check_robot
    from spacearm.model.robot_import import Reading

    reading = Reading(
        repair=repair, base=base, base_mass=base_mass, outside=outside, strict=strict, arguments=_by_name(argument)
    )
    return check_robot(file, reading=reading, out=out, json=json)


@app.command
def run(
    scenario: Path,
    /,
    *,
    out: Out,
    cross_check: CrossCheck = False,
    data: Annotated[Path | None, Parameter(help="folder of the measured files, in place of the scenario's")] = None,
    time_limit: Limit = None,
    rows: Rows = FEW_ROWS,
    json: Json = False,
) -> int:
    """Run a scenario in time and write its folder: results.json, data.nc, index.html with figures.

    Parameters
    ----------
    scenario
        A scenario file (TOML).
    """
    from spacearm.cli.studies import run_scenario

    with limited(time_limit):
        return run_scenario(scenario, out, cross_check=cross_check, rows=rows, json=json, data=data)


@app.command
def reproduce(
    *papers: str,
    out: Out = Path("results"),
    cross_check: CrossCheck = False,
    fresh: Fresh = False,
    workers: Annotated[int, Parameter(help="papers at a time, each in its own process")] = 1,
    time_limit: Limit = None,
    rows: Rows = FEW_ROWS,
    json: Json = False,
) -> int:
    """Reproduce papers and print the tables of agreement.

    Each paper gets a folder OUT/PAPER; several papers also get OUT/index.html. A paper whose folder already holds sound
    results of this version is not run again. The exit status is 0 if every run is sound, whatever the agreement.

    Parameters
    ----------
    papers
        yoshida1992, cai2023, zhang2020, xu2017, wojtunik2023, or all.
    """
    from spacearm.cli.studies import reproduce_papers

    with limited(time_limit):
        return reproduce_papers(
            papers, out, cross_check=cross_check, fresh=fresh, workers=workers, rows=rows, json=json
        )


@app.command
def convert(
    source: str,
    target: Path,
    /,
    *,
    repair: Repair = False,
    base: Base = None,
    base_mass: BaseMass = None,
    outside: Outside = False,
    argument: Arguments = None,
    strict: Strict = False,
    json: Json = False,
) -> int:
    """Write a robot in another format and report what that format cannot represent.

    Parameters
    ----------
    source
        A robot file or the name of a catalogue robot.
    target
        The file to write; its suffix chooses the format.
    """
    from spacearm.cli.robots import convert_robot
    from spacearm.model.robot_import import Reading

    reading = Reading(
        repair=repair, base=base, base_mass=base_mass, outside=outside, strict=strict, arguments=_by_name(argument)
    )
    return convert_robot(source, target, reading=reading, json=json)


def _triple(_: object, tokens: Sequence[Token]) -> tuple[float, float, float]:
    parts = tokens[0].value.split(",")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) != 3 or not all(map(math.isfinite, numbers)):
        raise ValueError("expected three numbers separated by commas, as in 0.4,0,0.5")
    return numbers[0], numbers[1], numbers[2]


Triple = tuple[float, float, float]
RobotOut = Annotated[
    Path, Parameter(name=["--out", "-o"], help="robot file to write; its extension chooses the format")
]


@app.command
def mount(
    robot: str,
    arm: str,
    /,
    *,
    out: RobotOut,
    at: Annotated[
        Triple,
        Parameter(
            help="position of the arm's base, m, X,Y,Z in FRAME",
            converter=_triple,
            n_tokens=1,
            allow_leading_hyphen=True,
        ),
    ] = (0.0, 0.0, 0.0),
    rpy: Annotated[
        Triple,
        Parameter(
            help="its roll, pitch, yaw about fixed axes, degrees",
            converter=_triple,
            n_tokens=1,
            allow_leading_hyphen=True,
        ),
    ] = (0.0, 0.0, 0.0),
    frame: Annotated[str | None, Parameter(help="body or frame of ROBOT that carries it; its base if omitted")] = None,
    prefix: Annotated[str, Parameter(help="prefix of the names of the arm's parts")] = "",
    name: Annotated[str | None, Parameter(help="name of the whole robot")] = None,
    scale: Annotated[float | None, Parameter(help="factor on the arm's lengths; torques and masses follow")] = None,
    without_base_mass: Annotated[bool, Parameter(negative="", help="omit the mass of the arm's base")] = False,
    repair: Repair = False,
    base: Annotated[str | None, Parameter(help="body to use as the arm's base")] = None,
    outside: Outside = False,
    argument: Arguments = None,
    strict: Strict = False,
    json: Json = False,
) -> int:
    """Mount a robot on another by its base, as an arm on a satellite, and write both as one robot file.

    Parameters
    ----------
    robot
        What carries: a robot file or the name of a catalogue robot.
    arm
        What is mounted: the same. Its base needs no mass.
    """
    from spacearm.cli.robots import mount_robot
    from spacearm.model.robot_import import Reading

    reading = Reading(repair=repair, outside=outside, strict=strict)
    return mount_robot(
        robot,
        arm,
        out,
        reading=reading,
        base=base,
        arguments=_by_name(argument),
        scale_factor=scale,
        pose=(at, rpy),
        frame=frame,
        prefix=prefix,
        name=name,
        base_inertia=not without_base_mass,
        json=json,
    )


@app.command
def bus(
    *,
    out: RobotOut = Path("bus.toml"),
    mass: Annotated[float, Parameter(help="kg")] = 500.0,
    size: Annotated[
        Triple, Parameter(help="edges X,Y,Z, m", converter=_triple, n_tokens=1, allow_leading_hyphen=True)
    ] = (1.2, 1.0, 1.0),
    wheels: Annotated[Literal["pyramid", "orthogonal", "none"], Parameter(help="reaction wheels")] = "pyramid",
    thrusters: Annotated[Literal[0, 12, 16], Parameter(help="number of thrusters")] = 12,
    name: Annotated[str, Parameter(help="name of the satellite")] = "bus",
) -> int:
    """Write a plausible satellite to mount arms on: a box of uniform density with wheels and thrusters.

    The faces are frames, plus_x to minus_z, with z outwards. An existing file is not overwritten.
    """
    from spacearm.cli.robots import write_bus

    return write_bus(out, mass, size, None if wheels == "none" else wheels, thrusters, name)


@app.command
def view(
    what: str,
    /,
    *,
    out: Annotated[
        Path | None,
        Parameter(name=["--out", "-o"], help=".html, .png, .gif or .mp4; a temporary page if omitted"),
    ] = None,
    open_: Annotated[bool, Parameter(name="--open", negative="", help="open it in a browser")] = False,
    configuration: Annotated[str, Parameter(help="configuration of a robot; zero if omitted")] = "",
    repair: Repair = False,
    base: Base = None,
    base_mass: BaseMass = None,
    outside: Outside = False,
    argument: Arguments = None,
) -> int:
    """Show a robot, or the results of a run, in three dimensions: one page that needs no network.

    Parameters
    ----------
    what
        A robot file, the name of a catalogue robot, or a folder of results.
    """
    from spacearm.cli.scenes import view as view_scene
    from spacearm.model.robot_import import Reading

    reading = Reading(repair=repair, base=base, base_mass=base_mass, outside=outside, arguments=_by_name(argument))
    return view_scene(what, out, reading=reading, configuration=configuration, browser=open_)


@app.command
def figures(
    folder: Annotated[Path, Parameter(converter=_folder)],
    /,
    *,
    out: Annotated[
        Path | None, Parameter(name=["--out", "-o"], help="folder for the figures; FOLDER/figures if omitted")
    ] = None,
    ending: Annotated[Literal["svg", "pdf", "png"], Parameter(name="--format", help="svg, pdf or png")] = "svg",
) -> int:
    """Write the figures of results as files for papers and slides, without a browser.

    Parameters
    ----------
    folder
        A folder of results.
    """
    from spacearm.cli.scenes import figures as write_figures

    return write_figures(folder, out, ending)


@app.command
def compare(
    first: Annotated[Path, Parameter(converter=_folder)],
    second: Annotated[Path, Parameter(converter=_folder)],
    /,
    *,
    out: Annotated[
        Path | None,
        Parameter(name=["--out", "-o"], help="folder for a page with all curves", converter=_folder),
    ] = None,
    fail_above: Annotated[
        float | None,
        Parameter(help="exit with 1 if a row differs by more than this fraction, or a text, verdict or check differs"),
    ] = None,
    json: Json = False,
) -> int:
    """Compare two folders of results: rows that differ, verdicts on limits, certificates, curves.

    Parameters
    ----------
    first
        A folder of results.
    second
        Another.
    """
    from spacearm.cli.studies import compare_folders

    return compare_folders(first, second, out, fail_above, json=json)


@app.command
def export(
    source: str,
    /,
    *,
    c: Annotated[
        Path | None, Parameter(name="--c", help="folder for C99 code, created if absent", converter=_folder)
    ] = None,
    fmu: Annotated[Path | None, Parameter(name="--fmu", help="file for an FMU")] = None,
    step: Annotated[float | None, Parameter(help="step of RK4, which replaces the scenario's method, s")] = None,
    fmi: Annotated[Literal[2, 3], Parameter(help="version of the FMU")] = 3,
    repair: Repair = False,
    base: Base = None,
    base_mass: BaseMass = None,
    outside: Outside = False,
    argument: Arguments = None,
    json: Json = False,
) -> int:
    """Write a robot or a motion scenario as self-contained C99 with its own test, or as an FMU.

    Parameters
    ----------
    source
        A robot file, the name of a catalogue robot, or a motion scenario.
    """
    from spacearm.cli.tools import export_source
    from spacearm.model.robot_import import Reading

    reading = Reading(repair=repair, base=base, base_mass=base_mass, outside=outside, arguments=_by_name(argument))
    return export_source(source, c, fmu, step, fmi, reading=reading, json=json)


@catalogue_app.command(name="list")
def catalogue_list(*, json: Json = False) -> int:
    """List the robots."""
    from spacearm.cli.robots import list_catalogue

    return list_catalogue(json=json)


@catalogue_app.command(name="show")
def catalogue_show(name: str, /) -> int:
    """Print the file of a robot, as a starting point for your own.

    Parameters
    ----------
    name
        A name of ``spacearm catalogue list``.
    """
    from spacearm.cli.robots import show_catalogue

    return show_catalogue(name)


@cache_app.command(name="show")
def cache_show(*, json: Json = False) -> int:
    """Print the location and size of the cache."""
    from spacearm.cli.tools import show_cache

    return show_cache(json=json)


@cache_app.command(name="clear")
def cache_clear() -> int:
    """Delete the compiled kernels and loops; they are compiled again when needed. Other files stay."""
    from spacearm.cli.tools import clear_cache

    return clear_cache()


Folder = Annotated[Path, Parameter(help="folder of a campaign", converter=_folder)]
OnDevice = Annotated[
    Literal["cpu", "gpu"] | None,
    Parameter(help="vectorise runs with fixed steps: in vector lanes (cpu) or on a GPU; one by one if omitted"),
]


@campaign_app.command(name="run")
def campaign_run(
    file: Path,
    /,
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"], help="folder for the runs", converter=_folder)],
    workers: Annotated[int, Parameter(help="processes on this machine")] = 1,
    dask: Annotated[str, Parameter(help="address of a Dask scheduler, or 'local' to start one")] = "",
    part: Annotated[str, Parameter(help="K/N: every N-th chunk from the K-th on, for job arrays")] = "0/1",
    device: OnDevice = None,
    time_limit: Limit = None,
    rows: Rows = FEW_ROWS,
    json: Json = False,
) -> int:
    """Run a campaign, or continue an interrupted one, and write its page.

    Parameters
    ----------
    file
        A campaign file (TOML).
    """
    from spacearm.cli import campaigns

    with limited(time_limit):
        return campaigns.run(file, out, workers=workers, dask=dask, part=part, device=device, rows=rows, json=json)


@app.command(name="map")
def map_(
    file: Path,
    /,
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"], help="folder for the runs", converter=_folder)],
    runs: Annotated[int | None, Parameter(help="runs in each cell, in place of the file's")] = None,
    workers: Annotated[int, Parameter(help="processes on this machine; by default one per core")] = 0,
    dask: Annotated[str, Parameter(help="address of a Dask scheduler, or 'local' to start one")] = "",
    device: OnDevice = None,
    time_limit: Limit = None,
    rows: Rows = FEW_ROWS,
    json: Json = False,
) -> int:
    """Map where a scenario succeeds: a campaign over its axes, and the go / no-go picture.

    Use 'spacearm campaign status, report and replay' with its folder.

    Parameters
    ----------
    file
        A campaign file (TOML) with axes.
    """
    from spacearm.cli import campaigns

    with limited(time_limit):
        workers = workers or (os.cpu_count() or 1 if device != "gpu" else 1)
        return campaigns.run(file, out, workers=workers, dask=dask, runs=runs, device=device, rows=rows, json=json)


@campaign_app.command(name="status")
def campaign_status(folder: Folder, /, *, json: Json = False) -> int:
    """Print the progress of a campaign, and the success rate of each cell."""
    from spacearm.cli import campaigns

    return campaigns.status(folder, json=json)


@campaign_app.command(name="report")
def campaign_report(folder: Folder, /, *, rows: Rows = FEW_ROWS, json: Json = False) -> int:
    """Write the page of the runs that are finished."""
    from spacearm.cli import campaigns

    return campaigns.write_report(folder, rows=rows, json=json)


@campaign_app.command(name="replay")
def campaign_replay(
    folder: Folder, run: int, /, *, out: Out, cell: int = 0, rows: Rows = FEW_ROWS, json: Json = False
) -> int:
    """Run one of a campaign's runs again, the same to the last bit, and write its folder.

    Parameters
    ----------
    run
        Its number in its cell.
    """
    from spacearm.cli import campaigns

    return campaigns.replay(folder, cell, run, out, rows=rows, json=json)


@app.command
def init(
    study: Annotated[str, Parameter(help="motion, workspace, impact, ejection, capture, mission, ...")] = "motion",
    /,
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"], help="folder for the files", converter=_folder)] = Path(),
) -> int:
    """Write a scenario of a study and its robot file, as a starting point for your own."""
    from spacearm.cli.starters import init_study

    return init_study(study, out)


@app.command
def keys(
    study: Annotated[str, Parameter(help="a study, 'campaign', or 'robot'")],
    /,
    *,
    markdown: Annotated[bool, Parameter(negative="", help="as Markdown")] = False,
    json: Json = False,
) -> int:
    """Print the tables and keys of a study's scenario file, with meanings and defaults."""
    from spacearm.cli.starters import show_keys

    return show_keys(study, markdown=markdown, json=json)


@app.command
def completion(shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="which shell")] = "bash", /) -> int:
    """Print the completion script of a shell; for bash: source <(spacearm completion bash)."""
    from spacearm.cli.starters import show_completion

    return show_completion(shell)


@app.command
def bench(*, json: Json = False) -> int:
    """Time this machine on a short built-in benchmark."""
    from spacearm.cli.tools import run_benchmark

    return run_benchmark(json=json)


def _usage(error: CycloptsError) -> str:
    """What is wrong with a command line, and which help has more."""
    text, command = str(error).strip(), " ".join(error.command_chain or ())
    if isinstance(error, MissingArgumentError) and error.argument is not None and "Did you mean" not in text:
        name = error.argument.name
        given = error.keyword is not None or bool(error.argument.tokens)
        text = f"{command}: {name} needs a value" if given else f"{command} needs {name}"
    if isinstance(error, UnusedCliTokensError):
        text = f"{command} does not expect {', '.join(quote_text(token) for token in error.unused_tokens or ())}"
    text = LONG_WORD.sub(lambda found: clip_text(found[0]), text)
    return f"{text} (see spacearm {command} --help)" if command else f"{text} (see spacearm --help)"


def run_app(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status. Errors that the user can correct give no traceback."""
    with print_warnings(), handle_signals():
        try:
            return _run_app(arguments)
        except KeyboardInterrupt as error:
            return _report_interrupt(error)
        except Exception:
            cause = last_interruption()
            if cause is None:
                raise
            return _report_interrupt(cause())  # a library has made another error of it


def _report_interrupt(error: KeyboardInterrupt) -> int:
    if isinstance(error, Terminated):
        print_message("terminated")
        return 143
    print_message("interrupted")
    return 130


def _run_app(arguments: Sequence[str] | None) -> int:
    try:
        status = app(
            arguments,
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except CycloptsError as error:
        print_message(_usage(error))
        return 2
    except InputError as error:
        print_message(str(error))
        return 2
    except SpacearmError as error:
        print_message(str(error))
        return 124 if isinstance(error, TimeLimitError) else 1
    except BrokenPipeError:
        silence(sys.stdout)  # the reader has closed the pipe (spacearm ... | head): not a failure
        return 141
    except OSError as error:
        why = error.strerror or str(error)
        print_message(f"{format_path(str(error.filename))}: {why}" if error.filename else why)
        silence(sys.stdout)  # it may be what cannot be written: a full disk
        return 1
    except MemoryError as error:
        print_message(f"out of memory{f': {error}' if str(error) else ''}")
        return 1
