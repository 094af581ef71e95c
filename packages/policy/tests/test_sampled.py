"""What is trained can have been sampled: marked turns, thoughts, system messages and stop tokens of odd templates."""

import re
from itertools import groupby
from operator import itemgetter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from warpsmith.policy.chat import ChatFormat
from warpsmith.policy.chat_checks import check_training, demonstration, sampling_doubts, training_doubts
from warpsmith.policy.errors import MessagesError, TemplateError
from warpsmith.policy.sft_data import encode

CONTROLS = ["<|ask|>", "<|say|>", "<|rule|>", "<|over|>", "<|done|>", "<|eos|>"]


def around(answer: str, *, ask: str = "<|say|>", system: str = "<|rule|>", end: str = "") -> str:
    """A template whose answers are written by `answer`, with `m` the message and `c` its content."""
    return (
        "{%- for m in messages -%}{%- set c = m['content'] -%}"
        "{%- if m['role'] == 'system' -%}{{ '" + system + "' + c + '<|over|>' }}"
        "{%- elif m['role'] == 'user' -%}{{ '<|ask|>' + c + '<|over|>' }}"
        "{%- else -%}" + answer + "{%- endif -%}{%- endfor -%}"
        "{%- if add_generation_prompt -%}{{ '" + ask + "' }}{%- else -%}{{ '" + end + "' }}{%- endif -%}"
    )


MARK, UNMARK = "{% generation %}", "{% endgeneration %}"
TAIL = "(c.split('</think>')[-1])"
PLAIN = "{{ '<|say|>' + c + '<|over|>' }}"
SHUT = "<think>\\n\\n</think>\\n\\n"

TEMPLATES = {
    "plain": around(PLAIN),
    "two marks": around(
        f"{{{{ '<|say|>' }}}}{MARK}{{{{ c }}}}{UNMARK}{MARK}{{{{ '<|over|>' }}}}{UNMARK}{{{{ '\\n' }}}}"
    ),
    "text between marks": around(
        f"{{{{ '<|say|>' }}}}{MARK}{{{{ 'I say' }}}}{UNMARK}{{{{ ': ' }}}}{MARK}{{{{ c + '<|over|>' }}}}{UNMARK}"
    ),
    "marked header and newline": around(f"{MARK}{{{{ '<|say|>' + c + '<|over|>\\n' }}}}{UNMARK}"),
    "marked end": around(
        f"{{{{ '<|say|>' }}}}{MARK}{{{{ c + '<|over|>' }}}}{UNMARK}"
        f"{{%- if loop.last -%}}{MARK}{{{{ '<|eos|>' }}}}{UNMARK}{{%- endif -%}}"
    ),
    "marked prefill": around(
        f"{{{{ '<|say|>' }}}}{MARK}{{{{ '{SHUT}' + c + '<|over|>' }}}}{UNMARK}", ask=f"<|say|>{SHUT}"
    ),
    "no system": around(PLAIN).replace("{{ '<|rule|>' + c + '<|over|>' }}", "{{ raise_exception('no system') }}"),
    "lost system": around(PLAIN).replace("{{ '<|rule|>' + c + '<|over|>' }}", ""),
    "opened": around(f"{{{{ '<|say|>' + {TAIL} + '<|over|>' }}}}", ask="<|say|><think>\\n"),
    "opened, kept": around(PLAIN, ask="<|say|><think>\\n"),
    "dropping": around(f"{{{{ '<|say|>' + {TAIL}.strip() + '<|over|>' }}}}"),
    "silent": around(f"{{{{ '<|say|>' + {TAIL}.strip() + '<|over|>' }}}}", ask=f"<|say|>{SHUT}"),
    "spaced stop": around("{{ '<|say|>' + c + ' <|over|>' }}"),
    "later stop": around("{{ '<|say|>' + c + '<|done|><|eos|>' }}"),
}


def tokenizer_of(template: str, *, eos: str | None = "<|eos|>") -> PreTrainedTokenizerFast:
    """Bytes, a few control tokens, and the tags of thoughts as tokens of their own."""
    vocabulary = {sign: i for i, sign in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(CONTROLS)
    backend.add_tokens([AddedToken(tag, normalized=False) for tag in ("<think>", "</think>")])
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=eos, chat_template=template)


def chat_with(name: str) -> ChatFormat:
    return ChatFormat(tokenizer_of(TEMPLATES[name]))


@pytest.fixture(scope="module")
def chats() -> dict[str, ChatFormat]:
    return {name: chat_with(name) for name in TEMPLATES}


def talk(*texts: str, system: str | None = None) -> list[dict[str, str]]:
    messages = [] if system is None else [{"role": "system", "content": system}]
    return messages + [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]


def masked(chat: ChatFormat, messages) -> str:
    """The conversation with brackets around what carries loss."""
    ids, mask = chat.loss_mask(messages)
    runs = [(flag, [token for token, _ in run]) for flag, run in groupby(zip(ids, mask, strict=True), itemgetter(1))]
    return "".join(f"[{chat.tokenizer.decode(run)}]" if flag else chat.tokenizer.decode(run) for flag, run in runs)


def sampled(chat: ChatFormat, messages) -> list[tuple[str, str]]:
    decode = chat.tokenizer.decode
    return [(decode(turn.prompt_ids), decode(turn.completion_ids)) for turn in chat.turns(messages)]


# Every template: what a turn is trained on follows its prompt, has one stop, and one thought or none --------------

TEXT = st.lists(st.sampled_from(["x", " y", "\n", "é", "return x"]), max_size=4).map(
    lambda parts: f"k{''.join(parts)}k"
)
THOUGHTFUL = st.builds("<think>\n{}\n</think>\n\n{}".format, TEXT, TEXT)
CLOSING = st.builds("{}\n</think>\n\n{}".format, TEXT, TEXT)


@pytest.mark.parametrize("name", TEMPLATES)
@settings(max_examples=60, deadline=None)
@given(
    pairs=st.lists(st.tuples(TEXT, TEXT | THOUGHTFUL | CLOSING), min_size=1, max_size=3),
    system=st.none() | TEXT,
)
def test_a_turn_is_trained_as_sampled_or_refused(chats, name, pairs, system):
    chat, messages = chats[name], talk(*(text for pair in pairs for text in pair), system=system)
    try:
        turns = sampled(chat, messages)
    except TemplateError as error:
        assert name in ("opened", "opened, kept", "marked prefill", "silent"), error
        assert re.search("does not end|puts another one before it", error.message)
        return
    for number, ((question, answer), (prompt, completion)) in enumerate(zip(pairs, turns, strict=True)):
        asked = messages[: 2 * number + (1 if system is None else 2)]
        assert prompt == chat.render(asked, generation_prompt=True)
        assert question in prompt
        stop = chat.token(chat.stop_token_ids[0])
        assert completion.endswith(stop)
        assert completion.count(stop) == 1
        prefill = prompt[prompt.rindex("<|say|>") + len("<|say|>") :]
        own = re.findall("</?think>", answer)
        tags = re.findall("</?think>", prefill + completion)
        assert tags in ([], ["<think>", "</think>"], own)
        for part in re.split("</?think>", answer):
            assert part.strip() in completion
    assert f"[{turns[-1][1]}]" in masked(chat, messages)


@pytest.mark.parametrize("name", TEMPLATES)
@settings(max_examples=30, deadline=None)
@given(pairs=st.lists(st.tuples(TEXT, TEXT | THOUGHTFUL), min_size=1, max_size=3))
def test_examples_carry_loss_on_completions_alone(chats, name, pairs):
    chat, messages = chats[name], talk(*(text for pair in pairs for text in pair))
    try:
        turns = chat.turns(messages)
    except TemplateError:
        return
    trained = [token for example in encode(chat, messages) for token in example.labels[example.labels >= 0].tolist()]
    assert trained == [token for turn in turns for token in turn.completion_ids]


# Marks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("two marks", "<|ask|>q<|over|><|say|>[a<|over|>]\n<|ask|>r<|over|><|say|>[b<|over|>]\n"),
        ("text between marks", "<|ask|>q<|over|><|say|>[I say: a<|over|>]<|ask|>r<|over|><|say|>[I say: b<|over|>]"),
        ("marked header and newline", "<|ask|>q<|over|><|say|>[a<|over|>]\n<|ask|>r<|over|><|say|>[b<|over|>]\n"),
        ("marked end", "<|ask|>q<|over|><|say|>[a<|over|>]<|ask|>r<|over|><|say|>[b<|over|>]<|eos|>"),
        (
            "marked prefill",
            "<|ask|>q<|over|><|say|><think>\n\n</think>\n\n[a<|over|>]"
            "<|ask|>r<|over|><|say|><think>\n\n</think>\n\n[b<|over|>]",
        ),
    ],
)
def test_marked_turns(chats, name, expected):
    messages = talk("q", "a", "r", "b")
    assert masked(chats[name], messages) == expected
    (example,) = encode(chats[name], messages)
    assert example.trained == sum(chats[name].loss_mask(messages)[1])


def test_a_prefill_that_is_marked_is_not_trained_twice(chats):
    assert sampled(chats["marked prefill"], talk("q", "a")) == [
        ("<|ask|>q<|over|><|say|><think>\n\n</think>\n\n", "a<|over|>")
    ]


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (f"{{{{ '<|say|>Well, ' }}}}{MARK}{{{{ c + '<|over|>' }}}}{UNMARK}", "leaves out 'Well, '"),
        (f"{MARK}{{{{ '<|say|>' + c + '<|over|>Next.\\n' }}}}{UNMARK}", "encloses 'Next."),
        (f"{{{{ '<|say|>' + c + '<|over|>' }}}}{{%- if loop.first -%}}{MARK}x{UNMARK}{{%- endif -%}}", "leaves out"),
    ],
)
def test_marks_that_sampling_contradicts_are_refused(answer, cause):
    chat = ChatFormat(tokenizer_of(around(answer)))
    with pytest.raises(TemplateError, match=cause) as caught:
        chat.loss_mask(talk("q", "a"))
    assert "Mark" in caught.value.remedy


SHOUTING = around(
    f"{{{{ '<|say|>' }}}}{MARK}{{{{ c }}}}{UNMARK}{MARK}{{{{ '<|over|>\\n' }}}}{UNMARK}"
    "{%- if 'loud' in c -%}{{ '!' }}{%- endif -%}"
)


def test_marks_alone_locate_a_turn_whose_content_changes_what_follows():
    chat = ChatFormat(tokenizer_of(SHOUTING))
    expected = "<|ask|>q<|over|><|say|>[loud<|over|>]\n!<|ask|>r<|over|><|say|>[b<|over|>]\n"
    assert masked(chat, talk("q", "loud", "r", "b")) == expected
    with pytest.raises(TemplateError, match="cannot be located"):
        ChatFormat(tokenizer_of(SHOUTING.replace(MARK, "").replace(UNMARK, ""))).loss_mask(talk("q", "loud"))


def test_marks_that_miss_a_turn_are_refused():
    late = SHOUTING.replace(MARK, "{%- if loop.last -%}" + MARK).replace(UNMARK, UNMARK + "{%- endif -%}")
    chat = ChatFormat(tokenizer_of(late))
    with pytest.raises(TemplateError, match="marks 1 turns"):
        chat.loss_mask(talk("q", "loud", "r", "loud"))


# Thoughts --------------------------------------------------------------------------------------------------------

THOUGHT = "<think>\nhm\n</think>\n\na"


@pytest.mark.parametrize(
    ("name", "answer", "prompt_end", "completion"),
    [
        ("opened", THOUGHT, "<think>\n", "hm\n</think>\n\na<|over|>"),
        ("opened", "hm\n</think>\n\na", "<think>\n", "hm\n</think>\n\na<|over|>"),
        ("opened", " <think>hm</think>a", "<think>\n", "hm</think>a<|over|>"),
        ("opened, kept", THOUGHT, "<think>\n", "hm\n</think>\n\na<|over|>"),
        ("opened, kept", "<think>hm</think>a", "<think>\n", "hm</think>a<|over|>"),
        ("dropping", THOUGHT, "<|say|>", THOUGHT + "<|over|>"),
    ],
)
def test_a_dropped_thought_is_kept(chats, name, answer, prompt_end, completion):
    ((prompt, written),) = sampled(chats[name], talk("q", answer))
    assert prompt.endswith(prompt_end)
    assert written == completion
    assert masked(chats[name], talk("q", answer)) == f"{prompt}[{completion}]"


@pytest.mark.parametrize(
    ("name", "answer", "cause"),
    [
        ("opened", "a", "opens a thought"),
        ("opened, kept", "a", "opens a thought"),
        ("opened, kept", "a <think> b", "opens a thought"),
        ("silent", THOUGHT, "puts another one before it"),
        ("marked prefill", THOUGHT, "puts another one before it"),
        ("marked prefill", "hm</think>a", "puts another one before it"),
    ],
)
def test_a_thought_that_cannot_be_kept_is_refused(chats, name, answer, cause):
    for call in (chats[name].loss_mask, chats[name].completion_ids):
        with pytest.raises(TemplateError, match=cause) as caught:
            call(talk("q", answer))
        assert "template_kwargs" in caught.value.remedy


def test_a_thought_that_is_dropped_with_more_is_refused():
    cutting = around("{{ '<|say|>' + ((c.split('</think>')[-1]).strip()[:1] if '</think>' in c else c) + '<|over|>' }}")
    with pytest.raises(TemplateError, match="drops the thought"):
        ChatFormat(tokenizer_of(cutting)).completion_ids(talk("q", THOUGHT + "bc"))


def test_an_answer_behind_another_prompt_is_refused():
    hinting = around(PLAIN, ask="(answer now)<|say|>")
    assert ChatFormat(tokenizer_of(around(PLAIN))).turns(talk("q", "a"))
    with pytest.raises(TemplateError):
        ChatFormat(tokenizer_of(hinting)).turns(talk("q", "a"))


# System messages -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "folds"), [("plain", False), ("no system", True), ("lost system", True)])
def test_a_system_message_is_in_every_prompt(chats, name, folds):
    chat = chats[name]
    assert chat.folds_system is folds
    first, second = sampled(chat, talk("q", "a", "r", "b", system="Be brief."))
    head = "<|ask|>Be brief.\n\nq<|over|><|say|>" if folds else "<|rule|>Be brief.<|over|><|ask|>q<|over|><|say|>"
    assert first == (head, "a<|over|>")
    assert second == (f"{head}a<|over|><|ask|>r<|over|><|say|>", "b<|over|>")


@given(texts=st.lists(TEXT, min_size=2, max_size=6), system=st.lists(TEXT, min_size=1, max_size=2))
def test_folding_is_the_same_as_writing_it_into_the_question(chats, texts, system):
    chat = chats["no system"]
    messages = [{"role": "system", "content": text} for text in system] + talk(*texts)
    folded = talk("\n\n".join([*system, texts[0]]), *texts[1:])
    assert chat.loss_mask(messages) == chat.loss_mask(folded)
    assert chat.turns(messages) == chat.turns(folded)


def test_a_system_message_alone_becomes_the_question(chats):
    only = [{"role": "system", "content": "Write."}]
    assert chats["no system"].render(only) == "<|ask|>Write.<|over|>"
    assert (
        chats["no system"].render([*only, {"role": "assistant", "content": "a"}])
        == "<|ask|>Write.<|over|><|say|>a<|over|>"
    )


# Stop tokens -----------------------------------------------------------------------------------------------------

STOPLESS = {
    "nothing": around("{{ '<|say|>' + c }}"),
    "plain text": around("{{ '<|say|>' + c + '</s>' }}"),
    "plain text, then a token": around("{{ '<|say|>' + c + '\\n### End' }}", end="<|eos|>"),
}


@pytest.mark.parametrize(("name", "template"), STOPLESS.items())
def test_an_answer_without_a_stop_token_is_refused(name, template):
    chat = ChatFormat(tokenizer_of(template))
    seen = {"nothing": "nothing follows it", "plain text": "</s>"}.get(name, "### End")
    assert chat.end_of_turn_id is None
    with pytest.raises(TemplateError, match=f"no stop token.*{seen}"):
        encode(chat, talk("q", "a"))
    with pytest.raises(TemplateError, match="no stop token"):
        chat.loss_mask(talk("q", "a"))
    (doubt,) = sampling_doubts(chat)
    assert seen in doubt.message
    assert "Sampling stops at <|eos|>" in doubt.message
    (doubt,) = training_doubts(chat)
    assert doubt.blocks
    assert doubt.message.startswith("No answer can be trained.")
    assert demonstration(chat) is None
    with pytest.raises(TemplateError, match="no stop token"):
        check_training(chat)


def test_nothing_that_ends_an_answer_is_refused():
    assert ChatFormat(tokenizer_of(TEMPLATES["plain"], eos=None)).stop_token_ids
    with pytest.raises(TemplateError, match="No token ends an answer") as caught:
        ChatFormat(tokenizer_of(STOPLESS["plain text"], eos=None))
    assert "eos_token" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "ending", "stop"),
    [("spaced stop", " <|over|>", "<|over|>"), ("later stop", "<|done|><|eos|>", "<|eos|>")],
)
def test_what_leads_to_the_stop_token_is_trained(chats, name, ending, stop):
    chat = chats[name]
    assert chat.token(chat.stop_token_ids[0]) == stop
    assert sampled(chat, talk("q", "a"))[0][1] == "a" + ending


def test_an_answer_that_goes_on_after_a_stop_token_is_refused(chats):
    with pytest.raises(MessagesError, match=re.escape("continues after the stop token <|over|>")):
        chats["plain"].completion_ids(talk("q", "a<|over|>b"))
    assert chats["plain"].turns(talk("q<|over|>", "a"))


# Doubts ----------------------------------------------------------------------------------------------------------


def test_templates_that_can_be_trained_raise_no_doubt(chats):
    for name in ("plain", "two marks", "no system", "dropping"):
        assert [*sampling_doubts(chats[name]), *training_doubts(chats[name])] == []


@pytest.mark.parametrize(("name", "kind"), [("opened", "without a thought"), ("silent", "with a thought")])
def test_a_template_for_one_kind_of_answer_is_doubted_and_not_blocked(chats, name, kind):
    (doubt,) = training_doubts(chats[name])
    assert doubt.message.startswith(f"Answers {kind} cannot be trained.")
    assert not doubt.blocks
    check_training(chats[name])
    shown = demonstration(chats[name])
    assert shown is not None
    assert ("<think>" in shown[-1]["content"]) == (name == "opened")
