"""Independent references that the tests hold spacearm against; nothing here uses spacearm's mechanics or engine."""

from pathlib import Path

#: The repository.
ROOT = Path(__file__).parents[2]
