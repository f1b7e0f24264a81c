"""From a :class:`~spacearm.result.Result` to a folder: ``results.json``, ``data.nc``, ``index.html`` with figures."""

from spacearm.report.write import write_result

__all__ = [
    "write_result",
]
