"""Runs in time: phases, loads, events, and the certificate that each run carries.

``spacearm.simulate`` is the function :func:`spacearm.simulate.simulate`, with the names of this room as attributes.
"""

from spacearm.engine.solver import Reason
from spacearm.engine.warm import warm_up
from spacearm.simulate.bushing import Bushing, Connect, Disconnect
from spacearm.simulate.changes import Attach, Change, Detach, Lock, Release, Separate, Switch
from spacearm.simulate.check.crosscheck import cross_check
from spacearm.simulate.check.difference import Comparison, compare
from spacearm.simulate.contact import Contact, JointStops, On
from spacearm.simulate.distance import clearance, collision_pairs, distance, gaps, gate, nearest
from spacearm.simulate.elements import ForceElement
from spacearm.simulate.ensemble.batch import BatchRun, simulate_batch
from spacearm.simulate.ensemble.rollout import rollout, rollout_extremes
from spacearm.simulate.fields import Gravity, Orbit
from spacearm.simulate.loads import Load, firing
from spacearm.simulate.methods import RK4, Dopri853
from spacearm.simulate.phase import Event, EventFunction, Phase
from spacearm.simulate.run.certificate import CertificateWarning
from spacearm.simulate.run.chain import Here
from spacearm.simulate.run.ledger import Entry, Ledger
from spacearm.simulate.run.run import Run, RunWarning, Track, simulate
from spacearm.simulate.run.run_file import load_run
from spacearm.simulate.run.segment import Occurrence
from spacearm.simulate.run.touched import Touched
from spacearm.simulate.signals import (
    Signal,
    approximate,
    constant,
    from_ppoly,
    half_sine,
    pulse,
    spline,
    table,
    triangle,
)
from spacearm.simulate.state import State
from spacearm.simulate.world import World

__all__ = [
    "RK4",
    "Attach",
    "BatchRun",
    "Bushing",
    "CertificateWarning",
    "Change",
    "Comparison",
    "Connect",
    "Contact",
    "Detach",
    "Disconnect",
    "Dopri853",
    "Entry",
    "Event",
    "EventFunction",
    "ForceElement",
    "Gravity",
    "Here",
    "JointStops",
    "Ledger",
    "Load",
    "Lock",
    "Occurrence",
    "On",
    "Orbit",
    "Phase",
    "Reason",
    "Release",
    "Run",
    "RunWarning",
    "Separate",
    "Signal",
    "State",
    "Switch",
    "Touched",
    "Track",
    "World",
    "approximate",
    "clearance",
    "collision_pairs",
    "compare",
    "constant",
    "cross_check",
    "distance",
    "firing",
    "from_ppoly",
    "gaps",
    "gate",
    "half_sine",
    "load_run",
    "nearest",
    "pulse",
    "rollout",
    "rollout_extremes",
    "simulate",
    "simulate_batch",
    "spline",
    "table",
    "triangle",
    "warm_up",
]

# ``spacearm.simulate`` is the function (see :mod:`spacearm`), and has the names of this room as attributes.
simulate.__dict__ = globals()
