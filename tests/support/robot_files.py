"""Pieces of robot files."""

from __future__ import annotations

import pytest

from spacearm.errors import ModelError
from spacearm.model.toml_read import robot_from_toml

BASE = '[robot]\nname = "r"\n[[body]]\nname = "base"\nmass = 10\ninertia = [1, 1, 1]\n'

ARM = '[[body]]\nname = "arm"\nmass = 2\ncom = [0.5, 0, 0]\ninertia = [0.1, 0.2, 0.2]\n'

ELBOW = '[[joint]]\nname = "elbow"\nkind = "revolute"\nparent = "base"\nchild = "arm"\n'

SLIDE = ELBOW.replace("revolute", "prismatic")


def fault(text: str) -> str:
    with pytest.raises(ModelError) as caught:
        robot_from_toml(text)
    return str(caught.value)
