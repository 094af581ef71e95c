"""The report about a run: one application, which `write_report` puts into one file and `live` serves over HTTP."""

from warpsmith.records.report.errors import ReportError
from warpsmith.records.report.static import write_report

__all__ = ["ReportError", "write_report"]
