"""A judge process that evaluates nothing, but waits and holds its device alone as each candidate's JSON says.

Channel, messages, lease and windows are the evaluator's own: `python timing_judge.py FD`.
"""

import json
import os
import sys
import time
from contextlib import suppress

from warpsmith.evaluator import _native
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.ipc import messages
from warpsmith.evaluator.ipc.messages import Kind
from warpsmith.evaluator.judge.service import Line, Service
from warpsmith.evaluator.processes.lease import Lease
from warpsmith.evaluator.processes.window_requests import NoWindowError
from warpsmith.evaluator.verdict import Verdict, invalid


class TimingJudge:
    def __init__(self, config, windows):
        self.config, self.lease = config, Lease(windows=windows)

    def evaluate(self, problem, source, *, trials, seed, timeout_s, operators, baseline, on_running):
        on_running(True)
        orders = json.loads(source) if source.startswith("{") else {}
        with self.lease.shared():
            time.sleep(orders.get("trials_s", 0.0))
        try:
            with self.lease.alone():
                if orders.get("dies"):
                    os._exit(1)
                time.sleep(orders.get("timed_s", 0.01))
        except NoWindowError as error:
            return invalid(str(error))
        return Verdict("correct", compiled=True, correct=True, runtime_ms=1.0, reference_ms=2.0, speedup=2.0)


def main(fd):
    channel = _native.Channel(fd)
    fields, line = messages.receive(channel).fields, Line(channel)
    windows = line.windows() if fields.flag("windows") else None
    config = EvaluatorConfig.model_validate_json(fields.text("config"))
    line.send(Kind.READY, {"device": "none", "arch": 90})
    with suppress(_native.PeerClosed):
        Service(line, TimingJudge(config, windows), windows).serve()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
