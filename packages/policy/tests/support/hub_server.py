"""A server that speaks the Hugging Face hub's routes, for a few models in memory."""

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

_INFO = re.compile(r"/api/models/([^/]+/[^/]+)(?:/revision/([^/]+))?")
_TREE = re.compile(r"/api/models/([^/]+/[^/]+)/tree/([^/]+)")
_FILE = re.compile(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")


@dataclass
class Hub:
    """What the server has, how it behaves, and what it was asked.

    Attributes:
        models: files by name of the model and commit.
        branches: commit by name of the model and branch.
        room: how much of a file is ever sent before the connection is cut; None for all of it.
        asked: method, path and range of each request.
    """

    models: dict[tuple[str, str], dict[str, bytes]] = field(default_factory=dict)
    branches: dict[tuple[str, str], str] = field(default_factory=dict)
    room: int | None = None
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    url: str = ""

    def files(self, name: str, revision: str | None) -> tuple[str, dict[str, bytes]] | None:
        """Commit and files of a revision."""
        commit = self.branches.get((name, revision or "main"), revision)
        files = self.models.get((name, str(commit)))
        return None if files is None else (str(commit), files)


@contextmanager
def served(hub: Hub) -> Iterator[Hub]:
    """Serve on a free port of this machine until the end of the block."""
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: ClassVar[Hub]
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, *_: Any) -> None:
        """Keep the tests' output clean."""

    def _answer(self, *, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append((self.command, path, self.headers.get("Range")))
        if match := _INFO.fullmatch(path):
            if (found := self._find(*match.groups())) is not None:
                commit, files = found
                names = [{"rfilename": name} for name in files]
                self._json({"id": match[1], "modelId": match[1], "sha": commit, "siblings": names})
        elif match := _TREE.fullmatch(path):
            if (found := self._find(*match.groups())) is not None:
                self._json([_entry(name, data) for name, data in found[1].items()])
        elif match := _FILE.fullmatch(path):
            if (found := self._find(match[1], match[2])) is not None:
                self._file(found[0], found[1][match[3]], body=body)
        else:
            self._refuse("EntryNotFound")

    def _find(self, name: str, revision: str | None) -> tuple[str, dict[str, bytes]] | None:
        found = self.hub.files(name, revision)
        if found is None:
            known = any(one == name for one, _ in self.hub.models)
            self._refuse("RevisionNotFound" if known else "RepoNotFound")
        return found

    def _refuse(self, code: str) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _json(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _file(self, commit: str, data: bytes, *, body: bool) -> None:
        start = int(re.fullmatch(r"bytes=(\d+)-.*", self.headers.get("Range") or "bytes=0-")[1])  # type: ignore[index]
        self.send_response(206 if "Range" in self.headers else 200)
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.send_header("X-Repo-Commit", commit)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(data) - start))
        if "Range" in self.headers:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        if not body:
            return
        room = self.hub.room
        if room is not None and len(data) > room:
            self.wfile.write(data[start:room])
            self.wfile.flush()
            self.close_connection = True
            return
        self.wfile.write(data[start:])


def _entry(name: str, data: bytes) -> dict[str, Any]:
    entry = {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
    if name.endswith(".safetensors"):
        entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
    return entry
