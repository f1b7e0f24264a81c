"""A small campaign: a hand is hit, with restitutions and masses that vary; some milliseconds a run."""

from __future__ import annotations

from pathlib import Path

from spacearm.campaign.plan import CampaignPlan

SCENARIO = """
study = "impact"
robot = "yoshida1992"
frame = "hand"
[map]
directions = 12
[target]
mass = 1.0
inertia = [0.1, 0.1, 0.1]
velocity = [0.0, 1.0, 0.0]
[[case]]
name = "free"
[[collision]]
name = "blow"
normal = [0.0, 1.0, 0.0]
restitution = 0.5
"""
CAMPAIGN = """
scenario = "blow.toml"
runs = 12
chunk = 4
rows = ["collision.*"]
[[axis]]
name = "mass"
key = "target.mass"
values = [0.5, 2.0]
[[vary]]
key = "collision[blow].restitution"
kind = "uniform"
low = 0.0
high = 1.0
[[vary]]
key = "robot.body[rod2].mass"
deviation = 0.05
relative = true
[[require]]
row = "collision.blow.free.energy_lost"
most = 0.3
"""


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("runs-*")}


def plan_of(place: Path, text: str = CAMPAIGN) -> CampaignPlan:
    (place / "campaign.toml").write_text(text)
    return CampaignPlan.read(place / "campaign.toml")
