"""Learn to bring the hand to a tumbling target's grapple point: a linear policy by cross-entropy, in NumPy alone.

The policy sees, with noise, position and velocity of the grapple point relative to the hand, and the hand's velocity.
It commands velocities of the hand. Of each generation of policies the best fifth make the next one. Before
and after are compared on episodes that were not learned from. Run it with ``python learn_capture.py``; it needs
``pip install 'spacearm[gymnasium]'``.
"""

import argparse
import time
from dataclasses import replace

import gymnasium
import numpy as np

import spacearm.connect.environments  # noqa: F401  registers the environments
from spacearm import scene_of
from spacearm.scene import Scene

POPULATION, ELITE = 32, 6
#: Of what is seen: position (m), relative velocity and velocity of the hand (dm/s).
SCALE = np.repeat([3.0, 0.7, 0.7], 3)


def act(policies, seen):
    """Actions (B, 3): a policy (3 x 9 gains) for each sample."""
    return np.clip(np.einsum("bij,bj->bi", policies, SCALE * seen[:, -9:]), -1.0, 1.0)


def fly(many, policies, seed):
    """Mean reward of each sample's first episode, whether it succeeded, and the states of the first sample."""
    seen, _ = many.reset(seed=seed)
    count = len(seen)
    total, alive, success = np.zeros(count), np.ones(count, dtype=bool), np.zeros(count, dtype=bool)
    states = [np.hstack([many.unwrapped.states[0], many.unwrapped.targets[0]])]
    while alive.any():
        seen, reward, ended, late, info = many.step(act(policies, seen))
        total += np.where(alive, reward, 0.0)
        success |= alive & info["success"]
        alive &= ~(ended | late)
        if alive[0]:
            states.append(np.hstack([many.unwrapped.states[0], many.unwrapped.targets[0]]))
    return total, success, np.array(states)


def draw(task, name, rows):
    """An episode with its target."""
    size, times = task.layout.size, task.period * np.arange(len(rows))
    robot = scene_of({name: (task.robot, times, rows[:, :size])}, title="capture", hand="hand").views[0]
    target = scene_of((task.target, times, rows[:, size:])).views[0]
    (actor,) = target.actors
    actor = replace(actor, system=1, bodies=tuple(replace(body, system=1) for body in actor.bodies))
    return replace(robot, systems=(*robot.systems, *target.systems), actors=(*robot.actors, actor))


def main():
    parser = argparse.ArgumentParser(description="Learn a capture.")
    parser.add_argument("--generations", type=int, default=25)
    parser.add_argument("--episodes", type=int, default=4, help="for each policy")
    parser.add_argument("--page", default="", help="HTML file of an episode before and after")
    given = parser.parse_args()

    name, options = "spacearm/CaptureTumbling-v0", {"period": 1.0, "within": 0.05, "rest": 0.03}

    def lanes(count):
        return gymnasium.make_vec(name, num_envs=count, vectorization_mode="vector_entry_point", **options)

    many, test = lanes(POPULATION * given.episodes), lanes(64)
    rng, mean, spread = np.random.default_rng(1), np.zeros((3, 9)), np.full((3, 9), 0.5)
    reward, success, before = fly(test, np.tile(mean, (64, 1, 1)), seed=10**6)
    print(f"before: reward {reward.mean():.0f}, {100 * success.mean():.0f} % captured", flush=True)
    begin = time.perf_counter()
    for generation in range(given.generations):
        policies = mean + spread * rng.standard_normal((POPULATION, 3, 9))
        # The same episodes for all policies of a generation: differences are the policies' own.
        seeds = [10_000 * (generation + 1) + k for k in range(given.episodes)] * POPULATION
        reward, success, _ = fly(many, np.repeat(policies, given.episodes, axis=0), seeds)
        score = reward.reshape(POPULATION, -1).mean(axis=1)
        best = policies[np.argsort(score)[-ELITE:]]
        mean, spread = best.mean(axis=0), 0.9 * best.std(axis=0) + 0.05
        print(f"generation {generation + 1}: best {score.max():.0f}, {100 * success.mean():.0f} % captured, "
              f"{time.perf_counter() - begin:.0f} s", flush=True)  # fmt: skip
    reward, success, after = fly(test, np.tile(mean, (64, 1, 1)), seed=10**6)
    print(f"after: reward {reward.mean():.0f}, {100 * success.mean():.0f} % captured")
    if given.page:
        views = [draw(test.unwrapped.task, what, rows) for what, rows in (("before", before), ("after", after))]
        Scene(tuple(views)).save(given.page)


if __name__ == "__main__":
    main()
