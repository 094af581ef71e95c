"""Makes W&B's view of a recorded run with wandb-workspaces, and saves it through W&B's client to a server on loopback.

The server only keeps what it is sent: no server of W&B was asked. `wandb_view_checks.py RUN`
"""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import wandb_workspaces.reports.v2 as reports

from warpsmith.trainer.cli import app
from warpsmith.trainer.telemetry.wandb_view.figures import figures_of_run
from warpsmith.trainer.telemetry.wandb_view.layout import shown_sections
from warpsmith.trainer.telemetry.wandb_view.workspace import workspace_of

RUN = Path(sys.argv[1])
SENT = []


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        content = self.rfile.read(int(self.headers["Content-Length"]))
        # Beside its requests, the client sends metrics of its own.
        asked = json.loads(content) if self.path == "/graphql" else {"query": ""}
        data = {"viewer": {"id": "1", "username": "me", "entity": "me", "teams": {"edges": []}}, "serverInfo": {}}
        if "upsertView" in asked["query"]:
            SENT.append(asked["variables"])
            data = {"upsertView": {"view": {"id": "1", "name": asked["variables"]["name"]}, "inserted": True}}
        content = json.dumps({"data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


def check_object(names):
    """Check the workspace's own objects: each figure of the run stands in one plot, over steps."""
    workspace = workspace_of(shown_sections(names), "me", "warpsmith")
    plots = [panel for section in workspace.sections for panel in section.panels]
    assert all(isinstance(plot, reports.LinePlot) and plot.x == "step" and plot.title for plot in plots)
    shown = [name for plot in plots for name in plot.y]
    assert sorted(shown) == names, set(shown) ^ set(names)
    assert [section.name for section in workspace.sections if section.is_open] == ["Result", "By turn"]


def check_sent(names):
    """Check what is sent when the command saves the view."""
    app(["wandb-view", str(RUN), "--entity", "me", "--project", "kernels"], standalone_mode=False)
    [view] = SENT
    assert (view["entityName"], view["projectName"], view["displayName"]) == ("me", "kernels", "Warpsmith"), view
    sections = json.loads(view["spec"])["section"]["panelBankConfig"]["sections"]
    configs = [panel["config"] for section in sections for panel in section["panels"]]
    assert sorted(name for config in configs for name in config["metrics"]) == names
    assert {config["xAxis"] for config in configs} == {"step"}
    rates = next(config for config in configs if "solved_rate" in config["metrics"])
    assert (rates["yAxisMin"], rates["yAxisMax"], rates["yAxisTitle"]) == (0.0, 1.0, "share"), rates


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ |= {"WANDB_BASE_URL": f"http://127.0.0.1:{server.server_port}", "WANDB_API_KEY": "0" * 40}
    names = figures_of_run(RUN)
    check_object(names)
    check_sent(names)
    print(f"{len(names)} figures")


if __name__ == "__main__":
    main()
