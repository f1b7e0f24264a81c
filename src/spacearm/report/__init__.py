"""From a :class:`~spacearm.result.Result` to a folder: ``results.json``, ``data.nc``, figures, ``index.html``."""

from spacearm.report.folder import INDEX, held, publish, refuse_foreign
from spacearm.report.write import write_files, write_index, write_result

__all__ = ["INDEX", "held", "publish", "refuse_foreign", "write_files", "write_index", "write_result"]
