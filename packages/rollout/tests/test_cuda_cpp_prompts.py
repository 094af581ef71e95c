"""CUDA C++ in rollouts: what prompts ask for, what is read from an answer, and what a later turn is shown of nvcc."""

import asyncio

import pytest

from warpsmith.evaluator import Evaluator, EvaluatorConfig
from warpsmith.evaluator.extract import extract_kernel
from warpsmith.evaluator.instructions import CUDA_EXAMPLE, UnaskedLanguageError
from warpsmith.evaluator.languages.cuda_cpp import toolkit
from warpsmith.evaluator.server.probe import PROBLEM as ADD
from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.collector import Collector
from warpsmith.rollout.config import RolloutConfig, SessionConfig
from warpsmith.rollout.datasets import ProblemRow
from warpsmith.rollout.datasets.formats import Entry
from warpsmith.rollout.datasets.verification import prompt_of
from warpsmith.rollout.environments.base import EnvironmentContext
from warpsmith.rollout.environments.registry import make_environment
from warpsmith.rollout.history import Attempt
from warpsmith.rollout.prompts import build_prompt
from warpsmith.rollout.rewards.registry import scorer_for
from warpsmith.rollout.settings import SettingsError, checked

PROBLEM = ProblemRow("add", ADD, 1, "test")
ENVIRONMENTS = ("kernelbench", "kernelbench_multiturn", "kernelbench_generate", "kernelbench_two_role")
WRONG = Verdict("compile_error", False, False, error_message='cuda_sources[0](6): error: identifier "z" is undefined')
BROKEN = CUDA_EXAMPLE.replace("out[i] = x[i] + y[i]", "out[i] = x[i] + z[i]")
ROOMY = {"prompt_tokens": 30_000, "sampler": {"max_model_len": 40_000}, "sampling": {"max_tokens": 8000}}


def asked(style="full", attempts=(), **options):
    return "\n".join(m["content"] for m in build_prompt(PROBLEM, attempts, style=style, language="cuda_cpp", **options))


@pytest.mark.parametrize("operators", ["none", "library", "any"])
@pytest.mark.parametrize("agent", [None, "generator", "optimizer"])
def test_a_full_prompt_asks_for_cuda_alone_whoever_is_asked(agent, operators):
    start = Attempt(CUDA_EXAMPLE, Verdict("correct", True, True, speedup=1.5)) if agent == "optimizer" else None
    text = asked(agent=agent, operators=operators, start=start)
    assert "CUDA C++ kernels" in text
    assert "load_inline" in text
    assert CUDA_EXAMPLE in text
    assert "{" not in text.replace(CUDA_EXAMPLE, "").replace(CUDA_EXAMPLE.strip(), "")
    assert "triton" not in text.lower()


def test_a_compact_prompt_begins_with_the_language():
    assert asked("compact").splitlines()[:2] == ["# CUDA C++, load_inline", "def forward(self, x, y):"]
    policy = asked("compact", operators="library").splitlines()[:2]
    assert policy == ["# CUDA C++, load_inline", "# operators: library"]


@pytest.mark.parametrize("style", ["full", "compact"])
def test_a_later_turn_shows_the_kernel_and_what_nvcc_said(style):
    text = asked(style, [Attempt(BROKEN, WRONG)])
    assert BROKEN.strip() in text
    assert 'cuda_sources[0](6): error: identifier "z" is undefined' in text


def test_long_errors_of_nvcc_shrink_before_the_kernel_goes():
    long = "\n".join(f'cuda_sources[0]({line}): error: identifier "v{line}" is undefined' for line in range(60))
    tried = Attempt(BROKEN, Verdict("compile_error", False, False, error_message=long))
    whole = len(asked(attempts=[tried]).split())
    text = asked(
        attempts=[tried], budget=whole - 50, count_tokens=lambda ms: sum(len(m["content"].split()) for m in ms)
    )
    assert BROKEN.strip() in text
    assert '"v0" is undefined' in text
    assert '"v59" is undefined' in text
    assert '"v30" is undefined' not in text


DRAFT = CUDA_EXAMPLE.replace("x[i] + y[i]", "0.0f")
FENCED = CUDA_EXAMPLE.replace('CUDA_SOURCE = r"""\n', 'CUDA_SOURCE = r"""\n// As in:\n```\n')


@pytest.mark.parametrize(
    ("completion", "kernel"),
    [
        (f"```python\n{CUDA_EXAMPLE}```", CUDA_EXAMPLE),
        (f"The kernel:\n```cpp\n__global__ void k();\n```\nThe file:\n```python\n{CUDA_EXAMPLE}```\n", CUDA_EXAMPLE),
        (f"```python\n{CUDA_EXAMPLE}```\nIts kernel alone:\n```cuda\n__global__ void k();\n```", CUDA_EXAMPLE),
        (f"A draft:\n```python\n{DRAFT}```\nBetter:\n```python\n{CUDA_EXAMPLE}```", CUDA_EXAMPLE),
        (f"```python\n{CUDA_EXAMPLE}```\nUse:\n```python\nprint(ModelNew()(x, y))\n```", CUDA_EXAMPLE),
        (f"<think>```python\n{DRAFT}```</think>```python\n{CUDA_EXAMPLE}```", CUDA_EXAMPLE),
        (f"~~~~python\n{FENCED}~~~~", FENCED),
        (f"```python\n{CUDA_EXAMPLE}", CUDA_EXAMPLE),
        (CUDA_EXAMPLE, CUDA_EXAMPLE),
        ("```cpp\n__global__ void k() {}\n```", None),
    ],
)
def test_the_module_is_found_in_an_answer_beside_other_blocks(completion, kernel):
    assert extract_kernel(completion) == kernel


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_environment_asks_in_the_language_of_its_context(name, chat, scripted_judge):
    config = RolloutConfig(environment=name, **ROOMY)
    context = EnvironmentContext(config, scripted_judge(lambda _: WRONG), chat, scorer_for(config.reward), "cuda_cpp")
    text = make_environment(context).initial_prompt(PROBLEM)[-1]["content"]
    assert CUDA_EXAMPLE in text
    assert "Triton" not in text


@pytest.mark.parametrize("language", ["triton", "cuda_cpp"])
def test_the_record_of_a_data_sets_kernel_has_the_prompt_that_a_rollout_asks_with(language):
    entry = Entry("add", ADD, 1, kernel=CUDA_EXAMPLE, language=language)
    wanted = build_prompt(entry.as_row("pairs"), style="full", operators="library", language=language)
    assert prompt_of(entry, "pairs", "library") == wanted
    assert (CUDA_EXAMPLE in wanted[-1]["content"]) == (language == "cuda_cpp")


@pytest.fixture
def other_language(monkeypatch, tmp_path):
    """A language that an installed package provides, and that no prompt of ours asks for."""
    metadata = tmp_path / "other-0.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 0.1\n")
    entry = "[warpsmith.languages]\ntilelang = warpsmith.evaluator.languages.triton.language:TRITON\n"
    (metadata / "entry_points.txt").write_text(entry)
    monkeypatch.syspath_prepend(tmp_path)


def test_a_language_without_prompts_is_refused_at_the_start(chat, scripted_judge):
    config = RolloutConfig()
    context = EnvironmentContext(config, scripted_judge(lambda _: WRONG), chat, scorer_for(config.reward), "tilelang")
    with pytest.raises(UnaskedLanguageError, match="No prompt asks for kernels in the language 'tilelang'"):
        make_environment(context)


@pytest.mark.usefixtures("other_language")
def test_settings_with_a_language_without_prompts_say_what_to_change():
    with pytest.raises(
        SettingsError, match=r"are triton, cuda_cpp\. Set one of them, or rollout\.environment\.type to"
    ):
        checked(SessionConfig, {"evaluator": {"language": "tilelang"}})


def test_a_language_counts_where_servers_judge():
    servers = {"type": "server", "servers": ["http://10.0.0.7:18188"]}
    config = checked(SessionConfig, {"evaluation": servers, "evaluator": {"language": "cuda_cpp"}})
    assert config.evaluator.language == "cuda_cpp"


@pytest.fixture(scope="module")
def evaluator():
    try:
        toolkit.find()
    except toolkit.ToolkitError as error:
        pytest.skip(str(error))
    config = EvaluatorConfig(language="cuda_cpp", slots=1, ready_workers=1, compile_timeout_s=90.0)
    with Evaluator(config) as running:
        yield running


@pytest.mark.slow
def test_an_episode_that_mends_what_nvcc_refuses(evaluator, chat, scripted_sampler):
    answers = [f"```python\n{source}```" for source in (BROKEN, CUDA_EXAMPLE)]
    config = RolloutConfig(environment={"max_turns": 2}, reward={"preset": "profiled_rejection"}, **ROOMY)
    collector = Collector(scripted_sampler(*answers), evaluator, chat, config, run="r", language="cuda_cpp")
    rows = asyncio.run(collector.collect([PROBLEM], 1, label="step-0")).to_pylist()
    assert [row["verdict"]["status"] for row in rows] == ["compile_error", "undecided"]
    # Without a GPU a kernel that compiles is worth what one that only compiles is worth.
    assert [row["reward"] for row in rows] == [0.0, 0.1]
    assert 'error: identifier "z" is undefined' in rows[1]["messages"][-1]["content"]
    assert BROKEN.strip() in rows[1]["messages"][-1]["content"]
