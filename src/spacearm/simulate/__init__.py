"""Runs in time: phases, loads, events, and the certificate that each run carries."""

from spacearm.engine.solver import Reason
from spacearm.engine.warm import warm_up
from spacearm.result import Certificate
from spacearm.simulate.batch import BatchRun, simulate_batch
from spacearm.simulate.certificate import CertificateWarning
from spacearm.simulate.course import Occurrence
from spacearm.simulate.loads import Load, firing
from spacearm.simulate.methods import RK4, Dopri853
from spacearm.simulate.phase import Event, EventFunction, Phase
from spacearm.simulate.rollout import rollout
from spacearm.simulate.run import Run, RunWarning, simulate
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

__all__ = [
    "RK4",
    "BatchRun",
    "Certificate",
    "CertificateWarning",
    "Dopri853",
    "Event",
    "EventFunction",
    "Load",
    "Occurrence",
    "Phase",
    "Reason",
    "Run",
    "RunWarning",
    "Signal",
    "State",
    "approximate",
    "constant",
    "firing",
    "from_ppoly",
    "half_sine",
    "pulse",
    "rollout",
    "simulate",
    "simulate_batch",
    "spline",
    "table",
    "triangle",
    "warm_up",
]
