"""Runs under chat templates of three kinds: what is trained is what the template asks for and what was sampled."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from warpsmith.policy.chat import ChatFormat
from warpsmith.policy.config import PolicyConfig
from warpsmith.policy.loading import load_chat
from warpsmith.records.reader import RunReader
from warpsmith.trainer.advantage import Credit
from warpsmith.trainer.config.sections import CheckpointSection, WandbSection
from warpsmith.trainer.config.sft import SftConfig, SftDataSection, SftOptimizerSection, SftRunSection
from warpsmith.trainer.data.dataset import SftData, open_data
from warpsmith.trainer.rollouts.batch import training_turns
from warpsmith.trainer.runs.sft import SftRun

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

Messages = Sequence[dict[str, str]]
STOP = "<|im_end|>"


def turn(role: str, content: str) -> str:
    return f"<|im_start|>{role}\n{content}{STOP}\n"


class Kind(NamedTuple):
    """A chat template, and its text of a conversation and of what asks for an answer, written without it."""

    template: str
    opening: str
    prompt: Callable[[Messages], str]


def with_marks(messages: Messages) -> str:
    return "".join(turn(m["role"], m["content"]) for m in messages)


def with_thoughts(messages: Messages) -> str:
    return "".join(turn(m["role"], m["content"].split("</think>")[-1].lstrip("\n")) for m in messages)


def without_system(messages: Messages) -> str:
    first, *rest = messages
    if first["role"] == "system":
        rest[0] = {"role": "user", "content": f"{first['content']}\n\n{rest[0]['content']}"}
        return with_marks(rest)
    return with_marks(messages)


HEADER = "'<|im_start|>' + m['role'] + '\\n'"
ASK = "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
KINDS = {
    "several generation blocks": Kind(
        "{%- for m in messages -%}{%- if m['role'] == 'assistant' -%}"
        "{%- generation -%}{{- " + HEADER + " -}}{%- endgeneration -%}"
        "{%- generation -%}{{- m['content'] -}}{%- endgeneration -%}"
        "{%- generation -%}{{- '<|im_end|>\\n' -}}{%- endgeneration -%}"
        "{%- else -%}{{- " + HEADER + " + m['content'] + '<|im_end|>\\n' -}}{%- endif -%}{%- endfor -%}" + ASK,
        "<|im_start|>assistant\n",
        with_marks,
    ),
    "opens a thought": Kind(
        "{%- for m in messages -%}"
        "{{- " + HEADER + " + m['content'].split('</think>')[-1].lstrip('\\n') + '<|im_end|>\\n' -}}"
        "{%- endfor -%}" + ASK.replace("assistant\\n", "assistant\\n<think>\\n"),
        "<|im_start|>assistant\n<think>\n",
        with_thoughts,
    ),
    "no system role": Kind(
        "{%- for m in messages -%}"
        "{%- if m['role'] == 'system' -%}{{- raise_exception('no system role') -}}{%- endif -%}"
        "{{- " + HEADER + " + m['content'] + '<|im_end|>\\n' -}}{%- endfor -%}" + ASK,
        "<|im_start|>assistant\n",
        without_system,
    ),
}


def policy_of(kind: Kind, tiny: Path, folder: Path) -> Path:
    policy = shutil.copytree(tiny, folder / "policy")
    (policy / "chat_template.jinja").write_text(kind.template)
    return policy


def conversation(n: int, *, thoughtful: bool) -> list[dict[str, str]]:
    thoughts = [f"<think>\nadd {n}\n</think>\n\n", f"<think>\ntwice {n}\n</think>\n\n"] if thoughtful else ["", ""]
    contents = ("Write kernels.", f"x{n}", f"{thoughts[0]}return x + {n}", "Again.", f"{thoughts[1]}return x * {n}")
    roles = ("system", "user", "assistant", "user", "assistant")
    return [{"role": role, "content": content} for role, content in zip(roles, contents, strict=True)]


def expected(kind: Kind, messages: Messages) -> list[list[tuple[int, str]]]:
    """Return the examples that a conversation makes: stretches of text with what carries loss (1) and what not (0)."""
    turns = []
    for i, message in enumerate(messages):
        if message["role"] == "assistant":
            prompt = kind.prompt(messages[:i]) + kind.opening
            turns.append([(0, prompt), (1, message["content"].removeprefix("<think>\n") + STOP)])
    if kind.prompt is with_thoughts:  # It drops earlier thoughts: one row cannot hold both turns.
        return turns
    (_, first), (_, answer) = turns[0]
    return [[(0, first), (1, answer), (0, turns[1][0][1].removeprefix(first + answer)), turns[1][1], (0, "\n")]]


def stretches(chat: ChatFormat, ids: Sequence[int], mask: Sequence[int]) -> list[tuple[int, str]]:
    runs = groupby(zip(mask, ids, strict=True), itemgetter(0))
    return [(int(flag), "".join(chat.token(i) for _, i in run)) for flag, run in runs]


def fine_tune(policy: Path, chats: list[Messages], folder: Path, ranks: Any) -> SftData:
    """Train ten steps on chats, and return what was trained on."""
    (folder / "chats.jsonl").write_text("\n".join(json.dumps({"messages": messages}) for messages in chats))
    source = {"type": "chats", "path": folder / "chats.jsonl"}
    config = SftConfig(
        run=SftRunSection(dir=folder / "sft", torch_threads=1, steps=10),
        policy=PolicyConfig(path=str(policy), dtype="float32"),
        data=SftDataSection(source=source, batch_size=4, eval_examples=1),
        optimizer=SftOptimizerSection(lr=5e-3, schedule="constant", warmup_steps=1),
        checkpoint=CheckpointSection(every=0),
        wandb=WandbSection(mode="disabled"),
    )
    data = open_data(config, load_chat(policy), ranks, resume=False)
    SftRun(config, ranks, data).run(False)
    return data


@pytest.mark.parametrize("name", KINDS)
def test_fine_tuning_trains_answers_and_their_stop_and_nothing_else(
    tiny: Path, tmp_path: Path, alone: Any, name: str
) -> None:
    kind = KINDS[name]
    policy = policy_of(kind, tiny, tmp_path)
    chats = [conversation(n, thoughtful=name == "opens a thought") for n in range(12)]
    data = fine_tune(policy, chats, tmp_path, alone)
    chat = load_chat(policy)
    rows = [data.store.row(n) for n in range(len(data.store))]
    found = [stretches(chat, row.ids.tolist(), row.mask.tolist()) for row in rows]
    assert sorted(found) == sorted(example for messages in chats for example in expected(kind, messages))
    assert load_chat(tmp_path / "sft/final_model").tokenizer.chat_template == kind.template


GRPO = """
[run]
dir = "{run}"
steps = 1
torch_threads = 1
[policy]
path = "{policy}"
dtype = "float32"
[problems]
count = 4
levels = [1]
[rollout]
prompt_style = "full"
[rollout.environment]
type = "kernelbench_multiturn"
max_turns = 2
[evaluator]
trials = 1
[rollout.sampling]
max_tokens = 24
[rollout.sampler]
dtype = "float32"
max_model_len = 2048
[algorithm]
prompts_per_step = 2
samples_per_prompt = 4
entropy_coefficient = 0.01
[zero]
micro_batch_tokens = 2048
[checkpoint]
every = 0
[wandb]
mode = "disabled"
"""


@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
def test_reinforcement_trains_what_was_sampled_after_what_the_template_asks(
    tiny: Path, tmp_path: Path, alone: Any, name: str
) -> None:
    kind = KINDS[name]
    # Untrained, it would hardly ever sample a stop token.
    chats = [conversation(n, thoughtful=name == "opens a thought") for n in range(12)]
    fine_tune(policy_of(kind, tiny, tmp_path), chats, tmp_path, alone)
    config, run = tmp_path / "grpo.toml", tmp_path / "grpo"
    config.write_text(GRPO.format(run=run, policy=tmp_path / "sft/final_model"))
    command = [sys.executable, "-m", "warpsmith.trainer", "grpo", str(config)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-4000:]
    table, chat = RunReader(run).table("turns"), load_chat(tmp_path / "sft/final_model")
    turns = table.to_pylist()
    assert len(turns) == 16, "two problems, four samples, two turns"
    assert {row["turn"] for row in turns} == {0, 1}
    assert "stop" in {row["finish_reason"] for row in turns}
    stop = chat.tokenizer.convert_tokens_to_ids(STOP)
    for row in turns:
        asked = "".join(map(chat.token, row["prompt_ids"]))
        assert [message["role"] for message in row["messages"]] == ["system", "user"]
        assert asked == kind.prompt(row["messages"]) + kind.opening
        assert row["completion_ids"].count(stop) == (row["finish_reason"] == "stop")
        assert stop not in row["completion_ids"][:-1]
    n = len(table)
    trained = training_turns(table, Credit(np.ones(n), np.ones(n, bool), 1, 0, np.ones(n, np.int64))).rows
    for row, example in zip(turns, trained, strict=True):
        assert example.ids.tolist() == row["prompt_ids"] + row["completion_ids"]
        assert example.mask.tolist() == [0] * len(row["prompt_ids"]) + [1] * len(row["completion_ids"])
