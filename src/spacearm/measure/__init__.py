"""Measurements: files, records, sensors; which readings count (:mod:`spacearm.measure.clean`).

A measurement is a view of a run, real or simulated: a :class:`Record` of named channels, each with its times, unit and
standard deviation, and of the commands.
"""

from spacearm.measure.files import Column, SampleRate, read_record
from spacearm.measure.record import Channel, Record
from spacearm.measure.sensors import make_sensors, record_run
from spacearm.mechanics.sensors import (
    Accelerometer,
    AngularAccelerometer,
    FrameAttitude,
    FramePosition,
    JointAccelerometer,
    Tachometer,
    TorqueSensor,
)

__all__ = [
    "Accelerometer",
    "AngularAccelerometer",
    "Channel",
    "Column",
    "FrameAttitude",
    "FramePosition",
    "JointAccelerometer",
    "Record",
    "SampleRate",
    "Tachometer",
    "TorqueSensor",
    "make_sensors",
    "read_record",
    "record_run",
]
