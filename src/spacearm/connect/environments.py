"""Gymnasium environments of the tasks: one, or many in vector lanes. Needs the extra ``gymnasium``.

Importing this module registers ``spacearm/Reach-v0``, ``spacearm/CaptureTumbling-v0`` and ``spacearm/Detumble-v0``::

    import gymnasium, spacearm.connect.environments
    environment = gymnasium.make("spacearm/CaptureTumbling-v0")
    many = gymnasium.make_vec("spacearm/CaptureTumbling-v0", num_envs=256, vectorization_mode="vector_entry_point")

Everything random of an episode (start, masses, target, noise) comes from one generator of its sample, which the seed
determines: sample k of a vector environment with seed s has the episodes of a single environment with seed s + k.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from spacearm import checks
from spacearm.connect.tasks import BONUS, PENALTY, TASKS, TIME, Draws, Task
from spacearm.engine.device import Device, cupy, is_device_array, to_cupy, to_host
from spacearm.typing import Array


class _Samples:
    """A task's samples: states, generators, clocks.

    Each sample has two generators of random numbers: of how its episodes begin, and of the noise of its readings. On a
    GPU the noise of all comes from one generator there, which the seed of the first sample determines.
    """

    def __init__(self, task: Task, count: int, device: Device = "cpu") -> None:
        self.task, self.count, self.device = task, count, device
        self.xp: Any = cupy() if device == "gpu" else np
        self._starting, self._noise = ([np.random.default_rng() for _ in range(count)] for _ in range(2))
        self._device_noise = self.xp.random.default_rng() if device == "gpu" else None
        self.most = round(task.duration / task.period)
        # Any states, for the arrays' shapes: begin draws those of the first episodes.
        first = Draws([np.random.default_rng(0)] * count)
        states, extra = task.draw(first)
        self._robots = task.simulate(states, task.draw_inertia(first), device)
        self._extra = self.xp.asarray(extra)
        self._others = task.simulate_extra(extra, device)
        self._offset = self.xp.zeros((count, task.reader.random_size))
        self._steps = self.xp.zeros(count, dtype=np.int64)
        #: Sum of log(1 + value / limit) of each sample.
        self._potential = self.xp.zeros(count)

    @property
    def states(self) -> Any:
        """Flat states (count, 13 + 2 n): the next step writes into the same array."""
        return self._robots.states

    @property
    def extra(self) -> Any:
        """What else the samples have (count, extra_size)."""
        return self._extra if self._others is None else self._others.states

    def seed(self, seeds: Sequence[int | None]) -> None:
        for k, seed in enumerate(seeds):
            if seed is not None:
                self._starting[k], self._noise[k] = np.random.default_rng(seed), np.random.default_rng([seed, 1])
        if self._device_noise is not None and seeds[0] is not None:
            self._device_noise = self.xp.random.default_rng(seeds[0])

    def begin(self, chosen: Sequence[int]) -> None:
        """New episodes of these samples."""
        if not len(chosen):
            return
        draws = Draws([self._starting[k] for k in chosen])
        states, extra = self.task.draw(draws)
        inertia, offset = self.task.draw_inertia(draws), draws.normal(self.task.reader.random_size)
        rows = np.asarray(chosen)
        mask = np.zeros(self.count, dtype=np.bool_)
        mask[rows] = True
        self._robots.reset(mask, states, {"inertia": inertia})
        if self._others is not None:
            self._others.reset(mask, extra)
        there = self.xp.asarray(rows)
        self._extra[there], self._offset[there] = self.xp.asarray(extra), self.xp.asarray(offset)
        self._steps[there] = 0

    def look(self) -> tuple[Any, dict[str, Any]]:
        """Observations (count, size), sensors and then what is seen of the target; what judges the samples."""
        task, (states, extra) = self.task, (self.states, self.extra)
        found = task.look(states, extra)
        seen = [task.reader.read_many(states, self._draw_noise(task.reader.random_size), self._offset)]
        if task.relative_size:
            seen.append(found["relative"] + task.relative_noise * self._draw_noise(task.relative_size))
        # Progress is the fall of a potential, so that no detour pays; its logarithm counts near the goal as well as far
        # from it.
        before, self._potential = self._potential, _add_up(np.log1p(found["share"]))
        # A sample that is not finite has failed, and is reset with the others.
        failure = (found["beyond"] > 0.0) | ~np.isfinite(states).all(axis=1)
        success = ~failure & (found["share"] <= 1.0).all(axis=1)
        margins = {f"margin_{name}": 1.0 - share for name, share in zip(task.limits, found["share"].T, strict=True)}
        judged = {"progress": before - self._potential, "failure": failure, "success": success, "margins": margins}
        return np.hstack(seen).astype(np.float32), judged

    def _draw_noise(self, size: int) -> Any:
        if self._device_noise is not None:
            return self._device_noise.standard_normal((self.count, size))
        return np.array([rng.standard_normal(size) for rng in self._noise])

    def advance(self, actions: Any, fresh: Any = None) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Observation, reward, whether it ended, whether its time is over, margins; ``fresh`` samples begin anew."""
        given = to_cupy(self.xp, actions) if is_device_array(actions) else self.xp.asarray(actions)
        given = np.clip(given.astype(np.float64), -1.0, 1.0)
        self._robots.step(given)
        if self._others is not None:
            self._others.step(self.xp.zeros((self.count, 0)))
        self._steps += 1
        if fresh is not None:
            # Those that had ended were computed along with the others, and begin now.
            self.begin(to_host(np.flatnonzero(fresh)).tolist())
        seen, judged = self.look()
        task, success, failure = self.task, judged["success"], judged["failure"]
        price = task.period * (TIME + task.effort_price * task.spend(given))
        reward = judged["progress"] - price + BONUS * success - PENALTY * failure
        ended = success | failure
        # Out of time is not a failure: learners continue the value from there (Gymnasium's truncation).
        late = (self._steps >= self.most) & ~ended
        if fresh is not None:
            # The potential of a fresh sample fell from one episode to the next, which no action has earned.
            reward, ended, late, success = np.where(fresh, 0.0, reward), ended & ~fresh, late & ~fresh, success & ~fresh
        # A learner must never be given NaN: it would spread to all weights.
        reward = np.nan_to_num(reward, nan=-PENALTY)
        return seen, reward, ended, late, {**judged["margins"], "success": success}


def _add_up(values: Any) -> Any:
    """Sums over the last axis, one by one: the same bits for any number of samples."""
    return sum(values.T[1:], values[:, 0])


def _spaces(task: Task) -> tuple[spaces.Box, spaces.Box]:
    observed = spaces.Box(-np.inf, np.inf, (task.observation_size,), np.float32)
    return observed, spaces.Box(-1.0, 1.0, (task.servo.size,), np.float32)


class TaskEnvironment(gymnasium.Env[Any, Any]):
    """One sample of a task.

    Args:
        task: name or object; ``options`` are those of the task's class.
    """

    metadata = {"render_modes": [], "render_fps": 2}  # noqa: RUF012

    def __init__(self, task: str | Task = "Reach", *, render_mode: str | None = None, **options: Any) -> None:
        self.task = _task(task, options)
        self.render_mode = render_mode
        self.observation_space, self.action_space = _spaces(self.task)
        self._samples = _Samples(self.task, 1)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._samples.seed([seed])
        self._samples.begin([0])
        return self._samples.look()[0][0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        seen, reward, ended, late, info = self._samples.advance(np.asarray(action)[None])
        return seen[0], float(reward[0]), bool(ended[0]), bool(late[0]), {k: v[0].item() for k, v in info.items()}

    @property
    def state(self) -> Array:
        """The robot's true flat state."""
        return np.asarray(self._samples.states[0].copy())


class TaskVectorEnvironment(VectorEnv[Any, Any, Any]):
    """Many samples of a task, computed together in the lanes of the processor or the threads of a GPU.

    A sample that has ended begins anew with the next step (Gymnasium's NEXT_STEP), whose action is not used for it.

    Args:
        task: name or object; ``options`` are those of the task's class.
        num_envs: number of samples.
        device: "gpu" keeps everything on an NVIDIA GPU: observations, rewards and flags are CuPy's arrays, which other
            libraries take by DLPack without a copy, and actions may be arrays there. Samples begin as on the processor;
            the noise of their readings is another.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        task: str | Task = "Reach",
        *,
        num_envs: int = 64,
        device: Device = "cpu",
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        checks.one_of(device, ("cpu", "gpu"), "device")
        self.task, self.render_mode = _task(task, options), render_mode
        self.num_envs = checks.integer(num_envs, "num_envs", least=1)
        self.single_observation_space, self.single_action_space = _spaces(self.task)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, self.num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, self.num_envs)
        self._samples = _Samples(self.task, self.num_envs, device)
        self._over = self._samples.xp.zeros(self.num_envs, dtype=bool)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        several = [seed] * self.num_envs if seed is None else seed
        # As Gymnasium's own vector environments spread a seed.
        given = [several + k for k in range(self.num_envs)] if isinstance(several, int) else list(several)
        super().reset(seed=given[0])
        self._samples.seed(given)
        self._samples.begin(range(self.num_envs))
        self._over[:] = False
        return self._samples.look()[0], {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        seen, reward, ended, late, info = self._samples.advance(actions, self._over)
        self._over = ended | late
        return seen, reward, ended, late, info

    @property
    def states(self) -> Any:
        """The robots' true flat states (B, 13 + 2 n)."""
        return self._samples.states.copy()

    @property
    def targets(self) -> Any:
        """Further states of the samples (B, extra_size): for a capture the target's flat state."""
        return self._samples.extra.copy()


def _task(task: str | Task, options: dict[str, Any]) -> Task:
    if isinstance(task, Task):
        return task
    checks.check_name(task, TASKS, "task")
    return TASKS[task](**options)


for _name in TASKS:
    if f"spacearm/{_name}-v0" not in gymnasium.registry:
        gymnasium.register(
            f"spacearm/{_name}-v0",
            entry_point="spacearm.connect.environments:TaskEnvironment",
            vector_entry_point="spacearm.connect.environments:TaskVectorEnvironment",
            kwargs={"task": _name},
        )
