"""From a :class:`~spacearm.result.Result` to a folder: ``results.json``, ``data.nc``, ``index.html`` with figures."""

from spacearm.report.compare import compare_results, write_comparison
from spacearm.report.reuse import reusable_result
from spacearm.report.write import write_index, write_result

__all__ = [
    "compare_results",
    "reusable_result",
    "write_comparison",
    "write_index",
    "write_result",
]
