"""From a :class:`~spacearm.result.Result` to a folder: ``results.json``, ``data.nc``, figures, ``index.html``."""

from spacearm.report.folder import publish, refuse_foreign
from spacearm.report.write import write_index, write_result

__all__ = ["publish", "refuse_foreign", "write_index", "write_result"]
