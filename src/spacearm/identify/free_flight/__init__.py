"""Identification of free bodies with a wheel, thrown or floating: inertia tensors from gyro and accelerometer alone.

Cut the flights from records with :func:`cut_flight` and give them to :func:`identify_flights`.
"""

from spacearm.identify.free_flight.flights import cut_flight
from spacearm.identify.free_flight.flown_bodies import DeviceDoubt, FlownBody, FreeFlightIdentification
from spacearm.identify.free_flight.identify import identify_flights
from spacearm.identify.free_flight.tumbling import predict_rates

__all__ = [
    "DeviceDoubt",
    "FlownBody",
    "FreeFlightIdentification",
    "cut_flight",
    "identify_flights",
    "predict_rates",
]
