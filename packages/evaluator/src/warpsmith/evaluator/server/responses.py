"""JSON that every client can read, whatever text foreign code put into it."""

import json
from typing import Any

from starlette.responses import JSONResponse


class WellFormedJSON(JSONResponse):
    """A JSON response that escapes a lone surrogate instead of failing after all the work."""

    def render(self, content: Any) -> bytes:
        """Return the body in UTF-8; a lone surrogate becomes its escape, which is JSON's own."""
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace")
