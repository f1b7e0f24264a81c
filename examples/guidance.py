"""Guidance code as a process of its own, in Python: brakes all joints, and brings them to zero.

python guidance_run.py python guidance.py
"""

import sys

from spacearm.connect import connect_guidance

guidance = connect_guidance(sys.argv[-2], int(sys.argv[-1]))
for _, readings in guidance:
    position, rate = readings.reshape(2, -1)
    guidance.answer(-4.0 * position - 3.0 * rate)
