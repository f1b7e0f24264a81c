"""Rehearse a servicing mission: approach, touch, catch, settle, detumble, identify, decide, stow or eject, in one run.

The study is :mod:`spacearm.mission.scenario`; its stages are in :mod:`spacearm.mission._stages`.
"""

__all__: list[str] = []
