"""Runs in time: phases, loads, events, and the certificate that each run carries.

``spacearm.simulate`` is the function :func:`spacearm.simulate.simulate`, with the names of this package as attributes.
"""

from spacearm.engine.warm import warm_up
from spacearm.simulate.attach import Attach, Detach, Pin
from spacearm.simulate.bushing import Bushing, Connect, Disconnect
from spacearm.simulate.changes import Change, Lock, Release, Separate, SetRates, Switch
from spacearm.simulate.check.crosscheck import cross_check
from spacearm.simulate.check.difference import compare
from spacearm.simulate.close import Close, Open
from spacearm.simulate.contact import Contact, JointStops, ShapeOnFrame
from spacearm.simulate.distance import clearance, collision_pairs, distance, gaps, gate, nearest_approach
from spacearm.simulate.ensemble.batch import BatchRun, simulate_batch
from spacearm.simulate.ensemble.rollout import rollout, rollout_extremes
from spacearm.simulate.ensemble.vector_simulator import Servo, VectorSimulator
from spacearm.simulate.fields import Drag, Gravity, Orbit
from spacearm.simulate.joint_laws import Backlash, BoucWen, LuGre
from spacearm.simulate.loads import Load, thruster_load
from spacearm.simulate.loops import close_loops, close_state
from spacearm.simulate.methods import RK4, Dopri853
from spacearm.simulate.phase import Event, Phase
from spacearm.simulate.run.certificate import CertificateWarning
from spacearm.simulate.run.chain import RunContext
from spacearm.simulate.run.propellant import use_propellant
from spacearm.simulate.run.run import Run, RunWarning, simulate
from spacearm.simulate.run.run_file import load_run
from spacearm.simulate.run.simulator import Simulator
from spacearm.simulate.signals import Signal, approximate, constant, half_sine, pulse, spline, steps, table, triangle
from spacearm.simulate.state import State
from spacearm.simulate.system_loop import SystemLoop
from spacearm.simulate.world import World

__all__ = [
    "RK4",
    "Attach",
    "Backlash",
    "BatchRun",
    "BoucWen",
    "Bushing",
    "CertificateWarning",
    "Change",
    "Close",
    "Connect",
    "Contact",
    "Detach",
    "Disconnect",
    "Dopri853",
    "Drag",
    "Event",
    "Gravity",
    "JointStops",
    "Load",
    "Lock",
    "LuGre",
    "Open",
    "Orbit",
    "Phase",
    "Pin",
    "Release",
    "Run",
    "RunContext",
    "RunWarning",
    "Separate",
    "Servo",
    "SetRates",
    "ShapeOnFrame",
    "Signal",
    "Simulator",
    "State",
    "Switch",
    "SystemLoop",
    "VectorSimulator",
    "World",
    "approximate",
    "clearance",
    "close_loops",
    "close_state",
    "collision_pairs",
    "compare",
    "constant",
    "cross_check",
    "distance",
    "gaps",
    "gate",
    "half_sine",
    "load_run",
    "nearest_approach",
    "pulse",
    "rollout",
    "rollout_extremes",
    "simulate",
    "simulate_batch",
    "spline",
    "steps",
    "table",
    "thruster_load",
    "triangle",
    "use_propellant",
    "warm_up",
]

# ``spacearm.simulate`` is the function (see :mod:`spacearm`), and has the names of this package as attributes.
simulate.__dict__ = globals()
