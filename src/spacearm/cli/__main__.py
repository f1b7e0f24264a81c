"""``python -m spacearm.cli``."""

import sys

from spacearm.cli import main

sys.exit(main())
