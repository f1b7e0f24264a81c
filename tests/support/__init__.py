"""Independent references that the tests hold spacearm against; nothing here uses spacearm's mechanics or engine."""
