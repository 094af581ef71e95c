"""Small real models and tokenizers, made once a session."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from warpsmith.policy.chat import ChatFormat
from warpsmith.policy.chat_templates import template_text
from warpsmith.policy.loading import Policy, load_policy
from warpsmith.policy.tiny import build_tiny

# pytest's importlib mode leaves sys.path alone, and the tests share what stands in support/.
sys.path.insert(0, str(Path(__file__).parent / "support"))

# How long an example takes says nothing on a machine that does other work as well.
EXAMPLES = int(os.environ.get("WARPSMITH_EXAMPLES", "40"))
settings.register_profile("unhurried", settings(), deadline=None, max_examples=EXAMPLES)
settings.load_profile("unhurried")

KERNEL = """import triton
import triton.language as tl

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)
"""
CORPUS = [KERNEL, KERNEL.replace("add", "mul").replace(") + tl.load", ") * tl.load"), "Write a kernel that adds.\n"] * 4

# The published formats' rules, written down for the tests.
QWEN25 = """
{%- if messages[0]['role'] == 'system' -%}{%- set system = messages[0]['content'] -%}
{%- else -%}{%- set system = 'Be of help.' -%}{%- endif -%}
{{- '<|im_start|>system\n' + system + '<|im_end|>\n' -}}
{%- for m in messages -%}{%- if not (loop.first and m['role'] == 'system') -%}
{{- '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' -}}
{%- endif -%}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}"""

QWEN3 = r"""
{%- set ns = namespace(last=messages | length - 1) -%}
{%- for m in messages -%}
{%- set answered = m['content'].startswith('<tool_response>') and m['content'].endswith('</tool_response>') -%}
{%- if m['role'] == 'user' and not answered -%}{%- set ns.last = loop.index0 -%}{%- endif -%}
{%- endfor -%}
{%- for m in messages -%}
{%- if m['role'] != 'assistant' -%}
{{- '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' -}}
{%- else -%}
{%- set content = m['content'] -%}{%- set thought = '' -%}
{%- if '</think>' in content -%}
{%- set thought = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') -%}
{%- set content = content.split('</think>')[-1].lstrip('\n') -%}
{%- endif -%}
{{- '<|im_start|>assistant\n' -}}
{%- if loop.index0 > ns.last and (loop.last or thought) -%}
{{- '<think>\n' + thought.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') -}}
{%- else -%}{{- content -}}{%- endif -%}
{{- '<|im_end|>\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\n' -}}
{%- if enable_thinking is defined and enable_thinking is false -%}{{- '<think>\n\n</think>\n\n' -}}
{%- elif primed is defined -%}{{- '<think>\n' -}}{%- endif -%}
{%- endif -%}"""

# Llama 3: the conversation as it is. From 3.1 on there is always a system turn, with the date.
LLAMA30 = """
{%- for m in messages -%}
{%- if loop.first -%}{{- bos_token -}}{%- endif -%}
{{- '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' + (m['content'] | trim) + '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}{%- endif -%}"""

LLAMA3 = """
{{- bos_token -}}
{%- if messages[0]['role'] == 'system' -%}{%- set system = messages[0]['content'] | trim -%}
{%- else -%}{%- set system = '' -%}{%- endif -%}
{{- '<|start_header_id|>system<|end_header_id|>\n\nToday: 1 May\n\n' + system + '<|eot_id|>' -}}
{%- for m in messages -%}{%- if not (loop.first and m['role'] == 'system') -%}
{{- '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' + (m['content'] | trim) + '<|eot_id|>' -}}
{%- endif -%}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}{%- endif -%}"""

MARKED = """
{%- for m in messages -%}
{{- '<|im_start|>' + m['role'] + '\n' -}}
{%- if m['role'] == 'assistant' -%}{% generation %}{{- m['content'] -}}{% endgeneration %}
{%- else -%}{{- m['content'] -}}{%- endif -%}
{{- '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}"""

SPACED = """
{%- for m in messages -%}{{- '<|im_start|>' + m['role'] + ': ' + m['content'] + '<|im_end|>\n' -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant: ' -}}{%- endif -%}"""

PREFILLED = """
{%- for m in messages -%}
{%- if m['role'] == 'user' -%}{{- '<|user|>' + m['content'] -}}
{%- else -%}{{- '<|answer|>' + m['content'].split('</think>')[-1] + '<|end|>' -}}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|answer|><think>\n' -}}{%- endif -%}"""

# Words, digits, runs of signs with the newlines after them, runs of newlines, spaces: newlines do merge.
WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def byte_level(controls: list[str], *, bos: str | None = None, trim: bool = False) -> Tokenizer:
    """A byte-level BPE that splits as the published ones do."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=controls,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    text = ["a\n\n\nb\n\n\nc >\n\n>\n\n <think>\n\n</think>\n\n</think>\n" * 5, "system user assistant " * 20]
    tokenizer.train_from_iterator([*CORPUS, *text], trainer)
    steps = [processors.ByteLevel(trim_offsets=trim)]
    if bos:
        single = processors.TemplateProcessing(f"{bos} $A", special_tokens=[(bos, tokenizer.token_to_id(bos))])
        steps.append(single)
    tokenizer.post_processor = processors.Sequence(steps)
    return tokenizer


def _chatml(template: str, *, trim: bool = False, thoughts: bool = False) -> PreTrainedTokenizerFast:
    """Qwen's: texts are composed (NFC) first; from Qwen3 on, `<think>` is one token that is no control token."""
    backend = byte_level(["<|endoftext|>", "<|im_start|>", "<|im_end|>"], trim=trim)
    backend.normalizer = normalizers.NFC()
    if thoughts:
        backend.add_tokens([AddedToken(text, normalized=False) for text in ("<think>", "</think>")])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=template,
    )


def _llama(template: str) -> PreTrainedTokenizerFast:
    controls = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    return PreTrainedTokenizerFast(
        tokenizer_object=byte_level(controls, bos="<|begin_of_text|>", trim=True),
        bos_token="<|begin_of_text|>",
        eos_token="<|end_of_text|>",
        chat_template=template,
    )


def _prefilled() -> PreTrainedTokenizerFast:
    backend = byte_level(["<|user|>", "<|answer|>", "<|end|>"])
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>", chat_template=PREFILLED)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Models as small as these gain nothing from a second thread, and wait for it where others use the cores."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tokenizers_by_name() -> dict[str, PreTrainedTokenizerFast]:
    """A tokenizer for each chat format."""
    return {
        "qwen25": _chatml(QWEN25),
        "trimming": _chatml(SPACED, trim=True),
        "qwen3": _chatml(QWEN3, thoughts=True),
        "llama3": _llama(LLAMA3),
        "llama30": _llama(LLAMA30),
        "marked": _chatml(MARKED),
        "prefilled": _prefilled(),
        "qwen3_named": _chatml(template_text("qwen"), thoughts=True),
        "chatml_named": _chatml(template_text("chatml")),
        "llama3_named": _llama(template_text("llama3")),
    }


@pytest.fixture(scope="session")
def chat_of(tokenizers_by_name, tiny_dir) -> Callable[..., ChatFormat]:
    """Return the chat format of a name; `qwen3-silent` has its thoughts off, `qwen3-primed` prompts for one."""
    made: dict[str, ChatFormat] = {}

    def get(name: str) -> ChatFormat:
        if name not in made:
            base, _, variant = name.partition("-")
            kwargs = {"silent": {"enable_thinking": False}, "primed": {"primed": True}}.get(variant, {})
            tokenizer = load_policy(tiny_dir).tokenizer if name == "tiny" else tokenizers_by_name[base]
            made[name] = ChatFormat(tokenizer, template_kwargs=kwargs)
        return made[name]

    return get


@pytest.fixture(scope="session")
def tiny_dir(tmp_path_factory) -> Path:
    """A two-layer model in its directory."""
    return build_tiny(
        tmp_path_factory.mktemp("tiny") / "model", CORPUS, vocab_size=400, layers=2, hidden=64, heads=2, kv_heads=1
    )


@pytest.fixture(scope="session")
def shared_policy(tiny_dir) -> Policy:
    """The tiny model in fp32. Tests only read it."""
    torch.manual_seed(0)
    policy = load_policy(tiny_dir)
    policy.model.requires_grad_(False)
    return policy


@pytest.fixture
def policy(tiny_dir) -> Policy:
    """A tiny model of the test's own."""
    return load_policy(tiny_dir)
