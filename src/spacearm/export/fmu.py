"""A robot as an FMU (FMI 3.0): co-simulation and model exchange, for Linux and Windows.

Every degree of freedom is free: the inputs are generalised forces, the outputs the state. Inertias, springs, dampers
and the start are variables that the importing tool may set.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from spacearm import __version__
from spacearm.engine.kernel import Kernel
from spacearm.errors import InputError
from spacearm.export.c_files import DERIVED, Function, code_text, header_text, identifier, own_parameters
from spacearm.mechanics import motion_program
from spacearm.model import Robot
from spacearm.model.weightless import check_weightless
from spacearm.simulate.state import State
from spacearm.typing import Array

#: Folder of the binaries to zig's target and the library's suffix.
TARGETS = {
    "x86_64-linux": ("x86_64-linux-gnu", ".so"),
    "x86_64-windows": ("x86_64-windows-gnu", ".dll"),
}
_TEN = ("m", "mx", "my", "mz", "Ixx", "Iyy", "Izz", "Ixy", "Ixz", "Iyz")
_TEN_UNITS = ("kg", *["kg.m"] * 3, *["kg.m2"] * 6)
#: Largest step within a communication step, s, where none is given.
STEP = 1e-3


@dataclass(frozen=True)
class Variable:
    """One scalar of the FMU; its value reference is its number."""

    name: str
    kind: str  # independent, input, state, derivative, parameter
    start: float
    description: str
    of: int = 0  # of a derivative: the state


def export_fmu(robot: Robot, file: str | Path, *, start: State | None = None, step: float = STEP) -> list[str]:
    """Write an FMU; the platforms that it has binaries for.

    Args:
        start: state at time zero; at rest in the zero configuration without it.
        step: longest RK4 step of co-simulation, s.
    """
    path = Path(file)
    if path.suffix != ".fmu":
        raise InputError("has no suffix .fmu", file=path, hint="expected NAME.fmu")
    rubbing = [joint.name for joint in robot.joints if joint.friction is not None]
    if rubbing:
        raise InputError("has dry friction, which an FMU cannot have", place=f"joint {rubbing[0]!r}")
    check_weightless(robot)
    begin = (State.at_rest(robot) if start is None else start.check(robot)).vector
    identity = identifier(robot.name)
    function = _rate(robot)
    values = own_parameters(robot, [function.kernel])
    variables = [*_variables(robot, values, begin, step)]
    source = _source(robot, identity, function, values, variables)
    token = hashlib.sha256(source.encode()).hexdigest()
    texts = {"header": header_text(robot, identity, [function], values), "source": source.replace("@TOKEN@", token)}
    binaries = _binaries(identity, texts)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("modelDescription.xml", _description(robot, identity, token, variables))
        for folder, (name, content) in binaries.items():
            archive.writestr(f"binaries/{folder}/{name}", content)
    path.write_bytes(buffer.getvalue())
    return list(binaries)


def _rate(robot: Robot) -> Function:
    """The rate of the state from state and force, every degree of freedom free."""
    motion = motion_program(robot, (), ledger=False, free=True)
    absent = ("drive", "mode", "friction", "wrench")
    free = motion.with_zeros(absent)
    inputs = {name: symbol for name, symbol in free.inputs.items() if name not in absent}
    return Function("rate", Kernel(replace(free, inputs=inputs, outputs={"rate": free.outputs["rate"]})), "")


def _variables(robot: Robot, values: Mapping[str, Array], start: Array, step: float) -> Iterator[Variable]:
    yield Variable("time", "independent", 0.0, "s")
    for dof in robot.dof_names:
        yield Variable(f"force.{dof}", "input", 0.0, "generalised force, N or N m; of the base in base axes")
    states = [*(f"position.{axis}" for axis in "xyz"), *(f"quaternion.{axis}" for axis in "wxyz")]
    states += [*(f"{name}.position" for name in robot.joint_names), *(f"{name}.velocity" for name in robot.dof_names)]
    first = 1 + robot.dofs
    for name, value in zip(states, start, strict=True):
        yield Variable(name, "state", float(value), "SI; base velocity in base axes")
    for k, name in enumerate(states):
        yield Variable(f"der({name})", "derivative", 0.0, "time derivative", first + k)
    for name, row in values.items():
        if name in DERIVED:  # follows from the inertias
            continue
        for k, value in enumerate(row):
            label, what = f"{name}[{k}]", "SI"
            if name == "inertia":
                label = f"inertia.{robot.body_names[k // 10]}.{_TEN[k % 10]}"
                what = f"{_TEN_UNITS[k % 10]}; about the body's origin, body axes"
            yield Variable(label, "parameter", float(value), what)
    yield Variable("step", "parameter", step, "s: longest RK4 step of co-simulation")


def _description(robot: Robot, identity: str, token: str, variables: list[Variable]) -> str:
    flags = 'modelIdentifier="' + identity + '" canBeInstantiatedOnlyOncePerProcess="false"'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    lines.append(
        f'<fmiModelDescription fmiVersion="3.0" modelName={quoteattr(robot.name)} '
        f'instantiationToken="{token}" generationTool="spacearm {__version__}">'
    )
    lines.append(f"  <ModelExchange {flags}/>")
    lines.append(f'  <CoSimulation {flags} canHandleVariableCommunicationStepSize="true"/>')
    lines.append("  <ModelVariables>")
    attributes = {
        "independent": 'causality="independent" variability="continuous"',
        "input": 'causality="input" variability="continuous" start="{start}"',
        "state": 'causality="output" variability="continuous" initial="exact" start="{start}"',
        "derivative": 'causality="local" variability="continuous" initial="calculated" derivative="{of}"',
        "parameter": 'causality="parameter" variability="fixed" initial="exact" start="{start}"',
    }
    for number, own in enumerate(variables):
        more = attributes[own.kind].format(start=repr(own.start), of=own.of)
        text = f'name={quoteattr(own.name)} valueReference="{number}" description={quoteattr(own.description)}'
        lines.append(f"    <Float64 {text} {more}/>")
    lines += ["  </ModelVariables>", "  <ModelStructure>"]
    known = (("Output", "state"), ("ContinuousStateDerivative", "derivative"), ("InitialUnknown", "derivative"))
    for tag, kind in known:
        lines += [f'    <{tag} valueReference="{k}"/>' for k, own in enumerate(variables) if own.kind == kind]
    return "\n".join([*lines, "  </ModelStructure>", "</fmiModelDescription>", ""])


def _binaries(identity: str, texts: Mapping[str, str]) -> dict[str, tuple[str, bytes]]:
    """Shared libraries by the folder of their platform."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="spacearm-fmu-") as folder:
        place = Path(folder)
        (place / f"{identity}.h").write_text(texts["header"], encoding="utf-8")
        source = place / f"{identity}.c"
        source.write_text(texts["source"], encoding="utf-8")
        for platform, command in _compilers().items():
            target = place / f"{identity}{TARGETS[platform][1]}"
            flags = ["-std=c99", "-O2", "-shared", "-ffp-contract=off"]
            flags += [] if platform.endswith("windows") else ["-fPIC", "-fvisibility=hidden"]
            done = subprocess.run(
                [*command, *flags, str(source), "-o", str(target), *([] if platform.endswith("windows") else ["-lm"])],
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
        return {platform: [*zig, "-target", triple] for platform, (triple, _) in TARGETS.items()}
    own = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if own is None or not sys.platform.startswith("linux"):
        raise InputError("there is no C compiler", place="fmu", hint="pip install ziglang")
    return {"x86_64-linux": [own]}


def _source(
    robot: Robot, identity: str, function: Function, values: Mapping[str, Array], variables: list[Variable]
) -> str:
    """The robot's code, and FMI's functions around it."""
    kinds = [own.kind for own in variables]
    parameters = [(name, row.size) for name, row in values.items() if name not in DERIVED]
    cases, at = [], kinds.index("parameter")
    for name, size in parameters:
        cases.append(f"    if (k >= {at} && k < {at + size}) return m->p.{name} + (k - {at});")
        at += size
    cases.append(f"    if (k == {at}) return &m->step;")
    text = _GLUE
    fills = {
        "@ID@": identity,
        "@NX@": str(kinds.count("state")),
        "@NV@": str(robot.dofs),
        "@STATE@": str(kinds.index("state")),
        "@DER@": str(kinds.index("derivative")),
        "@PARAMETER@": str(kinds.index("parameter")),
        "@CASES@": "\n".join(cases),
        "@DERIVE@": f"{identity}_derive(&m->p);" if {*DERIVED} & {*values} else "",
        "@STARTS@": ", ".join(float(own.start).hex() for own in variables if own.kind == "state"),
        "@STEP@": float(variables[-1].start).hex(),
        "@UNUSED@": "\n".join(f"UNSUPPORTED({name})" for name in _UNSUPPORTED),
    }
    for key, fill in fills.items():
        text = text.replace(key, fill)
    return code_text(identity, [function], values, [function.kernel]) + text


_TYPES = ("Float32", "Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64", "Boolean", "String",
          "Binary", "Clock")  # fmt: skip
_UNSUPPORTED = (
    *(f"fmi3{verb}{kind}" for verb in ("Get", "Set") for kind in _TYPES),
    "fmi3GetNumberOfVariableDependencies", "fmi3GetVariableDependencies", "fmi3GetFMUState", "fmi3SetFMUState",
    "fmi3FreeFMUState", "fmi3SerializedFMUStateSize", "fmi3SerializeFMUState", "fmi3DeserializeFMUState",
    "fmi3GetDirectionalDerivative", "fmi3GetAdjointDerivative", "fmi3EnterConfigurationMode",
    "fmi3ExitConfigurationMode", "fmi3GetIntervalDecimal", "fmi3GetIntervalFraction", "fmi3GetShiftDecimal",
    "fmi3GetShiftFraction", "fmi3SetIntervalDecimal", "fmi3SetIntervalFraction", "fmi3SetShiftDecimal",
    "fmi3SetShiftFraction", "fmi3GetOutputDerivatives", "fmi3ActivateModelPartition",
)  # fmt: skip

_GLUE = """
/* FMI 3.0 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif
enum { OK = 0, DISCARD = 2, ERROR = 3 };

typedef struct {
    double time, step;
    double force[@NV@], state[@NX@], rate[@NX@];
    int stale; /* parameters were set: what follows from them is not yet known */
    @ID@_parameters p;
} model;

static void reset(model *m)
{
    static const double start[@NX@] = { @STARTS@ };
    memset(m, 0, sizeof *m);
    memcpy(m->state, start, sizeof start);
    m->step = @STEP@;
    @ID@_defaults(&m->p);
}

static void rates(model *m, const double *state, double *rate)
{
    if (m->stale) {
        @DERIVE@
        m->stale = 0;
    }
    @ID@_rate(&m->p, state, m->force, rate);
}

static double *place(model *m, uint32_t k)
{
    if (k == 0) return &m->time;
    if (k < @STATE@) return m->force + (k - 1);
    if (k < @DER@) return m->state + (k - @STATE@);
    if (k < @PARAMETER@) return m->rate + (k - @DER@);
@CASES@
    return 0;
}

EXPORT const char *fmi3GetVersion(void) { return "3.0"; }

static void *make(const char *token)
{
    model *m;
    if (strcmp(token, "@TOKEN@") != 0) return 0;
    m = (model *)malloc(sizeof *m);
    if (m) reset(m);
    return m;
}

EXPORT void *fmi3InstantiateModelExchange(const char *name, const char *token, const char *resources, bool visible,
                                          bool logging, void *environment, void *log)
{
    (void)name, (void)resources, (void)visible, (void)logging, (void)environment, (void)log;
    return make(token);
}

EXPORT void *fmi3InstantiateCoSimulation(const char *name, const char *token, const char *resources, bool visible,
                                         bool logging, bool events, bool early, const uint32_t *wanted, size_t count,
                                         void *environment, void *log, void *update)
{
    (void)name, (void)resources, (void)visible, (void)logging, (void)events, (void)early, (void)wanted, (void)count;
    (void)environment, (void)log, (void)update;
    return make(token);
}

EXPORT void *fmi3InstantiateScheduledExecution(void) { return 0; }
EXPORT void fmi3FreeInstance(void *m) { free(m); }
EXPORT int fmi3SetDebugLogging(void *m) { (void)m; return OK; }

EXPORT int fmi3EnterInitializationMode(void *m, bool given, double tolerance, double start, bool stops, double stop)
{
    (void)given, (void)tolerance, (void)stops, (void)stop;
    ((model *)m)->time = start;
    return OK;
}

EXPORT int fmi3ExitInitializationMode(void *m) { (void)m; return OK; }
EXPORT int fmi3EnterEventMode(void *m) { (void)m; return OK; }
EXPORT int fmi3EnterStepMode(void *m) { (void)m; return OK; }
EXPORT int fmi3EnterContinuousTimeMode(void *m) { (void)m; return OK; }
EXPORT int fmi3EvaluateDiscreteStates(void *m) { (void)m; return OK; }
EXPORT int fmi3Terminate(void *m) { (void)m; return OK; }
EXPORT int fmi3Reset(void *m) { reset((model *)m); return OK; }

EXPORT int fmi3GetFloat64(void *instance, const uint32_t *which, size_t count, double *values, size_t room)
{
    model *m = (model *)instance;
    size_t i;
    if (room < count) return ERROR;
    rates(m, m->state, m->rate);
    for (i = 0; i < count; ++i) {
        const double *at = place(m, which[i]);
        if (!at) return ERROR;
        values[i] = *at;
    }
    return OK;
}

EXPORT int fmi3SetFloat64(void *instance, const uint32_t *which, size_t count, const double *values, size_t room)
{
    model *m = (model *)instance;
    size_t i;
    if (room < count) return ERROR;
    for (i = 0; i < count; ++i) {
        double *at = place(m, which[i]);
        if (!at || (which[i] >= @DER@ && which[i] < @PARAMETER@)) return ERROR;
        *at = values[i];
        if (which[i] >= @PARAMETER@) m->stale = 1;
    }
    return OK;
}

EXPORT int fmi3UpdateDiscreteStates(void *m, bool *again, bool *ends, bool *nominals, bool *values, bool *event,
                                    double *time)
{
    (void)m, (void)time;
    *again = *ends = *nominals = *values = *event = false;
    return OK;
}

EXPORT int fmi3CompletedIntegratorStep(void *m, bool keep, bool *event, bool *ends)
{
    (void)m, (void)keep;
    *event = *ends = false;
    return OK;
}

EXPORT int fmi3SetTime(void *m, double time) { ((model *)m)->time = time; return OK; }

EXPORT int fmi3SetContinuousStates(void *m, const double *x, size_t n)
{
    if (n != @NX@) return ERROR;
    memcpy(((model *)m)->state, x, sizeof ((model *)m)->state);
    return OK;
}

EXPORT int fmi3GetContinuousStates(void *m, double *x, size_t n)
{
    if (n != @NX@) return ERROR;
    memcpy(x, ((model *)m)->state, sizeof ((model *)m)->state);
    return OK;
}

EXPORT int fmi3GetContinuousStateDerivatives(void *m, double *dx, size_t n)
{
    if (n != @NX@) return ERROR;
    rates((model *)m, ((model *)m)->state, dx);
    return OK;
}

EXPORT int fmi3GetNominalsOfContinuousStates(void *m, double *x, size_t n)
{
    (void)m;
    while (n-- > 0) x[n] = 1;
    return OK;
}

EXPORT int fmi3GetNumberOfEventIndicators(void *m, size_t *n) { (void)m; *n = 0; return OK; }
EXPORT int fmi3GetNumberOfContinuousStates(void *m, size_t *n) { (void)m; *n = @NX@; return OK; }
EXPORT int fmi3GetEventIndicators(void *m, double *z, size_t n) { (void)m, (void)z, (void)n; return OK; }

EXPORT int fmi3DoStep(void *instance, double now, double length, bool kept, bool *handle, bool *ends, bool *early,
                      double *reached)
{
    model *m = (model *)instance;
    double k[4][@NX@], tried[@NX@], *y = m->state, parts, h, norm, n;
    int i, stage;
    (void)kept;
    *handle = *ends = *early = false;
    parts = ceil(length / m->step - 1e-9);
    if (!(parts > 1)) parts = 1;
    h = length / parts;
    for (n = 0; n < parts; ++n) {
        rates(m, y, k[0]);
        for (stage = 1; stage < 4; ++stage) {
            const double part = stage == 3 ? h : 0.5 * h;
            for (i = 0; i < @NX@; ++i) tried[i] = y[i] + part * k[stage - 1][i];
            rates(m, tried, k[stage]);
        }
        for (i = 0; i < @NX@; ++i) y[i] = y[i] + h / 6 * (k[0][i] + 2 * (k[1][i] + k[2][i]) + k[3][i]);
        norm = sqrt(y[3] * y[3] + y[4] * y[4] + y[5] * y[5] + y[6] * y[6]);
        for (i = 3; i < 7; ++i) y[i] /= norm;
    }
    m->time = *reached = now + length;
    for (i = 0; i < @NX@; ++i) {
        if (!(y[i] - y[i] == 0)) return DISCARD; /* not finite */
    }
    return OK;
}

#define UNSUPPORTED(name) EXPORT int name(void *m) { (void)m; return ERROR; }
@UNUSED@
"""
