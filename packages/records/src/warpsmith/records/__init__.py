"""Arrow trajectory records: the contract between the packages of Warpsmith.

The names below are imported on first use, so that `warpsmith.records.errors` and `warpsmith.records.commands` do not
import pyarrow.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

from warpsmith.records._version import __version__

if TYPE_CHECKING:
    from warpsmith.records.compaction import compact
    from warpsmith.records.export import export_json
    from warpsmith.records.reader import RunReader
    from warpsmith.records.report import write_report
    from warpsmith.records.summary import summarize
    from warpsmith.records.writer import RunWriter

__all__ = ["RunReader", "RunWriter", "__version__", "compact", "export_json", "summarize", "write_report"]

_HOME: Final = {
    "RunReader": "reader",
    "RunWriter": "writer",
    "compact": "compaction",
    "export_json": "export",
    "summarize": "summary",
    "write_report": "report",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
