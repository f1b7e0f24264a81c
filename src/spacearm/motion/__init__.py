"""The plain run in time as a study: see :mod:`spacearm.motion.scenario`. In Python it is :mod:`spacearm.simulate`."""

__all__: list[str] = []
