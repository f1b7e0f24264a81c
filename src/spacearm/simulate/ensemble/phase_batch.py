"""Many samples of one robot through one phase in a compiled loop, without ledger, certificate or event logs.

Each sample is what :func:`~spacearm.simulate.simulate` gives alone, event by event, with steps of its own. That is
what :class:`~spacearm.engine.ensemble.Ensemble` cannot do: there all samples take the same steps, in neighbouring
lanes, and none can stop at an event. Here they go one after the other through one solver's memory, and threads share
only the prepared phase. Between two phases states may be mapped for all samples at once, as a change maps one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.engine.phase import SampleEnds, SampleRows, SolverPhase, make_solver_phase, run_samples
from spacearm.engine.solver import EndReason
from spacearm.engine.system import make_solver_memory
from spacearm.model import Robot
from spacearm.simulate.methods import Method
from spacearm.simulate.motion import law_memory, load_frames, world_motion
from spacearm.simulate.overrides import robot_parameters
from spacearm.simulate.phase import Phase
from spacearm.simulate.run.prepare import enter, prepare
from spacearm.simulate.world import World
from spacearm.typing import Array

MAX_STEPS, MAX_EVENTS = 100_000, 500
_FRICTION = ("static_friction", "coulomb_friction")


class PhaseBatch:
    """A phase prepared for many samples.

    Args:
        overrides: values that replace the robot's own, each (1, size) for all samples or (B, size).
        number: of the phase, for errors.
    """

    def __init__(
        self, robot: Robot, phase: Phase, method: Method, overrides: Mapping[str, Array], number: int = 0
    ) -> None:
        world = World.from_robots(robot)
        self.method, self.overrides = method, overrides
        self.model = world_motion(world, load_frames(world, [phase]), False, law_memory(world, [phase]))
        self.prepared = prepare(self.model, world, phase, number)
        self.own = robot_parameters(robot)
        # Friction is monitored if any sample has it; the values are the sample's own.
        self._most = self.own | {name: overrides[name].max(axis=0) for name in _FRICTION if name in overrides}
        #: Degrees of freedom with dry friction, in the order of ``SampleEnds.stick``.
        # The solver's own list of them, for which sample times do not matter.
        self.frictional = self._stage(np.zeros(0)).system.friction.dof

    def _stage(self, times: Array, stop: Any = None) -> SolverPhase:
        code, most = self.model.code, self._most
        work = make_solver_memory(self.model.input([most]), self.model.kernel.n_out, code.ny)
        # A valid attitude for the preparation; each sample brings its own state.
        work.y[code.quaternion] = 1.0
        system = enter(self.model, self.prepared, work, [most], 0.0)
        options = self.method.options(np.full(code.ny, self.method.tolerances[1]), MAX_STEPS, MAX_EVENTS)
        return make_solver_phase(system, options, times, stop=stop)

    def _rows(self, name: str, chosen: slice) -> Array:
        values = self.overrides.get(name, self.own[name][None])
        return values if len(values) == 1 else values[chosen]

    def _tail(self, chosen: slice) -> Array:
        """The kernel's input from the inertias on: one row, or one for each sample."""
        first, inputs = self.model.code.record, self.model.kernel.inputs
        # What records keep (state, forces) stands before; from the inertias on it is the sample's own.
        parts = {name: self._rows(name, chosen) for name in inputs if name in self.own}
        parts |= self.model.kernel.derive(parts)
        count = max(len(part) for part in parts.values())
        tail = np.zeros((count, self.model.kernel.n_in - first))
        for name, part in parts.items():
            tail[:, inputs[name].start - first : inputs[name].stop - first] = part
        return tail

    def run(self, states: Array, chosen: slice, running: npt.NDArray[np.bool_], times: Array, stop: Any) -> SampleEnds:
        """Take the samples with indices ``chosen`` through the phase, keeping states at these times (s)."""
        stage, (count, nx) = self._stage(times, stop), states.shape
        friction = [np.ascontiguousarray(self._rows(name, chosen)[:, self.frictional]) for name in _FRICTION]
        ends = SampleEnds(
            np.array(states),
            running,
            np.full(count, int(EndReason.INTERRUPTED), dtype=np.int64),
            np.zeros(count),
            np.full((count, self.frictional.size), np.nan),
            np.zeros((count, len(self.prepared.levels)), dtype=np.bool_),
            np.zeros((count, times.size, nx)),
            np.zeros(count, dtype=np.int64),
        )
        static, coulomb = friction
        run_samples(stage, SampleRows(self._tail(chosen), static, coulomb, chosen.start), ends)
        return ends
