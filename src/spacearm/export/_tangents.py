"""Directional derivatives of an exported run: of the rates and outputs, along states and inputs.

Forward mode, on the programs themselves: exact, and a little dearer than the motion. Signals and sampled laws do not
change within a direction. Force elements and continuous laws have no tangents here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from spacearm.engine.c_source import statements
from spacearm.engine.kernel import Kernel
from spacearm.export._motion_code import MotionCode


def has_tangents(motion: MotionCode) -> bool:
    """Whether a scenario has directional derivatives."""
    return motion.model.elements is None and all(law.period is not None for law in motion.laws)


def _along(kernel: Kernel, inputs: tuple[str, ...], output: str) -> Kernel:
    """The derivative of an output along these inputs, without the output."""
    # The motion itself is called anyway: its outputs here would be computed twice.
    tangent = kernel.program.tangent([name for name in inputs if kernel.program.inputs[name].numel()], [output])
    return Kernel(replace(tangent, outputs={f"d_{output}": tangent.outputs[f"d_{output}"]}))


def tangent_text(motion: MotionCode, prefix: str) -> str:
    """The functions in C, whose names begin with ``prefix``."""
    parts = [
        _function(
            f"{prefix}_motion_tangent(const {prefix}_parameters *p, const double *in,\n"
            "    const double *d_state, const double *d_force, double *out)",
            _along(motion.kernel, ("state", "force"), "rate"),
            {
                name: f"in[{{}} + {at.start}]"
                for name, at in motion.kernel.inputs.items()
                if at.start < motion.model.code.record
            },
        ),
        _function(
            f"{prefix}_outputs_tangent(const {prefix}_parameters *p, const double *y, const double *d_state,\n"
            "    double *out)",
            _along(motion.ports.observe, ("state",), "outputs"),
            {"state": "y[{}]"},
        ),
    ]
    if motion.ports.push is not None:
        parts.append(
            _function(
                f"{prefix}_push_tangent(const {prefix}_run *run, const double *y, const double *d_state,\n"
                "    const double *d_thruster, const double *d_wrench, double *out)",
                _along(motion.ports.push, ("state", "thruster", "wrench"), "force"),
                {"state": "y[{}]", "thruster": "run->thruster[{}]", "wrench": "run->wrench[{}]"},
            )
        )
    return "\n\n".join(parts)


def _function(prototype: str, kernel: Kernel, places: Mapping[str, str]) -> str:
    read = _reader(kernel, places)
    lines = statements(kernel.trace, read, "out[{}]".format)
    text = "\n".join(lines)
    unused = [name for name in ("p", "run", "y", "in", "d_thruster", "d_wrench", "d_state", "d_force")
              if f"*{name}" in prototype and f"{name}[" not in text and f"{name}->" not in text]  # fmt: skip
    return "\n".join(
        [
            f"static void {prototype}",
            "{",
            *(f"    {line}" for line in [*(f"(void){name};" for name in unused), *lines]),
            "}",
        ]
    )


def _reader(kernel: Kernel, places: Mapping[str, str]) -> Callable[[int], str]:
    def read(flat: int) -> str:
        name, at = next((name, at) for name, at in kernel.inputs.items() if at.start <= flat < at.stop)
        if name in places:
            return places[name].format(flat - at.start)
        return f"{name}[{flat - at.start}]" if name.startswith("d_") else f"p->{name}[{flat - at.start}]"

    return read
