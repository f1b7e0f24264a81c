"""How well masses and inertias are known, and whether a verdict depends on it.

A margin that is smaller than what this doubt moves shows neither a go nor a no go. A mission near its limits is flown
again with bodies that are heavier and lighter than in the file, while laws, plans and identification count on the
file's numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spacearm.errors import InputError
from spacearm.mission._review import Requirement
from spacearm.model.toml_schema import Number
from spacearm.study import ScenarioTable, key
from spacearm.text_format import format_percent

#: The largest deviation, as a share: linear thinking about masses ends there.
MOST = 0.5


class NominalMassTable(ScenarioTable):
    """How well the file's numbers are known: a verdict that this may change is undecided."""

    sd: Number = key(
        0.03, "standard deviation of the masses and inertias of servicer and target, share of each; 0: they are exact"
    )

    def check(self) -> None:
        """An error where it is no share."""
        if not 0.0 <= self.sd <= MOST:
            raise InputError(f"is {self.sd:g}", place="sd", hint=f"expected a share from 0 to {MOST:g}")


def list_other_masses(sd: float) -> Iterator[tuple[str, float, float]]:
    """Factors of the masses of servicer and target, one deviation each way, with words for them."""
    for servicer, target in ((1.0, 1.0), (-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0)):
        one, other = (f"{format_percent(sd)} {'heavier' if sign > 0.0 else 'lighter'}" for sign in (servicer, target))
        words = f"servicer and target {one}" if one == other else f"the servicer {one} and the target {other}"
        yield words, 1.0 + sd * servicer, 1.0 + sd * target


def name_small_margin(needs: Iterable[Requirement], sd: float) -> str:
    """The margin that is smaller than the doubt itself, in words; empty where there is none."""
    small = [need for need in needs if not need.is_met_with(sd)]
    if not small:
        return ""
    need = min(small, key=lambda each: each.limit.margin - each.policy)
    policy = f" (the policy asks for {format_percent(need.policy)})" if need.policy > 0.0 else ""
    return (
        f"in {need.stage}, the {need.limit.name} has a margin of {format_percent(need.limit.margin)}{policy}, "
        f"less than the doubt of {format_percent(sd)} about masses and inertias may take"
    )
