"""Learn to bring the hand to a tumbling target's grapple point by proximal policy optimisation (Schulman et al. 2017).

On a GPU, environment, policy and learner share its memory: observations reach PyTorch by DLPack without a copy. Before
and after are compared on episodes that were not learned from. ``python learn_capture_ppo.py`` learns on the processor,
``--device gpu --environments 4096 --updates 40`` on an NVIDIA GPU. It needs PyTorch and ``pip install
'spacearm[gymnasium]'``, on a GPU ``'spacearm[gpu,gymnasium]'``.
"""

import argparse
import json
import time

import gymnasium
import numpy as np
import torch
from torch import nn

import spacearm.connect.environments  # noqa: F401  registers the environments
from learn_capture import draw
from spacearm.scene import Scene

DISCOUNT, LAMBDA, CLIP, PASSES, RATE = 0.97, 0.95, 0.2, 6, 1e-3
#: Standard deviation of the first actions: of 0.15 m/s, which the hand must not be much above to be at rest.
SPREAD = 0.35


class Policy(nn.Module):
    """Mean action and value of what is seen, which is scaled by its own mean and spread."""

    def __init__(self, seen, actions, width=64):
        super().__init__()

        def network(outputs):
            inner = (nn.Linear(seen, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
            last = nn.Linear(width, outputs)
            nn.init.normal_(last.weight, std=1e-3)
            nn.init.zeros_(last.bias)
            return nn.Sequential(*inner, last)

        self.mean, self.value = network(actions), network(1)
        self.log_spread = nn.Parameter(torch.full((actions,), SPREAD).log())
        self.register_buffer("moments", torch.zeros(3, seen, dtype=torch.float64))  # count, sum, sum of squares

    def learn_scale(self, seen):
        wide = seen.double()
        self.moments += torch.stack([torch.full_like(wide[0], len(wide)), wide.sum(0), wide.square().sum(0)])

    def scale(self, seen):
        mean, square = self.moments[1:] / self.moments[0]
        spread = (square - mean.square()).clamp(min=0.0).sqrt() + 1e-3
        return ((seen - mean) / spread).clamp(-8.0, 8.0).float()

    def forward(self, seen):
        scaled = self.scale(seen)
        return torch.distributions.Normal(self.mean(scaled), self.log_spread.exp()), self.value(scaled)[:, 0]


def tensor(array, device):
    """Of what the environment returns: shared on a GPU."""
    return torch.from_dlpack(array) if device.type == "cuda" else torch.as_tensor(array)


def fly(many, policy, seed, device):
    """Share of first episodes that succeed, by mean actions (none: no action), and states of one sample."""
    seen, _ = many.reset(seed=seed)
    alive, success = torch.ones(many.num_envs, dtype=torch.bool, device=device), 0
    states = [first_states(many)]
    while alive.any():
        with torch.no_grad():
            action = policy(tensor(seen, device))[0].mean if policy else torch.zeros(many.action_space.shape)
        seen, _, ended, late, info = many.step(action.to(device) if device.type == "cuda" else action.numpy())
        success += int((alive & tensor(info["success"], device)).sum())
        alive &= ~(tensor(ended, device) | tensor(late, device))
        if alive[0]:
            states.append(first_states(many))
    return success / many.num_envs, np.array(states)


def first_states(many):
    """Of the first sample: robot, then target."""
    return np.hstack([many.unwrapped.states[0].tolist(), many.unwrapped.targets[0].tolist()])


def collect(many, policy, seen, fresh, steps, device):
    """Steps of all samples: what was seen and done, its likelihood, returns and advantages (GAE)."""
    rows = []
    for _ in range(steps):
        with torch.no_grad():
            chosen, value = policy(seen)
            action = chosen.sample()
            after, reward, ended, late, _ = many.step(action if device.type == "cuda" else action.numpy())
            after, reward, ended, late = (tensor(each, device) for each in (after, reward, ended, late))
            # An episode that ends for want of time goes on in the value of its last observation, which is this one: a
            # sample begins anew with the next step only.
            reward = reward.float() + DISCOUNT * late * policy(after)[1]
        # The step in which a sample begins anew is nobody's doing.
        rows.append((seen, action, chosen.log_prob(action).sum(1), value, reward, ended | late, ~fresh))
        seen, fresh = after, ended | late
    with torch.no_grad():
        later = policy(seen)[1]
    advantage, found = torch.zeros_like(later), []
    for _, _, _, value, reward, over, _ in reversed(rows):
        onward = DISCOUNT * ~over
        advantage = reward + onward * later - value + LAMBDA * onward * advantage
        later = value
        found.append(advantage)
    observed, action, likelihood, value, _, _, counts = (torch.cat(each) for each in zip(*rows, strict=True))
    advantage = torch.cat(found[::-1])
    return [each[counts] for each in (observed, action, likelihood, value + advantage, advantage)], seen, fresh


def improve(policy, optimiser, data, batches):
    """Some passes of gradient ascent on the clipped objective."""
    seen, action, likelihood, worth, advantage = data
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    for _ in range(PASSES):
        for part in torch.randperm(len(seen), device=seen.device).chunk(batches):
            chosen, value = policy(seen[part])
            ratio = (chosen.log_prob(action[part]).sum(1) - likelihood[part]).exp()
            gain = torch.min(ratio * advantage[part], ratio.clamp(1 - CLIP, 1 + CLIP) * advantage[part]).mean()
            loss = 0.5 * (value - worth[part]).square().mean() - gain
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimiser.step()


def main():
    parser = argparse.ArgumentParser(description="Learn a capture by PPO.")
    parser.add_argument("--device", choices=("gpu", "cpu"), default="cpu")
    parser.add_argument("--environments", type=int, default=256)
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--steps", type=int, default=32, help="of each environment for an update")
    parser.add_argument("--unseen", type=int, default=256, help="episodes on which the policy is tested")
    parser.add_argument("--page", default="", help="HTML file of an episode before and after")
    parser.add_argument("--report", default="", help="JSON file of the learning curve")
    given = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if given.device == "gpu" else "cpu")

    def make(count):
        return gymnasium.make_vec(
            "spacearm/CaptureTumbling-v0", num_envs=count, vectorization_mode="vector_entry_point",
            device=given.device, period=1.0, within=0.05, rest=0.03,
        )  # fmt: skip

    unseen, many = make(given.unseen), make(given.environments)
    policy = Policy(many.single_observation_space.shape[0], many.single_action_space.shape[0]).to(device)
    optimiser = torch.optim.Adam(policy.parameters(), lr=RATE)
    share, before = fly(unseen, None, 10**6, device)
    print(f"before: {100 * share:.0f} % of {given.unseen} captured", flush=True)
    curve, begin = [{"steps": 0, "seconds": 0.0, "captured": share}], time.perf_counter()
    seen = tensor(many.reset(seed=0)[0], device)
    policy.learn_scale(seen)
    fresh, after, spent = torch.zeros(given.environments, dtype=torch.bool, device=device), before, 0.0
    for update in range(1, given.updates + 1):
        optimiser.param_groups[0]["lr"] = RATE * (1.1 - update / given.updates)
        data, seen, fresh = collect(many, policy, seen, fresh, given.steps, device)
        improve(policy, optimiser, data, batches=max(8, len(data[0]) // 8192))
        policy.learn_scale(data[0])
        if update % 5 == 0 or update == given.updates:
            spent += time.perf_counter() - begin
            share, after = fly(unseen, policy, 10**6, device)
            steps = update * given.steps * given.environments
            curve.append({"steps": steps, "seconds": spent, "captured": share})
            print(f"{steps} steps, {spent:.0f} s: {100 * share:.0f} % captured", flush=True)
            begin = time.perf_counter()
    if given.report:
        with open(given.report, "w", encoding="utf-8") as file:
            json.dump(curve, file)
    if given.page:
        task = unseen.unwrapped.task
        Scene(tuple(draw(task, what, rows) for what, rows in (("before", before), ("after", after)))).save(given.page)


if __name__ == "__main__":
    main()
