"""Particle swarm (J. Kennedy, R. Eberhart 1995; form of R. Poli, J. Kennedy, T. Blackwell, Swarm Intelligence 1, 2007).

Every iteration judges all particles in one batched call of the cost. The same seed gives the same search.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spacearm.errors import InputError
from spacearm.optimise.estimate import Estimate, StopReason, Stopwatch
from spacearm.optimise.problem import Problem


@dataclass(frozen=True)
class ParticleSwarm:
    """Swarm within the parameters' bounds, which must be finite.

    Args:
        particles: size of the swarm.
        iterations: at most.
        inertia: weight of a particle's velocity, falling linearly from the first to the second number.
        cognitive, social: pull to a particle's own best and to its neighbours' best.
        neighbours: each particle knows the best of itself and this many on either side of a ring; 0: of all.
        target: stop when the cost falls below.
        patience: stop after so many iterations without a relative gain of 1e-12.
        speed: largest velocity as a fraction of the bounds' width.
        start_at_guess: put the first particle at the guess.
    """

    particles: int = 60
    iterations: int = 500
    inertia: tuple[float, float] = (0.729, 0.729)
    cognitive: float = 1.494
    social: float = 1.494
    neighbours: int = 0
    seed: int = 0
    target: float = 0.0
    patience: int | None = None
    speed: float = 0.5
    start_at_guess: bool = False
    uncertainty: bool = True

    def solve(self, problem: Problem) -> Estimate:
        lower, upper = problem.lower, problem.upper
        if not np.all(np.isfinite(lower) & np.isfinite(upper)):
            raise InputError(
                "a swarm needs finite bounds of every parameter",
                place=problem.name or "particle swarm",
                hint="set lower and upper",
            )
        rng = np.random.default_rng(self.seed)
        watch = Stopwatch(problem)
        width = upper - lower
        shape = (self.particles, lower.size)
        x = lower + width * rng.random(shape)
        if self.start_at_guess:
            x[0] = problem.guess
        # Slow at first: particles that start as fast as the bounds are wide would all be at the bounds after one step.
        v = 0.1 * width * rng.uniform(-1.0, 1.0, shape)
        own, own_cost = x.copy(), watch.costs(x)
        # (particles, 2 neighbours + 1): whom each particle listens to. A ring spreads news slowly and explores longer.
        ring = (np.arange(self.particles)[:, None] + np.arange(-self.neighbours, self.neighbours + 1)) % self.particles
        best = float(own_cost.min())
        watch.history.append(best)
        reason, since, done = StopReason.LIMIT, 0, 0
        for done in range(1, self.iterations + 1):
            if self.neighbours:
                leader = own[ring[np.arange(self.particles), np.argmin(own_cost[ring], axis=1)]]
            else:
                leader = own[np.argmin(own_cost)]
            # With both inertias equal (0.729, and 1.494 for the pulls) this is the constricted swarm of Clerc and
            # Kennedy (2002).
            share = (done - 1) / max(self.iterations - 1, 1)
            weight = self.inertia[0] + share * (self.inertia[1] - self.inertia[0])
            v = (
                weight * v
                + self.cognitive * rng.random(shape) * (own - x)
                + self.social * rng.random(shape) * (leader - x)
            )
            np.clip(v, -self.speed * width, self.speed * width, out=v)
            x = x + v
            outside = (x < lower) | (x > upper)
            x = np.clip(x, lower, upper)
            v[outside] *= -0.5  # a particle that meets a bound turns back
            cost = watch.costs(x)
            better = cost < own_cost
            own[better], own_cost[better] = x[better], cost[better]
            now = float(own_cost.min())
            # Relative, so that rounding is not progress.
            since = 0 if now < best * (1.0 - 1e-12) else since + 1
            best = now
            watch.history.append(best)
            if best <= self.target:
                reason = StopReason.SMALL_COST
                break
            if self.patience is not None and since >= self.patience:
                reason = StopReason.STALLED
                break
        if not np.isfinite(best):
            reason = StopReason.NOT_FINITE
        winner = own[np.argmin(own_cost)]
        return watch.estimate(winner, best, done, reason, "particle swarm", uncertainty=self.uncertainty)
