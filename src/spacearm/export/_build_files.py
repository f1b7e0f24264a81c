"""How exported C is built, and what a step costs at most: ``CMakeLists.txt`` and ``README.md``.

The worst case is counted from the trace and from the bounds of the loops in ``templates/motion.c``: every loop there
has one. Names of users appear in none of these files, but for the identifier that is made of the robot's.
"""

from __future__ import annotations

from collections import Counter

from spacearm.engine.trace import Trace
from spacearm.export._motion_code import MotionCode

#: Bounds of the loops in ``motion.c``: trial steps of one location and their evaluations, golden sections of a dip.
_LOCATE, _TRIAL, _DIP = 102, 5, 80
_NODES = 8


def cmake_text(prefix: str) -> str:
    """A library, and its test."""
    return f"""cmake_minimum_required(VERSION 3.10)
project({prefix} C)

set(CMAKE_C_STANDARD 99)
set(CMAKE_C_STANDARD_REQUIRED ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_library({prefix} {prefix}.c)
target_include_directories({prefix} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
if(NOT MSVC)
  # Products and sums must not be contracted: results are then spacearm's to the last bit.
  target_compile_options({prefix} PRIVATE -ffp-contract=off)
  target_link_libraries({prefix} PUBLIC m)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    option({prefix.upper()}_FMA "fused multiply-adds of the processor (since 2013): five times as fast" ON)
    if({prefix.upper()}_FMA)
      target_compile_options({prefix} PRIVATE -mfma)
    endif()
  endif()
endif()

enable_testing()
add_executable({prefix}_test {prefix}_test.c)
target_link_libraries({prefix}_test {prefix})
add_test(NAME {prefix} COMMAND {prefix}_test)
"""


def readme_text(prefix: str, motion: MotionCode | None) -> str:
    """The text of README.md: how to build, call and time the code."""
    text = f"""# {prefix}

| File | What it has |
|---|---|
| `{prefix}.h` | every function, and what stands where in every array |
| `{prefix}.c` | the code: C99, no allocation, no library but the C library's mathematics |
| `{prefix}_test.c` | ends with status 0 if all numbers are spacearm's to the last bit |

    cmake -B build && cmake --build build && ctest --test-dir build

or `cc -std=c99 -O2 -mfma {prefix}.c {prefix}_test.c -o test -lm && ./test`.
"""
    return text if motion is None else text + _motion_text(prefix, motion)


def _motion_text(prefix: str, motion: MotionCode) -> str:
    inputs = ["`force` (generalised, N or N m)"]
    inputs += ["`thruster` (levels, 0 to 1)"] if motion.robot.thrusters else []
    inputs += ["`wrench` (N and N m on frames, world axes)"] if motion.robot.frames else []
    return f"""
## In a loop

    {prefix}_parameters p;
    {prefix}_run run;
    {prefix}_defaults(&p);
    {prefix}_start(&run);
    for (double t = 0.01; t < 10; t += 0.01) {{
        run.force[0] = 0.1;                            /* N, along x of the base */
        if ({prefix}_step_to(&p, &run, t) <= 0) break; /* run.state, run.time */
    }}

Inputs are members of `{prefix}_run` and zero at the start:
{", ".join(inputs)}.
They are added to what the scenario does, and held until they are changed. `{prefix}_outputs` gives poses and
velocities of frames, mass centre and momentum. All memory is in these two structs: several runs at a time need one
`{prefix}_run` each, and no call waits or allocates.

## The worst case

{_cost(motion)}
`./{prefix}_test time` measures it on your processor: the mean step, and the slowest hundred in a row.
"""


def _cost(motion: MotionCode) -> str:
    """Operations of an evaluation, evaluations of a step."""
    rate = motion.kernel.trace.prefix(motion.rate_outputs)
    lines = [f"One evaluation of the motion: {_operations(rate)}."]
    if motion.ports.push is not None:
        lines.append(f"While a thruster fires or a wrench acts, besides: {_operations(motion.ports.push.trace)}.")
    for k, law in enumerate(motion.laws.values()):
        when = "at its ticks" if law.law.period is not None else "in every evaluation"
        lines.append(f"Law {k}, {when}: {_operations(law.kernel.trace)}.")
    watched, frictional = motion.event_count, motion.frictional
    if not watched:
        lines.append("A step takes 4 evaluations: the same instructions in every step, whatever the numbers are.")
    else:
        # No fewer than the rounds of both attempts of the function settle in motion.c; each round is one evaluation.
        settle = 20 * frictional**2 + 23 * frictional + 27
        most = 6 + _NODES * (1 + watched * _DIP) + 2 * (watched + 2) * _LOCATE * _TRIAL + 2 * settle
        lines.append("A step in which nothing happens takes 5 to 7 evaluations, or 15 while something is near.")
        lines.append(f"One with an event, which is located to rounding, takes some 60, and never more than {most}.")
    lines.append("`step_to` takes (time - run.time) / step steps, rounded up, and one more for each event and tick.")
    return "\n".join(lines) + "\n"


def _operations(trace: Trace) -> str:
    """Counts of what takes time, in words."""
    kinds = Counter(instruction.op for instruction in trace.instructions)
    fused = sum(kinds[op] for op in ("fma", "fms", "fnma"))
    plain = sum(kinds[op] for op in ("add", "sub", "mul", "neg"))
    angles = len({each.args for each in trace.instructions if each.op in ("sin", "cos")})
    roots = kinds["div"] + kinds["sqrt"]
    other = trace.operations() - fused - plain - roots - kinds["sin"] - kinds["cos"]
    named = {"fused multiply-adds": fused, "sums and products": plain, "divisions and roots": roots}
    named |= {"pairs of sine and cosine": angles, "other operations": other}
    return ", ".join(f"{count:,} {name}" for name, count in named.items() if count)
