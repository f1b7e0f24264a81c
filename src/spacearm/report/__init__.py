"""From a :class:`~spacearm.result.Result` to a folder: ``results.json``, ``data.nc``, figures, ``index.html``."""

from spacearm.report.folder import publish
from spacearm.report.write import write_index, write_result

__all__ = ["publish", "write_index", "write_result"]
