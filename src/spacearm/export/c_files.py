"""A robot or a scenario as self-contained C99: a header that documents the layout, the code, and a test of its own.

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
from spacearm.export.c_text import comment, identifier, identifiers
from spacearm.export.motion_code import MotionCode
from spacearm.mechanics import build
from spacearm.model import Robot
from spacearm.simulate.overrides import robot_parameters
from spacearm.typing import Array

#: First words of every file that is written here; a file that begins otherwise is somebody else's.
MARK = "/* Written by spacearm"
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
        names = ["p", *(name for name, size in self.arguments() if size)]
        unused = [name for name in names if not re.search(rf"\b{name}(\[|->)", text)]
        return [*(f"(void){name};" for name in unused), *lines]


def export_c(robot: Robot, folder: str | Path, *, motion: MotionCode | None = None) -> list[Path]:
    """Write ``NAME.h``, ``NAME.c`` and ``NAME_test.c`` into a folder, made if it is absent; their paths.

    ``motion`` adds the step function of a scenario.
    """
    texts = c_texts(robot, motion)
    folder = Path(folder)
    paths = [folder / name for name in texts]
    for path in paths:
        # All files are checked before one is written: a folder is never left half exported.
        if path.exists() and not (path.is_file() and path.read_text("utf-8", "replace").startswith(MARK)):
            raise InputError("is there already, and was not exported", file=path, hint="choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def c_texts(robot: Robot, motion: MotionCode | None = None) -> dict[str, str]:
    """Texts by file name."""
    prefix = identifier(robot.name)
    functions = [CFunction(name, Kernel(build(robot, name)), "") for name in _ROBOT]
    for frame, part in identifiers(frame.name for frame in robot.frames).items():
        for name in _FRAME:
            kernel = Kernel(build(robot, name, frame=frame))
            functions.append(CFunction(f"{name}_{part}", kernel, f"of frame {frame!r}"))
    sources = [function.kernel for function in functions] + ([] if motion is None else [motion.kernel])
    values = own_parameters(robot, sources) | ({} if motion is None else motion.friction)
    header = header_text(robot, prefix, functions, values, motion)
    return {
        f"{prefix}.h": header,
        f"{prefix}.c": code_text(prefix, functions, values, sources, motion),
        f"{prefix}_test.c": _test(robot, prefix, functions, motion),
    }


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
    return f"{MARK} {__version__}: {what}"


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
    head += [f'#include "{prefix}.h"', "", "#if defined(__clang__)", "#pragma STDC FP_CONTRACT OFF", "#endif", ""]
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
        lines.append(motion.test(prefix))
        calls.append("test_motion(&p);")
    main += [f"{prefix}_defaults(&p);", *calls]
    main += ['printf("%d numbers differ\\n", failures);', "return failures ? 1 : 0;"]
    head = _banner("test against spacearm's own results, to the last bit.") + " */\n" + _TEST_HEAD.format(prefix=prefix)
    return "\n".join([head, *lines, "", definition("int main(void)", main), ""])
