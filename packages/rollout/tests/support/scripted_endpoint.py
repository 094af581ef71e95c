"""A small HTTP server that speaks the route of chat completions and answers from a script.

The script is a function of the request's body and its number; it returns text, or one of the failures below. It can
also run as a process of its own (`python scripted_endpoint.py PORT ANSWERS`), for tests that kill their client.
"""

import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Fail:
    """Answers with an HTTP status."""

    status: int
    message: str = "no"
    code: str | None = None
    retry_after: str | None = None


@dataclass
class Hang:
    """Sends nothing until it is released."""

    released: threading.Event = field(default_factory=threading.Event)


class Broken:
    """Ends the stream in the middle of an answer."""


class Garbage:
    """Answers with text that is no JSON."""


@dataclass
class Said:
    """A whole answer."""

    text: str
    thoughts: str = ""
    finish_reason: str = "stop"
    usage: bool = True


class Endpoint:
    """The server's state.

    Args:
        script: called with (body, number of the request from 0); returns a `str` or one of the classes above.
        models: the list of models; None for an endpoint without the route.
        key: the key that it wants; None for none.
    """

    def __init__(self, script, models=("tiny",), key=None, max_model_len=None):
        self.script, self.models, self.key, self.max_model_len = script, models, key, max_model_len
        self.requests, self.at_once, self.most_at_once = [], 0, 0
        self.lock = threading.Lock()
        self.url = ""

    @property
    def prompts(self):
        return [body["messages"][-1]["content"] for body in self.requests]


def handler_of(endpoint):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            if not self.may():
                return
            if endpoint.models is None:
                self.whole(404, {"detail": "Not Found"})
                return
            more = {} if endpoint.max_model_len is None else {"max_model_len": endpoint.max_model_len}
            self.whole(200, {"data": [{"id": name, **more} for name in endpoint.models]})

        def may(self):
            if endpoint.key is None or self.headers.get("Authorization") == f"Bearer {endpoint.key}":
                return True
            self.whole(401, {"error": {"message": "Incorrect API key provided.", "code": "invalid_api_key"}})
            return False

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if not self.may():
                return
            with endpoint.lock:
                number = len(endpoint.requests)
                endpoint.requests.append(body)
                endpoint.at_once += 1
                endpoint.most_at_once = max(endpoint.most_at_once, endpoint.at_once)
            try:
                self.answer(body, endpoint.script(body, number))
            except (BrokenPipeError, ConnectionResetError):
                pass
            finally:
                with endpoint.lock:
                    endpoint.at_once -= 1

        def answer(self, body, found):
            match found:
                case str():
                    self.said(body, Said(found))
                case Said():
                    self.said(body, found)
                case Fail():
                    more = {} if found.retry_after is None else {"Retry-After": found.retry_after}
                    self.whole(found.status, {"error": {"message": found.message, "code": found.code}}, more)
                case Hang():
                    found.released.wait(60)
                    self.close_connection = True
                case Broken():
                    self.start_stream()
                    self.piece({"choices": [{"delta": {"content": "```python\nimport"}}]})
                    self.close_connection = True
                case Garbage():
                    self.text(200, "<html>a proxy</html>", {})

        def said(self, body, said):
            usage = {"prompt_tokens": len(str(body["messages"])) // 4, "completion_tokens": len(said.text) // 4 + 1}
            if not body.get("stream"):
                message = {"content": said.text, "reasoning_content": said.thoughts}
                choice = {"message": message, "finish_reason": said.finish_reason}
                self.whole(200, {"choices": [choice], **({"usage": usage} if said.usage else {})})
                return
            self.start_stream()
            if said.thoughts:
                self.piece({"choices": [{"delta": {"reasoning_content": said.thoughts}}]})
            half = len(said.text) // 2
            for part in (said.text[:half], said.text[half:]):
                self.piece({"choices": [{"delta": {"content": part}}]})
            self.piece({"choices": [{"delta": {}, "finish_reason": said.finish_reason}]})
            if said.usage:
                self.piece({"choices": [], "usage": usage})
            self.event("[DONE]")
            self.wfile.write(b"0\r\n\r\n")

        def start_stream(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()

        def piece(self, part):
            self.event(json.dumps(part))

        def event(self, text):
            data = f"data: {text}\n\n".encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()

        def whole(self, status, content, headers=None):
            self.text(status, json.dumps(content), {"Content-Type": "application/json", **(headers or {})})

        def text(self, status, text, headers):
            data = text.encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(data)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    return Handler


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Say nothing of clients that were killed."""


@contextmanager
def serving(endpoint, port=0):
    with Server(("127.0.0.1", port), handler_of(endpoint)) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        endpoint.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        try:
            yield endpoint
        finally:
            server.shutdown()


def slow(seconds, answer):
    """Return a script that answers after some seconds."""

    def script(body, number):
        time.sleep(seconds)
        return answer(body, number) if callable(answer) else answer

    return script
