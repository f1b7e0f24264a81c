"""A robot or a scenario as self-contained C99: a header that documents the layout, the code, a test, how to build it.

No allocation, no library but the C library's mathematics. The arithmetic is that of the traces, so the results are
those of spacearm to the last bit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spacearm import __version__
from spacearm.engine.c_source import helpers, literal, statements
from spacearm.engine.kernel import Kernel
from spacearm.errors import InputError
from spacearm.export._build_files import cmake_text, readme_text
from spacearm.export._c_text import comment, identifier, identifiers
from spacearm.export._motion_code import MotionCode
from spacearm.export.free_motion import STEP, free_motion
from spacearm.mechanics import build
from spacearm.model import Robot
from spacearm.model.massless import massless_dofs
from spacearm.simulate import State
from spacearm.simulate.overrides import robot_parameters
from spacearm.typing import Array

#: First words of every file that is written here, behind a mark of comments; others are somebody else's.
MARK = "Written by spacearm"
_OWN = tuple(f"{opening} {MARK}" for opening in ("/*", "#", "<!--"))
_ROBOT = ("forward_dynamics", "inverse_dynamics", "mass_matrix", "body_poses")
_FRAME = ("frame_pose", "jacobian")
#: Parameters that follow from the inertias.
DERIVED = ("reframed", "reframed_free")
_PARAMETERS = ("inertia", "rotor", *DERIVED, "stiffness", "rest", "damping", "coupling")
_MEANING = {
    "state": "position 3, quaternion 4, joints, generalised velocity",
    "rate": "time derivative of the state",
    "joints": "joint positions, rad or m",
    "position": "of the base's origin, m, world axes",
    "quaternion": "of the base, w x y z, unit length",
    "velocity": "generalised: base linear (m/s) and angular (rad/s), base axes, then joint rates",
    "force": "generalised: base force (N) and moment (N m), base axes, then joint forces",
    "acceleration": "generalised: time derivative of the velocity's components",
    "mass_matrix": "row by row",
    "origin": "m, world axes",
    "rotation": "to world axes, row by row",
    "thruster": "levels of the thrusters, 1: full thrust",
    "wrench": "force and moment at the origin of each frame, N and N m, world axes",
    "outputs": "of each frame: origin (m), rotation to the world row by row, linear and angular velocity; then mass "
    "centre (m), momentum (kg m/s), angular momentum about the mass centre (kg m2/s); world axes",
    "jacobian": "row by row: generalised velocity to linear and angular velocity at the frame's origin, world axes",
}


@dataclass(frozen=True)
class CFunction:
    """A compiled program under a C name."""

    name: str
    kernel: Kernel
    note: str

    def arguments(self) -> list[tuple[str, int]]:
        return [(name, at.stop - at.start) for name, at in self.kernel.inputs.items() if name not in _PARAMETERS]

    def results(self) -> list[tuple[str, int]]:
        # An output may have the name of an input: frame_acceleration.
        return [(name, at.stop - at.start) for name, at in self.kernel.outputs.items()]

    def prototype(self, prefix: str) -> str:
        parts = [f"const {prefix}_parameters *p"]
        parts += [f"const double {name}[{size}]" for name, size in self.arguments() if size]
        parts += [f"double {name}[{size}]" for name, size in self.results()]
        return f"void {prefix}_{self.name}({', '.join(parts)})"

    def read(self, flat: int) -> str:
        """Where a flat input stands."""
        for name, at in self.kernel.inputs.items():
            if at.start <= flat < at.stop:
                return f"{'p->' if name in _PARAMETERS else ''}{name}[{flat - at.start}]"
        raise AssertionError(flat)

    def write(self, flat: int) -> str:
        for name, at in self.kernel.outputs.items():
            if at.start <= flat < at.stop:
                return f"{name}[{flat - at.start}]"
        raise AssertionError(flat)

    def body(self) -> list[str]:
        lines = statements(self.kernel.trace, self.read, self.write)
        text = "\n".join(lines)
        # C warns of parameters that nothing reads, and many builds take warnings for errors.
        names = ["p", *(name for name, size in self.arguments() if size)]
        unused = [name for name in names if not re.search(rf"\b{name}(\[|->)", text)]
        return [*(f"(void){name};" for name in unused), *lines]


def export_c(
    robot: Robot,
    folder: str | Path,
    *,
    motion: MotionCode | None = None,
    start: State | None = None,
    step: float = STEP,
) -> list[Path]:
    """Write ``NAME.h``, ``NAME.c``, ``NAME_test.c``, ``CMakeLists.txt`` and ``README.md`` into a folder, made if it is
    absent; their paths.

    Args:
        motion: a scenario, whose step functions are exported; without it, those of the robot alone, on which only the
            inputs act. A robot with degrees of freedom that have no mass has none.
        start: state of a robot alone at time zero; at rest in the zero configuration without it.
        step: longest RK4 step of a robot alone, s.
    """
    # A degree of freedom without mass has no acceleration: only kinematics can be exported.
    if motion is None and not massless_dofs(robot, [joint.name for joint in robot.joints if joint.friction]):
        motion = free_motion(robot, start, step)
    texts = c_texts(robot, motion)
    folder = Path(folder)
    paths = [folder / name for name in texts]
    for path in paths:
        # All files are checked before one is written: a folder is never left half exported.
        if path.exists() and not (path.is_file() and path.read_text("utf-8", "replace").startswith(_OWN)):
            raise InputError("already exists and was not written by an export", file=path, hint="choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def c_texts(robot: Robot, motion: MotionCode | None = None) -> dict[str, str]:
    """Texts by file name."""
    # A robot may have any name, and C knows letters, digits and underscores only.
    prefix = identifier(robot.name)
    functions = [CFunction(name, Kernel(build(robot, name)), "") for name in _ROBOT]
    for frame, part in identifiers(frame.name for frame in robot.frames).items():
        for name in _FRAME:
            kernel = Kernel(build(robot, name, frame=frame))
            functions.append(CFunction(f"{name}_{part}", kernel, f"of frame {frame!r}"))
    functions += port_functions(motion)
    sources = [function.kernel for function in functions] + ([] if motion is None else [motion.kernel])
    values = own_parameters(robot, sources) | ({} if motion is None else motion.friction)
    header = header_text(robot, prefix, functions, values, motion)
    return {
        f"{prefix}.h": header,
        f"{prefix}.c": code_text(prefix, functions, values, sources, motion),
        f"{prefix}_test.c": _test(robot, prefix, functions, motion),
        "CMakeLists.txt": f"# {MARK} {__version__}.\n{cmake_text(prefix)}",
        "README.md": f"<!-- {MARK} {__version__}. -->\n{readme_text(prefix, motion)}",
    }


def port_functions(motion: MotionCode | None) -> list[CFunction]:
    """What reads the outputs of a run."""
    return [] if motion is None else [CFunction("outputs", motion.ports.observe, "of a run")]


def own_parameters(robot: Robot, kernels: Iterable[Kernel]) -> dict[str, Array]:
    """The robot's numbers that any of these kernels takes."""
    own = robot_parameters(robot)
    found: dict[str, Array] = {}
    for kernel in kernels:
        for name, value in {**own, **kernel.derive(own)}.items():
            if name in kernel.inputs and name in _PARAMETERS and value.size:
                found[name] = np.asarray(value, dtype=np.float64).ravel()
    return found


def _banner(what: str) -> str:
    return f"/* {MARK} {__version__}: {what}"


def header_text(
    robot: Robot,
    prefix: str,
    functions: Sequence[CFunction],
    values: Mapping[str, Array],
    motion: MotionCode | None = None,
) -> str:
    """The header: what stands where, and the functions."""
    guard, n = f"{prefix.upper()}_H", robot.n
    joints = [f"{i}: {joint.name} ({joint.unit})" for i, joint in enumerate(robot.joints)]
    bodies = [f"{i}: {name}" for i, name in enumerate(robot.body_names)]
    about = f"""
{robot.name}: {n} joints on a free base, {len(robot.bodies)} bodies. SI units, radians; quaternions are w, x, y, z.

Joints, in the order of every array: {", ".join(joints) or "none"}.
Generalised vectors ({robot.dofs}): the base's linear part [0..2] and angular part [3..5], base axes, then the joints.
Bodies: {", ".join(bodies)}.
inertia[10 b + k] of body b: m, m cx, m cy, m cz, Ixx, Iyy, Izz, Ixy, Ixz, Iyz about the body's origin, body axes.
Arrays of several bodies or rows stand one behind the other, matrices row by row.

Compile with -std=c99 or -ffp-contract=off, without fast-math: results are then spacearm's to the last bit.
-mfma or -march=native makes fma() one instruction."""
    lines = [_banner("header."), comment(about), " */", f"#ifndef {guard}", f"#define {guard}", ""]
    lines += ["#ifdef __cplusplus", 'extern "C" {', "#endif", "", "typedef struct {"]
    lines += [f"    double {name}[{value.size}];" for name, value in values.items()]
    # C has no empty structures.
    if not values:
        lines.append("    double none;")
    lines += [f"}} {prefix}_parameters;", "", "/* The robot's own numbers. */"]
    lines += [f"void {prefix}_defaults({prefix}_parameters *p);"]
    derived = [name for name in DERIVED if name in values]
    if derived:
        lines += [f"/* Call it after a change of inertia: {' and '.join(derived)} follow from it. */"]
        lines += [f"void {prefix}_derive({prefix}_parameters *p);"]
    for function in functions:
        notes = [f"{name}: {_MEANING[name]}" for name, _ in [*function.arguments(), *function.results()]]
        what = f"{function.name.replace('_', ' ')}{', ' if function.note else ''}{function.note}"
        lines += ["", "/*", comment(f"{what}.\n" + "\n".join(notes)), " */", f"{function.prototype(prefix)};"]
    if motion is not None:
        lines += ["", motion.header(prefix)]
    return "\n".join([*lines, "", "#ifdef __cplusplus", "}", "#endif", "", f"#endif /* {guard} */", ""])


def code_text(
    prefix: str,
    functions: Sequence[CFunction],
    values: Mapping[str, Array],
    kernels: Sequence[Kernel],
    motion: MotionCode | None = None,
) -> str:
    """The functions themselves."""
    blocks = []
    lines = [f"    {constants(f'own_{name}', value)}" for name, value in values.items()]
    lines += [f"    memcpy(p->{name}, own_{name}, sizeof own_{name});" for name in values] or ["    p->none = 0;"]
    blocks.append("\n".join([f"void {prefix}_defaults({prefix}_parameters *p)", "{", *lines, "}"]))
    deriving = []
    for name in (name for name in DERIVED if name in values):
        # The same expression in all of them: any will do.
        program = next(kernel.program for kernel in kernels if name in kernel.program.derived)
        write = f"p->{name}[{{}}]".format
        own = statements(Kernel(program.derivation()).trace, "p->inertia[{}]".format, write)
        deriving += ["{", *own, "}"]
    if deriving:
        blocks.append(definition(f"void {prefix}_derive({prefix}_parameters *p)", deriving))
    blocks += [definition(function.prototype(prefix), function.body()) for function in functions]
    if motion is not None:
        blocks.append(motion.code(prefix))
    text = "\n\n".join(blocks)
    head = [f"{_banner('code.')} */", "#include <math.h>", "#include <string.h>", ""]
    head += [f'#include "{prefix}.h"', "", "#if defined(__clang__)", "#pragma STDC FP_CONTRACT OFF"]
    # GCC from 12 on makes fused multiply-adds of products and sums that it vectorises, whatever -ffp-contract says.
    head += ["#elif defined(__GNUC__)", '#pragma GCC optimize ("no-tree-slp-vectorize")', "#endif", ""]
    return "\n".join([*head, helpers([text]), text, ""])


def definition(prototype: str, lines: Iterable[str]) -> str:
    """A function."""
    return "\n".join([prototype, "{", *(f"    {line}" for line in lines), "}"])


def constants(name: str, values: Array) -> str:
    """A static array of these numbers."""
    flat = [literal(float(value)) for value in np.ravel(values)]
    rows = [", ".join(flat[k : k + 4]) for k in range(0, len(flat), 4)]
    return f"static const double {name}[{len(flat)}] = {{\n" + "".join(f"    {row},\n" for row in rows) + "};"


_TEST_HEAD = """#include <stdio.h>
#include <string.h>
#include <time.h>

#include "{prefix}.h"

static int failures = 0;

static void same(const char *what, const double *found, const double *expected, unsigned long count)
{{
    unsigned long k;
    for (k = 0; k < count; ++k) {{
        if (memcmp(found + k, expected + k, sizeof *found) != 0) {{
            printf("%s[%lu]: %a, expected %a\\n", what, k, found[k], expected[k]);
            ++failures;
        }}
    }}
}}
"""

_TIMING = """/* How long a step takes here: the mean of all, and of the slowest 100 in a row. */
static void measure_time(const NAME_parameters *p)
{
    NAME_run run;
    double slowest = 0, total = 0;
    int batch, k;
    NAME_start(&run);
    for (batch = 0; batch < 200; ++batch) {
        const clock_t begin = clock();
        double spent;
        for (k = 0; k < 100; ++k) {
            if (NAME_step(p, &run) <= 0) NAME_start(&run);
        }
        spent = (double)(clock() - begin) / CLOCKS_PER_SEC / 100;
        slowest = spent > slowest ? spent : slowest;
        total += spent / 200;
    }
    printf("step: %.3g us, slowest hundred: %.3g us each; run: %lu bytes, parameters: %lu bytes\\n",
           1e6 * total, 1e6 * slowest, (unsigned long)sizeof run, (unsigned long)sizeof *p);
}
"""


def _test(robot: Robot, prefix: str, functions: Sequence[CFunction], motion: MotionCode | None, cases: int = 3) -> str:
    """A program that ends with status 0 where every result is that of spacearm to the last bit."""
    # Random arguments of a fixed seed: the exported test is the same file each time.
    rng = np.random.default_rng(7)
    own, lines, calls = robot_parameters(robot), [], []
    for function in functions:
        given = {name: rng.normal(size=(cases, size)) for name, size in function.arguments()}
        if "quaternion" in given:
            given["quaternion"] /= np.linalg.norm(given["quaternion"], axis=1, keepdims=True)
        fixed: dict[str, Array] = {name: own[name] for name in ("inertia", "rotor") if name in function.kernel.inputs}
        # Expected bits from the kernels themselves, alone: lanes would give the same.
        rows = [function.kernel({**fixed, **{name: v[k] for name, v in given.items()}}) for k in range(cases)]
        body = []
        for k in range(cases):
            for name, size in function.arguments():
                if size:
                    lines.append(constants(f"{function.name}_{name}_{k}", given[name][k]))
            for name, _ in function.results():
                lines.append(constants(f"{function.name}_expected_{name}_{k}", rows[k][name]))
            arguments = [f"{function.name}_{name}_{k}" for name, size in function.arguments() if size]
            arguments += [f"found_{name}" for name, _ in function.results()]
            body.append(f"{prefix}_{function.name}(p, {', '.join(arguments)});")
            body += [
                f'same("{function.name} {name}", found_{name}, {function.name}_expected_{name}_{k}, {size}ul);'
                for name, size in function.results()
            ]
        room = [f"double found_{name}[{size}];" for name, size in function.results()]
        lines.append(definition(f"static void test_{function.name}(const {prefix}_parameters *p)", [*room, *body]))
        calls.append(f"test_{function.name}(&p);")
    main = [f"{prefix}_parameters p;"]
    if motion is not None:
        if motion.end is not None:
            lines.append(motion.test(prefix))
            calls.append("test_motion(&p);")
        lines.append(_TIMING.replace("NAME_", f"{prefix}_"))
        calls.append('if (argc > 1 && strcmp(argv[1], "time") == 0) measure_time(&p);')
    main += ["(void)argc, (void)argv;", f"{prefix}_defaults(&p);", *calls]
    main += ['printf("%d numbers differ\\n", failures);', "return failures ? 1 : 0;"]
    head = _banner("test against spacearm's own results, to the last bit.") + " */\n" + _TEST_HEAD.format(prefix=prefix)
    return "\n".join([head, *lines, "", definition("int main(int argc, char **argv)", main), ""])
