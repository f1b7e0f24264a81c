"""A program: named symbolic inputs and outputs, ready to be differentiated and compiled.

The boundary between mathematics and machine code: CasADi expressions on one side, flat arrays of doubles on the other.
Derivatives are taken here, symbolically and exactly: Jacobians, tangents (forward mode) and adjoints (reverse mode) are
programs again, compiled like any other. CasADi stores matrices by columns, the flat order is by rows: hence the
transposes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import casadi as ca

from spacearm import checks
from spacearm.errors import InputError
from spacearm.mechanics.spatial import SX


@dataclass(frozen=True, eq=False)
class Program:
    """Named inputs and outputs on CasADi scalars.

    Inputs and outputs are dense matrices; a single column stands for a vector unless ``matrices`` names it. Flat order
    is the order of the mappings, each entry row-major.

    ``derived`` are inputs that follow from others, by name the expression: a loop computes them once for a run, a
    kernel when they are not given.
    """

    name: str
    inputs: Mapping[str, SX]
    outputs: Mapping[str, SX]
    matrices: frozenset[str] = frozenset()
    derived: Mapping[str, SX] = field(default_factory=dict)

    def inline_derived_inputs(self) -> Program:
        """The same without derived inputs: their expressions in their place."""
        if not self.derived:
            return self
        # By expression and not by value: derivatives with respect to what they follow from stay exact.
        values = ca.substitute(
            list(self.outputs.values()), [self.inputs[name] for name in self.derived], list(self.derived.values())
        )
        inputs = {name: symbol for name, symbol in self.inputs.items() if name not in self.derived}
        return Program(self.name, inputs, dict(zip(self.outputs, values, strict=True)), self.matrices)

    def derivation(self) -> Program:
        """The derived inputs as outputs, from the inputs that they follow from."""
        # Only what they depend on: a loop then knows whether they are the same for all samples.
        every = ca.vertcat(*self.derived.values())
        inputs = {name: symbol for name, symbol in self.inputs.items() if ca.depends_on(every, symbol)}
        return Program(f"{self.name}_derived", inputs, {name: ca.densify(v) for name, v in self.derived.items()})

    @cached_property
    def function(self) -> Any:
        """The same as a CasADi function on flat columns: all inputs in, all outputs (row-major) out."""
        return ca.Function(self.name, [self.flat_input], [self.flat_output], ["x"], ["y"])

    @property
    def flat_input(self) -> SX:
        return ca.vertcat(*(ca.vec(symbol.T) for symbol in self.inputs.values()))

    @property
    def flat_output(self) -> SX:
        return ca.densify(ca.vertcat(*(ca.vec(value.T) for value in self.outputs.values())))

    def input_shape(self, name: str) -> tuple[int, ...]:
        return self._shapes[0][name]

    def output_shape(self, name: str) -> tuple[int, ...]:
        return self._shapes[1][name]

    @cached_property
    def _shapes(self) -> tuple[dict[str, tuple[int, ...]], ...]:
        """Of inputs and outputs: CasADi takes its time over each, and every call of a kernel asks for them."""
        return tuple({name: self._shape(name, own[name]) for name in own} for own in (self.inputs, self.outputs))

    def event_inputs(self, nx: int) -> dict[str, SX]:
        """Symbols that an event function of a run by this program may be written in, in the order that the solver
        hands them over: ``state`` (its ``nx`` numbers), ``time`` (s) and the outputs of this program by name."""
        own = {name: ca.SX.sym(name, *value.shape) for name, value in self.outputs.items()}
        return {"state": ca.SX.sym("state", nx), "time": ca.SX.sym("time", 1)} | own

    def with_zeros(self, entries: Iterable[str] | Mapping[str, Sequence[int] | None]) -> Program:
        """The same with these inputs (or these entries of them) written as zero, which shortens it.

        The inputs stay in their places, so that offsets do not change; what they hold is no longer read.
        """
        chosen = dict(entries) if isinstance(entries, Mapping) else dict.fromkeys(entries)
        symbols = ca.vertcat(
            *(select_entries(ca.vec(self._input(name).T), name, which) for name, which in chosen.items())
        )
        if symbols.numel() == 0:
            return self
        # Substituted and not only set to zero at run time: the products disappear from the program.
        values = ca.substitute(list(self.outputs.values()), [symbols], [ca.SX.zeros(symbols.shape)])
        outputs = {name: ca.densify(value) for name, value in zip(self.outputs, values, strict=True)}
        return replace(self, outputs=outputs)

    def jacobian(self, output: str, *inputs: str) -> Program:
        """First derivatives d output / d input, one matrix (flat output rows, input columns) for each input."""
        if self.derived:
            return self.inline_derived_inputs().jacobian(output, *inputs)
        value = ca.vec(self._output(output).T)
        outputs = {
            f"d_{output}_d_{name}": ca.densify(ca.jacobian(value, ca.vec(self._input(name).T))) for name in inputs
        }
        return Program(f"{self.name}_jacobian", self.inputs, outputs, frozenset(outputs))

    def tangent(
        self, inputs: Iterable[str] | Mapping[str, Sequence[int] | None], outputs: Iterable[str] | None = None
    ) -> Program:
        """Directional derivative: further inputs ``d_<input>``, outputs ``d_<output>`` beside the outputs.

        ``inputs`` may map a name to the entries (flat) that vary; ``d_<input>`` then has just those.
        """
        if self.derived:
            return self.inline_derived_inputs().tangent(inputs, outputs)
        chosen = list(self.outputs if outputs is None else outputs)
        entries = dict(inputs) if isinstance(inputs, Mapping) else dict.fromkeys(inputs)
        points, seeds = [], {}
        for name, which in entries.items():
            point = select_entries(ca.vec(self._input(name).T), name, which)
            seeds[f"d_{name}"] = ca.SX.sym(f"d_{name}", point.numel())
            points.append(point)
        along = ca.vertcat(*seeds.values())
        result = {}
        for name in chosen:
            value = self._output(name)
            moved = ca.jtimes(ca.vec(value.T), ca.vertcat(*points), along)
            result[f"d_{name}"] = ca.densify(ca.reshape(moved, value.shape[1], value.shape[0]).T)
        kept = {name: self.outputs[name] for name in chosen}
        matrices = self.matrices | {f"d_{name}" for name in self.matrices}
        return Program(f"{self.name}_tangent", {**self.inputs, **seeds}, {**kept, **result}, matrices)

    def adjoint(self, output: str, inputs: Iterable[str]) -> Program:
        """Product of a row ``bar_<output>`` with the Jacobian: outputs ``bar_<input>``."""
        if self.derived:
            return self.inline_derived_inputs().adjoint(output, inputs)
        value = self._output(output)
        seed = _like(value, f"bar_{output}")
        names = list(inputs)
        point = ca.vertcat(*(ca.vec(self._input(name).T) for name in names))
        # Reverse mode: one pass for all inputs, whatever their number.
        pulled = ca.densify(ca.jtimes(ca.vec(value.T), point, ca.vec(seed.T), True))
        outputs, start = {}, 0
        for name in names:
            symbol = self.inputs[name]
            stop = start + symbol.numel()
            outputs[f"bar_{name}"] = ca.reshape(pulled[start:stop], symbol.shape[1], symbol.shape[0]).T
            start = stop
        return Program(f"{self.name}_adjoint", {**self.inputs, f"bar_{output}": seed}, outputs)

    def _shape(self, name: str, matrix: SX) -> tuple[int, ...]:
        rows, columns = matrix.shape
        return (rows, columns) if columns != 1 or name in self.matrices else (rows,)

    def _input(self, name: str) -> SX:
        checks.check_name(name, self.inputs, "input", of=f"program {self.name!r}")
        return self.inputs[name]

    def _output(self, name: str) -> SX:
        checks.check_name(name, self.outputs, "output", of=f"program {self.name!r}")
        return self.outputs[name]


def select_entries(flat: SX, name: str, which: Sequence[int] | None) -> SX:
    """These entries of a flat input, all of them for None; each once."""
    if which is None:
        return flat
    entries, size = list(which), flat.numel()
    whole = all(isinstance(k, Integral) and not isinstance(k, bool) and 0 <= k < size for k in entries)
    if not whole or len(set(entries)) < len(entries):
        raise InputError(f"entries {entries} of {name!r}", hint=f"expected different whole numbers, 0 to {size - 1}")
    # None of one entry would be a row (1, 0) in CasADi.
    return flat[[int(k) for k in entries]] if entries else ca.SX.zeros(0, 1)


def _like(symbol: SX, name: str) -> SX:
    return ca.SX.sym(name, symbol.shape[0], symbol.shape[1])


def concatenate_programs(programs: Sequence[Program]) -> Program:
    """Programs with the same inputs (but for derived ones) and outputs as one: of each name all numbers, one program's
    behind the other's."""
    first = programs[0]

    # By name, so that an input stays one block: loops address inputs by name and size alone.
    def all_of(mappings: Sequence[Mapping[str, SX]]) -> dict[str, SX]:
        names = dict.fromkeys(name for mapping in mappings for name in mapping)
        return {name: ca.vertcat(*(mapping[name] for mapping in mappings if name in mapping)) for name in names}

    inputs, outputs, derived = (
        all_of([getattr(program, what) for program in programs]) for what in ("inputs", "outputs", "derived")
    )
    return Program(first.name, inputs, outputs, first.matrices, derived)
