"""Robot files in TOML: see ``docs/robot-file.md`` for the keys."""

from spacearm.model.toml_read import read_toml, robot_from_toml
from spacearm.model.toml_values import UnitWarning
from spacearm.model.toml_write import toml_text

__all__ = ["UnitWarning", "read_toml", "robot_from_toml", "toml_text"]
