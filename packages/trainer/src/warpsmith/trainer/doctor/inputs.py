"""Checks of what a run reads: policy, template and mask, problems, and one judgement."""

from collections import Counter
from collections.abc import Iterator

from warpsmith.policy.chat import ChatFormat
from warpsmith.policy.loading import check_directory, check_shapes, count_parameters, load_chat
from warpsmith.trainer.config import SftConfig, TrainerConfig
from warpsmith.trainer.doctor.finding import Finding
from warpsmith.trainer.examples.sources import count_source
from warpsmith.trainer.preflight import preflight

Config = SftConfig | TrainerConfig

_ANSWERS = ("The first answer: x + 1.", "The second answer: x + 2.")


def start(config: Config, resume: bool) -> Iterator[Finding]:
    """Ask what the run's own command asks before it starts: see `preflight`."""
    preflight(config, resume)
    yield Finding("start of the run", "ok", f"{config.run.dir} can be {'resumed' if resume else 'begun'}")


def policy(config: Config) -> Iterator[Finding]:
    """Look at weights, tokenizer and template, and at the mask of a rendered chat."""
    path = check_directory(config.policy.path)
    check_shapes(path)
    chat = load_chat(path, config.policy.template_kwargs)
    yield Finding("policy", "ok", f"{path}: {count_parameters(path):,} parameters")
    yield mask(chat)


def mask(chat: ChatFormat) -> Finding:
    """Render a chat of two answers, and look at whether the mask marks these, whole, and nothing else.

    An answer may be followed by its stop token, which is learnt too.
    """
    messages = [
        {"role": "user", "content": "Ask one."}, {"role": "assistant", "content": _ANSWERS[0]},
        {"role": "user", "content": "Ask two."}, {"role": "assistant", "content": _ANSWERS[1]},
    ]  # fmt: skip
    ids, marks = chat.loss_mask(messages)
    learnt = chat.decode([token for token, mark in zip(ids, marks, strict=True) if mark])
    other = chat.decode([token for token, mark in zip(ids, marks, strict=True) if not mark])
    seen = f"a chat of two turns: {len(ids)} tokens, of which {sum(marks)} are learnt"
    if all(answer in learnt and answer not in other for answer in _ANSWERS) and "Ask" not in learnt:
        return Finding("template and mask", "ok", seen)
    return Finding(
        "template and mask", "error", f"{seen}, and these read: {learnt!r}",
        "The mask does not mark the answers alone: use the released chat_template.jinja of the model.",
    )  # fmt: skip


def data(config: Config) -> Iterator[Finding]:
    """Read what the run is to learn from."""
    if isinstance(config, SftConfig):
        for label, part in zip(config.data.labels, config.data.parts, strict=True):
            rows = count_source(part)
            remedy = "" if rows else "Correct `path` of the source, or take the source out."
            yield Finding("data", "ok" if rows else "error", f"{label}: about {rows:,} rows", remedy)
        return
    from warpsmith.trainer.session import load_held_out, load_problems

    problems = load_problems(config)
    levels = Counter(str(problem.level) for problem in problems)
    told = ", ".join(f"level {level}: {count}" for level, count in sorted(levels.items()))
    yield Finding("problems", "ok", f"{len(problems)} of {config.problems.source}: {told}")
    if len(problems) < config.algorithm.prompts_per_step:
        remedy = "Lower algorithm.prompts_per_step, or give more problems."
        yield Finding("problems", "warning", "A step asks for more problems than there are", remedy)
    yield Finding("held-out problems", "ok", str(len(load_held_out(config))))


def judgement(config: Config) -> Iterator[Finding]:
    """Judge the known solution of a generated problem where the run will judge."""
    if not isinstance(config, TrainerConfig) or config.rollout.evaluation.where != "process":
        yield Finding("judgement", "warning", "not tried", "--judge is for evaluators of the run's own process.")
        return
    from warpsmith.evaluator import Evaluator
    from warpsmith.evaluator.problem import Problem
    from warpsmith.rollout.datasets import generated

    (problem,) = generated(seed=0, count=1, levels=(1,))
    settings = config.placement.evaluator(config.evaluator).model_copy(update={"slots": 1, "ready_workers": 1})
    with Evaluator(settings) as evaluator:
        verdict = evaluator.evaluate(Problem.from_source(problem.text), problem.solution or "", trials=1)
    seen = f"{verdict.status} on {settings.device}, containment {verdict.isolation_tier}"
    if verdict.status == "correct":
        yield Finding("judgement", "ok", seen)
    else:
        yield Finding(
            "judgement", "error", f"{seen}: {verdict.error_message}", "`warpsmith-evaluator doctor` says more."
        )
