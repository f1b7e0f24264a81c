"""The study of a single run in time: see :mod:`spacearm.motion.scenario`; in Python, use :mod:`spacearm.simulate`."""

__all__: list[str] = []
