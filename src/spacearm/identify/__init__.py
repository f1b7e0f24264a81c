"""Identification: parameters of a robot from measurements, with their uncertainty.

Measured data come from files (:mod:`spacearm.measure`), estimators from :mod:`spacearm.optimise`. The
studies are packages of their own: :mod:`spacearm.identify.inertia` finds the inertias of a robot in orbit,
:mod:`spacearm.identify.joint` finds the laws of a flexible joint, :mod:`spacearm.identify.ground` inertias and friction
of an arm on a held base.
"""

__all__: list[str] = []
