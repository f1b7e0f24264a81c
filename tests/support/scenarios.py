"""Scenarios that several tests use."""

#: Runs for hours: free tumbling over ten years of simulated time.
SLOW = """study = "motion"
robot = "yoshida1992"
sample = 1e6
method.max_steps = 1_000_000_000

[start]
angular_velocity = [0.3, 0.2, 0.1]
rates = [0.5, -0.3]

[[phase]]
duration = 3e8
"""
