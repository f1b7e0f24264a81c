"""Where an arm on a floating base can work, as a study: see :mod:`spacearm.workspace.scenario`."""
