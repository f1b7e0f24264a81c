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
from spacearm.connect.tasks import TASKS, Flags, Task
from spacearm.typing import Array


class _Samples:
    """A task's samples: states, generators, clocks."""

    def __init__(self, task: Task, count: int) -> None:
        self.task, self.count = task, count
        self.states, self.extra = np.zeros((count, task.layout.size)), np.zeros((count, task.extra_size))
        self.inertia = np.zeros((count, 10 * len(task.robot.bodies)))
        self.offset = np.zeros((count, task.reader.random_size))
        self.steps = np.zeros(count, dtype=np.int64)
        self.generators = [np.random.default_rng() for _ in range(count)]
        self.most = round(task.duration / task.period)

    def seed(self, seeds: Sequence[int | None]) -> None:
        for k, seed in enumerate(seeds):
            if seed is not None:
                self.generators[k] = np.random.default_rng(seed)

    def begin(self, chosen: Sequence[int]) -> None:
        """New episodes of these samples."""
        for k in chosen:
            rng = self.generators[k]
            self.states[k], self.extra[k] = self.task.draw(rng)
            self.inertia[k] = self.task.draw_inertia(rng)
            self.offset[k] = rng.standard_normal(self.offset.shape[1])
            self.steps[k] = 0

    def observe(self) -> Array:
        """Observations (B, size): sensors, then what is seen of the target."""
        task = self.task
        noise = np.array([rng.standard_normal(self.offset.shape[1]) for rng in self.generators])
        found = [task.reader.read_many(self.states, noise, self.offset)]
        if task.relative_size:
            camera = getattr(task, "camera", 0.0)
            seen = task.relative(self.states, self.extra)
            found.append(seen + camera * np.array([rng.standard_normal(seen.shape[1]) for rng in self.generators]))
        return np.hstack(found).astype(np.float32)

    def advance(self, actions: Array) -> tuple[Array, Flags, Flags, dict[str, Any]]:
        """Reward, whether it ended, whether its time is over, margins."""
        given = np.clip(np.asarray(actions, dtype=np.float64), -1.0, 1.0)
        self.states = self.task.advance(given, self.states, self.inertia)
        self.extra = self.task.advance_extra(self.extra)
        self.steps += 1
        used = 0.5 * (given + 1.0) if self.task.extra_size == 0 else given**2
        spent = sum(used.T[1:], used[:, 0]) / used.shape[1]  # one by one: the same bits for any number of samples
        judged = self.task.judge(self.states, self.extra, spent)
        ended = judged.success | judged.failure
        info = {f"margin_{name}": margin for name, margin in judged.margins.items()} | {"success": judged.success}
        return judged.reward, ended, (self.steps >= self.most) & ~ended, info


def _spaces(task: Task) -> tuple[spaces.Box, spaces.Box]:
    observed = spaces.Box(-np.inf, np.inf, (task.observation_size,), np.float32)
    return observed, spaces.Box(-1.0, 1.0, (task.action_size,), np.float32)


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
        return self._samples.observe()[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward, ended, late, info = self._samples.advance(np.asarray(action)[None])
        seen = self._samples.observe()[0]
        return seen, float(reward[0]), bool(ended[0]), bool(late[0]), {k: v[0].item() for k, v in info.items()}

    @property
    def state(self) -> Array:
        """The robot's true flat state."""
        return np.asarray(self._samples.states[0].copy())


class TaskVectorEnvironment(VectorEnv[Any, Any, Any]):
    """Many samples of a task, computed together in the lanes of the processor.

    A sample that has ended begins anew with the next step (Gymnasium's NEXT_STEP), whose action is not used for it.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(
        self, task: str | Task = "Reach", *, num_envs: int = 64, render_mode: str | None = None, **options: Any
    ) -> None:
        self.task, self.render_mode = _task(task, options), render_mode
        self.num_envs = checks.integer(num_envs, "num_envs", least=1)
        self.single_observation_space, self.single_action_space = _spaces(self.task)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, self.num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, self.num_envs)
        self._samples = _Samples(self.task, self.num_envs)
        self._over = np.zeros(self.num_envs, dtype=bool)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        several = [seed] * self.num_envs if seed is None else seed
        given = [several + k for k in range(self.num_envs)] if isinstance(several, int) else list(several)
        super().reset(seed=given[0])
        self._samples.seed(given)
        self._samples.begin(range(self.num_envs))
        self._over[:] = False
        return self._samples.observe(), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        fresh = self._over.copy()
        before = [array[fresh].copy() for array in (self._samples.states, self._samples.extra)]
        reward, ended, late, info = self._samples.advance(actions)
        # Those that had ended were computed along with the others, and are now at their new start.
        self._samples.states[fresh], self._samples.extra[fresh] = before
        self._samples.begin(np.flatnonzero(fresh).tolist())
        reward, ended, late = np.where(fresh, 0.0, reward), ended & ~fresh, late & ~fresh
        self._over = ended | late
        return self._samples.observe(), reward, ended, late, {**info, "success": info["success"] & ~fresh}

    @property
    def states(self) -> Array:
        """The robots' true flat states (B, 13 + 2 n)."""
        return self._samples.states.copy()

    @property
    def targets(self) -> Array:
        """What else the samples have (B, extra_size): for a capture the target's flat state."""
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
