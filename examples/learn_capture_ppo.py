"""Learn to bring the hand to a tumbling target's grapple point by proximal policy optimisation (Schulman et al. 2017).

Environment, policy and learner are on one GPU: observations reach PyTorch by DLPack without a copy. Before and after
are compared on episodes that were not learned from. Run it with ``python learn_capture_ppo.py``; it needs PyTorch and
``pip install 'spacearm[gpu,gymnasium]'``, or ``--device cpu --environments 256`` and patience.
"""

import argparse
import json
import time

import gymnasium
import torch
from torch import nn

import spacearm.connect.environments  # noqa: F401  registers the environments
from learn_capture import SCALE, draw
from spacearm.scene import Scene

DISCOUNT, LAMBDA, CLIP, EPOCHS, BATCHES = 0.98, 0.95, 0.2, 5, 8
#: Rewards of an episode are of the order of 100.
REWARD_SCALE = 0.02


class Policy(nn.Module):
    """Mean action and value of what is seen; the spread of the actions is the same everywhere."""

    def __init__(self, seen, actions, width=128):
        super().__init__()

        def network(outputs):
            inner = nn.Sequential(nn.Linear(seen, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
            return nn.Sequential(*inner, nn.Linear(width, outputs))

        self.mean, self.value = network(actions), network(1)
        self.mean[-1].weight.data *= 0.01
        self.log_spread = nn.Parameter(torch.full((actions,), -1.2))
        # What is seen of the target comes last.
        self.scale = torch.ones(seen)
        self.scale[-len(SCALE) :] = torch.as_tensor(SCALE)

    def forward(self, seen):
        seen = seen * self.scale.to(seen)
        return torch.distributions.Normal(self.mean(seen), self.log_spread.exp()), self.value(seen)[:, 0]


def tensor(array, device):
    """Of what the environment returns: shared on a GPU."""
    return torch.from_dlpack(array) if device.type == "cuda" else torch.as_tensor(array, device=device)


def fly(many, policy, seed, device):
    """Share of first episodes that succeed, and the states of the first sample."""
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
    return success / many.num_envs, torch.stack(states).numpy()


def first_states(many):
    """Of the first sample: robot, then target."""
    parts = (many.unwrapped.states[:1].tolist()[0], many.unwrapped.targets[:1].tolist()[0])
    return torch.tensor([*parts[0], *parts[1]], dtype=torch.float64)


def collect(many, policy, seen, fresh, steps, device):
    """Steps of all samples: what was seen, done and earned, and the values and advantages by GAE."""
    rows = []
    for _ in range(steps):
        with torch.no_grad():
            chosen, value = policy(seen)
            action = chosen.sample()
        given = action if device.type == "cuda" else action.numpy()
        after, reward, ended, late, _ = many.step(given)
        ended, late = tensor(ended, device), tensor(late, device)
        reward = REWARD_SCALE * tensor(reward, device).float()
        # A step that begins an episode is nobody's doing; where time is over, the future is worth what it was.
        reward = reward + DISCOUNT * value * late
        rows.append((seen.clone(), action, chosen.log_prob(action).sum(1), value, reward, ended | late, ~fresh))
        fresh, seen = ended | late, tensor(after, device)
    advantage, later, following = 0.0, policy(seen)[1].detach(), []
    for _, _, _, value, reward, over, _ in reversed(rows):
        going_on = (~over).float()
        advantage = reward + DISCOUNT * later * going_on - value + DISCOUNT * LAMBDA * going_on * advantage
        later = value
        following.append(advantage)
    seen_all, action, likelihood, value, _, _, counts = (torch.cat(each) for each in zip(*rows, strict=True))
    advantage = torch.cat(following[::-1])
    return (seen_all, action, likelihood, value + advantage, advantage, counts), seen, fresh


def improve(policy, optimiser, data):
    """Some passes of gradient ascent on the clipped objective."""
    seen, action, likelihood, worth, advantage, _ = (each[data[-1]] for each in data)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    for _ in range(EPOCHS):
        for part in torch.randperm(len(seen), device=seen.device).chunk(BATCHES):
            chosen, value = policy(seen[part])
            ratio = (chosen.log_prob(action[part]).sum(1) - likelihood[part]).exp()
            gain = torch.min(ratio * advantage[part], ratio.clamp(1 - CLIP, 1 + CLIP) * advantage[part]).mean()
            loss = 0.5 * (value - worth[part]).square().mean() - gain
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimiser.step()


def main():
    parser = argparse.ArgumentParser(description="Learn a capture by PPO.")
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--environments", type=int, default=4096)
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--steps", type=int, default=24, help="of each environment for an update")
    parser.add_argument("--period", type=float, default=1.0, help="s between two actions")
    parser.add_argument("--within", type=float, default=0.05, help="m, limit of the distance")
    parser.add_argument("--rest", type=float, default=0.03, help="m/s, limit of the relative speed")
    parser.add_argument("--page", default="", help="HTML file of an episode before and after")
    parser.add_argument("--report", default="", help="JSON file of the learning curve")
    options = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if options.device == "gpu" else "cpu")

    def make(count):
        task = {"period": options.period, "within": options.within, "rest": options.rest}
        return gymnasium.make_vec(
            "spacearm/CaptureTumbling-v0",
            num_envs=count,
            vectorization_mode="vector_entry_point",
            device=options.device,
            **task,
        )

    unseen, many = make(min(1024, options.environments)), make(options.environments)
    policy = Policy(many.single_observation_space.shape[0], many.single_action_space.shape[0]).to(device)
    optimiser = torch.optim.Adam(policy.parameters(), lr=1e-3)
    before, idle = fly(unseen, None, 10**6, device)
    print(f"doing nothing captures {100 * before:.0f} % of {unseen.num_envs}")
    began, curve = time.monotonic(), []
    seen = tensor(many.reset(seed=0)[0], device)
    fresh = torch.zeros(options.environments, dtype=torch.bool, device=device)
    for update in range(options.updates):
        optimiser.param_groups[0]["lr"] = 1e-3 * (1 - update / options.updates)
        data, seen, fresh = collect(many, policy, seen, fresh, options.steps, device)
        improve(policy, optimiser, data)
        if (update + 1) % 10 == 0 or update + 1 == options.updates:
            share, flown = fly(unseen, policy, 10**6, device)
            steps = (update + 1) * options.steps * options.environments
            curve.append({"steps": steps, "seconds": time.monotonic() - began, "captured": share})
            print(f"{steps:9d} steps, {curve[-1]['seconds']:5.0f} s: {100 * share:.0f} % captured", flush=True)
    if options.report:
        with open(options.report, "w") as file:
            json.dump({"before": before, "curve": curve}, file)
    if options.page:
        task = many.unwrapped.task
        Scene(views=(draw(task, "before", idle), draw(task, "after", flown))).save(options.page)


if __name__ == "__main__":
    main()
