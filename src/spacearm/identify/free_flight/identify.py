"""Inertia tensors of free bodies with a wheel of known inertia, from gyro (and accelerometer) alone.

Output error over all flights of all bodies together: what belongs to the device (wheel, gyro) is common, tensor and
drag belong to a body, the rates at the start to a flight. Gauss-Newton with damping; the start rates are eliminated
flight by flight. Each body's residuals count by their own standard deviation, found in alternation.

Without a known wheel only ratios of inertias would be in the data. A body of known tensor (a proof body on the device)
calibrates the wheel; else its stated inertia and deviation count.

Residuals are not white: air, sensors and shaking leave a slow rest. Flights are independent trials, so their scatter is
the evidence: the estimate is found again without each flight, to first order (the jackknife of J. W. Tukey 1958, here a
sandwich covariance by clusters). Where white noise alone gives a wider
interval, that one counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy.typing as npt

from spacearm.checks import array, check_not_empty
from spacearm.identify._fit import solvable
from spacearm.identify.free_flight._flight_fit import FlightFit
from spacearm.identify.free_flight.flown_bodies import DeviceDoubt, FlownBody, FreeFlightIdentification

#: Rounds in which weights and mass centres are found anew.
ROUNDS = 3


@solvable("free-flight identification")
def identify_flights(
    bodies: Sequence[FlownBody],
    *,
    axis: npt.ArrayLike,
    wheel_inertia: float,
    device_mass: float,
    doubt: DeviceDoubt | None = None,
    drag: bool = True,
) -> FreeFlightIdentification:
    """Identify the tensors of bodies from their flights.

    Args:
        axis: (3,) of the wheel, device axes.
        wheel_inertia: kg m2, axial, nominal.
        device_mass: kg, wheel included.
        drag: estimate the air's drag of each body.
    """
    check_not_empty(bodies, "body", place="free-flight identification")
    for body in bodies:
        check_not_empty(body.flights, "flight", place=f"body {body.name!r}")
    about = array(axis, "axis", (3,), place="free-flight identification")
    fit = FlightFit(bodies, about, wheel_inertia, device_mass, doubt or DeviceDoubt(), drag)
    for _ in range(ROUNDS):
        fit.search()
        fit.locate_mass_centres()
        fit.estimate_noise()
    fit.search()
    return fit.summarise()
