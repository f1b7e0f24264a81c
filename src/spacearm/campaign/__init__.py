"""Many runs of a scenario: cells of a map, dispersed numbers, success rates; kept on disk, so that they can go on.

::

    plan = CampaignPlan.read("campaign.toml")
    store = run_campaign(plan, Path("out"), workers=2)
    result = report(store)
"""

from __future__ import annotations

from spacearm.campaign.execute import run_campaign
from spacearm.campaign.report import report
from spacearm.campaign.store import Store

__all__ = [
    "Store",
    "report",
    "run_campaign",
]
