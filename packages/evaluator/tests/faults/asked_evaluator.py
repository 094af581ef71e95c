"""An evaluator that evaluates what its parent asks for, a line of JSON each: `python asked_evaluator.py CONFIG`."""

import json
import sys

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem
from warpsmith.records.errors import WarpsmithError


def answer(evaluator: Evaluator, asked: dict[str, str]) -> dict[str, object]:
    try:
        verdict = evaluator.evaluate(Problem.from_source(asked["problem"], "asked"), asked["candidate"], trials=2)
    except WarpsmithError as error:
        return {"raised": type(error).__name__, "message": error.message}
    return verdict.to_record()


def main(config: str) -> None:
    with Evaluator(EvaluatorConfig.model_validate_json(config)) as evaluator:
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            print(json.dumps(answer(evaluator, json.loads(line))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
