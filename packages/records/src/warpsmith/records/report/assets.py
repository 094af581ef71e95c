"""The application's files: its script and style, plotly's script, and the page around them."""

import base64
import hashlib
import importlib
from html import escape
from importlib.resources import files
from string import Template
from typing import Final

from warpsmith.records.report.errors import ReportError
from warpsmith.records.wording import installing

SCRIPTS: Final = (
    "core", "columns", "sources", "model", "scanner", "diff", "charts", "list", "overview", "metrics", "grid",
    "trajectories", "reader", "timeline", "compare", "app",
)  # fmt: skip
"""The parts of the script, in the order in which they are joined; all share one scope."""


def script() -> str:
    """Return the application as one script."""
    parts = (_read(f"{name}.js") for name in SCRIPTS)
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "\n})();\n"


def style() -> str:
    """Return the application's style sheet."""
    return _read("app.css")


def plotly() -> str:
    """Return plotly's script, which the package `plotly` ships.

    Raises:
        ReportError: it is not installed.
    """
    try:
        offline = importlib.import_module("plotly.offline")
    except ImportError as error:
        raise ReportError(
            "The charts need plotly, which is not installed.", installing("records", "analysis")
        ) from error
    return str(offline.get_plotlyjs())


def page(*, title: str, policy: str, head: str, body: str, first: str = "") -> str:
    """Return the page.

    Args:
        title: text.
        policy: content policy; empty if the server sends one.
        head, body: markup.
        first: text that is shown until the application has read its data.
    """
    meta = f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">' if policy else ""
    return Template(_read("page.html")).substitute(
        title=escape(title),
        policy=meta,
        head=head,
        body=body,
        first=f'<p class="main headline">{escape(first)}</p>' if first else "",
    )


def content_hash(text: str) -> str:
    """Return a script's hash as a content policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _read(name: str) -> str:
    return (files("warpsmith.records.report") / "app" / name).read_text(encoding="utf-8")
