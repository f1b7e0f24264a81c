"""spacearm: dynamics of robot arms on free-floating satellites."""

__version__ = "0.1.0"
