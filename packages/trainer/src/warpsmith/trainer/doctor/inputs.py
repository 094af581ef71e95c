"""Checks of a run's inputs: policy, template and mask, problems and their prompts, and one evaluation."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsmith.evaluator.figures import Bound, KernelFigures
from warpsmith.evaluator.verdict import Verdict
from warpsmith.policy.chat import ChatFormat
from warpsmith.policy.chat_checks import check_training, demonstration, sampling_doubts, training_doubts
from warpsmith.policy.kernels import check_kernels
from warpsmith.policy.loading import chat_of, check_directory, check_shapes, count_parameters, load_chat, read_config
from warpsmith.policy.quantization import check_quantization
from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.datasets import ProblemRow
from warpsmith.rollout.environments.registry import max_turns
from warpsmith.rollout.generator import SOLUTION_LANGUAGES, solution_language
from warpsmith.rollout.history import Attempt
from warpsmith.rollout.prompts import build_prompt
from warpsmith.rollout.turns import OPTIMIZER
from warpsmith.trainer.config import SftConfig, TrainerConfig
from warpsmith.trainer.data.sources import count_source
from warpsmith.trainer.doctor.finding import Finding
from warpsmith.trainer.errors import PromptsError

Config = SftConfig | TrainerConfig

_ANSWERS = ("The first answer: x + 1.", "The second answer: x + 2.")


def quantization() -> Iterator[Finding]:
    """Check that 4-bit weights are available here; QuantizationError if not."""
    check_quantization()
    yield Finding("4-bit weights", "ok", "available")


def template(
    directory: Path, template_kwargs: Mapping[str, Any], chat_template: str | None = None
) -> Iterator[Finding]:
    """Load tokenizer and chat template; policy's TokenizerError, TemplateError if they cannot be used."""
    load_chat(check_directory(directory), template_kwargs, chat_template)
    yield Finding("chat template", "ok", f"{directory} has one for prompts")


def answers(config: Config) -> Iterator[Finding]:
    """Check that the template ends answers and can train conversations; TemplateError if it can train none."""
    chat = chat_of(config.policy)
    supervised = isinstance(config, SftConfig)
    if supervised:
        check_training(chat)
    for doubt in training_doubts(chat) if supervised else sampling_doubts(chat):
        yield Finding("answers of the template", "warning", doubt.message, doubt.remedy)


def kernels(directories: Sequence[Path]) -> Iterator[Finding]:
    """Check that liger-kernel supports each model; KernelsError if not."""
    for directory in directories:
        check_kernels(read_config(directory))
        yield Finding("fused kernels", "ok", str(directory))


def policy(config: Config) -> Iterator[Finding]:
    """Check weights, tokenizer and template, and the mask of a rendered chat."""
    path = check_directory(config.policy.path)
    check_shapes(path)
    chat = chat_of(config.policy)
    yield Finding("policy", "ok", f"{path}: {count_parameters(path):,} parameters")
    if (shown := demonstration(chat)) is not None:
        yield mask(chat, thoughts="</think>" in shown[-1]["content"])


def mask(chat: ChatFormat, *, thoughts: bool = False) -> Finding:
    """Render a chat of two answers, and check that the mask marks these completely and nothing else.

    An answer may be followed by its stop token, which is trained too. `thoughts` adds one before each answer, for a
    template that requires them.
    """
    head = "<think>\nHm.\n</think>\n\n" if thoughts else ""
    messages = [
        {"role": "user", "content": "Ask one."}, {"role": "assistant", "content": head + _ANSWERS[0]},
        {"role": "user", "content": "Ask two."}, {"role": "assistant", "content": head + _ANSWERS[1]},
    ]  # fmt: skip
    ids, marks = chat.loss_mask(messages)
    learnt = chat.decode([token for token, mark in zip(ids, marks, strict=True) if mark])
    other = chat.decode([token for token, mark in zip(ids, marks, strict=True) if not mark])
    seen = f"a chat of two turns: {len(ids)} tokens, {sum(marks)} of them trained"
    if all(answer in learnt and answer not in other for answer in _ANSWERS) and "Ask" not in learnt:
        return Finding("template and mask", "ok", seen)
    return Finding(
        "template and mask", "error", f"{seen}, and these read: {learnt!r}",
        "The mask does not mark exactly the answers: use the released chat_template.jinja of the model.",
    )  # fmt: skip


def data(config: SftConfig) -> Iterator[Finding]:
    """Count the rows of the sources."""
    for label, part in zip(config.data.labels, config.data.parts, strict=True):
        rows = count_source(part)
        remedy = "" if rows else "Fix `path` of the source, or remove the source."
        yield Finding("data", "ok" if rows else "error", f"{label}: about {rows:,} rows", remedy)


def problems(config: TrainerConfig) -> Iterator[Finding]:
    """Read the problems; DatasetError, ConfigError if there are none."""
    from warpsmith.trainer.rollouts.curriculum import make_choice
    from warpsmith.trainer.rollouts.session import load_held_out, load_problems, refuse_trained

    read = load_problems(config)
    make_choice(config.curriculum, read, config.run.seed)
    levels = Counter(str(problem.level) for problem in read)
    listed = ", ".join(f"level {level}: {count}" for level, count in sorted(levels.items()))
    yield Finding("problems", "ok", f"{len(read)} of {config.problems.source}: {listed}")
    if len(read) < config.algorithm.prompts_per_step:
        remedy = "Lower algorithm.prompts_per_step, or add problems."
        yield Finding("problems", "warning", "A step needs more problems than there are", remedy)
    held_out = load_held_out(config)
    refuse_trained(held_out, read)
    yield Finding("held-out problems", "ok", str(len(held_out)))
    bare = [problem.name for problem in (*read, *held_out) if problem.start is None]
    if bare and config.rollout.first_agent == OPTIMIZER:
        yield Finding(
            "starts", "error",
            f"{len(bare)} problems, held-out ones included, come with no kernel for the optimizer to start from, for "
            f"example {bare[0]}",
            "Add `<name>.solution.py` or the column `solution`, or set rollout.environment.type to "
            "kernelbench_two_role.",
        )  # fmt: skip


def prompts(config: TrainerConfig) -> Iterator[Finding]:
    """Render the prompt of every problem, held-out ones included, and compare it with the token budget.

    Prompts of later turns drop history until they fit, so only the bare problem matters, an optimizer's with its start.

    Raises:
        PromptsError: some are longer; names the worst.
    """
    from warpsmith.trainer.rollouts.session import load_held_out, load_problems

    chat = chat_of(config.policy)
    problems = [*load_problems(config), *load_held_out(config)]
    lengths = prompt_lengths(config.rollout, problems, chat, config.evaluator.language)
    _refuse_long(config.rollout, lengths)
    longest = max(lengths, key=lambda one: one.tokens)
    budget = config.rollout.prompt_budget
    yield Finding(
        "prompts", "ok", f"{len(lengths)}, the longest {longest.tokens} of {budget} tokens ({longest.problem})"
    )
    mute = [one for one in lengths if one.answered > budget]
    if mute and max_turns(config.rollout) > 1:
        yield Finding(
            "prompts of later turns", "warning",
            f"{len(mute)} of {len(lengths)} problems leave no room for a verdict on the previous turn",
            f"Raise the budget of {budget} tokens to {max(one.answered for one in mute)} or more: "
            "rollout.prompt_tokens, rollout.sampler.max_model_len.",
        )  # fmt: skip


@dataclass(frozen=True)
class PromptLength:
    """Lengths of a problem's prompts, in tokens.

    Attributes:
        problem: its name.
        tokens: prompt of the first turn.
        answered: prompt of a later turn with the verdict on the previous turn, without its kernel.
    """

    problem: str
    tokens: int
    answered: int


_TIMED = Verdict(
    "correct", True, True, speedup=1.25, runtime_ms=0.1234, reference_ms=0.1543,
    bound=Bound(268435456, 17179869184, 0.0876, 0.0211, 0.0876, "memory"),
    kernels=(KernelFigures("fused_softmax_kernel", 1, (16384, 1, 1), 128, 40, 16, 0, 49152, 0.75),),
)  # fmt: skip
_ANSWER = Attempt(None, Verdict("incorrect", True, False, max_abs_error=0.5, mismatched_fraction=0.5), left_out=True)


def prompt_lengths(
    rollout: RolloutConfig, problems: Sequence[ProblemRow], chat: ChatFormat, language: str = "triton"
) -> list[PromptLength]:
    """Count the tokens of each problem's prompts, which ask for kernels in `language`."""

    agent = rollout.first_agent

    def tokens(problem: ProblemRow, *attempts: Attempt) -> int:
        start = Attempt(problem.start, _TIMED) if agent == OPTIMIZER else None
        style, operators = rollout.prompt_style, rollout.operators_for(problem)
        messages = build_prompt(
            problem,
            attempts,
            style=style,
            operators=operators,
            inert=chat.inert,
            agent=agent,
            start=start,
            figures=rollout.feedback,
            language=language,
        )
        return len(chat.prompt_ids(messages))

    return [PromptLength(problem.name, tokens(problem), tokens(problem, _ANSWER)) for problem in problems]


def _refuse_long(rollout: RolloutConfig, lengths: Sequence[PromptLength]) -> None:
    budget, completion, whole = rollout.prompt_budget, rollout.sampling.max_tokens, rollout.sampler.max_model_len
    long = [one for one in lengths if one.tokens > budget]
    if not long:
        return
    worst = max(long, key=lambda one: one.tokens)
    raises = [f"rollout.prompt_tokens to {worst.tokens}"] if rollout.prompt_tokens else []
    if worst.tokens + completion > whole:
        raises.append(f"rollout.sampler.max_model_len to {worst.tokens + completion}")
    raise PromptsError(
        f"The prompts of {len(long)} of {len(lengths)} problems, held-out ones included, are longer than the budget of "
        f"{budget} tokens, which leaves {completion} for the completion; the worst is {worst.problem} with "
        f"{worst.tokens}.",
        f"Raise {' and '.join(raises)}, lower rollout.sampling.max_tokens, or remove these problems.",
    )


def judgement(config: Config) -> Iterator[Finding]:
    """Evaluate a correct kernel of the run's language where the run will evaluate."""
    if not isinstance(config, TrainerConfig) or config.rollout.evaluation.type != "process":
        yield Finding("judgement", "warning", "not tried", "--judge supports only evaluators in the run's own process.")
        return
    from warpsmith.evaluator import Evaluator
    from warpsmith.evaluator.languages.registry import language_of
    from warpsmith.evaluator.problem import Problem

    settings = config.placement.evaluator(config.evaluator).model_copy(update={"slots": 1, "ready_workers": 1})
    language = language_of(settings.language)
    if settings.language not in SOLUTION_LANGUAGES and not language.probe:
        yield Finding("judgement", "warning", "not tried", f"{language.title} has no kernel to try it with.")
        return
    text, kernel = _known_kernel(settings.language)
    with Evaluator(settings) as evaluator:
        verdict = evaluator.evaluate(Problem.from_source(text), kernel, trials=1)
    seen = f"{verdict.status} on {settings.device}, containment {verdict.isolation_tier}"
    runs = language.interprets or not settings.device_kind.interprets
    if verdict.status == "correct":
        yield Finding("judgement", "ok", seen)
    elif not runs and verdict.status == "undecided" and verdict.compiled:
        yield Finding(
            "judgement", "warning", f"{seen}: no {language.title} kernel can be judged correct here",
            'Set evaluator.device = "cuda", or train on the score of candidates that compile.',
        )  # fmt: skip
    else:
        yield Finding(
            "judgement", "error", f"{seen}: {verdict.error_message}", "`warpsmith-evaluator doctor` gives details."
        )


def _known_kernel(language: str) -> tuple[str, str]:
    """Return a problem and a correct kernel: a generated one's, or the probe of another language."""
    if language not in SOLUTION_LANGUAGES:
        from warpsmith.evaluator.languages.registry import language_of
        from warpsmith.evaluator.server.probe import PROBLEM

        return PROBLEM, language_of(language).probe
    from warpsmith.rollout.datasets import generated

    (problem,) = generated(seed=0, count=1, levels=(1,), language=solution_language(language))
    return problem.text, problem.solution or ""
