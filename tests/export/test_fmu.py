"""An FMU gives what ``simulate`` gives: through its own functions, and in FMPy where that is installed."""

from __future__ import annotations

import ctypes
import re
import zipfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from typing import Any, Literal
from xml.etree import ElementTree

import numpy as np
import pytest

from spacearm.control import joint_pid
from spacearm.errors import InputError
from spacearm.export import export_fmu
from spacearm.export._motion_code import motion_code
from spacearm.model import Friction, Inertia, Robot, Thruster
from spacearm.simulate import RK4, Event, Load, Phase, State, close_state, constant, simulate, table, thruster_load
from spacearm.simulate.loops import loop_gap
from spacearm.typing import Array
from support.compilers import build, compiler
from support.linkages import four_bar, solve_four_bar
from support.random_robots import random_robot


@pytest.fixture(scope="module")
def robot() -> Robot:
    return random_robot(3, 2, geometry="skew", passive=True)


@pytest.fixture(scope="module")
def start(robot: Robot) -> State:
    return State([0.1, 0.2, 0.3], [1, 0, 0, 0], np.array([0.2, -0.1]), np.linspace(-0.2, 0.2, robot.dofs))


@pytest.fixture(scope="module")
def file(robot: Robot, start: State, tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler()
    path = tmp_path_factory.mktemp("fmu") / "robot.fmu"
    assert "x86_64-linux" in export_fmu(robot, path, start=start)
    return path


class Unit:
    """An FMU through its functions."""

    def __init__(self, file: Path, folder: Path, kind: str) -> None:
        with zipfile.ZipFile(file) as archive:
            archive.extractall(folder)
        root = ElementTree.parse(folder / "modelDescription.xml").getroot()
        variables = root.find("ModelVariables")
        assert variables is not None
        self.number = {own.attrib["name"]: int(own.attrib["valueReference"]) for own in variables}
        self.start = {own.attrib["name"]: float(own.attrib.get("start", "nan")) for own in variables}
        states = [own for own in variables if own.attrib.get("initial") == "exact"]
        self.states = [own.attrib["name"] for own in states if own.attrib["causality"] == "output"]
        self.dll: Any = ctypes.CDLL(str(next((folder / "binaries" / "x86_64-linux").iterdir())))
        make = getattr(self.dll, f"fmi3Instantiate{kind}")
        make.restype = ctypes.c_void_p
        token = root.attrib["instantiationToken"].encode()
        rest = [None, False, False, None, None]
        if kind == "CoSimulation":
            rest = [None, *[False] * 4, None, 0, *[None] * 3]
        assert make(b"other", b"wrong", *rest) is None
        self.instance = ctypes.c_void_p(make(b"one", token, *rest))
        assert self.instance

    def set(self, **values: float) -> None:
        for name, value in values.items():
            which, number = (ctypes.c_uint32 * 1)(self.number[name]), (ctypes.c_double * 1)(value)
            assert self.dll.fmi3SetFloat64(self.instance, which, ctypes.c_size_t(1), number, ctypes.c_size_t(1)) == 0

    def get(self, names: list[str]) -> Array:
        count = len(names)
        which, found = (ctypes.c_uint32 * count)(*(self.number[name] for name in names)), (ctypes.c_double * count)()
        size = ctypes.c_size_t(count)
        assert self.dll.fmi3GetFloat64(self.instance, which, size, found, size) == 0
        return np.array(found)

    def step(self, now: float, length: float) -> None:
        out = [ctypes.byref(ctypes.c_bool()) for _ in range(3)] + [ctypes.byref(ctypes.c_double())]
        assert self.dll.fmi3DoStep(self.instance, ctypes.c_double(now), ctypes.c_double(length), True, *out) == 0


def test_co_simulation_steps_as_simulate(file: Path, robot: Robot, start: State, tmp_path: Path) -> None:
    unit = Unit(file, tmp_path, "CoSimulation")
    first = robot.joint_names[0]
    unit.set(**{f"force.{first}": 0.3, "step": 0.002})
    for k in range(10):
        unit.step(0.01 * k, 0.01)
    phase = Phase(0.1, forces={first: 0.3}, friction=False, limits="ignore")
    expected = simulate(robot, start, phase, method=RK4(0.002), ledger=False).states[-1]
    np.testing.assert_allclose(unit.get(unit.states), expected, rtol=0, atol=1e-13)


def test_closed_loops_stay_closed_in_an_fmu(tmp_path: Path) -> None:
    """A linkage on an arm, pushed at its crank: the same steps as simulate, closed throughout."""
    robot = four_bar("axis", 1)
    coupler, rocker = (angle.real for angle in solve_four_bar(complex(0.7)))
    start = close_state(robot, State.at_rest(robot, [0.3, 0.7, coupler - 0.7, rocker]))
    compiler()
    export_fmu(robot, tmp_path / "linkage.fmu", start=start)
    unit = Unit(tmp_path / "linkage.fmu", tmp_path / "unit", "CoSimulation")
    unit.set(**{"force.crank": 0.5, "step": 0.002})
    for k in range(20):
        unit.step(0.01 * k, 0.01)
    phase = Phase(0.2, forces={"crank": 0.5}, friction=False, limits="ignore")
    expected = simulate(robot, start, phase, method=RK4(0.002), ledger=False).states[-1]
    found = unit.get(unit.states)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
    assert abs(found[8] - 0.7) > 1e-3
    assert loop_gap(robot, found[7 : 7 + robot.n]) < 1e-9


def test_parameters_and_start_are_variables(file: Path, robot: Robot, start: State, tmp_path: Path) -> None:
    """A heavier body through the FMU and through overrides."""
    unit = Unit(file, tmp_path, "CoSimulation")
    inertia = robot.inertia_parameters.copy()
    inertia[-1] *= 1.5
    names = [name for name in unit.number if name.startswith(f"inertia.{robot.body_names[-1]}.")]
    assert [unit.start[name] for name in names] == robot.inertia_parameters[-1].tolist()
    unit.set(**dict(zip(names, inertia[-1], strict=True)), step=0.002)
    unit.set(**{"position.x": 5.0})
    unit.step(0.0, 0.1)
    moved = State([5.0, 0.2, 0.3], start.quaternion, start.joints, start.velocity)
    phase = Phase(0.1, friction=False, limits="ignore")
    done = simulate(robot, moved, phase, method=RK4(0.002), ledger=False, overrides={"inertia": inertia})
    np.testing.assert_allclose(unit.get(unit.states), done.states[-1], rtol=0, atol=1e-13)


def test_model_exchange_gives_the_rate(file: Path, tmp_path: Path) -> None:
    """The rate is the slope of the states that co-simulation steps through."""
    unit = Unit(file, tmp_path, "ModelExchange")
    count = len(unit.states)
    found = (ctypes.c_double * count)()
    assert unit.dll.fmi3GetContinuousStateDerivatives(unit.instance, found, ctypes.c_size_t(count)) == 0
    rate = np.array(found)
    assert np.array_equal(unit.get([f"der({name})" for name in unit.states]), rate)
    h, ends = 1e-5, [unit.get(unit.states)]
    other = Unit(file, tmp_path / "other", "CoSimulation")
    for k in range(2):
        other.step(k * h, h)
        ends.append(other.get(other.states))
    slope = (4.0 * ends[1] - 3.0 * ends[0] - ends[2]) / (2.0 * h)
    np.testing.assert_allclose(rate, slope, rtol=0, atol=1e-6 * np.abs(rate).max())


@pytest.fixture(scope="module")
def jets(robot: Robot, start: State, tmp_path_factory: pytest.TempPathFactory) -> tuple[Robot, Path]:
    """A robot with two thrusters and springs with names, and its unit."""
    thrusters = [
        Thruster(f"jet{k}", robot.body_names[k], np.array([0.3, -0.2, 0.1]), np.array([2.0, 2.0, -1.0]) / 3.0, 6.0 + k)
        for k in range(2)
    ]
    made, path = robot.replace(thrusters=tuple(thrusters)), tmp_path_factory.mktemp("fmu") / "jets.fmu"
    export_fmu(made, path, start=start)
    return made, path


def test_thrusters_and_wrenches_are_inputs(jets: tuple[Robot, Path], start: State, tmp_path: Path) -> None:
    """They move the unit as loads move a run."""
    robot, file = jets
    unit, frame = Unit(file, tmp_path, "CoSimulation"), robot.frames[0].name
    unit.set(**{"thruster.jet0": 0.5, "thruster.jet1": 1.0, f"wrench.{frame}.fy": 2.0, f"wrench.{frame}.mz": -1.0})
    unit.set(step=0.002)
    unit.step(0.0, 0.1)
    push = Load(frame, tuple(map(constant, (0.0, 2.0, 0.0, 0.0, 0.0, -1.0))))
    loads = [thruster_load(robot, "jet0", 0.5), thruster_load(robot, "jet1"), push]
    phase = Phase(0.1, loads=loads, friction=False, limits="ignore")
    expected = simulate(robot, start, phase, method=RK4(0.002), ledger=False).states[-1]
    np.testing.assert_allclose(unit.get(unit.states), expected, rtol=0, atol=1e-13)


def test_outputs_are_hand_and_momentum(jets: tuple[Robot, Path], start: State, tmp_path: Path) -> None:
    """The hand's velocity is the slope of its origin; momentum and mass centre do what Newton's laws say."""
    robot, file = jets
    frame = robot.frames[0].name
    h, unit = 1e-4, Unit(file, tmp_path, "CoSimulation")
    names = [f"{what}.{axis}" for what in (f"{frame}.origin", f"{frame}.linear_velocity") for axis in "xyz"]
    names += [f"{what}.{axis}" for what in ("mass_centre", "momentum", "angular_momentum") for axis in "xyz"]
    rows = []
    for k in range(3):
        rows.append(unit.get(names))
        unit.step(k * h, h)
    first, middle, last = rows
    np.testing.assert_allclose((last - first)[:3] / (2 * h), middle[3:6], rtol=0, atol=1e-6)
    np.testing.assert_allclose((last - first)[6:9] / (2 * h), middle[9:12] / robot.mass, rtol=0, atol=1e-9)
    np.testing.assert_allclose(last[9:], first[9:], rtol=0, atol=1e-12)
    assert np.linalg.norm(first[9:12]) > 1.0


@pytest.mark.parametrize("fmi", [2, 3])
def test_directional_derivatives_are_slopes(
    fmi: Literal[2, 3], jets: tuple[Robot, Path], start: State, tmp_path: Path
) -> None:
    """Against central differences of the unit's own rates and outputs, along states and inputs together."""
    robot, file = jets
    if fmi == 2:
        file = tmp_path / "two.fmu"
        export_fmu(robot, file, start=start, fmi=2)
    unit, rng = Logged(file, tmp_path / "unit", fmi), np.random.default_rng(5)
    call = unit.dll.fmi2GetDirectionalDerivative if fmi == 2 else unit.dll.fmi3GetDirectionalDerivative
    read, states = unit.dll.fmi2GetReal if fmi == 2 else unit.dll.fmi3GetFloat64, list(unit.states)
    known = [*states, "thruster.jet1", f"force.{robot.joint_names[0]}", f"wrench.{robot.frames[0].name}.fx"]
    unknown = [*(f"der({name})" for name in states), f"{robot.frames[0].name}.linear_velocity.y", "angular_momentum.z"]
    seed, point = rng.normal(size=len(known)), np.array([unit.start.get(name, 0.0) for name in known])
    point[-3:] = 0.5, 0.2, 1.0
    seed[3] = 0.0  # along the unit quaternion 1, 0, 0, 0: it would be scaled back

    def numbers(values: Any) -> Any:
        return (ctypes.c_double * len(values))(*values)

    def references(names: list[str]) -> Any:
        return (ctypes.c_uint32 * len(names))(*(unit.number[name] for name in names))

    def rates(along: float) -> Array:
        assert set(unit.set(dict(zip(known, point + along * seed, strict=True)))) == {0}
        out, size = numbers([0.0] * len(unknown)), ctypes.c_size_t(len(unknown))
        assert read(unit.instance, references(unknown), size, out, *(() if fmi == 2 else (size,))) == 0
        return np.array(out)

    h = 1e-6
    slope = (rates(h) - rates(-h)) / (2.0 * h)
    rates(0.0)
    found, many, few = numbers([0.0] * len(unknown)), ctypes.c_size_t(len(unknown)), ctypes.c_size_t(len(known))
    ends = (few, numbers(seed), found) if fmi == 2 else (few, numbers(seed), few, found, many)
    assert call(unit.instance, references(unknown), many, references(known), *ends) == 0
    np.testing.assert_allclose(np.array(found), slope, rtol=0, atol=2e-8 * np.abs(slope).max())
    assert call(unit.instance, references(unknown), many, references(["phase"] * len(known)), *ends) == 3
    assert "a known is" in unit.heard[-1][1]


def test_every_variable_has_a_description_and_a_unit_in_si(jets: tuple[Robot, Path], tmp_path: Path) -> None:
    with zipfile.ZipFile(jets[1]) as archive:
        root = ElementTree.fromstring(archive.read("modelDescription.xml"))
    units = {own.attrib["name"]: own[0].attrib for own in root.find("UnitDefinitions") or []}
    assert units["N.m"] == {"kg": "1", "m": "2", "s": "-2"}
    assert units["rad/s2"] == {"s": "-2", "rad": "1"}
    assert units["N.m/rad"] == {"kg": "1", "m": "2", "s": "-2", "rad": "-1"}
    for own in root.find("ModelVariables") or []:
        assert len(own.attrib["description"]) > 8
        assert own.attrib["unit"] in units
    found = {own.attrib["name"]: own.attrib["unit"] for own in root.find("ModelVariables") or []}
    joint = jets[0].joint_names[0]
    assert (found[f"stiffness.{joint}"], found[f"damping.{joint}"]) == ("N.m/rad", "N.m.s/rad")
    assert (found["damping.base_vx"], found[f"der({joint}.velocity)"]) == ("N.s/m", "rad/s2")


def test_a_state_can_be_kept_and_gone_back_to(file: Path, tmp_path: Path) -> None:
    unit = Unit(file, tmp_path, "CoSimulation")
    unit.step(0.0, 0.1)
    there, kept, size = unit.get(unit.states), ctypes.c_void_p(), ctypes.c_size_t()
    assert unit.dll.fmi3GetFMUState(unit.instance, ctypes.byref(kept)) == 0
    assert unit.dll.fmi3SerializedFMUStateSize(unit.instance, kept, ctypes.byref(size)) == 0
    bytes_ = (ctypes.c_uint8 * size.value)()
    assert unit.dll.fmi3SerializeFMUState(unit.instance, kept, bytes_, size) == 0
    unit.step(0.1, 0.1)
    after = unit.get(unit.states)
    assert not np.array_equal(after, there)
    assert unit.dll.fmi3DeserializeFMUState(unit.instance, bytes_, size, ctypes.byref(kept)) == 0
    assert unit.dll.fmi3SetFMUState(unit.instance, kept) == 0
    assert np.array_equal(unit.get(unit.states), there)
    unit.step(0.1, 0.1)
    assert np.array_equal(unit.get(unit.states), after)
    assert unit.dll.fmi3FreeFMUState(unit.instance, ctypes.byref(kept)) == 0


@pytest.mark.skipif(find_spec("fmpy") is None, reason="FMPY IS NOT INSTALLED: the FMU was not validated")
def test_fmpy_finds_no_fault_and_agrees(file: Path, robot: Robot, start: State) -> None:
    import fmpy
    from fmpy.validation import validate_fmu

    assert validate_fmu(str(file)) == []
    names = states(file)
    expected = simulate(robot, start, Phase(0.5, friction=False, limits="ignore")).states[-1]
    for kind in ("CoSimulation", "ModelExchange"):
        found = fmpy.simulate_fmu(
            str(file), fmi_type=kind, stop_time=0.5, output_interval=0.01, output=names, relative_tolerance=1e-11
        )
        np.testing.assert_allclose([found[name][-1] for name in names], expected, rtol=0, atol=1e-9)


@pytest.mark.skipif(find_spec("fmpy") is None, reason="FMPY IS NOT INSTALLED: functions were not compared with FMI's")
def test_every_function_of_the_standard_is_there(file: Path, tmp_path: Path) -> None:
    """In the library, and in that for Windows where there is one, which needs nothing but Windows' own."""
    import fmpy

    header = (Path(fmpy.__file__).parent / "c-code" / "fmi3Functions.h").read_text()
    wanted = re.findall(r"FMI3_Export\s+\w+\s+(fmi3\w+);", header)
    unit = Unit(file, tmp_path, "CoSimulation")
    assert len(wanted) > 70
    assert [name for name in wanted if not hasattr(unit.dll, name)] == []
    for library in tmp_path.glob("binaries/*/*.dll"):
        content = library.read_bytes()
        assert [name for name in wanted if name.encode() + b"\0" not in content] == []
        needed = {name.decode().lower() for name in re.findall(rb"[\w-]+\.dll", content)} - {library.name.lower()}
        assert [name for name in needed if not name.startswith(("kernel32", "api-ms-win-crt"))] == []


def states(file: Path) -> list[str]:
    import fmpy

    variables = fmpy.read_model_description(str(file)).modelVariables
    names = [own.name for own in variables if own.causality == "output" and own.initial == "exact"]
    return [name for name in names if not name.startswith("memory")]


@pytest.mark.skipif(find_spec("fmpy") is None, reason="FMPY IS NOT INSTALLED: the FMU was not built from its sources")
@pytest.mark.parametrize("fmi", [2, 3])
def test_an_fmu_can_be_built_from_its_sources(fmi: Literal[2, 3], robot: Robot, start: State, tmp_path: Path) -> None:
    """As the unit describes them, without its binaries and without a word of fused multiply-adds."""
    import fmpy

    file, folder = tmp_path / "robot.fmu", tmp_path / "unit"
    export_fmu(robot, file, start=start, fmi=fmi)
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder)
    rmtree(folder / "binaries")
    described = fmpy.read_model_description(str(folder), validate=True)
    ((sources,),) = ([own.sourceFiles for own in made.sourceFileSets] for made in described.buildConfigurations[:1])
    place = folder / "binaries" / ("linux64" if fmi == 2 else "x86_64-linux")
    place.mkdir(parents=True)
    library = place / f"{described.coSimulation.modelIdentifier}.so"
    build([folder / "sources" / name for name in sources], library, "-O1", "-shared", "-fPIC")
    names = states(folder)
    found = fmpy.simulate_fmu(str(folder), fmi_type="CoSimulation", stop_time=0.2, output_interval=0.01, output=names)
    phase = Phase(0.2, friction=False, limits="ignore")
    expected = simulate(robot, start, phase, method=RK4(0.001), ledger=False).states[-1]
    np.testing.assert_allclose([found[name][-1] for name in names], expected, rtol=0, atol=1e-12)


@pytest.mark.skipif(find_spec("fmpy") is None, reason="FMPY IS NOT INSTALLED: the FMU was not validated")
@pytest.mark.parametrize("fmi", [2, 3])
def test_a_scenario_agrees_with_simulate(fmi: Literal[2, 3], tmp_path: Path) -> None:
    """Friction, an event that ends a phase, a load, laws with memory, sampled and not; the start is at another time."""
    import fmpy
    from fmpy.validation import validate_fmu

    plain = random_robot(9, 4, geometry="mixed", passive=True)
    sizes = [(0.2, 0.1), (0.05, 0.05), (0.4, 0.3), (0.1, 0.02)]
    joints = [replace(joint, friction=Friction(*size)) for joint, size in zip(plain.joints, sizes, strict=True)]
    robot = plain.replace(joints=tuple(joints))
    velocity = np.linspace(-0.2, 0.2, robot.dofs)
    velocity[6:8] = 0.0
    start = State([0.1, -0.2, 0.3], [1, 0, 0, 0], np.zeros(robot.n), velocity)
    push = Load.from_direction(robot.frames[0].name, [1, 2, 3], table([0.0, 0.5], [4.0, -6.0]))
    law = joint_pid([0.05] * robot.n, 3.0, 1.0, integral=2.0, period=0.01)
    plan = [
        Phase(0.4, locked=["joint2"], forces={"joint4": 0.3}),
        Phase(0.5, loads=[push], until=Event("joint1", 0.03)),
        Phase(0.3, laws=law),
        Phase(0.2, laws=joint_pid([0.1] * robot.n, 3.0, 1.0, integral=2.0, period=None)),
    ]
    run = simulate(robot, start, plan, method=RK4(0.001), ledger=False)
    assert {"stick", "slip", "reverse", "event"} <= {event.kind for event in run.events}
    file = tmp_path / "scenario.fmu"
    export_fmu(motion_code(robot, start, plan, RK4(0.001), tested=False), file, fmi=fmi)
    assert validate_fmu(str(file)) == []
    names = states(file)
    for kind in ("CoSimulation", "ModelExchange"):
        found = fmpy.simulate_fmu(
            str(file), fmi_type=kind, start_time=2.0, stop_time=4.0, output_interval=0.01, output=names,
            relative_tolerance=1e-13,
        )  # fmt: skip
        assert found["time"][-1] < 2.02 + run.end_time  # it ends by itself
        np.testing.assert_allclose([found[name][-1] for name in names], run.states[-1], rtol=0, atol=1e-9)


class Logged:
    """An FMU of either version: numbers set one by one, statuses, and what its logger hears."""

    def __init__(self, file: Path, folder: Path, fmi: int) -> None:
        with zipfile.ZipFile(file) as archive:
            archive.extractall(folder)
        root = ElementTree.parse(folder / "modelDescription.xml").getroot()
        self.number = {
            own.attrib["name"]: int(own.attrib["valueReference"]) for own in root.find("ModelVariables") or []
        }
        self.dll: Any = ctypes.CDLL(str(next((folder / "binaries").glob("*linux*/*"))))
        described = {
            own.attrib["name"]: {**(own[0].attrib if len(own) else {}), **own.attrib}
            for own in root.find("ModelVariables") or []
        }
        exact = {name: own for name, own in described.items() if own.get("initial") == "exact"}
        self.start = {name: float(own["start"]) for name, own in exact.items()}
        self.states = [name for name, own in exact.items() if own["causality"] == "output"]
        self.fmi, self.heard = fmi, list[tuple[int, str]]()
        text, pointer = ctypes.c_char_p, ctypes.c_void_p
        if fmi == 2:
            kind = ctypes.CFUNCTYPE(None, pointer, text, ctypes.c_int, text, text, text)
            self.log = kind(
                lambda _, name, status, category, form, notes: self._hear(status, notes, (name, category, form))
            )
            calls = (pointer * 5)(ctypes.cast(self.log, pointer), None, None, None, None)
            arguments: tuple[Any, ...] = (b"one", 1, root.attrib["guid"].encode(), b"", calls, 0, 0)
            make = self.dll.fmi2Instantiate
        else:
            kind = ctypes.CFUNCTYPE(None, pointer, ctypes.c_int, text, text)
            self.log = kind(lambda _, status, category, notes: self._hear(status, notes, (b"one", category, b"%s")))
            token = root.attrib["instantiationToken"].encode()
            arguments = (b"one", token, None, *[False] * 4, None, ctypes.c_size_t(0), None, self.log, None)
            make = self.dll.fmi3InstantiateCoSimulation
        make.restype = pointer
        self.instance = pointer(make(*arguments))

    def _hear(self, status: int, notes: bytes, rest: tuple[bytes, ...]) -> None:
        assert rest == (b"one", b"logStatusError", b"%s")
        self.heard.append((status, notes.decode()))

    def set(self, values: dict[str, float]) -> list[int]:
        found = []
        for name, value in values.items():
            which, number, one = (
                (ctypes.c_uint32 * 1)(self.number[name]),
                (ctypes.c_double * 1)(value),
                ctypes.c_size_t(1),
            )
            call = self.dll.fmi2SetReal if self.fmi == 2 else self.dll.fmi3SetFloat64
            found.append(call(self.instance, which, one, number, *(() if self.fmi == 2 else (one,))))
        return found

    def begin(self) -> int:
        status: int = getattr(self.dll, f"fmi{self.fmi}ExitInitializationMode")(self.instance)
        return status

    def free(self) -> None:
        getattr(self.dll, f"fmi{self.fmi}FreeInstance")(self.instance)


@pytest.mark.parametrize("fmi", [2, 3])
def test_bad_numbers_are_refused_with_their_names(fmi: Literal[2, 3], tmp_path: Path) -> None:
    """At once what is wrong by itself; at the end of the initialisation what does not fit: tools set one by one."""
    compiler()
    plain = random_robot(3, 2, geometry="skew", passive=True, rotors=1.0)
    rubs = replace(plain.joints[0], friction=Friction(0.2, 0.1))
    robot = plain.replace(joints=(rubs, *plain.joints[1:]))
    file = tmp_path / "robot.fmu"
    export_fmu(robot, file, fmi=fmi)
    own = f"inertia.{robot.body_names[1]}"
    alone = {
        f"{own}.m": (-50.0, "above 0"),
        f"{own}.Ixx": (-1.0, "0 or more"),
        f"{own}.Ixy": (float("nan"), "finite"),
        f"rotor.{robot.joint_names[0]}": (0.0, "above 0"),
        f"damping.{robot.joint_names[0]}": (-1.0, "0 or more"),
        f"stiffness.{robot.joint_names[0]}": (float("-inf"), "finite"),
        f"static_friction.{rubs.name}": (0.0, "above 0"),
        f"static_friction.{robot.joint_names[1]}": (1.0, "expected 0"),
        f"force.{rubs.name}": (float("inf"), "finite"),
        "position.x": (float("nan"), "finite"),
        "momentum.x": (1.0, "computed"),
        "step": (0.0, "above 0"),
        "phase": (1.0, "computed"),
    }
    unit = Logged(file, tmp_path / "alone", fmi)
    for name, (value, expected) in alone.items():
        assert unit.set({name: value}) == [3]
        ((status, notes),) = unit.heard
        assert status == 3
        assert notes.startswith(f"{name} is {value:.9g}".replace("-nan", "nan"))
        assert expected in notes
        unit.heard.clear()
    assert unit.begin() == 0  # nothing of it was taken
    unit.free()
    ten = dict(
        zip(("m", "mx", "my", "mz", "Ixx", "Iyy", "Izz", "Ixy", "Ixz", "Iyz"), plain.inertia_parameters[1], strict=True)
    )
    together = [
        ({f"{own}.Ixx": 2.0 * (ten["Iyy"] + ten["Izz"])}, f"{own}.Ixx", "triangle inequality"),
        ({f"{own}.mx": 30.0 * ten["m"]}, f"{own}.Ixx", "triangle inequality"),
        ({f"coulomb_friction.{rubs.name}": 0.3}, f"coulomb_friction.{rubs.name}", "static friction"),
        ({"quaternion.w": 0.5}, "quaternion", "expected 1"),
    ]
    for number, (values, name, expected) in enumerate(together):
        unit = Logged(file, tmp_path / str(number), fmi)
        assert unit.set(values) == [0]
        assert unit.begin() == 3
        ((status, notes),) = unit.heard
        assert status == 3
        assert name in notes
        assert expected in notes
        unit.free()


def test_bodies_at_the_edge_of_the_triangle_inequality_are_taken(file: Path, robot: Robot, tmp_path: Path) -> None:
    """Twice a mass with all that grows with it, a thin plate far from its frame, a point; set one by one."""
    plate = Inertia(3.0, np.array([5.0, -3.0, 2.0]), np.diag([0.1, 0.2, 0.1 + 0.2]))
    point = Inertia(3.0, np.array([5.0, -3.0, 2.0]))
    for number, inertia in enumerate([2.0 * robot.inertia_parameters[1], plate.parameters, point.parameters]):
        unit = Logged(file, tmp_path / str(number), 3)
        names = [name for name in unit.number if name.startswith(f"inertia.{robot.body_names[1]}.")]
        assert unit.set(dict(zip(names, inertia, strict=True))) == [0] * 10
        assert (unit.begin(), unit.heard) == (0, [])
        unit.free()


def test_what_an_fmu_cannot_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="FMI 1 is not supported"):
        export_fmu(random_robot(1, 1), tmp_path / "robot.fmu", fmi=1)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"does not end in \.fmu"):
        export_fmu(random_robot(1, 1), tmp_path / "robot.zip")
