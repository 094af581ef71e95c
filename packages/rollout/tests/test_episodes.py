"""Episodes and collections against a scripted sampler and judge: rows, ends, retries, deadlines, lost turns."""

import asyncio
from dataclasses import replace

import pytest

from warpsmith.evaluator.errors import BadProblemError, JudgeUnavailableError
from warpsmith.evaluator.verdict import Verdict, invalid
from warpsmith.records.errors import UsageError
from warpsmith.records.schema import TURNS
from warpsmith.rollout.collector import Collector
from warpsmith.rollout.config import RolloutConfig, SamplingConfig
from warpsmith.rollout.datasets import from_generated
from warpsmith.rollout.errors import BadRewardError, RewardFailedError, SamplerDiedError, SamplerError
from warpsmith.rollout.generator import generate

GOOD, WRONG, BROKEN = "class ModelNew: good", "class ModelNew: wrong", "class ModelNew: broken"


def config(**settings):
    return RolloutConfig(prompt_style="compact", prompt_tokens=2000, sampler={"max_model_len": 4096}, **settings)


@pytest.fixture
def rule(verdicts):
    return lambda kernel: verdicts[kernel.split()[-1].replace("good", "correct")]


@pytest.fixture
def collect(chat, problem, scripted_judge, rule):
    def go(
        sampler, *, judge=None, samples=1, problems=None, seed=None, on_turn=None, on_trajectory=None, most=None,
        labels=None, **settings,
    ):  # fmt: skip
        collector = Collector(
            sampler,
            judge or scripted_judge(rule),
            chat,
            config(**settings),
            run="r",
            on_turn=on_turn,
            on_trajectory=on_trajectory,
        )
        return asyncio.run(
            collector.collect(
                problems or [problem], samples, label="step-0", seed=seed, max_turns=most, **(labels or {})
            )
        )

    return go


def test_rows_say_for_which_step_and_stage_they_were_sampled(collect, scripted_sampler):
    rows = collect(scripted_sampler(WRONG, GOOD), labels={"after_step": 3, "rollout_step": 4, "stage": 2}).to_pylist()
    assert [(row["after_step"], row["rollout_step"], row["stage"]) for row in rows] == [(3, 4, 2)] * 2
    (row,) = collect(scripted_sampler(GOOD)).to_pylist()
    assert (row["after_step"], row["rollout_step"], row["stage"]) == (None, None, None)


def test_an_episode_ends_with_a_correct_kernel_and_its_rows_fit_the_schema(collect, scripted_sampler, problem):
    table = collect(scripted_sampler(BROKEN, WRONG, GOOD))
    assert table.schema.equals(TURNS)
    rows = table.to_pylist()
    assert [r["verdict"]["status"] for r in rows] == ["compile_error", "incorrect", "correct"]
    assert [r["reward"] for r in rows] == [0.0, 0.1, 0.3]
    assert [r["return"] for r in rows] == pytest.approx([0.04 + 0.048, 0.1 + 0.12, 0.3])
    assert [(r["turn"], r["num_turns"], r["valid"], r["invalid_reason"]) for r in rows] == [
        (0, 3, True, None),
        (1, 3, True, None),
        (2, 3, True, None),
    ]
    assert {(r["run"], r["group"], r["trajectory"], r["sample"]) for r in rows} == {("r", "step-0/0", "step-0/0/0", 0)}
    assert {(r["problem"], r["source"], r["level"]) for r in rows} == {(problem.name, "generated/train", 1)}


@pytest.mark.parametrize("leave_out", [False, True])
def test_a_problem_in_which_nothing_varies_is_left_out_of_training_where_that_is_set(
    collect, scripted_sampler, scripted_judge, rule, leave_out
):
    judge = scripted_judge(lambda kernel: replace(rule(kernel), flags=("unvaried",)))
    rows = collect(scripted_sampler(WRONG, GOOD), judge=judge, leave_out_unvaried=leave_out).to_pylist()
    assert [row["valid"] for row in rows] == ([False] if leave_out else [True, True])
    assert [row["reward"] for row in rows] == ([None] if leave_out else [0.1, 0.3])
    assert not leave_out or "leave_out_unvaried" in rows[0]["invalid_reason"]


def test_rows_carry_the_samplers_own_tokens(collect, scripted_sampler, chat):
    sampler = scripted_sampler(GOOD, version=7)
    (row,) = collect(sampler, seed=5, sampling=SamplingConfig(temperature=0.7, top_k=3)).to_pylist()
    prompt_ids, sampling = sampler.requests[0]
    assert row["prompt_ids"] == prompt_ids == chat.prompt_ids(row["messages"])
    assert row["completion_ids"] == [ord(c) for c in GOOD] + [0]
    assert row["logprobs"] == [-0.5] * len(row["completion_ids"])
    assert set(row["weight_versions"]) == {7}
    assert (row["finish_reason"], row["completion"], row["kernel"]) == ("stop", GOOD, GOOD + "\n")
    assert row["sampling"] == {
        "temperature": 0.7,
        "top_p": None,
        "top_k": 3,
        "min_p": None,
        "max_tokens": 1024,
        "seed": sampling.seed,
    }
    assert sampling.stop_token_ids == (0,)


def test_a_later_turn_is_shown_what_became_of_the_one_before(collect, scripted_sampler):
    rows = collect(scripted_sampler(WRONG, GOOD)).to_pylist()
    second = rows[1]["messages"][-1]["content"]
    assert WRONG in second
    assert "incorrect 25%" in second


def test_each_problem_can_have_fewer_turns_than_the_environment(collect, scripted_sampler, problem):
    problems = [replace(problem, name=name) for name in ("one", "two", "all")]
    rows = collect(scripted_sampler(WRONG, WRONG, WRONG), problems=problems, most=[1, 2, None]).to_pylist()
    turns = {name: [row["num_turns"] for row in rows if row["problem"] == name] for name in ("one", "two", "all")}
    assert turns == {"one": [1], "two": [2, 2], "all": [3, 3, 3]}


def test_two_failures_in_a_row_end_an_episode(collect, scripted_sampler):
    rows = collect(scripted_sampler(BROKEN)).to_pylist()
    assert [r["reward"] for r in rows] == [0.0, 0.0]


def test_the_single_turn_task_has_one_turn(collect, scripted_sampler):
    (row,) = collect(scripted_sampler(WRONG), environment="kernelbench").to_pylist()
    assert (row["return"], row["num_turns"], row["task"]) == (0.1, 1, "kernelbench")


def test_timed_episodes_go_on_until_the_kernel_is_fast(collect, scripted_sampler, scripted_judge):
    speeds = [1.1, 2.5]
    judge = scripted_judge(lambda _: Verdict("correct", True, True, speedup=speeds.pop(0)))
    rows = collect(scripted_sampler("class ModelNew: a", "class ModelNew: b"), judge=judge).to_pylist()
    assert [r["reward"] for r in rows] == pytest.approx([0.4, 1.8])


def test_the_judge_is_asked_under_the_policy_that_the_prompt_states(
    collect, scripted_sampler, scripted_judge, rule, problem
):
    judge = scripted_judge(rule)
    collect(scripted_sampler(GOOD), judge=judge)
    assert judge.policies == [problem.usual_operators]
    collect(scripted_sampler(GOOD), judge=judge, operators="any")
    assert judge.policies[-1] == "any"


def test_an_answer_without_code_scores_zero_without_the_judge(collect, scripted_sampler, scripted_judge, rule):
    judge = scripted_judge(rule)
    rows = collect(scripted_sampler("I give up.", GOOD), judge=judge).to_pylist()
    assert (rows[0]["kernel"], rows[0]["reward"], rows[0]["valid"]) == (None, 0.0, True)
    assert rows[0]["verdict"]["error_category"] == "parse_error"
    assert len(judge.asked) == 1


def test_a_completion_cut_within_thoughts_that_the_prompt_opened_holds_no_code(chat, collect, scripted_sampler):
    chat.opens_thoughts = True
    first, second = collect(scripted_sampler(f"Perhaps {GOOD}\n", f"Now:</think>\n{GOOD}")).to_pylist()
    assert (first["kernel"], first["reward"], second["reward"]) == (None, 0.0, 0.3)


def test_lost_evaluations_are_tried_again_and_never_rewarded(collect, scripted_sampler, scripted_judge, verdicts):
    answers = [invalid("worker lost"), verdicts["correct"]]
    (row,) = collect(scripted_sampler(GOOD), judge=scripted_judge(lambda _: answers.pop(0))).to_pylist()
    assert (row["reward"], row["valid"]) == (0.3, True)

    rows = collect(scripted_sampler(GOOD), judge=scripted_judge(lambda _: invalid("worker lost"))).to_pylist()
    assert [(r["reward"], r["return"], r["valid"]) for r in rows] == [(None, None, False)]
    assert "worker lost" in rows[0]["invalid_reason"]


def test_a_lost_turn_takes_the_returns_of_the_turns_before_it(collect, scripted_sampler, scripted_judge, verdicts):
    judge = scripted_judge(lambda kernel: verdicts["wrong"] if "wrong" in kernel else invalid("gone"))
    first, second = collect(scripted_sampler(WRONG, GOOD), judge=judge).to_pylist()
    assert (first["reward"], first["return"], first["valid"]) == (0.1, None, False)
    assert "turn 2 of the trajectory was lost" in first["invalid_reason"]
    assert (second["reward"], second["valid"]) == (None, False)


def test_failed_generations_are_tried_again_then_invalid(collect, scripted_sampler):
    (row,) = collect(scripted_sampler(SamplerError("full", ""), GOOD)).to_pylist()
    assert row["reward"] == 0.3
    (row,) = collect(scripted_sampler(SamplerError("full", "")), retries=2).to_pylist()
    assert (row["reward"], row["valid"], row["completion_ids"]) == (None, False, [])
    assert "full" in row["invalid_reason"]


def test_every_wait_has_a_deadline_that_names_what_it_waits_for(collect, scripted_sampler, scripted_judge, problem):
    async def never():
        await asyncio.Event().wait()

    (row,) = collect(scripted_sampler(never), generate_timeout_s=0.02, retries=0).to_pylist()
    assert f"the completion of turn 1 of {problem.name}" in row["invalid_reason"]

    class Stuck:
        def __init__(self, *running):
            self.running = running

        async def evaluate_async(self, *args, on_running, **kwargs):
            for running in self.running:
                on_running(running)
            await never()

    what = f"the verdict on a kernel for {problem.name}"
    limits = {"evaluate_timeout_s": 0.02, "evaluate_wait_s": 0.03, "retries": 0}
    (row,) = collect(scripted_sampler(GOOD), judge=Stuck(True), **limits).to_pylist()
    assert f"Waited 0.02 s for {what}" in row["invalid_reason"]
    (row,) = collect(scripted_sampler(GOOD), judge=Stuck(), **limits).to_pylist()
    assert f"Waited 0.05 s for {what}" in row["invalid_reason"]
    for progress in ((False,), (True, False)):
        (row,) = collect(scripted_sampler(GOOD), judge=Stuck(*progress), **limits).to_pylist()
        assert f"Waited 0.03 s for a free slot for {what}" in row["invalid_reason"]


def test_a_slow_episode_holds_up_nobody(collect, scripted_sampler):
    finished = []

    async def slow():
        while len(finished) < 3:
            await asyncio.sleep(0)
        return GOOD

    table = collect(
        scripted_sampler(slow, GOOD), samples=4, on_trajectory=lambda rows: finished.append(rows[0]["sample"])
    )
    assert table.num_rows == 4
    assert finished[-1] == 0


def test_groups_are_whole_and_in_order_whatever_happens(collect, scripted_sampler):
    problems = [from_generated(p, "train") for p in generate(seed=3, count=3)]
    sampler = scripted_sampler(SamplerError("full", ""), GOOD)
    rows = collect(sampler, problems=problems, samples=4, retries=0).to_pylist()
    assert [(r["group"], r["sample"]) for r in rows] == [(f"step-0/{g}", s) for g in range(3) for s in range(4)]
    assert sum(not r["valid"] for r in rows) == 1


def test_concurrency_is_bounded(collect, scripted_sampler):
    running, most = 0, 0

    async def counted():
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return GOOD

    collect(scripted_sampler(counted), samples=9, concurrency=3)
    assert most == 3


def test_seeds_differ_by_sample_and_turn_and_repeat(collect, scripted_sampler):
    def seeds(seed):
        sampler = scripted_sampler(WRONG)
        collect(sampler, samples=3, seed=seed)
        return [sampling.seed for _, sampling in sampler.requests]

    first = seeds(1)
    assert len(set(first)) == 9
    assert sorted(seeds(1)) == sorted(first)
    assert not set(seeds(2)) & set(first)


def test_the_same_kernel_of_a_group_is_judged_once(collect, scripted_sampler, scripted_judge, rule):
    judge = scripted_judge(rule)
    collect(scripted_sampler(GOOD), samples=6, judge=judge)
    assert len(judge.asked) == 1


def test_callbacks_see_turns_as_they_end(collect, scripted_sampler):
    turns = []
    collect(
        scripted_sampler(WRONG, GOOD), on_turn=lambda row: turns.append((row["turn"], row["reward"], row["return"]))
    )
    assert turns == [(0, 0.1, None), (1, 0.3, None)]


@pytest.mark.parametrize("error", [SamplerDiedError("gone", ""), JudgeUnavailableError("gone", "")])
def test_a_dead_sampler_or_judge_ends_the_collection(collect, scripted_sampler, scripted_judge, error):
    sampler = scripted_sampler(error if isinstance(error, SamplerDiedError) else GOOD)
    judge = scripted_judge(lambda _: error)
    with pytest.raises(type(error), match="gone"):
        collect(sampler, judge=judge, samples=3)


def test_a_bad_problem_and_a_long_one_are_invalid_and_others_go_on(
    collect, scripted_sampler, scripted_judge, verdicts, problem
):
    judge = scripted_judge(lambda _: BadProblemError("no Model", ""))
    (row,) = collect(scripted_sampler(GOOD), judge=judge).to_pylist()
    assert row["invalid_reason"].startswith("problem: no Model")
    long = replace(problem, text=problem.text.replace("return x", "x = x + 1.0\n        " * 200 + "return x"))
    lost, fine = collect(scripted_sampler(GOOD), problems=[long, problem]).to_pylist()
    assert lost["invalid_reason"].startswith("problem: ") and "budget" in lost["invalid_reason"]
    assert fine["valid"]


def test_no_episode_is_refused(collect, scripted_sampler):
    with pytest.raises(UsageError, match="no episodes"):
        collect(scripted_sampler(GOOD), samples=0)


def test_lengths_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="do not fit"):
        RolloutConfig(prompt_tokens=2000, sampling=SamplingConfig(max_tokens=200), sampler={"max_model_len": 2048})
    assert RolloutConfig(sampling=SamplingConfig(max_tokens=1000)).prompt_budget == 1048


@pytest.fixture
def rewarded(tmp_path, monkeypatch):
    """Writes a reward function into the working directory; returns the table that names it."""
    monkeypatch.chdir(tmp_path)

    def write(text):
        (tmp_path / "mine.py").write_text(text)
        return {"type": "function", "path": "mine.py:score"}

    return write


def test_a_function_of_the_users_own_scores_each_turn_with_those_before(collect, scripted_sampler, problem, rewarded):
    reward = rewarded(
        "def score(verdict, turn, history):\n"
        "    seen = [(t.index, t.verdict.status, t.kernel, t.score) for t in history]\n"
        "    first = [(0, 'incorrect', 'class ModelNew: wrong\\n', -1)]\n"
        "    assert turn.problem == 'example' or seen == first[: turn.index], seen\n"
        "    return 5 * turn.index + turn.completion_tokens / 1000 if verdict.correct else -1\n"
    )
    rows = collect(scripted_sampler(WRONG, GOOD), reward=reward).to_pylist()
    assert [row["reward"] for row in rows] == [-1, 5 + (len(GOOD) + 1) / 1000]
    assert rows[0]["return"] == pytest.approx(-1 + 0.4 * rows[1]["reward"])


def test_a_reward_function_that_raises_ends_the_collection_and_names_the_turn(
    collect, scripted_sampler, problem, rewarded
):
    reward = rewarded(
        "def score(verdict, turn, history):\n    return 1 / (turn.problem == 'example' or not verdict.correct)\n"
    )
    with pytest.raises(RewardFailedError, match=rf"turn 2 of {problem.name} in step-0/0/\d .*ZeroDivisionError"):
        collect(scripted_sampler(WRONG, GOOD), reward=reward)


def test_a_reward_function_that_cannot_be_used_is_refused_before_anything_is_sampled(
    collect, scripted_sampler, rewarded
):
    sampler = scripted_sampler(GOOD)
    with pytest.raises(BadRewardError, match="has no `score`"):
        collect(sampler, reward=rewarded("def other(v, t, h):\n    return 1\n"))
    assert not sampler.requests
