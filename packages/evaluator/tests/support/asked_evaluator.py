"""An evaluator that evaluates what its parent asks for, a line of JSON each: `python asked_evaluator.py CONFIG`.

Its first line says that it is ready, or why it cannot start.
"""

import json
import sys

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem
from warpsmith.records.errors import WarpsmithError


def answer(evaluator: Evaluator, asked: dict[str, str]) -> dict[str, object]:
    try:
        verdict = evaluator.evaluate(Problem.from_source(asked["problem"], "asked"), asked["candidate"], trials=2)
    except WarpsmithError as error:
        return raised(error)
    return verdict.to_record()


def raised(error: WarpsmithError) -> dict[str, object]:
    return {"raised": type(error).__name__, "message": f"{error.message} {error.remedy}"}


def serve(config: str) -> None:
    with Evaluator(EvaluatorConfig.model_validate_json(config)) as evaluator:
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            print(json.dumps(answer(evaluator, json.loads(line))), flush=True)


def main(config: str) -> None:
    try:
        serve(config)
    except WarpsmithError as error:
        print(json.dumps(raised(error)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
