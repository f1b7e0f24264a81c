"""A run whose arm is commanded by another process, 100 times a second: ``python guidance_run.py ./guidance``."""

import sys

import numpy as np

from spacearm import Phase, State, catalogue, simulate
from spacearm.connect import GuidanceProcess

robot = catalogue.load("yoshida1992")
start = State.at_rest(robot, joints=np.full(robot.n, 0.5))
with GuidanceProcess(sys.argv[1:], robot, period=0.01) as guidance:
    run = simulate(robot, start, Phase(5.0, laws=guidance.law, limits="ignore"))
print(run)
print("joints at the end [rad]:", np.round(run.end.joints, 6).tolist())
