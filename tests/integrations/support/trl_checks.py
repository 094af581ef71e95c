"""Two steps of GRPO: one whose evaluator fails on one sample, one in which the policy calls the environment's tool."""

import asyncio
import json
import math
from pathlib import Path

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from warpsmith.evaluator import Verdict
from warpsmith.evaluator.datasets.kernelbench import load_problems
from warpsmith.evaluator.integrations.trl import KernelEnvironment, KernelReward, environment_factory, rows
from warpsmith.evaluator.rewards import Grader, GradingRules, open_grader
from warpsmith.evaluator.verdict import invalid

SETTINGS = {
    "per_device_train_batch_size": 4,
    "num_generations": 4,
    "max_completion_length": 2048,
    "max_steps": 1,
    "use_cpu": True,
    "report_to": "none",
    "logging_steps": 1,
}


class Scripted:
    """An evaluator that fails on the second sample."""

    def __init__(self):
        self.verdicts = [
            Verdict("correct", True, True, speedup=2.0),
            invalid("the judge died"),
            Verdict("incorrect", True, False),
            Verdict("correct", True, True, speedup=1.0),
        ]

    async def evaluate_async(self, problem, candidate, **options):
        return self.verdicts.pop(0)


def dataset():
    return Dataset.from_list(rows(load_problems("problems")[:1]))


def an_invalid_verdict_is_no_reward():
    rules = GradingRules(extract=lambda text: "class ModelNew: pass", retries=0)
    with Grader(Scripted(), rules, concurrency=1) as grader:
        args = GRPOConfig(**SETTINGS | {"max_completion_length": 8})
        trainer = GRPOTrainer("./model", KernelReward(grader), args=args, train_dataset=dataset())
        trainer.train()
    step = trainer.state.log_history[0]
    advantages = list(trainer._logs["advantages"])
    assert math.isclose(step["reward"], (2.3 + 0 + 1.3) / 3, rel_tol=1e-5), step
    assert step["kernel/invalid"] == 0.25 and step["kernel/speedup"] == 1.5, step
    # No advantage for the lost sample, and the others' add up to zero without it.
    assert advantages[1] == 0 and abs(advantages[0] + advantages[2] + advantages[3]) < 1e-4, advantages
    assert advantages[0] > advantages[3] > advantages[2], advantages


class Calling(GRPOTrainer):
    """Writes, in place of the random model, one call of the tool and then an end, so that a real kernel is checked."""

    def _generate_single_turn(self, prompt_ids, *arguments, **options):
        texts = []
        for ids in prompt_ids:
            called = "<tool_response>" in self._tokenizer.decode(ids)
            source = Path("generations/level_1_problem_1_sample_0_kernel.py").read_text()
            call = json.dumps({"name": "check_kernel", "arguments": {"source": source}})
            texts.append("Done.<|im_end|>" if called else f"<tool_call>\n{call}\n</tool_call><|im_end|>")
        found = super()._generate_single_turn(prompt_ids, *arguments, **options)
        written = [self._tokenizer.encode(text, add_special_tokens=False) for text in texts]
        return (written, *found[1:])


def the_tool_judges_and_its_best_score_is_the_reward(grader):
    args = GRPOConfig(**SETTINGS | {"per_device_train_batch_size": 2, "num_generations": 2})
    trainer = Calling("./model", environment_factory=environment_factory(grader), args=args, train_dataset=dataset())
    trainer.train()
    step = trainer.state.log_history[0]
    assert math.isclose(step["reward"], grader.rules.score(Verdict("correct", True, True)), rel_tol=1e-5), step
    assert step["tools/call_frequency"] == 1 and step["tools/failure_frequency"] == 0, step


def an_episode_with_a_lost_check_has_no_reward():
    with Grader(Scripted(), GradingRules(retries=0)) as grader:
        environment = KernelEnvironment(grader)
        environment.reset(problem=load_problems("problems")[0].source)
        assert environment.get_reward() == 0
        assert "Correct: yes" in asyncio.run(environment.check_kernel("class ModelNew: pass"))
        assert environment.get_reward() == 2.3
        assert "No verdict" in asyncio.run(environment.check_kernel("class ModelNew: pass"))
        assert environment.get_reward() is None
        environment.reset(problem=load_problems("problems")[0].source)
        assert environment.get_reward() == 0


if __name__ == "__main__":
    an_invalid_verdict_is_no_reward()
    an_episode_with_a_lost_check_has_no_reward()
    with open_grader(trials=2) as opened:
        the_tool_judges_and_its_best_score_is_the_reward(opened)
    print("checked")
