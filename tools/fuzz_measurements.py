"""Damage measurement files of every format and read them: only an error with file and place may come of it.

    python tools/fuzz_measurements.py --count 20000 --seed 1

Case ``k`` of a seed is always the same file, so a failure can be looked at again: ``--first k --count 1 --keep DIR``.
Every case goes through ``read_record``; each ``--every``-th also through a whole identification in the same
process, and each tenth of those through the command line. The exit status is 1 when a case gave anything else than
numbers or an ``InputError`` with file and place, crashed, or worked longer than ``--limit`` seconds.
"""

from __future__ import annotations

import argparse
import io
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import traceback
import warnings
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

import h5py
import numpy as np
import pyarrow
from pyarrow import parquet
from scipy.io import netcdf_file, savemat
from scipy.sparse import eye

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from watched import Outcome, report, run_watched

from spacearm.errors import InputError, SpacearmError
from spacearm.identify.inertia import command_phases, prepare_record, run_experiment, start_state
from spacearm.identify.inertia.record_files import standard_columns
from spacearm.measure import Column, make_sensors, read_record, record_run
from spacearm.model import catalogue
from spacearm.simulate import spline
from spacearm.study import run_scenario
from support.blackbox import blackbox_bytes
from support.torch_files import DOUBLES, FLOATS, TENSOR, tensor_bytes, tensor_description

SAMPLES = 61
TIME = np.arange(SAMPLES) * 1.0  # s
JOINTS = ("joint1", "joint1.motor", "joint2", "joint3")
CHANNELS = ("position", "attitude", "velocity", "rate", "joint_position", "joint_rate")
NODES = (0.0, 15.0, 30.0, 15.0, 0.0, -15.0, -30.0, -15.0, 0.0)  # deg, 7.5 s apart
SCENARIOS = {
    "joint": """study = "joint-identification"
robot = "wojtunik2023_printed"
frame = "hand"
angle = "measured"

[[test]]
name = "damaged"
file = "FILE"

[test.columns]
"""
    + "".join(f'"{name}" = {{ column = "{name}" }}\n' for name in JOINTS),
    "inertia": f"""study = "inertia-identification"
robot = "xu2017"

[sensors]
sample = 1.0

[[experiment]]
name = "damaged"
file = "FILE"
duration = 60.0
configuration = "normal"

[experiment.excursions.joint1]
kind = "spline"
times = {[7.5 * k for k in range(9)]}
values_deg = {list(NODES)}
""",
}


def signals() -> dict[str, np.ndarray]:
    """A flexible joint that swings while other joints accelerate, and a satellite whose arm moves in orbit."""
    motor = 0.13 + 0.0001 * TIME**2
    swing = 0.05 * np.exp(-0.02 * TIME) * np.cos(1.5 * TIME)
    joints = dict(zip(JOINTS, (motor + swing, motor, -motor, 2.0 * motor), strict=True))
    robot = catalogue.load("xu2017")
    start = start_state(robot, "normal")
    path = spline(np.arange(9) * 7.5, np.deg2rad(NODES) + start.joints[0])
    run = run_experiment(robot, start, command_phases(robot, {"joint1": path}, 60.0), 1.0)
    record = prepare_record(robot, record_run(run, make_sensors(CHANNELS, period=1.0))).add_noise(1)
    columns = standard_columns(robot, CHANNELS)
    orbit = {
        name: record.readings[channel][:, k] for channel in CHANNELS for k, name in enumerate(columns[channel].names)
    }
    return {"time": TIME, **joints, **orbit}


def good_files() -> dict[str, bytes]:
    """Name to content: what the readers are for, and values of kinds that they must refuse."""
    data = signals()
    files: dict[str, bytes] = {}
    for name, separator in (("comma.csv", ","), ("semicolon.csv", ";"), ("tab.tsv", "\t")):
        rows = [map(repr, map(float, row)) for row in np.transpose([*data.values()])]
        rows = [separator.join(row) for row in (data, *rows)]
        files[name] = ("# measured\n" + "\n".join(rows) + "\n").encode()
    for name, options in (("plain.mat", {}), ("packed.mat", {"do_compression": True}), ("old.mat", {"format": "4"})):
        # MATLAB has no dots in names; the file format does not mind
        files[name] = _saved(lambda buffer, o=options: savemat(buffer, data, **o))
    odd = {
        "struct": {"a": {"b": {"c": TIME}}, "d": "text"},
        "cell": np.array([TIME, "x", np.eye(2)], dtype=object),
        "text": "1.5",
        "complex": TIME + 1j,
        "sparse": eye(SAMPLES),
        "cube": np.zeros((3, 4, 5)),
        "empty": np.empty((0, 0)),
    }
    for name, value in odd.items():
        files[f"{name}.mat"] = _saved(lambda buffer, v=value: savemat(buffer, {**data, "joint1": v}))
    files["hdf5.mat"] = _matlab73(_hdf5(data))
    files["plain.nc"] = _hdf5(data)
    files["chunked.nc"] = _hdf5(data, chunks=(50,), compression="gzip", shuffle=True, fletcher32=True)
    files["float32.nc"] = _hdf5({name: values.astype(">f4") for name, values in data.items()})
    for name, value in {
        "text": np.array(["a"] * SAMPLES, dtype=h5py.string_dtype()),
        "compound": np.zeros(SAMPLES, dtype=[("a", "f8"), ("b", "i4")]),
        "enum": np.zeros(SAMPLES, dtype=h5py.enum_dtype({"A": 0})),
        "cube": np.zeros((3, 4, 5)),
        "scalar": np.float64(1.0),
    }.items():
        files[f"{name}.nc"] = _hdf5({**data, "joint1": value})
    files["links.nc"] = _links(data)
    table = pyarrow.table({name: pyarrow.array(values) for name, values in data.items()})
    for name, options in (("plain", {"compression": "none"}), ("snappy", {}), ("zstd", {"compression": "zstd"})):
        files[f"{name}.parquet"] = _saved(lambda buffer, o=options: parquet.write_table(table, buffer, **o))
    for name, column in {
        "text": pyarrow.array([str(t) for t in TIME]),
        "list": pyarrow.array([[t, t] for t in TIME]),
        "struct": pyarrow.array([{"a": {"b": t}} for t in TIME]),
        "date": pyarrow.array(list(range(SAMPLES)), pyarrow.timestamp("ns")),
        "null": pyarrow.array([None] * SAMPLES, pyarrow.float64()),
        "half": pyarrow.array(TIME.astype(np.float16)),
    }.items():
        changed = table.set_column(1, "joint1", column)
        files[f"{name}.parquet"] = _saved(lambda buffer, c=changed: parquet.write_table(c, buffer))
    files["plain.h5"] = _hdf5(data)
    files["classic.nc"] = _classic(data)
    for name, write in (("plain", np.savez), ("packed", np.savez_compressed)):
        files[f"{name}.npz"] = _saved(lambda buffer, w=write: w(buffer, **data))
    files["matrix.npz"] = _saved(lambda buffer: np.savez(buffer, log=np.transpose([*data.values()])))
    # MATLAB's fields have no dots.
    fields = {name.replace(".", "_"): values for name, values in data.items()}
    files["nested.mat"] = _saved(lambda buffer: savemat(buffer, {"log": fields}))
    files["nested73.mat"] = _matlab73(_nested_hdf5(fields))
    for name, kind, dtype in (("plain", DOUBLES, "<f8"), ("single", FLOATS, "<f4")):
        tensor = tensor_description(TENSOR, kind, (SAMPLES, len(data)), (len(data), 1))
        files[f"{name}.pt"] = tensor_bytes(tensor, np.transpose([*data.values()]).astype(dtype).tobytes())
    counts = {name: np.round(1e3 * values).astype(int) for name, values in data.items()}
    # Microseconds, as a flight controller counts them.
    files["plain.bfl"] = blackbox_bytes({**counts, "time": (1e6 * TIME).astype(int) + 60_000_000})
    files["cut.bbl"] = blackbox_bytes(counts, end=False)[:-3]
    files["objects.npz"] = _saved(lambda buffer: np.savez(buffer, **{**data, "joint1": np.array([{}], dtype=object)}))
    return files


def _saved(write: Callable[[io.BytesIO], object]) -> bytes:
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def _hdf5(data: dict[str, object], **options: object) -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", userblock_size=512) as file:
        for name, values in data.items():
            file.create_dataset(name, data=values, **(options if np.ndim(values) == 1 else {}))
        file["time"].make_scale("time")
    return buffer.getvalue()


def _matlab73(content: bytes) -> bytes:
    """HDF5 with MATLAB's header in its first 512 bytes."""
    return b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + bytes(384) + content[512:]


def _nested_hdf5(data: dict[str, np.ndarray]) -> bytes:
    """A struct of MATLAB 7.3 is a group."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", userblock_size=512) as file:
        for name, values in data.items():
            file.create_dataset(f"log/{name}", data=values)
    return buffer.getvalue()


def _classic(data: dict[str, np.ndarray]) -> bytes:
    """NetCDF 3, with an unlimited dimension."""
    buffer = io.BytesIO()
    file = netcdf_file(buffer, "w")
    file.createDimension("time", None)
    for name, values in data.items():
        file.createVariable(name, "d", ("time",))[:] = values
    file.flush()
    return buffer.getvalue()


def _links(data: dict[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        for name, values in data.items():
            file[name] = values
        del file["joint1"], file["joint2"]
        file["joint1"] = h5py.ExternalLink("/etc/passwd", "/joint1")
        file["joint2"] = h5py.SoftLink("/joint2")
        file["round"] = h5py.SoftLink("/")
    return buffer.getvalue()


# -- damage ----------------------------------------------------------------------------------------------------------


def flip(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def flip_early(data: bytearray, rng: random.Random) -> None:
    """Headers stand at the beginning."""
    for _ in range(rng.choice((1, 2, 4))):
        data[rng.randrange(min(len(data), 600))] ^= 1 << rng.randrange(8)


def flip_late(data: bytearray, rng: random.Random) -> None:
    """Parquet's metadata stand at the end."""
    for _ in range(rng.choice((1, 2, 4))):
        data[-1 - rng.randrange(min(len(data), 1500))] ^= 1 << rng.randrange(8)


def overwrite(data: bytearray, rng: random.Random) -> None:
    at, size = rng.randrange(len(data)), rng.choice((1, 4, 8, 100))
    data[at : at + size] = rng.choice((bytes(size), b"\xff" * size, rng.randbytes(size)))


def huge(data: bytearray, rng: random.Random) -> None:
    """A declared size, offset or count becomes absurd."""
    number = rng.choice((2**31 - 1, 2**32 - 1, 2**40, 2**62, 2**63, 10**9, -1 % 2**64))
    size = rng.choice((4, 8))
    at = rng.choice((rng.randrange(len(data)), rng.randrange(min(len(data), 600)))) & ~3
    data[at : at + size] = (number % 2 ** (8 * size)).to_bytes(size, rng.choice(("little", "big")))


def truncate(data: bytearray, rng: random.Random) -> None:
    del data[rng.choice((rng.randrange(len(data)), rng.randrange(min(len(data), 200)))) :]


def remove(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    del data[at : at + rng.choice((1, 3, 8, 500))]


def repeat(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    data[at:at] = data[at : at + rng.choice((1, 8, 300))] * rng.choice((1, 2, 20))


def move(data: bytearray, rng: random.Random) -> None:
    a, b, size = rng.randrange(len(data)), rng.randrange(len(data)), rng.choice((4, 8, 64, 512))
    data[a : a + size] = data[b : b + size]


#: Numbers that a sensor could give, and that may still upset what is computed from them.
NUMBERS = (0.0, -0.0, 1e14, -1e14, 1e-300, 1e8, -1.0, 3.141592653589793, 1e16, 1e300, float("nan"), float("-inf"))
WORDS = (
    "", "nan", "inf", "-1e400", "1_0", "0x1p3", "\x00", "٣", "é", "\u2028", '"', '""', "#", "1,5", "\x1b[31m",
    "9" * 500, "--1",
)  # fmt: skip


def value(data: bytearray, rng: random.Random) -> None:
    """Other doubles in the place of some: the file stays well formed."""
    start, many = rng.choice((0, 0, 0, 4, rng.randrange(8))), rng.choice((1, 1, 10, 61))
    first = (rng.randrange(len(data)) & ~7) + start
    numbers = rng.choices(NUMBERS[:8] if many > 1 else NUMBERS, k=many)
    data[first : first + 8 * many] = struct.pack(f"<{many}d", *numbers)


def cell(data: bytearray, rng: random.Random) -> None:
    """Another word in place of a number, or a row too long, too short, or unfinished."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    separator = max((b"\t", b";", b","), key=lines[min(1, len(lines) - 1)].count)
    cells = lines[at].split(separator)
    word = repr(rng.choice(NUMBERS)) if rng.random() < 0.5 else rng.choice(WORDS)
    cells[rng.randrange(len(cells))] = word.encode()
    what = rng.randrange(10)
    if what == 0:
        cells.append(b"1")
    elif what == 1:
        cells.pop()
    elif what == 2:
        cells = [cells[0] * rng.choice((10, 100_000))]
    lines[at] = separator.join(cells)
    if what == 3:
        lines.insert(at, lines[rng.randrange(len(lines))])
    data[:] = b"\n".join(lines)


def recode(data: bytearray, rng: random.Random) -> None:
    text = bytes(data).decode("latin-1")
    data[:] = text.encode(rng.choice(("utf-16", "utf-32", "utf-8-sig", "cp500")))


def repack(data: bytearray, rng: random.Random) -> None:
    """An entry of an archive is damaged, and its checksum is that of the damage."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = {name: archive.read(name) for name in archive.namelist()}
    except Exception:  # damaged before
        return
    if not entries:
        return
    name = rng.choice(sorted(entries))
    content = bytearray(entries[name])
    for _ in range(rng.choice((1, 2, 8))):
        if content:
            rng.choice(GENERIC)(content, rng)
    entries[name] = bytes(content)
    with zipfile.ZipFile(buffer := io.BytesIO(), "w") as archive:
        for each, own in entries.items():
            archive.writestr(each, own)
    data[:] = buffer.getvalue()


#: Names of columns where they are not those of the quantities: by file or by ending.
COLUMNS = {"pt": "[{number}]", "matrix": "log[{number}]", "nested": "log.{field}", "nested73": "log.{field}"}
#: The others among the good files hold something that is refused anyway.
USUAL = ("comma", "semicolon", "tab", "plain", "packed", "old", "hdf5", "chunked", "float32", "snappy", "zstd",
         "nested", "nested73", "single", "cut")  # fmt: skip
GENERIC = (value, flip, flip_early, flip_late, overwrite, huge, truncate, remove, repeat, move)
TEXTUAL = (cell, cell, cell, recode, flip, truncate, remove, repeat, move)


def case(files: dict[str, bytes], seed: int, number: int) -> tuple[str, bytes, str]:
    """The ending and the content of one damaged file, and how its columns are named."""
    rng = random.Random(f"{seed}:{number}")
    usual = [name for name in sorted(files) if name.partition(".")[0] in USUAL]
    name = rng.choice(usual if rng.random() < 0.8 else sorted(files))
    data = bytearray(files[name])
    ending = name.rpartition(".")[2]
    ways: tuple[Callable[[bytearray, random.Random], None], ...] = TEXTUAL if ending in ("csv", "tsv") else GENERIC
    if ending in ("npz", "pt"):
        ways = (*GENERIC, *len(GENERIC) * (repack,))
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        if data:
            rng.choice(ways)(data, rng)
    if rng.random() < 0.02:  # a file that is not what its ending says
        ending = rng.choice(("csv", "mat", "nc", "parquet", "pt", "bfl", "npz"))
    return ending, bytes(data), COLUMNS.get(name.rpartition(".")[0], COLUMNS.get(ending, "{name}"))


# -- reading ---------------------------------------------------------------------------------------------------------


class Fault(Exception):
    """What must not come of a damaged file."""


def refused(error: SpacearmError, *paths: Path) -> str:
    """A refusal says file and place in one clean line."""
    text = str(error)
    if error.file is None or Path(error.file).name not in [path.name for path in paths] or not error.place:
        raise Fault(f"without file and place: {text}")
    if any(not c.isprintable() for c in text) or len(text) > 1500:
        raise Fault(f"not a clean line: {text!r:.300}")
    return "refused"


def read(path: Path, scenario: Path, column: str = "{name}") -> str:
    # The columns stand in the order of the signals: the time, the joints.
    time, *names = [
        column.format(name=name, field=name.replace(".", "_"), number=k) for k, name in enumerate(("time", *JOINTS))
    ]
    try:
        read_record(path, {own: Column(name) for own, name in zip(JOINTS, names, strict=True)}, time=time, gaps="keep")
    except InputError as error:
        return refused(error, path)
    return "read"


def identify(path: Path, scenario: Path) -> str:
    try:
        run_scenario(scenario)
    except SpacearmError as error:
        # Numbers that can be read and not be explained are no fault of one line of the file.
        return "identification " + refused(error, path, scenario)
    return "identified"


def command(path: Path, scenario: Path) -> str:
    out = scenario.parent / "out"
    words = [sys.executable, "-c", "from spacearm.cli import main; main()", "run", str(scenario), "-o", str(out)]
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=300, check=False)
    shutil.rmtree(out, ignore_errors=True)
    if done.returncode not in (0, 1, 2) or "Traceback" in done.stderr:
        raise Fault(f"exit status {done.returncode}: {done.stderr[-2000:]}")
    if done.returncode == 2 and path.name not in done.stderr:
        raise Fault(f"the file is not named: {done.stderr}")
    return "command line ended as documented"


def judge(files: dict[str, bytes], chosen: argparse.Namespace, folder: Path, number: int) -> Outcome:
    """What came of one case."""
    ending, data, column = case(files, chosen.seed, number)
    path, scenario = folder / f"damaged-{number}.{ending}", folder / f"scenario-{number}.toml"
    path.write_bytes(data)
    ways: list[Callable[[Path, Path], str]] = [partial(read, column=column)]
    if chosen.every and number % chosen.every == 0:
        study = ("joint", "inertia")[number // chosen.every % 2]
        scenario.write_text(SCENARIOS[study].replace("FILE", path.name))
        ways += [identify, command] if number % (10 * chosen.every) == 0 else [identify]
    began, ends, note, way = _work(), [], "", ways[0]
    try:
        for way in ways:
            ends.append(way(path, scenario))
    except Fault as fault:
        ends, note = ["FAULT"], f"{_way_name(way)}: {fault}"
    except Exception:
        ends, note = ["FAULT"], f"{_way_name(way)}: {traceback.format_exc()}"
    seconds = _work() - began
    if seconds > chosen.limit and not note:
        ends, note = ["FAULT"], f"{seconds:.1f} s of work"
    if chosen.keep and (note or chosen.count == 1):
        chosen.keep.mkdir(parents=True, exist_ok=True)
        (chosen.keep / path.name).write_bytes(data)
    for file in (path, scenario):
        file.unlink(missing_ok=True)
    kind = f"FAULT: {ending}" if note else f"{ending}: {', '.join(ends)}"
    return Outcome(number, kind, note, seconds, path.name)


def _way_name(way: Callable[[Path, Path], str]) -> str:
    return str(getattr(way, "func", way).__name__)


def _work() -> float:
    """CPU time of this process and of those that it has ended, s: it does not count what else the machine does."""
    return sum(usage.ru_utime + usage.ru_stime for usage in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="how many files")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=int, default=50, help="each so-many-th case is identified, too; 0: none")
    parser.add_argument("--limit", type=float, default=20.0, help="longest CPU time for one case, s")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--log", type=Path, help="write every outcome as a line of JSON")
    parser.add_argument("--keep", type=Path, help="folder for the files of faults, or for the file when --count is 1")
    chosen = parser.parse_args()
    files: dict[str, bytes] = {}

    def prepare() -> None:
        warnings.simplefilter("ignore")
        files.update(good_files())

    with tempfile.TemporaryDirectory(prefix="spacearm-fuzz-") as name:
        numbers = range(chosen.first, chosen.first + chosen.count)
        outcomes = run_watched(
            lambda n: judge(files, chosen, Path(name), n), prepare, numbers, chosen.workers, 5 * chosen.limit
        )
        return report(outcomes, chosen.log)


if __name__ == "__main__":
    sys.exit(main())
