"""Uncertainty of a joint fit beyond standard deviations: profile likelihoods and posterior samples."""

from __future__ import annotations

from spacearm.identify.joint.identify import JointFit
from spacearm.optimise.posterior import Posterior, Profile, profile, sample


def profile_likelihood(fit: JointFit, name: str, *, span: float = 3.0, points: int = 11) -> Profile:
    """The profile of one parameter over ``+-span`` standard deviations, every other parameter fitted anew."""
    return profile(fit.model.problem(), fit.estimate, fit.estimate.names[fit._index(name)], span=span, points=points)


def sample_posterior(
    fit: JointFit, *, walkers: int | None = None, steps: int = 200, burn: int = 40, seed: int = 0
) -> Posterior:
    """Samples of the parameters given the data; see :func:`spacearm.optimise.sample`."""
    return sample(fit.model.problem(), fit.estimate, walkers=walkers, steps=steps, burn=burn, seed=seed)
