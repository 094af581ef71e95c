"""Runs with a generator and an optimizer: real vLLM, DeepSpeed and evaluator, as one policy and with two adapters."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc
import pytest
import torch
from safetensors.torch import load_file

from warpsmith.evaluator.verdict import Verdict
from warpsmith.policy.loading import load_policy
from warpsmith.policy.logprobs import token_logprobs
from warpsmith.policy.tiny import build_tiny
from warpsmith.records.reader import RunReader
from warpsmith.rollout.datasets import from_generated
from warpsmith.rollout.generator import GeneratedProblem, generate
from warpsmith.rollout.generator.gpu.sizes import ByteRange
from warpsmith.rollout.history import Attempt
from warpsmith.rollout.prompts import Message, build_prompt
from warpsmith.rollout.turn_recording import bytes_over_start

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

AGENTS = ("generator", "optimizer")
TOUCHED = (16384, 65536)
GRPO = """
[run]
console = "turns"
dir = "{run}"
steps = 2
torch_threads = 1
[policy]
path = "{policy}"
dtype = "float32"
{adapters}
[problems]
count = 2
levels = [1]
size = "gpu"
touched = [16384, 65536]
[rollout]
prompt_style = "compact"
[rollout.environment]
type = "kernelbench_two_role"
generator_turns = 1
optimizer_turns = 2
[evaluator]
trials = 1
[rollout.sampling]
max_tokens = 250
[rollout.sampler]
dtype = "float32"
max_model_len = 1024
[algorithm]
prompts_per_step = 2
samples_per_prompt = 2
entropy_coefficient = 0.01
old_logprobs = "recompute"
[optimizer]
lr = 1e-3
schedule = "constant"
[zero]
stage = 2
micro_batch_tokens = 2048
[checkpoint]
every = 1
[wandb]
mode = "disabled"
"""
ADAPTERS = """
[policy.lora]
rank = 4
[policy.adapters]
generator = "new"
optimizer = "new"
"""


def exchanges(problem: GeneratedProblem) -> Iterator[list[Message]]:
    """Yield the generator's task and the optimizer's after it, each answered by the problem's solution."""
    row = from_generated(problem, "train")
    start = Attempt(problem.solution, Verdict("correct", True, True, bytes_moved=problem.touched))
    for agent, given in (("generator", None), ("optimizer", start)):
        prompt = build_prompt(row, style="compact", agent=agent, start=given)
        yield [*prompt, {"role": "assistant", "content": problem.solution.strip()}]


@pytest.fixture(scope="module")
def knowing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny policy that knows the kernels of two problems by heart, so that both agents take turns."""
    problems = generate(seed=0, count=2, levels=(1,), size="gpu", touched=ByteRange(*TOUCHED))
    chats = [chat for problem in problems for chat in exchanges(problem)]
    folder = tmp_path_factory.mktemp("knowing")
    texts = [message["content"] for chat in chats for message in chat]
    base = build_tiny(folder / "tiny", texts, vocab_size=600, layers=2, hidden=64, heads=2, kv_heads=1)
    policy = load_policy(base)
    encoded = [policy.chat.loss_mask(chat) for chat in chats]
    longest = max(len(ids) for ids, _ in encoded)
    ids_BT, mask_BT, seen_BT = (
        torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
        for rows in ([ids for ids, _ in encoded], [mask for _, mask in encoded], [[1] * len(i) for i, _ in encoded])
    )
    # A second thread gains little for a model this small, and waits for busy cores.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=5e-3)
    for _ in range(400):
        logprobs_BT = token_logprobs(policy.model, ids_BT, seen_BT)[0]
        loss = -(logprobs_BT * mask_BT).sum() / mask_BT.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss < 0.02:
            break
    torch.set_num_threads(threads)
    assert loss < 0.1, "it does not know them"
    return policy.save(folder / "knowing")


@pytest.fixture(autouse=True, scope="module")
def no_rank() -> Iterator[None]:
    """A process group that another test made in this process leaves the names of a rank behind."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
            patch.delenv(name, raising=False)
        yield


def trainer(*arguments: object) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "warpsmith.trainer", *map(str, arguments)],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    said = ended.stdout + ended.stderr
    assert ended.returncode == 0, said[-4000:]
    return said


@pytest.fixture(scope="module")
def run(knowing: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two steps with an adapter for each agent: the run's directory and its file."""
    folder = tmp_path_factory.mktemp("agents")
    config = folder / "grpo.toml"
    config.write_text(GRPO.format(run=folder / "run", policy=knowing, adapters=ADAPTERS))
    trainer("grpo", config)
    return folder / "run", config


def check_steps(run: Path) -> None:
    """Both agents took turns in both steps and were trained on; the optimizer's are scored by bytes."""
    reader = RunReader(run)
    steps = [dict(row["metrics"]) for row in reader.table("steps").to_pylist()]
    turns = reader.table("turns").to_pylist()
    assert len(steps) == 2
    for figures in steps:
        assert all(figures[f"agent_{agent}/turns"] > 0 for agent in AGENTS)
        assert figures["grad_norm"] > 0
    scored = [row for row in turns if row["agent"] == "optimizer" and row["verdict"]["correct"]]
    assert scored, "no optimizer's kernel was correct"
    assert all(bytes_over_start(row) is not None for row in scored)
    credits = reader.table("credits")
    trained = credits.filter(pc.is_finite(credits["ratio_mean"]))
    assert set(pc.unique(trained["step"]).to_pylist()) == {1, 2}


def factors(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "adapter_model.safetensors")


@pytest.mark.long  # distributed/test_agents_adapters.py trains, keeps and sends both, rollout's samplers serve them
def test_each_adapter_is_trained_on_its_agents_turns_and_exported(run: tuple[Path, Path]) -> None:
    folder, _ = run
    check_steps(folder)
    found = {agent: factors(folder / "final_adapter" / agent) for agent in AGENTS}
    assert all(any(value.any() for name, value in own.items() if "lora_B" in name) for own in found.values())
    assert any(not torch.equal(found["generator"][name], value) for name, value in found["optimizer"].items())
    assert all((folder / "final_model" / agent / "tokenizer.json").is_file() for agent in AGENTS)


@pytest.mark.long  # A resume of one adapter, and of both without a run, is in every run of the tests.
def test_a_resumed_run_has_the_same_adapters(run: tuple[Path, Path], tmp_path: Path) -> None:
    whole, config = run
    cut = tmp_path / "cut"
    trainer("grpo", config, "--set", f"run.dir={cut}", "--steps", 1)
    trainer("grpo", config, "--set", f"run.dir={cut}", "--resume")
    for agent in AGENTS:
        one, two = (factors(folder / "final_adapter" / agent) for folder in (whole, cut))
        assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.long  # The run with two adapters does all of this too.
def test_both_agents_as_one_policy(knowing: Path, tmp_path: Path) -> None:
    config = tmp_path / "grpo.toml"
    config.write_text(GRPO.format(run=tmp_path / "run", policy=knowing, adapters=""))
    trainer("grpo", config)
    check_steps(tmp_path / "run")
    assert (tmp_path / "run" / "final_model" / "model.safetensors").is_file()
