"""Derivatives of a roll-out's last state by the 10 inertia parameters of the last body."""

from __future__ import annotations

import numpy as np

from benchmarks.common import Row, Task, alternate, show
from benchmarks.peers import Mujoco, MujocoBatch
from benchmarks.robots import arm, states
from spacearm.engine.benchmark import Sensitivities
from spacearm.model import Robot
from spacearm.simulate import rollout
from spacearm.typing import Array

STEP = 1e-3  # s


def scales(robot: Robot) -> Array:
    """A typical size of each parameter of the last body: m, m r (3), m r^2 (6)."""
    inertia = robot.bodies[-1].inertia
    moment = float(np.trace(inertia.tensor_about_origin))
    return np.array([inertia.mass, *[np.sqrt(inertia.mass * moment)] * 3, *[moment] * 6])


class Differences:
    """MuJoCo's roll-outs of all the changed models, one-sided (11) or central (20); the models are made beforehand."""

    def __init__(self, robot: Robot, start: Array, *, central: bool, factor: float = 1.0) -> None:
        own = robot.bodies[-1].inertia.parameters
        eps = np.finfo(float).eps
        self.steps = factor * scales(robot) * (eps ** (1 / 3) if central else eps**0.5)
        self.central = central
        peer = Mujoco(robot)
        changes = [*np.diag(self.steps), *(-np.diag(self.steps) if central else np.zeros((1, 10)))]
        self.batch = MujocoBatch(peer, [peer.variant(own + change) for change in changes])
        self.full = peer.full(np.repeat(start[None], len(changes), axis=0))

    def run(self, count: int) -> Array:
        """Derivatives (nx, 10) of the last state."""
        ends = self.batch.peer.back(self.batch.run(self.full, STEP, count)[:, -1])
        if self.central:
            result: Array = (ends[:10] - ends[10:]).T / (2.0 * self.steps)
        else:
            result = (ends[:10] - ends[10]).T / self.steps
        return result


def reference(robot: Robot, start: Array, count: int) -> Array:
    """Central differences of spacearm's own roll-outs at three steps, extrapolated to none: error about h^6."""
    inertia = np.repeat(robot.inertia_parameters.reshape(1, -1), 60, axis=0)
    steps = np.array([h * scales(robot) for h in (2e-3, 1e-3, 5e-4)])
    for k in range(3):
        for i in range(10):
            for sign, row in ((1.0, 20 * k + i), (-1.0, 20 * k + 10 + i)):
                inertia[row, 10 * robot.n + i] += sign * steps[k, i]
    ends = rollout(robot, np.repeat(start[None], 60, axis=0), STEP, count, overrides={"inertia": inertia})[:, -1]
    first = [((ends[20 * k : 20 * k + 10] - ends[20 * k + 10 : 20 * k + 20]).T / (2.0 * steps[k])) for k in range(3)]
    second = [(4.0 * first[k + 1] - first[k]) / 3.0 for k in range(2)]
    return (16.0 * second[1] - second[0]) / 15.0


def compare(robot: Robot, count: int = 200, rounds: int | None = None) -> tuple[dict[str, float], dict[str, float]]:
    """(s by way, largest error by way, relative to each parameter's largest derivative)."""
    start = states(robot, 1)[0]
    truth = reference(robot, start, count)

    def error(found: Array) -> float:
        return float((np.abs(found - truth) / np.abs(truth).max(axis=0)).max())

    def differences(central: bool) -> Differences:
        """With the step that comes nearest to the truth, which a user would have to look for."""
        tried = [Differences(robot, start, central=central, factor=factor) for factor in (1.0, 0.1, 0.01, 0.001)]
        return min(tried, key=lambda way: error(way.run(count)))

    exact, one, two = Sensitivities(robot), differences(False), differences(True)
    ways = {
        "spacearm": lambda: exact.run(start, count),
        "MuJoCo, one-sided differences": lambda: one.run(count),
        "MuJoCo, central differences": lambda: two.run(count),
    }
    errors = {name: error(way()) for name, way in ways.items()}
    single = MujocoBatch(one.batch.peer)
    times = alternate(
        {"spacearm": Task(ways["spacearm"]), "one": Task(lambda: single.run(one.full[:1], STEP, count))}, rounds
    )
    for name, way in (("MuJoCo, one-sided differences", one), ("MuJoCo, central differences", two)):
        times[name] = len(way.full) * times["one"]
    return times, errors


def main() -> list[Row]:
    times, errors = compare(arm())
    rows = [
        Row("7-joint arm, 200 steps", times["spacearm"] * 1e3, "ms", peer, times[peer] * 1e3, 20.0)
        for peer in list(errors)[1:]
    ]
    shown = ", ".join(f"{name} {error:.0e}" for name, error in errors.items())
    return show(
        "Sensitivities of an RK4 roll-out to 10 inertia parameters, one thread",
        rows,
        f"Largest error against extrapolated differences (good to about 1e-10): {shown}.\n"
        "  MuJoCo: 11 or 20 times one roll-out by mujoco.rollout; making the changed models and finding the best of 4\n"
        "  steps of the differences are not counted.",
    )
