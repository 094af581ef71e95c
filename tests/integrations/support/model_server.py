"""An OpenAI-compatible server on loopback that answers from files: `model_server.py PORT_FILE ANSWER...`.

Each request gets the next answer, the last one for ever.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ANSWERS = [f"Here it is:\n```python\n{Path(name).read_text()}\n```" for name in sys.argv[2:]]
LOCK = threading.Lock()


def next_answer():
    with LOCK:
        return ANSWERS.pop(0) if len(ANSWERS) > 1 else ANSWERS[0]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.reply({"object": "list", "data": [{"id": "scripted", "object": "model", "created": 0, "owned_by": "me"}]})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        head = {"id": "1", "created": 0, "model": asked.get("model", "scripted")}
        text = next_answer()
        if asked.get("stream"):
            return self.stream(head, text)
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return self.reply({**head, "object": "chat.completion", "choices": [choice], "usage": usage})

    def stream(self, head, text):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for delta, reason in (({"role": "assistant", "content": text}, None), ({}, "stop")):
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            part = {**head, "object": "chat.completion.chunk", "choices": [choice]}
            self.wfile.write(f"data: {json.dumps(part)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def reply(self, body):
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
Path(sys.argv[1]).write_text(str(server.server_port))
server.serve_forever()
