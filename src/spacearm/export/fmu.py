"""A robot or a scenario as an FMU (FMI 3.0 or 2.0): co-simulation and model exchange; binaries and sources.

The scenario's step function is that of :mod:`spacearm.export._motion_code`; a robot is a scenario without end in which
nothing happens. Inputs are generalised forces, which are added to the scenario's, outputs are the state. Inertias,
springs, dampers, friction and the start are variables that the importing tool may set.
"""

from __future__ import annotations

import hashlib
import io
import math
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from platform import machine
from typing import Literal
from xml.sax.saxutils import quoteattr

from spacearm import __version__
from spacearm.checks import UNIT_TOLERANCE
from spacearm.errors import InputError, clip_text
from spacearm.export._c_text import identifier, string
from spacearm.export._fmu_variables import FmuVariable, list_variables, unit_definitions
from spacearm.export._motion_code import MotionCode
from spacearm.export._motion_tables import TEMPLATES
from spacearm.export._tangents import has_tangents, tangent_text
from spacearm.export.c_files import DERIVED, code_text, header_text, own_parameters, port_functions
from spacearm.export.free_motion import STEP, free_motion
from spacearm.model import Robot
from spacearm.model.parts import TRIANGLE_TOLERANCE
from spacearm.simulate import State
from spacearm.typing import Array

#: Platform to zig's target, the library's suffix and the folder of FMI 2.0.
TARGETS = {
    "x86_64-linux": ("x86_64-linux-gnu", ".so", "linux64"),
    "x86_64-windows": ("x86_64-windows-gnu", ".dll", "win64"),
}
#: Parameters that are checked together, by the name of their first value reference in C.
_CHECKED = {"inertia": "AT_INERTIA", "static_friction": "AT_STATIC", "coulomb_friction": "AT_COULOMB"}
Fmi = Literal[2, 3]


def export_fmu(
    source: Robot | MotionCode, file: str | Path, *, start: State | None = None, step: float = STEP, fmi: Fmi = 3
) -> list[str]:
    """Write an FMU; the platforms that it has binaries for.

    Args:
        source: a robot, or a scenario as :func:`motion_code` makes it, with ``forced``.
        start: state of a robot at time zero; at rest in the zero configuration without it.
        step: longest RK4 step of a robot's co-simulation, s.
        fmi: version.
    """
    path = Path(file)
    if path.suffix != ".fmu":
        raise InputError("does not end in .fmu", file=path, hint="expected NAME.fmu")
    if fmi not in (2, 3):
        raise InputError(f"FMI {fmi} is not supported", place="fmi", hint="expected 2 or 3")
    motion = free_motion(source, start, step, tested=False) if isinstance(source, Robot) else source
    robot = motion.robot
    identity = identifier(robot.name)
    values = own_parameters(robot, motion.kernels) | motion.friction
    variables = list_variables(motion, values)
    source_text = _source(motion, identity, values, variables, fmi)
    # The token is of the source without the token: the same model gives the same FMU, another one is refused by an
    # importer that holds the old description.
    token = hashlib.sha256(source_text.encode()).hexdigest()
    texts = {
        f"{identity}.h": header_text(robot, identity, port_functions(motion), values, motion),
        f"{identity}.c": source_text.replace("@TOKEN@", token),
    }
    binaries = _binaries(identity, texts)
    described = _description_2 if fmi == 2 else _description_3
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("modelDescription.xml", described(motion, identity, token, variables))
        for name, text in texts.items():
            archive.writestr(f"sources/{name}", text)
        if fmi == 3:
            archive.writestr("sources/buildDescription.xml", _build_description(identity))
        for platform, (name, content) in binaries.items():
            archive.writestr(f"binaries/{TARGETS[platform][2] if fmi == 2 else platform}/{name}", content)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written at once, when all of it has been made: a compiler that fails leaves no half archive.
    path.write_bytes(buffer.getvalue())
    return list(binaries)


_ATTRIBUTES = {
    "independent": 'causality="independent" variability="continuous"',
    "input": 'causality="input" variability="continuous"',
    "state": 'causality="output" variability="continuous" initial="exact"',
    "derivative": 'causality="local" variability="continuous" initial="calculated"',
    "indicator": 'causality="local" variability="continuous" initial="calculated"',
    "phase": 'causality="output" variability="discrete" initial="calculated"',
    "command": 'causality="output" variability="continuous" initial="calculated"',
    "output": 'causality="output" variability="continuous" initial="calculated"',
    "parameter": 'causality="parameter" variability="fixed" initial="exact"',
}


def _scalars(variables: list[FmuVariable]) -> Iterator[tuple[str, str, FmuVariable]]:
    """What both versions say of a variable, its start, and the variable."""
    for number, own in enumerate(variables):
        text = f'name={quoteattr(own.name)} valueReference="{number}" description={quoteattr(own.description)}'
        started = own.kind in ("input", "state", "parameter")
        unit = f' unit="{own.unit}"' if own.unit else ""
        yield f"{text} {_ATTRIBUTES[own.kind]}", f' start="{own.start!r}"{unit}' if started else unit, own


#: Who sets a wrong number hears of it under this name.
_LOG = '  <LogCategories>\n    <Category name="logStatusError"/>\n  </LogCategories>\n'


def _numbers(variables: list[FmuVariable], *kinds: str) -> list[int]:
    return [k for k, own in enumerate(variables) if own.kind in kinds]


def _experiment(motion: MotionCode) -> str:
    """How long the scenario lasts; nothing of a robot."""
    total = sum(float(each.signals.breaks[-1]) for each in motion.phases)
    return f'  <DefaultExperiment startTime="0" stopTime="{total!r}"/>\n' if math.isfinite(total) else ""


def _description_3(motion: MotionCode, identity: str, token: str, variables: list[FmuVariable]) -> str:
    flags = f'modelIdentifier="{identity}" canGetAndSetFMUState="true" canSerializeFMUState="true"'
    flags += ' providesDirectionalDerivatives="true"' if has_tangents(motion) else ""
    lines = []
    for text, start, own in _scalars(variables):
        derivative = f' derivative="{own.state_number}"' if own.kind == "derivative" else ""
        lines.append(f"    <Float64 {text}{derivative}{start}/>")
    known = {
        "Output": ("state", "phase", "command", "output"),
        "ContinuousStateDerivative": ("derivative",),
        "InitialUnknown": ("derivative", "phase", "command", "output"),
        "EventIndicator": ("indicator",),
    }
    shape = [f'    <{tag} valueReference="{k}"/>' for tag, kinds in known.items() for k in _numbers(variables, *kinds)]
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<fmiModelDescription fmiVersion="3.0" modelName={quoteattr(motion.robot.name)} instantiationToken="{token}" \
generationTool="spacearm {__version__}">
  <ModelExchange {flags}/>
  <CoSimulation {flags} canHandleVariableCommunicationStepSize="true"/>
{unit_definitions(variables)}{_LOG}{_experiment(motion)}  <ModelVariables>
{chr(10).join(lines)}
  </ModelVariables>
  <ModelStructure>
{chr(10).join(shape)}
  </ModelStructure>
</fmiModelDescription>
"""


def _build_description(identity: str) -> str:
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<fmiBuildDescription fmiVersion="3.0">
  <BuildConfiguration modelIdentifier="{identity}">
    <SourceFileSet language="C99" compilerOptions="-ffp-contract=off">
      <SourceFile name="{identity}.c"/>
    </SourceFileSet>
  </BuildConfiguration>
</fmiBuildDescription>
"""


def _description_2(motion: MotionCode, identity: str, token: str, variables: list[FmuVariable]) -> str:
    flags = f'modelIdentifier="{identity}" canGetAndSetFMUstate="true" canSerializeFMUstate="true"'
    flags += ' providesDirectionalDerivative="true"' if has_tangents(motion) else ""
    lines = []
    for text, start, own in _scalars(variables):
        # FMI 2.0 counts variables from 1 here and below; FMI 3.0 refers to value references, from 0.
        derivative = f' derivative="{own.state_number + 1}"' if own.kind == "derivative" else ""
        lines.append(f"    <ScalarVariable {text}><Real{derivative}{start}/></ScalarVariable>")
    sources = f'<SourceFiles><File name="{identity}.c"/></SourceFiles>'
    made = ("phase", "command", "output")
    known = {"Outputs": ("state", *made), "Derivatives": ("derivative",), "InitialUnknowns": ("derivative", *made)}
    shape = []
    for tag, kinds in known.items():
        unknowns = [f'      <Unknown index="{k + 1}"/>' for k in sorted(_numbers(variables, *kinds))]
        shape += [f"    <{tag}>", *unknowns, f"    </{tag}>"]
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<fmiModelDescription fmiVersion="2.0" modelName={quoteattr(motion.robot.name)} guid="{token}" \
generationTool="spacearm {__version__}" numberOfEventIndicators="{motion.event_count}">
  <ModelExchange {flags}>{sources}</ModelExchange>
  <CoSimulation {flags} canHandleVariableCommunicationStepSize="true">{sources}</CoSimulation>
{unit_definitions(variables)}{_LOG}{_experiment(motion)}  <ModelVariables>
{chr(10).join(lines)}
  </ModelVariables>
  <ModelStructure>
{chr(10).join(shape)}
  </ModelStructure>
</fmiModelDescription>
"""


def _binaries(identity: str, texts: Mapping[str, str]) -> dict[str, tuple[str, bytes]]:
    """Shared libraries by their platform."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="spacearm-fmu-") as folder:
        place = Path(folder)
        for name, text in texts.items():
            (place / name).write_text(text, encoding="utf-8")
        for platform, command in _compilers().items():
            target = place / f"{identity}{TARGETS[platform][1]}"
            # No contraction: a compiler that fuses a * b + c by itself would change the last bits; fma() where the
            # trace has one stays one instruction.
            flags = ["-std=c99", "-O2", "-mfma", "-shared", "-ffp-contract=off"]
            flags += [] if platform.endswith("windows") else ["-fPIC", "-fvisibility=hidden"]
            libraries = [] if platform.endswith("windows") else ["-lm"]
            done = subprocess.run(
                [*command, *flags, str(place / f"{identity}.c"), "-o", str(target), *libraries],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                raise InputError(f"the compiler failed: {done.stderr[:500]}", place=platform)
            found[platform] = (target.name, target.read_bytes())
    return found


def _compilers() -> dict[str, list[str]]:
    """Command lines by platform: ziglang's for all, else this machine's own compiler for Linux."""
    if find_spec("ziglang"):
        zig = [sys.executable, "-m", "ziglang", "cc"]
        return {platform: [*zig, "-target", triple] for platform, (triple, _, _) in TARGETS.items()}
    own = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if own is None or not sys.platform.startswith("linux") or machine() != "x86_64":
        raise InputError("there is no C compiler for x86-64 Linux", place="fmu", hint="pip install ziglang")
    return {"x86_64-linux": [own]}


def _source(
    motion: MotionCode, identity: str, values: Mapping[str, Array], variables: list[FmuVariable], fmi: Fmi
) -> str:
    """The scenario's code, and FMI's functions around it."""
    kinds = [own.kind for own in variables]
    cases, at = [], kinds.index("parameter")
    first = {"STATE": kinds.index("state"), "RATE": kinds.index("derivative"), "PHASE": kinds.index("phase")}
    first |= {"THRUSTER": 1 + motion.robot.dofs, "WRENCH": 1 + motion.robot.dofs + len(motion.robot.thrusters)}
    first |= {"WATCHED": first["PHASE"] - motion.event_count, "COMMAND": first["PHASE"] + 1}
    first |= {"OUTPUT": kinds.index("output"), "PARAMETER": at}
    defines = [f"#define AT_{name} {number}" for name, number in first.items()]
    defines.append('#define TOKEN "@TOKEN@"')
    defines += [f"#define FMI {fmi}", f"#define UNIT {UNIT_TOLERANCE!r}", f"#define TRIANGLE {TRIANGLE_TOLERANCE!r}"]
    defines.append("enum { FINITE, LEAST, ABOVE, ZERO, SHARE };")
    defines.append(_rows(f"const char *const {identity}_names[]", (string(clip_text(own.name)) for own in variables)))
    defines.append(_rows(f"const unsigned char {identity}_rules[]", (own.rule for own in variables)))
    for name, size in ((name, row.size) for name, row in values.items() if name not in DERIVED):
        cases.append(f"    if (k >= {at} && k < {at + size}) return m->p.{name} + (k - {at});")
        if name in _CHECKED:
            defines.append(f"#define {_CHECKED[name]} {at}")
        at += size
    cases.append(f"    if (k == {at}) return &m->step;")
    text = "".join((TEMPLATES / name).read_text(encoding="utf-8") for name in ("fmi.c", f"fmi{fmi}.c"))
    derive = f"{identity}_derive(&m->p);" if {*DERIVED} & {*values} else ""
    text = text.replace("NAME_", f"{identity}_").replace("CASES", "\n".join(cases)).replace("DERIVE", derive)
    derives = has_tangents(motion)
    defines.append(f"#define TANGENTS {int(derives)}")
    more = tangent_text(motion, identity) if derives else ""
    code = code_text(identity, port_functions(motion), values, [motion.kernel], motion)
    return "\n".join([code, *defines, more, text])


def _rows(declaration: str, entries: Iterable[str]) -> str:
    return "\n".join([f"static {declaration} = {{", *(f"    {entry}," for entry in entries), "};"])
