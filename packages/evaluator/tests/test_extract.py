"""Taking the kernel out of a completion."""

import textwrap
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.extract import extract_kernel, strip_thoughts

CODE = "import torch\n\n\nclass ModelNew:\n    pass\n"

prose = st.text(alphabet=st.characters(blacklist_characters="`@<", blacklist_categories=("Cs",)), max_size=60).filter(
    lambda t: not any(line.startswith(("import ", "from ", "def ", "class ")) for line in t.splitlines())
)
codes = st.lists(
    st.sampled_from(["import torch", "x = 1", "class ModelNew:", "    pass", "# note", ""]), min_size=1
).map(lambda lines: "import triton\n" + "\n".join(lines))


def fenced(code, language="python"):
    return f"```{language}\n{code}\n```"


DOCUMENTED = '''\
import triton


class ModelNew:
    """Doubles.

    ```
    double = ModelNew()
    ```
    """

    def forward(self, x):
        return x
'''


@st.composite
def fenced_anyhow(draw):
    """A kernel, and the same in a fence of some form, in a list or not."""
    code = draw(st.sampled_from([CODE, DOCUMENTED]))
    run = draw(st.sampled_from(["`", "~"])) * draw(st.integers(3, 5))
    info = draw(st.sampled_from(["", "python", " py ", "Python", "{python}", "{.python #k}", 'python title="x.py"']))
    closing = draw(st.sampled_from([run, run + run[0], None]))
    block = f"{run}{info}\n{code}" + (f"{closing}\nIt is fast.\n" if closing else "")
    text = draw(prose) + "\n" + textwrap.indent(block, draw(st.sampled_from(["", "   ", "\t"])))
    return code, text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


@given(fenced_anyhow())
def test_a_kernel_comes_out_of_a_fence_of_any_form(kernel_and_text):
    code, text = kernel_and_text
    assert extract_kernel(text) == code


@pytest.mark.parametrize("language", ["", "python"])
def test_a_usage_example_after_the_kernel_is_not_the_kernel(language):
    example = fenced("model = ModelNew().cuda()\nprint(model(x))", language)
    assert extract_kernel(f"{fenced(CODE)}\nUse it:\n{example}\n") == CODE


@given(prose, codes, prose, st.sampled_from(["python", "py", "Python", "", "triton"]))
def test_a_block_is_found_whatever_stands_around_it(before, code, after, language):
    found = extract_kernel(f"{before}\n{fenced(code, language)}\n{after}")
    assert found == code.strip("\n").rstrip() + "\n"


@given(prose, codes)
def test_an_unclosed_block_runs_to_the_end(before, code):
    assert extract_kernel(f"{before}\n```python\n{code}") == code.strip("\n").rstrip() + "\n"


@given(codes)
def test_bare_code_is_taken_as_it_is(code):
    assert extract_kernel(code) == code.rstrip() + "\n"


@given(st.text())
def test_any_text_gives_code_or_nothing(text):
    found = extract_kernel(text)
    assert found is None or (isinstance(found, str) and found.strip())


@given(prose, codes)
def test_thoughts_never_give_code(thought, code):
    answer = f"<think>{thought}\n{fenced('class ModelNew: draft = 1')}</think>\n{fenced(code)}"
    assert "draft" not in extract_kernel(answer)
    assert extract_kernel(f"<think>{thought}\n{fenced(code)}") is None


def test_the_last_block_that_names_the_entry_point_counts():
    text = "\n".join([fenced("class ModelNew: a = 1"), fenced("class ModelNew: b = 2"), fenced("print(ModelOld)")])
    assert extract_kernel(text) == "class ModelNew: b = 2\n"


def test_without_a_definition_the_last_block_that_names_the_entry_point_counts():
    text = "\n".join([fenced("ModelNew = 1"), fenced("class ModelNewer: pass"), fenced("x = 1")])
    assert extract_kernel(text) == "class ModelNewer: pass\n"


@pytest.mark.parametrize("inner", ["```", "~~~~", "``` x"])
def test_a_longer_or_other_fence_is_not_closed_by_what_stands_in_it(inner):
    assert extract_kernel(f"````python\n{CODE}{inner}\nx = 1\n````\n") == f"{CODE}{inner}\nx = 1\n"


def test_a_string_that_never_ends_does_not_swallow_what_follows_its_block():
    broken = CODE + '"""'
    assert extract_kernel(f"{fenced(broken)}\nDone.\n{fenced('x', 'text')}") == broken + "\n"


def test_a_draft_in_thoughts_that_open_behind_other_words_and_never_end_is_no_kernel():
    assert extract_kernel(f"Let me see. <think>\nfirst:\n{fenced(CODE)}\nno, this is wrong") is None
    assert extract_kernel(f"Let me see. <think>\n{CODE}") is None


@pytest.mark.parametrize("line", ["# <think>", 'TEXT = "<think>"', "x = 1  # <think> once more"])
def test_a_comment_or_a_string_of_a_kernel_opens_no_thoughts(line):
    code = CODE + line + "\n"
    assert extract_kernel(code) == code
    assert extract_kernel(fenced(code)) == code
    assert extract_kernel(f"<think>\nhm\n</think>\n{fenced(code)}") == code


@pytest.mark.parametrize(
    "line",
    [
        "# </think>",
        'TEXT = "</think>"',
        "x = 1  # </think> once more </think>",
        "# drop <think> and </think> here",
        'A, B = "<think>", "</think>"',
        'T = "a </think> b"',
        r"T = re.compile(r'<think>.*</think>')",
    ],
)
def test_a_comment_or_a_string_of_a_kernel_ends_no_thoughts(line):
    code = CODE + line + "\nlast = 1\n"
    for block in (code, fenced(code), f"Here it is:\n{fenced(code)}\nThat's all."):
        assert extract_kernel(block) == code
    first = "import triton  " + line + "\n" + CODE
    assert extract_kernel(fenced(first)) == first
    for kernel in (code, first):
        for answer in (f"<think>\nhm\n</think>\n{fenced(kernel)}", f"hm.</think>\n{fenced(kernel)}"):
            assert extract_kernel(answer) == kernel
            assert extract_kernel(answer, opened_thoughts=True) == kernel
    # Cut off before its block was closed.
    assert extract_kernel(f"hm.</think>\n```python\n{code}", opened_thoughts=True) == code


@pytest.mark.parametrize(
    "end", ["# so be it</think>", "as in #3</think>", "it's '</think>", 'I name it "x"</think>', "</think>"]
)
def test_a_tag_in_prose_ends_thoughts_whatever_stands_before_it(end):
    drafts = [
        fenced("class ModelNew: draft = 1"),
        "```python\nclass ModelNew: draft = 1\n",
        fenced("class ModelNew: draft = 1", ""),
    ]
    for draft in drafts:
        thoughts = f"hm\n{draft}\n{end}\n"
        assert extract_kernel(f"{thoughts}{fenced(CODE)}") == CODE
        assert extract_kernel(f"<think>{thoughts}{fenced(CODE)}") == CODE
        assert extract_kernel(f"{thoughts}{fenced(CODE)}", opened_thoughts=True) == CODE
        assert extract_kernel(f"{thoughts}I cannot do it.", opened_thoughts=True) is None
    assert extract_kernel(f"{drafts[0]}\n{end}\nI cannot do it.") is None
    assert extract_kernel(f"Plan:\nimport torch first, {end}\n{CODE}") == CODE


def test_a_closed_draft_right_before_the_tag_is_no_answer():
    assert extract_kernel(f"```python\nclass ModelNew: draft = 1\n```</think>\n{fenced(CODE)}") == CODE
    mention = f"I must write </think> later.\n{fenced('class ModelNew: draft = 1')}\nas in #3</think>\nI cannot."
    assert extract_kernel(mention, opened_thoughts=True) is None


def test_the_marks_under_a_quoted_error_are_no_fence():
    assert extract_kernel(f"    y = tl.load(p)\n        ~~~~~~~^^^\n{fenced(CODE)}") == CODE


@pytest.mark.parametrize(
    "piece",
    [
        "```" + "a" * 50,
        " ",
        "`",
        "\n``` ",
        "```python\n",
        '```python\n"""\n```\n"""\n',
        "```x" + " " * 50,
        "'</think>",
        "# </think>\n```\n",
        "</think>#",
    ],
)
@pytest.mark.timeout(60)
def test_no_text_holds_anybody_up(piece):
    began = time.process_time()
    extract_kernel(piece * (1_000_000 // len(piece)) + "`")
    assert time.process_time() - began < 20


def test_without_an_entry_point_the_last_python_block_counts():
    text = "\n".join([fenced("a = 1"), fenced("b = 2"), fenced("ls", "bash")])
    assert extract_kernel(text) == "b = 2\n"


def test_blocks_of_other_languages_give_nothing():
    assert extract_kernel(fenced("echo ModelNew", "bash")) is None


def test_a_lone_closing_tag_ends_thoughts_that_the_prompt_opened():
    assert strip_thoughts(f"class ModelNew: draft\n</think>\n{CODE}").strip() == CODE.strip()


def test_thoughts_that_the_prompt_opened_and_nothing_ends_hold_no_answer():
    draft = f"Let me try:\n{fenced('class ModelNew: draft = 1')}\nNo, the mask is missing."
    assert extract_kernel(draft, opened_thoughts=True) is None
    assert extract_kernel(f"{draft}</think>\n{fenced(CODE)}", opened_thoughts=True) == CODE


@pytest.mark.parametrize("text", ["", "I cannot do this.", "```python\n\n```", "the import of this is unclear"])
def test_prose_alone_gives_nothing(text):
    assert extract_kernel(text) is None


def test_prose_before_bare_code_is_dropped():
    assert extract_kernel("Here it is:\n" + CODE) == CODE
