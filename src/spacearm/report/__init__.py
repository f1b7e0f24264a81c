"""From a :class:`~spacearm.result.Result` to a folder: ``results.json``, ``data.nc``, ``index.html`` with figures."""

from spacearm.report.compare import compare_results, write_comparison
from spacearm.report.folder import INDEX, held, prepare, publish
from spacearm.report.kept import kept_result, made_from
from spacearm.report.write import plots_of, share_script, write_files, write_index, write_result

__all__ = [
    "INDEX",
    "compare_results",
    "held",
    "kept_result",
    "made_from",
    "plots_of",
    "prepare",
    "publish",
    "share_script",
    "write_comparison",
    "write_files",
    "write_index",
    "write_result",
]
