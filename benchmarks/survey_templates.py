"""Which chat templates are rendered and masked correctly, refused, or trained incorrectly.

    python benchmarks/survey_templates.py FOLDER --out benchmarks/results/survey_templates.json

FOLDER has Jinja templates (`*.jinja`), which are rendered and never copied. Each gets a byte-level tokenizer whose
control tokens are those in the template's text. The trained tokens are compared with the template's own renderings:
prompt and completion of each turn, the stop token, thoughts, and the mask of the whole conversation.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from _machine import describe, skip, write_result

Talk = list[dict[str, str]]

CONTROLS: Final = re.compile(
    r"<\|[^<>|\s\"']+\|?>|<[a-z_]+\|>|<｜[^｜\s]+｜>|<(?:start|end)_of_\w+>|</?s>|<sop>|\[gMASK\]|\[/?INST\]"
)
SYSTEM: Final = "You write kernels for sevens."
QUESTIONS: Final = ("Multiply seven matrices.", "That was too slow, once more.")
ANSWERS: Final = ("mul = lambda a: a @ a", "mul = tuned(lambda a: a @ a)")
THOUGHTS: Final = ("Seven is odd.", "Tiles of sixteen.")
THOUGHTFUL: Final = frozenset({"thought", "thoughts", "closing"})
"""Cases whose answers have a thought. If a template prompts for one, those without are refused instead."""


@dataclass
class Report:
    """Results of a template: the outcome of each case, `right`, `refused: why` or `wrong: why`."""

    name: str
    marked: bool
    folds_system: bool = False
    cases: dict[str, str] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """`wrong` if one case is, `right` if all plain answers or all thoughtful ones are right, else `refused`."""
        if any(result.startswith("wrong") for result in self.cases.values()):
            return "wrong"
        plain = [result for name, result in self.cases.items() if name not in THOUGHTFUL]
        thoughtful = [result for name, result in self.cases.items() if name in THOUGHTFUL]
        return "right" if any(result and set(result) == {"right"} for result in (plain, thoughtful)) else "refused"


class WrongError(Exception):
    """A turn is not trained as the template writes it."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="a folder of *.jinja files")
    parser.add_argument("--label", default="", help="source of the templates, for the JSON: a project and its version")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    arguments = parser.parse_args()
    if arguments.folder is None:
        skip("this needs a folder of chat templates")
    paths = sorted(arguments.folder.rglob("*.jinja"))
    reports = [survey(path.stem, path.read_text(encoding="utf-8")) for path in paths]
    show(reports)
    counts = Counter(report.outcome for report in reports)
    if arguments.out is not None:
        result = describe(["warpsmith-policy", "transformers", "tokenizers", "jinja2"])
        result |= {
            "templates": arguments.label,
            "counts": dict(counts),
            "reports": [record_of(report) for report in reports],
        }
        write_result(arguments.out, result)
    return int(counts["wrong"] > 0)


def show(reports: Sequence[Report]) -> None:
    """Print a line per template, then why cases are refused or wrong."""
    names = list(dict.fromkeys(name for report in reports for name in report.cases))
    print(f"{'template':34} {'outcome':8} {'marked':6} {'folds':5} " + " ".join(f"{name:8}" for name in names))
    for report in reports:
        cells = " ".join(f"{report.cases.get(name, '-').partition(':')[0]:8}" for name in names)
        marks = f"{'yes' if report.marked else '':6} {'yes' if report.folds_system else '':5}"
        print(f"{report.name:34} {report.outcome:8} {marks} {cells}")
    print()
    reasons = Counter(result for report in reports for result in set(report.cases.values()) - {"right"})
    for reason, count in reasons.most_common():
        print(f"{count:4} templates {reason}")
    print(", ".join(f"{count} {name}" for name, count in Counter(report.outcome for report in reports).items()))


def record_of(report: Report) -> dict[str, Any]:
    """Return a report in the form of the JSON."""
    return {
        "name": report.name,
        "outcome": report.outcome,
        "marked": report.marked,
        "folds_system": report.folds_system,
        "cases": report.cases,
    }


def survey(name: str, template: str) -> Report:
    """Return the report of one template."""
    from warpsmith.policy.chat import ChatFormat
    from warpsmith.policy.errors import PolicyError

    report = Report(name, marked=re.search(r"\{%-?\s*generation\s*-?%\}", template) is not None)
    tokenizer = tokenizer_of(template)
    try:
        chat = ChatFormat(tokenizer)
    except PolicyError as error:
        report.cases = dict.fromkeys(("single", "thought"), f"refused: {error.message}")
        return report
    report.folds_system = folds(tokenizer)
    for case, messages in cases(opens(tokenizer)).items():
        try:
            check(chat, tokenizer, messages, folded=report.folds_system)
        except PolicyError as error:
            report.cases[case] = f"refused: {error.message}"
        except WrongError as error:
            report.cases[case] = f"wrong: {error}"
        else:
            report.cases[case] = "right"
    return report


# What is rendered ------------------------------------------------------------------------------------------------


def cases(opened: bool) -> dict[str, Talk]:
    """Return the conversations; an answer that only closes a thought is for prompts that open one."""
    thoughtful = [
        f"<think>\n{thought}\n</think>\n\n{answer}" for thought, answer in zip(THOUGHTS, ANSWERS, strict=True)
    ]
    found = {
        "single": talk(ANSWERS[:1]),
        "system": [{"role": "system", "content": SYSTEM}, *talk(ANSWERS)],
        "turns": talk(ANSWERS),
        "edges": talk([f"\n  {answer} \n" for answer in ANSWERS]),
        "thought": talk(thoughtful[:1]),
        "thoughts": talk(thoughtful),
    }
    if opened:
        found["closing"] = talk([answer.removeprefix("<think>\n") for answer in thoughtful])
    return found


def talk(answers: Sequence[str]) -> Talk:
    """Return a conversation with as many questions as answers."""
    return [
        {"role": role, "content": text}
        for pair in zip(QUESTIONS, answers, strict=False)
        for role, text in zip(("user", "assistant"), pair, strict=True)
    ]


def tokenizer_of(template: str) -> Any:
    """Return a byte-level tokenizer without merges, with the control tokens in a template."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {sign: number for number, sign in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(sorted({*CONTROLS.findall(template), "<s>", "</s>"}))
    backend.add_tokens([AddedToken(tag, normalized=False) for tag in ("<think>", "</think>")])
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>", chat_template=template)


def rendered(tokenizer: Any, messages: Talk, *, ask: bool = False) -> str:
    """Return the template's own rendering of a conversation."""
    return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=ask))


def folds(tokenizer: Any) -> bool:
    """Whether the template rejects a system message, or omits it."""
    from jinja2 import TemplateError

    try:
        text = rendered(tokenizer, [{"role": "system", "content": SYSTEM}, *talk(ANSWERS[:1])])
    except TemplateError:
        return True
    return SYSTEM not in text


def opens(tokenizer: Any) -> bool:
    """Whether the prompt ends inside a thought."""
    return rendered(tokenizer, talk(ANSWERS[:1])[:1], ask=True).rstrip().endswith("<think>")


# What it is compared with ----------------------------------------------------------------------------------------


def check(chat: Any, tokenizer: Any, messages: Talk, *, folded: bool) -> None:
    """Compare every turn and the mask of a conversation with the template's renderings.

    Raises:
        WrongError: names the first difference.
    """
    plain = fold(messages) if folded else messages
    ends = [i for i, message in enumerate(plain) if message["role"] == "assistant"]
    turns = chat.turns(messages)
    require(len(turns) == len(ends), "another number of turns")
    for number, (end, turn) in enumerate(zip(ends, turns, strict=True)):
        check_turn(chat, tokenizer, plain[: end + 1], turn, number)
    check_mask(chat, messages, tokenizer.decode(turns[-1].completion_ids))


def fold(messages: Talk) -> Talk:
    """Return the conversation with its system message prepended to the first question."""
    if messages[0]["role"] != "system":
        return messages
    first = {**messages[1], "content": messages[0]["content"] + "\n\n" + messages[1]["content"]}
    return [first, *messages[2:]]


def check_turn(chat: Any, tokenizer: Any, messages: Talk, turn: Any, number: int) -> None:
    """Compare one turn, the last of `messages`, with the prompt and with the whole conversation."""
    question, answer, thought = QUESTIONS[number], ANSWERS[number], THOUGHTS[number]
    prompt, whole = rendered(tokenizer, messages[:-1], ask=True), rendered(tokenizer, messages)
    completion = tokenizer.decode(turn.completion_ids)
    require(tokenizer.decode(turn.prompt_ids) == prompt, "the prompt is not the template's")
    require(turn.completion_ids[-1] in tokenizer.added_tokens_decoder, "no stop token at the end of a turn")
    stop = tokenizer.decode(turn.completion_ids[-1:])
    require(turn.completion_ids[-1] in chat.stop_token_ids, f"sampling does not stop at {stop}")
    require(completion.count(stop) == 1, "tokens after the stop token")
    require(completion.count(answer) == 1, "the answer is not in its turn once")
    check_thought(prompt[prompt.rindex(question) :], completion, messages[-1]["content"], thought)
    if whole.startswith(prompt):
        rest = whole[len(prompt) :]
        kept = rest.startswith(completion) or ("</think>" in completion and "</think>" not in rest)
        require(kept, "the completion is not what the template writes behind the prompt")
        if rest.startswith(completion):
            after = CONTROLS.sub("", rest[len(completion) :]).strip()
            require(not after, "the turn ends before the template's turn does")
    else:
        own = completion.replace(answer, "").replace(thought, "")
        own = re.sub(r"</?think>", "", CONTROLS.sub("", own)).strip()
        require(not own, f"{own!r} is trained and stands in neither the answer nor the prompt")


def check_thought(prompt: str, completion: str, content: str, thought: str) -> None:
    """Check that there is one thought, opened and closed, or none, and that it is the answer's."""
    tags = re.findall(r"</?think>", prompt + completion)
    require(tags in ([], ["<think>", "</think>"]), f"thoughts are tagged {' '.join(tags)}")
    if "</think>" in content:
        kept = completion.partition("</think>")[0].count(thought) == 1
        require(kept, "the thought is not trained")


def check_mask(chat: Any, messages: Talk, last: str) -> None:
    """Check that there is one run of marked tokens per answer, each with its answer and without a question."""
    ids, marks = chat.loss_mask(messages)
    runs: list[list[int]] = []
    for token, mark, before in zip(ids, marks, [0, *marks], strict=False):
        if mark and not before:
            runs.append([])
        if mark:
            runs[-1].append(token)
    texts = [chat.tokenizer.decode(run) for run in runs]
    answers = sum(message["role"] == "assistant" for message in messages)
    require(len(texts) == answers, f"{len(texts)} marked runs for {answers} answers")
    for text, answer in zip(texts, ANSWERS, strict=False):
        require(text.count(answer) == 1, "a marked run lacks its answer")
        require(not any(other in text for other in (SYSTEM, *QUESTIONS)), "a marked run holds a question")
    require(texts[-1] == last, "the last marked run is not the completion")


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise WrongError(otherwise)


if __name__ == "__main__":
    sys.exit(main())
