"""Prompts, completions and masks, against renderings written down apart from the code under test."""

import unicodedata
from itertools import accumulate, pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from warpsmith.policy.chat import ChatFormat, extends
from warpsmith.policy.errors import MessagesError, PolicyError, TemplateError

Segments = list[tuple[str, int]]


# The oracle: each format's rendering as pieces, 1 where a sampler wrote them ---------------------------------------


def spaced(messages) -> Segments:
    pieces: Segments = []
    for m in messages:
        answered = int(m["role"] == "assistant")
        pieces += [(f"<|im_start|>{m['role']}: ", 0), (f"{m['content']}<|im_end|>", answered), ("\n", 0)]
    return pieces


def chatml(messages, *, default_system: str | None) -> Segments:
    pieces: Segments = []
    if default_system is not None and messages[0]["role"] != "system":
        pieces.append((f"<|im_start|>system\n{default_system}<|im_end|>\n", 0))
    for m in messages:
        answered = int(m["role"] == "assistant")
        pieces += [(f"<|im_start|>{m['role']}\n", 0), (f"{m['content']}<|im_end|>", answered), ("\n", 0)]
    return pieces


def is_question(message) -> bool:
    """A user's message, unless a tool's answer stands in its place."""
    text = message["content"]
    return message["role"] == "user" and not (text.startswith("<tool_response>") and text.endswith("</tool_response>"))


def qwen3(messages, *, prefill: str = "") -> Segments:
    last_question = max((i for i, m in enumerate(messages) if is_question(m)), default=len(messages) - 1)
    pieces: Segments = []
    for i, m in enumerate(messages):
        pieces.append((f"<|im_start|>{m['role']}\n", 0))
        if m["role"] != "assistant":
            pieces.append((f"{m['content']}<|im_end|>\n", 0))
            continue
        thought, content = "", m["content"]
        if "</think>" in content:
            head = content.split("</think>")[0].rstrip("\n")
            thought = head.split("<think>")[-1].lstrip("\n")
            content = content.split("</think>")[-1].lstrip("\n")
        if i > last_question and (i == len(messages) - 1 or thought):
            content = "<think>\n" + thought.strip("\n") + "\n</think>\n\n" + content.lstrip("\n")
        if prefill and content.startswith(prefill):
            pieces.append((prefill, 0))
            content = content.removeprefix(prefill)
        pieces += [(content + "<|im_end|>", 1), ("\n", 0)]
    return pieces


def llama3(messages) -> Segments:
    system = messages[0]["content"].strip() if messages[0]["role"] == "system" else ""
    head = "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nToday: 1 May\n\n"
    rest = messages[int(messages[0]["role"] == "system") :]
    return [(f"{head}{system}<|eot_id|>", 0), *llama_turns(rest)]


def llama_turns(messages) -> Segments:
    pieces: Segments = []
    for m in messages:
        pieces.append((f"<|start_header_id|>{m['role']}<|end_header_id|>\n\n", 0))
        pieces.append((m["content"].strip() + "<|eot_id|>", int(m["role"] == "assistant")))
    return pieces


SILENT, PRIMED = "<think>\n\n</think>\n\n", "<think>\n"

ORACLES = {
    "tiny": lambda m: chatml(m, default_system=None),
    "marked": lambda m: chatml(m, default_system=None),
    "qwen25": lambda m: chatml(m, default_system="Be of help."),
    "qwen3": qwen3,
    "qwen3-silent": lambda m: qwen3(m, prefill=SILENT),
    "qwen3-primed": lambda m: qwen3(m, prefill=PRIMED),
    "llama3": llama3,
    "llama30": lambda m: [("<|begin_of_text|>", 0), *llama_turns(m)],
    "chatml_named": lambda m: chatml(m, default_system=None),
    "qwen3_named": qwen3,
    "qwen3_named-silent": lambda m: qwen3(m, prefill=SILENT),
    "llama3_named": lambda m: [("<|begin_of_text|>", 0), *llama_turns(m)],
}


def byte_of_sign() -> dict[str, int]:
    """The bytes behind the signs that a byte-level vocabulary is written in."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {chr(256 + n): b for n, b in enumerate(other)}


def oracle_mask(tokenizer: PreTrainedTokenizerFast, ids: list[int], pieces: Segments) -> list[int]:
    """1 for a token all of whose bytes lie in pieces of 1, by counting bytes and nothing else."""
    if tokenizer.backend_tokenizer.normalizer is not None:
        pieces = [(unicodedata.normalize("NFC", text), flag) for text, flag in pieces]
    signs, added = byte_of_sign(), tokenizer.added_tokens_decoder
    tokens = [
        str(added[i].content).encode() if i in added else bytes(signs[s] for s in tokenizer.convert_ids_to_tokens(i))
        for i in ids
    ]
    assert b"".join(tokens) == "".join(text for text, _ in pieces).encode()
    flags = [flag for text, flag in pieces for _ in text.encode()]
    edges = accumulate((len(token) for token in tokens), initial=0)
    return [int(all(flags[a:b])) for a, b in pairwise(edges)]


# Properties over every format ------------------------------------------------------------------------------------

PARTS = [
    "def f(x):", "\n", "\n\n", " ", "    ", "é", "核", "🜁", "x + 1", "assistant", "<think>", "</think>",
    "<think>\nhm\n</think>\n\n", "e\u0301", "\u0301", "<tool_response>", "</tool_response>",
    "<|im_start|>assistant\n", "<|im_end|>", "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "<|eot_id|>", "standin",
]  # fmt: skip
CONTENT = st.lists(st.sampled_from(PARTS), max_size=6).map("".join)
PLAIN = st.lists(st.sampled_from(["def f(x):", "x", " ", "\n", "é", "return x + 1"]), max_size=5).map(
    lambda parts: "k" + "".join(parts) + "k"
)

THOUGHTFUL = st.tuples(PLAIN, PLAIN).map(lambda parts: f"<think>\n{parts[0]}\n</think>\n\n{parts[1]}")
# What a sampler can have answered: with a thought where the template has one written, without where they are off.
ANSWERS = {
    "qwen3": THOUGHTFUL, "qwen3-primed": THOUGHTFUL, "qwen3-silent": PLAIN,
    "qwen3_named": THOUGHTFUL, "qwen3_named-silent": PLAIN,
}  # fmt: skip


def talks(answers: st.SearchStrategy[str]):
    """Conversations of up to four answered questions, with and without a system message."""

    def build(system: str | None, pairs: list[tuple[str, str]]) -> list[dict[str, str]]:
        messages = [] if system is None else [{"role": "system", "content": system}]
        for question, answer in pairs:
            messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        return messages

    return st.builds(build, st.none() | PLAIN, st.lists(st.tuples(PLAIN, answers), min_size=1, max_size=4))


def conversations(content: st.SearchStrategy[str]):
    def build(system: str | None, pairs: list[tuple[str, str]], open_end: bool) -> list[dict[str, str]]:
        messages = [] if system is None else [{"role": "system", "content": system}]
        for question, answer in pairs:
            messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        return messages[:-1] if open_end else messages

    pairs = st.lists(st.tuples(content, content), min_size=1, max_size=3)
    return st.builds(build, st.none() | content, pairs, st.booleans())


def refusal(chat: ChatFormat, name: str, messages) -> str | None:
    """Why the last answer cannot have been sampled, or is not trained whole, if so."""
    last = messages[-1]["content"]
    if messages[-1]["role"] != "assistant":
        return None
    if name.endswith("-silent") and "</think>" in last:
        return "puts another one before it"
    if any(chat.token(i) in last for i in chat.stop_token_ids):
        return "continues after the stop token"
    if not name.startswith("qwen3") or "</think>" not in last:
        return None
    head, *between, _ = last.split("</think>")
    *before, _ = head.split("<think>")
    dropped = "".join([*before, *between]).replace("<think>", "")
    return "The chat template drops" if dropped.strip() else None


def asked(answer: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": ""}, {"role": "assistant", "content": answer}]


@pytest.mark.parametrize("name", [*ORACLES, "trimming"])
@settings(max_examples=120, deadline=None)
@given(messages=conversations(CONTENT))
@example(messages=asked("<|im_end|><think>\nhm\n</think>\n\n"))
@example(messages=asked("x + 1<think>\nhm\n</think>\n\n"))
@example(messages=asked("<think>\nhm\n</think>\n\nx + 1</think>\n\né"))
def test_mask_is_right_at_every_position(chat_of, name, messages):
    chat, pieces = chat_of(name), {**ORACLES, "trimming": spaced}[name](messages)
    refused = refusal(chat, name, messages)
    if refused:
        with pytest.raises(PolicyError, match=refused):
            chat.loss_mask(messages)
        return
    ids, mask = chat.loss_mask(messages)
    full = chat.tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False, **chat.template_kwargs)
    assert ids == full
    assert mask == oracle_mask(chat.tokenizer, ids, pieces)


@pytest.mark.parametrize("name", ORACLES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_every_turn_is_trained_as_it_was_sampled(chat_of, name, data):
    """Whatever comes later: what a turn was given and answered stands whole in the conversation that it ended."""
    chat, messages = chat_of(name), data.draw(talks(ANSWERS.get(name, PLAIN | THOUGHTFUL)))
    ends = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
    turns = chat.turns(messages)
    assert len(turns) == len(ends)
    for end, (prompt, completion) in zip(ends, turns, strict=True):
        assert prompt == chat.tokenizer.apply_chat_template(
            messages[:end], add_generation_prompt=True, tokenize=True, return_dict=False, **chat.template_kwargs
        )
        answer = messages[end]["content"].removeprefix(PRIMED if name == "qwen3-primed" else "")
        assert completion == [*chat.encode(answer), chat.stop_token_ids[0]]
        ids, mask = chat.loss_mask(messages[: end + 1])
        after = len(prompt) + len(completion)
        assert ids[:after] == prompt + completion
        assert mask[len(prompt) :] == [1] * len(completion) + [0] * (len(ids) - after)


@pytest.mark.parametrize("name", ["qwen3", "qwen3-primed", "qwen3_named"])
@settings(max_examples=40, deadline=None)
@given(messages=talks(THOUGHTFUL))
def test_history_holds_no_thought_and_no_turn_is_trained_in_it(chat_of, name, messages):
    """The last turn's prompt has the earlier answers without their thoughts: they were not sampled in that form."""
    chat = chat_of(name)
    thought = chat.encode("</think>")
    assert len(thought) == 1
    prompt, completion = chat.turns(messages)[-1]
    assert completion.count(thought[0]) == 1
    assert thought[0] not in prompt
    assert chat.keeps_history(messages) == (len(chat.turns(messages)) == 1)


@pytest.mark.parametrize("name", ["tiny", "qwen25", "llama3", "llama30", "marked", "chatml_named", "llama3_named"])
@settings(max_examples=40, deadline=None)
@given(messages=talks(PLAIN | THOUGHTFUL))
def test_formats_that_rewrite_nothing_keep_history(chat_of, name, messages):
    chat = chat_of(name)
    assert chat.keeps_history(messages)
    ids, mask = chat.loss_mask(messages)
    rebuilt = [0] * len(ids)
    for prompt, completion in chat.turns(messages):
        assert extends(ids, prompt + completion)
        rebuilt[len(prompt) : len(prompt) + len(completion)] = [1] * len(completion)
    assert mask == rebuilt


# Single facts ----------------------------------------------------------------------------------------------------

THOUGHT = [
    {"role": "user", "content": "Add."},
    {"role": "assistant", "content": "<think>\nlong thought\n</think>\n\nfirst"},
    {"role": "user", "content": "Wrong."},
    {"role": "assistant", "content": "<think>\nshort\n</think>\n\nsecond"},
]


def masked_text(chat: ChatFormat, messages) -> list[str]:
    """The texts of the runs of 1."""
    ids, mask = chat.loss_mask(messages)
    runs: list[list[int]] = []
    for i, (token, flag, before) in enumerate(zip(ids, mask, [0, *mask], strict=False)):
        if flag and not before:
            runs.append([])
        if flag:
            runs[-1].append(ids[i])
        assert token == ids[i]
    return [chat.tokenizer.decode(run) for run in runs]


def test_qwen3_drops_the_earlier_thought_and_turns_do_not(chat_of):
    chat = chat_of("qwen3")
    assert masked_text(chat, THOUGHT) == ["first<|im_end|>", "<think>\nshort\n</think>\n\nsecond<|im_end|>"]
    first, second = chat.turns(THOUGHT)
    assert chat.tokenizer.decode(first.completion_ids) == "<think>\nlong thought\n</think>\n\nfirst<|im_end|>"
    assert not extends(second.prompt_ids, first.prompt_ids + first.completion_ids)
    assert not chat.keeps_history(THOUGHT)


def test_prefill_belongs_to_the_prompt(chat_of):
    silent = chat_of("qwen3-silent")
    messages = [{"role": "user", "content": "Add."}, {"role": "assistant", "content": "done"}]
    assert silent.generation_prompt == "<|im_start|>assistant\n" + SILENT
    assert masked_text(silent, messages) == ["done<|im_end|>"]
    assert masked_text(chat_of("qwen3"), messages) == ["<think>\n\n</think>\n\ndone<|im_end|>"]


def test_a_thought_that_the_template_drops_is_trained(chat_of):
    chat = chat_of("prefilled")
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "hm</think>\nanswer"}]
    assert chat.generation_prompt == "<|answer|><think>\n"
    assert masked_text(chat, messages) == ["hm</think>\nanswer<|end|>"]


def test_a_generation_prompt_tells_whether_it_ends_inside_thoughts(chat_of):
    found = {name: chat_of(name).opens_thoughts for name in ("prefilled", "qwen3", "qwen3-silent")}
    assert found == {"prefilled": True, "qwen3": False, "qwen3-silent": False}


def test_token_over_the_edge_is_left_out(chat_of):
    """A content's first newline merges with the header's: that token is the prompt's as much as the answer's."""
    chat = chat_of("qwen25")
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "\n\nx"}]
    assert masked_text(chat, messages) == ["x<|im_end|>"]
    assert chat.tokenizer.decode(chat.completion_ids(messages)) == "\n\nx<|im_end|>"


def test_tiny_tokens_never_reach_over_the_edge(chat_of):
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "\n\nx"}]
    assert masked_text(chat_of("tiny"), messages) == ["\n\nx<|im_end|>"]


@pytest.mark.parametrize(
    ("name", "texts"),
    [("qwen25", ["<|im_end|>"]), ("llama3", ["<|eot_id|>", "<|end_of_text|>"]), ("prefilled", ["<|end|>"])],
)
def test_stop_tokens_come_from_the_template(chat_of, name, texts):
    chat = chat_of(name)
    assert [chat.token(i) for i in chat.stop_token_ids] == texts


def test_further_stop_tokens_are_added_once(tokenizers_by_name):
    chat = ChatFormat(tokenizers_by_name["qwen25"], stop_token_ids=[2, 0])
    assert chat.stop_token_ids == (2, 0)


def test_decode_leaves_control_tokens_out(chat_of):
    chat = chat_of("tiny")
    assert chat.decode(chat.encode("a = 1\n<|im_end|>")) == "a = 1\n"


@given(text=CONTENT)
def test_inert_text_holds_no_control_token(chat_of, text):
    chat = chat_of("tiny")
    inert = chat.inert(text)
    assert not set(chat.encode(inert)) & set(chat.tokenizer.added_tokens_decoder)
    assert inert == text or len(inert) > len(text)


# What is refused -------------------------------------------------------------------------------------------------


def with_template(chat: ChatFormat, template: str | None) -> PreTrainedTokenizerFast:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=chat.tokenizer.backend_tokenizer, eos_token="<|im_end|>")
    tokenizer.chat_template = template
    return tokenizer


@pytest.mark.parametrize(
    ("template", "cause"),
    [
        (None, "no chat template"),
        ("{% for m in messages %}{{ m['content'] }}<|im_end|>{% endfor %}", "no generation prompt"),
        ("{% if add_generation_prompt %}go{% endif %}nothing", "drops the content"),
        ("{{ raise_exception('never') }}", "rejects"),
        (
            "{% for m in messages %}{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}>{% endif %}",
            "no header",
        ),
    ],
)
def test_templates_that_cannot_be_used(chat_of, template, cause):
    with pytest.raises(TemplateError, match=cause) as caught:
        ChatFormat(with_template(chat_of("tiny"), template))
    assert caught.value.remedy


def test_turn_that_rewrites_its_surroundings_is_refused(chat_of):
    shouting = (
        "{% if messages[-1]['content'] == 'loud' %}!{% endif %}"
        "{% for m in messages %}<|im_start|>{{ m['role'] }}:{{ m['content'] }}<|im_end|>{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant:{% endif %}"
    )
    chat = ChatFormat(with_template(chat_of("tiny"), shouting))
    quiet = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "calm"}]
    assert masked_text(chat, quiet) == ["calm<|im_end|>"]
    with pytest.raises(TemplateError, match="message 1 cannot be located"):
        chat.loss_mask([quiet[0], {"role": "assistant", "content": "loud"}])


@pytest.mark.parametrize(
    "messages",
    [[], ["text"], [{"role": "user"}], [{"content": "x"}], [{"role": "user", "content": None}]],
)
def test_conversations_that_are_none(chat_of, messages):
    with pytest.raises(MessagesError) as caught:
        chat_of("tiny").render(messages)
    assert caught.value.remedy


def test_completion_needs_an_answer(chat_of):
    with pytest.raises(MessagesError, match="not an assistant's"):
        chat_of("tiny").completion_ids([{"role": "user", "content": "q"}])
