"""A compiled program: NumPy arrays in and out, any leading batch shape, float64.

A program becomes a trace, LLVM IR and machine code when its address is first asked for, once for each number of lanes
and each set of uniform inputs. Called from Python, a kernel checks and broadcasts its inputs, and runs samples in
groups of lanes over threads (:mod:`spacearm.engine._batch`) or on a GPU (:mod:`spacearm.engine._cuda_batch`). Loops in
time call it by its address instead, with flat arrays of their own.

Inputs that describe the robot are uniform where they have no batch axis: what depends on them alone is computed once
for a group. Inputs that follow from others (inertias in the program's own frames) are derived when they are missing.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.engine._batch import run_batch
from spacearm.engine.device import Device, Precision, check_precision, cupy, is_device_array, to_cupy
from spacearm.engine.llvm import Places, kernel_ir
from spacearm.engine.machine import MachineCode, host, load
from spacearm.engine.trace import Trace, trace
from spacearm.errors import InputError
from spacearm.mechanics.program import Program
from spacearm.typing import Array

#: Inputs that describe the robot and not its state.
_CONSTANT = ("inertia", "rotor", "reframed", "reframed_free")


class NonFiniteWarning(RuntimeWarning):
    """Some samples of a batch gave numbers that are not finite; the others are untouched."""


class Kernel:
    """Machine code of a program, made when first needed and kept in the cache on disk.

    ``uniform`` names inputs that are the same for all samples of a batch: what depends on them alone is then computed
    once for each group of lanes.

    ``in_place``: outputs have names of inputs and are written over them; uniform numbers stand packed, see
    :meth:`offsets`. Such a kernel is for loops that call it by its address with one array.
    """

    def __init__(self, program: Program, uniform: tuple[str, ...] = (), *, in_place: bool = False) -> None:
        self.program = program
        self.in_place = in_place
        self.inputs = _places({name: symbol.numel() for name, symbol in program.inputs.items()})
        self.outputs = _places({name: value.numel() for name, value in program.outputs.items()})
        for name in uniform:
            self._check_input(name)
        if in_place:
            for name, value in program.outputs.items():
                if name not in self.inputs or program.inputs[name].numel() != value.numel():
                    raise InputError(f"{program.name}: output {name!r} cannot be written over an input of its size")
        self._uniform = self._entries(uniform)
        self._code: dict[tuple[int, tuple[str, ...]], MachineCode] = {}
        self._derived: tuple[object, dict[str, Array]] = ([], {})  # inputs, and what follows
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        def list_sizes(places: dict[str, slice]) -> str:
            return ", ".join(f"{name} ({place.stop - place.start})" for name, place in places.items())

        return f"Kernel({self.program.name!r}: {list_sizes(self.inputs)} -> {list_sizes(self.outputs)})"

    @cached_property
    def trace(self) -> Trace:
        return trace(self.program.function)

    @cached_property
    def _derivation_kernel(self) -> Kernel:
        return Kernel(self.program.derivation())

    def derive(self, arrays: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
        """Values of the program's derived inputs, from the inputs that they follow from.

        Those that ``arrays`` has are left out; nothing, where an input that they follow from is missing.
        """
        if all(name in arrays for name in self.program.derived):
            return {}
        # The missing input is then reported by its own name, not by one that a user never gave.
        if any(name not in arrays for name in self._derivation_kernel.inputs):
            return {}
        if any(is_device_array(arrays[name]) for name in self._derivation_kernel.inputs):
            found = self._derivation_kernel({name: arrays[name] for name in self._derivation_kernel.inputs})
            return {name: value for name, value in found.items() if name not in arrays}
        given = {name: checks.numbers(arrays[name], f"input {name!r}") for name in self._derivation_kernel.inputs}
        # As a rule they are the robot's own, time and again: a short batch would feel it.
        key = [(value.shape, value.tobytes()) for value in given.values() if value.size < 1000]
        before, found = self._derived
        if len(key) < len(given) or key != before:
            found = self._derivation_kernel(given)
            self._derived = (key, found)
        return {name: value for name, value in found.items() if name not in arrays}

    @cached_property
    def n_in(self) -> int:
        return sum(place.stop - place.start for place in self.inputs.values())

    @cached_property
    def n_out(self) -> int:
        return sum(place.stop - place.start for place in self.outputs.values())

    def code(self, width: int = 1, shared: tuple[str, ...] = ()) -> MachineCode:
        """Machine code for vectors of ``width`` doubles; ``shared`` names further uniform inputs."""
        key = (width, shared if width > 1 else ())
        # One thread at a time: code that another thread replaced would be unloaded while it runs.
        with self._lock:
            if key not in self._code:
                uniform = self._uniform | self._entries(key[1])
                places = self._places_in_place(width) if self.in_place else None
                self._code[key] = load(kernel_ir(self.trace, width, uniform, host().lanes, places))
            return self._code[key]

    def address(self, width: int = 1, shared: tuple[str, ...] = ()) -> int:
        """Address of ``void f(const double* in, double* out)``, in [n_in][width], out [n_out][width].

        In place both are one array, laid out as :meth:`offsets` says.
        """
        return self.code(width, shared).address

    def offsets(self, width: int) -> dict[str, int]:
        """Where each input of a kernel in place begins, in doubles: one behind the other."""
        found, at = {}, 0
        for name, place in self.inputs.items():
            found[name] = at
            at += (place.stop - place.start) * self._pitch(name, width)
        return found

    def input_doubles(self, width: int) -> int:
        """Doubles that all inputs of a kernel in place take."""
        return sum((place.stop - place.start) * self._pitch(name, width) for name, place in self.inputs.items())

    def _pitch(self, name: str, width: int) -> int:
        """Doubles in place for each number of an input: one for each lane if it varies, one if it is uniform."""
        return 1 if self.inputs[name].start in self._uniform else width

    def _places_in_place(self, width: int) -> Places:
        """Outputs where the inputs of their names are."""
        offsets = self.offsets(width)
        inputs = [0] * self.n_in
        for name, place in self.inputs.items():
            pitch = self._pitch(name, width)
            inputs[place] = [offsets[name] + k * pitch for k in range(place.stop - place.start)]
        sources = [index for name in self.outputs for index in range(self.inputs[name].start, self.inputs[name].stop)]
        # An output over a uniform input is one number, which all lanes give alike.
        single = frozenset(k for k, index in enumerate(sources) if index in self._uniform)
        return Places(inputs, [inputs[index] for index in sources], single)

    def _entries(self, names: tuple[str, ...]) -> frozenset[int]:
        """Flat indices of these inputs."""
        return frozenset(index for name in names for index in range(self.inputs[name].start, self.inputs[name].stop))

    def __call__(
        self,
        arrays: Mapping[str, npt.ArrayLike],
        *,
        threads: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        out: Mapping[str, Array] | None = None,
        device: Device = "cpu",
        precision: Precision = "float64",
    ) -> dict[str, Array]:
        """Evaluate: each input has shape (..., size) or its own matrix shape, leading shapes broadcast together.

        ``out`` holds arrays that results of these names are written to, float64 and contiguous, of the results' shape:
        memory for a million samples costs a tenth of their time when it is asked for anew in each call.

        ``device="gpu"`` gives each sample a thread of an NVIDIA GPU. Inputs there (CuPy's arrays, or anything with
        DLPack) need no such word, and their results are there too, as CuPy's arrays. ``precision="float32"`` computes
        there in single precision, and gives it.

        Non-finite results are reported by a :class:`NonFiniteWarning` that names the first such sample.
        """
        if self.in_place:
            raise InputError(f"{self.program.name} writes over its inputs", hint="call it by its address")
        given, lead = self._collect_inputs(arrays)
        there = device == "gpu" or any(is_device_array(value) for value in given.values())
        check_precision(precision, there)
        if there:
            from spacearm.engine._cuda_batch import call_on_gpu

            if out:
                raise InputError(f"{self.program.name}: 'out' is for results on the processor")
            return call_on_gpu(self, given, lead, precision)
        inputs = [(self._spread(name, array, lead), self.inputs[name], array.ndim > 1) for name, array in given.items()]
        results = self._results(lead, out or {})
        for name in out or {}:
            self._check_no_overlap(name, results, [array for array, _, _ in inputs])
        count = math.prod(lead)
        if count:
            # A single sample in lanes would compute the others for nothing.
            width = host().lanes if lead else 1
            # A robot's own numbers are the same for all samples as a rule: then what depends on them alone is scalar.
            shared = tuple(name for name in _CONSTANT if name in given and given[name].ndim == 1)
            bad, first = run_batch(
                self.address(width, shared),
                width,
                inputs,
                [(results[name], place) for name, place in self.outputs.items()],
                count,
                self.n_in,
                self.n_out,
                threads=threads,
                progress=progress,
            )
            if bad:
                warn_of_non_finite(self.program.name, bad, first, count, lead)
        return results

    def _collect_inputs(self, arrays: Mapping[str, npt.ArrayLike]) -> tuple[dict[str, Array], tuple[int, ...]]:
        """The inputs as rows (..., size), and their common leading shape."""
        given = {name: self._as_rows(name, value) for name, value in arrays.items()}
        given |= self.derive(given)
        for name, place in self.inputs.items():
            if name not in given and place.stop > place.start:
                raise InputError(f"{self.program.name}: input {name!r} is missing")
        try:
            return given, np.broadcast_shapes(*(array.shape[:-1] for array in given.values()))
        except ValueError:
            shapes = ", ".join(f"{name} {array.shape[:-1]}" for name, array in given.items())
            raise InputError(f"{self.program.name}: batch shapes do not fit together: {shapes}") from None

    def _spread(self, name: str, array: Array, lead: tuple[int, ...]) -> Array:
        """An input that varies, over all samples; one that does not, as it is."""
        if array.ndim == 1:
            return array
        # Code that reads it once for all lanes cannot take another number in each.
        if self.inputs[name].start in self._uniform and array.shape[-1]:
            raise InputError(f"{self.program.name}: input {name!r} must be the same for all samples of this kernel")
        if array.shape[:-1] == lead:
            return array
        return np.ascontiguousarray(np.broadcast_to(array, (*lead, array.shape[-1])))

    def _check_no_overlap(self, name: str, results: Mapping[str, Array], inputs: Sequence[Array]) -> None:
        """A result must not be written over what is still to be read or over another result."""
        if any(np.may_share_memory(results[name], array) for array in inputs):
            raise InputError(f"{self.program.name}: out[{name!r}] lies in the memory of an input")
        if any(np.may_share_memory(results[name], array) for other, array in results.items() if other != name):
            raise InputError(f"{self.program.name}: out[{name!r}] lies in the memory of another result")

    def _results(self, lead: tuple[int, ...], out: Mapping[str, Array]) -> dict[str, Array]:
        """Arrays for the outputs, those in ``out`` checked."""
        for name in out:
            checks.check_name(name, self.outputs, "output", of=self.program.name)
        results = {}
        for name in self.outputs:
            shape = (*lead, *self.program.output_shape(name))
            # Every number is written: nothing has to be cleared first.
            array = results[name] = out[name] if name in out else np.empty(shape)
            if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != np.float64:
                what = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
                raise InputError(f"{self.program.name}: out[{name!r}] is {what}", hint=f"expected float64 {shape}")
            if not (array.flags.c_contiguous and array.flags.writeable):
                raise InputError(f"{self.program.name}: out[{name!r}] is not contiguous and writeable")
        return results

    def _check_input(self, name: str) -> None:
        checks.check_name(name, self.inputs, "input", of=self.program.name)

    def _as_rows(self, name: str, value: npt.ArrayLike) -> Array:
        """The input as (..., size), its own shape flattened."""
        self._check_input(name)
        size = self.inputs[name].stop - self.inputs[name].start
        there = is_device_array(value)
        array: Any = to_cupy(cupy(), value) if there else checks.numbers(value, f"{self.program.name}: input {name!r}")
        packed: Callable[[Any], Array] = (lambda rows: rows) if there else np.ascontiguousarray
        shape = self.program.input_shape(name)
        if name == "inertia":  # the one input that a user has as a matrix
            shape = (size // 10, 10)
        if len(shape) == 2 and array.shape[-2:] == shape:
            return packed(array.reshape(*array.shape[:-2], size))
        if array.ndim >= 1 and array.shape[-1] == size:
            return packed(array)
        if array.ndim == 0 and size == 1:
            return packed(array.reshape(1))
        raise InputError(f"{self.program.name}: input {name!r} has shape {array.shape}", hint=f"expected (..., {size})")


def warn_of_non_finite(program: str, bad: int, first: int, count: int, lead: tuple[int, ...]) -> None:
    """Tell how many samples gave numbers that are not finite."""
    where = f", the first at index {tuple(map(int, np.unravel_index(first, lead)))}" if lead else ""
    text = f"{program}: {bad} of {count} samples gave numbers that are not finite{where}"
    warnings.warn(text, NonFiniteWarning, stacklevel=3)


def _places(sizes: dict[str, int]) -> dict[str, slice]:
    places, start = {}, 0
    for name, size in sizes.items():
        places[name] = slice(start, start + size)
        start += size
    return places
