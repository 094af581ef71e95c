"""Reward functions of the user's own: what is refused at the start, what ends a run, and the documented example."""

import re
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from warpsmith.evaluator.verdict import Verdict, invalid
from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.errors import BadRewardError, RewardFailedError
from warpsmith.rollout.rewards.config import FunctionRewardConfig, PresetRewardConfig
from warpsmith.rollout.rewards.registry import examples, scorer_for
from warpsmith.rollout.settings import SettingsError, checked

DOCUMENT = Path(__file__).parents[4] / "docs" / "rollout.md"
TURN = examples()[0][1]


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes a file into the working directory; returns the configuration that names `score` in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(text, name="score", file="mine.py"):
        (tmp_path / file).write_text(text)
        return FunctionRewardConfig(type="function", path=f"{file}:{name}")

    return write


def refused(config):
    with pytest.raises(BadRewardError) as caught:
        scorer_for(config)
    assert caught.value.remedy
    assert caught.value.exit_code == 2
    return caught.value.message


def test_a_function_scores_and_is_given_what_came_before(written):
    config = written("def score(verdict, turn, history):\n    return turn.index + sum(t.score for t in history)\n")
    scorer = scorer_for(config)
    earlier = replace(TURN, score=0.25)
    assert scorer(replace(TURN, index=2), [earlier, earlier]).value == 2.5


def test_a_function_of_a_module_and_any_callable_will_do(written, tmp_path):
    written(
        "class Reward:\n    def __call__(self, v, t, h):\n        return v.correct\nscore = Reward()\n",
        file="package.py",
    )
    config = FunctionRewardConfig(type="function", path="package:score")
    assert scorer_for(config)(TURN, []).value == 1.0


def test_modules_beside_the_file_can_be_imported(written, tmp_path):
    folder = tmp_path / "rewards"
    folder.mkdir()
    (folder / "beside_the_reward.py").write_text("WORTH = 0.75\n")
    text = "def score(v, t, h):\n    import beside_the_reward\n    return beside_the_reward.WORTH\n"
    assert scorer_for(written(text, file="rewards/mine.py"))(TURN, []).value == 0.75


def test_reading_a_configuration_imports_nothing_and_a_start_imports_once(written, tmp_path):
    text = "open('log', 'a').write('x')\ndef score(v, t, h):\n    return 1\n"
    config = RolloutConfig(reward=written(text).model_dump())
    assert not (tmp_path / "log").exists()
    scorer_for(config.reward)
    scorer_for(config.reward)
    assert (tmp_path / "log").read_text() == "x"


BAD = {
    "no function": ("def scores(v, t, h):\n    return 1\n", "the module has no `score`"),
    "no callable": ("score = 1\n", "an object of the type int; a function was expected"),
    "two parameters": ("def score(verdict, turn):\n    return 1\n", r"takes \(verdict, turn\), but .* too many"),
    "four parameters": ("def score(a, b, c, d):\n    return 1\n", "missing a required argument: 'd'"),
    "keyword": ("def score(v, t, h, *, k):\n    return 1\n", "missing a required argument: 'k'"),
    "async": ("async def score(v, t, h):\n    return 1\n", "is a coroutine"),
    "syntax": ("def score(:\n", "cannot be imported: .*mine.py.*, line 1.*SyntaxError: invalid syntax"),
    "raises": (
        "import math\nmath.sqrt(-1)\ndef score(v, t, h):\n    return 1\n",
        r"ValueError: .*mine\.py:2 in <module>",
    ),
    "exits": ("import sys\nsys.exit(0)\n", "cannot be imported: SystemExit: 0"),
    "absent module": ("import no_such_module_here\n", "No module named 'no_such_module_here'"),
    "no speedup": (
        "def score(v, t, h):\n    return 0.3 + v.speedup\n",
        r"speedup None.*TypeError.*mine\.py:2 in score",
    ),
    "no kernel": ("def score(v, t, h):\n    return len(t.kernel)\n", "kernel None.*TypeError"),
    "no level": ("def score(v, t, h):\n    return 1 / (t.level + 1)\n", "level None.*TypeError"),
    "nothing": ("def score(v, t, h):\n    pass\n", "returned an object of the type NoneType"),
    "text": ("def score(v, t, h):\n    return '1'\n", "returned an object of the type str"),
    "not a number": ("def score(v, t, h):\n    return float('nan')\n", "returned nan"),
    "infinite": ("def score(v, t, h):\n    return float('-inf')\n", "returned -inf"),
    "too large": ("def score(v, t, h):\n    return 10**400\n", "of the type int"),
    "quits": ("def score(v, t, h):\n    raise SystemExit(0)\n", "SystemExit: 0"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_used_is_refused_at_the_start(written, name):
    text, says = BAD[name]
    message = refused(written(text))
    assert re.search(says, message, re.DOTALL), message
    assert "\n" not in message


def test_files_and_modules_that_are_not_there(written, tmp_path):
    assert "no file absent.py in" in refused(FunctionRewardConfig(type="function", path="absent.py:score"))
    assert "no module absent_package" in refused(FunctionRewardConfig(type="function", path="absent_package.x:score"))
    assert refused(written("def scor(v, t, h):\n    return 1\n")).endswith("has no `score`.")
    with pytest.raises(BadRewardError, match="Did you mean `scor`"):
        scorer_for(written("def scor(v, t, h):\n    return 1\n"))


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"type": "function"}, "key `path` is missing in [reward]."),
        ({"path": "a.py:f"}, "key `type` is missing in [reward]."),
        ({"type": "function", "path": "a.py"}, "`reward.path`: 'a.py' names no function; write it as"),
        ({"type": "function", "path": "a-b:f"}, "`reward.path`: 'a-b:f' names no function"),
        ({"type": "function", "path": "a.py:f", "compiled": 1}, "unknown key `compiled` in [reward]"),
        (
            {"type": "functions"},
            "`reward.type`: There is no reward `functions`; installed are function, preset. Did",
        ),
        ({"presets": "kevin"}, "unknown key `presets` in [reward]; did you mean `preset`?"),
    ],
)
def test_tables_that_cannot_be_read(table, says):
    with pytest.raises(SettingsError) as caught:
        checked(RolloutConfig, {"reward": table})
    assert str(caught.value).startswith(says)


def test_a_table_without_a_type_is_a_preset_and_a_dump_is_read_back():
    assert RolloutConfig.model_validate({"reward": {"preset": "kevin"}}).reward == PresetRewardConfig(preset="kevin")
    for reward in (PresetRewardConfig(), FunctionRewardConfig(type="function", path="a.b:f")):
        config = RolloutConfig(reward=reward)
        assert RolloutConfig.model_validate(config.model_dump()) == config


LATER = {
    "raises": ("    return 1 / (v.max_abs_error - 9)", r"ZeroDivisionError: .*, at .*mine\.py:3 in score: `return 1"),
    "not a number": ("    return float('nan')", "returned nan for turn 2 of p in g/0"),
    "no number": ("    return None", "returned an object of the type NoneType for turn 2 of p in g/0"),
}


@pytest.mark.parametrize("name", LATER)
def test_what_fails_later_names_the_turn_and_is_no_score(written, name):
    line, says = LATER[name]
    scorer = scorer_for(written(f"def score(v, t, h):\n    if v.max_abs_error != 9: return 1\n{line}\n"))
    wrong = Verdict("incorrect", True, False, max_abs_error=9.0)
    unseen = replace(TURN, index=1, problem="p", trajectory="g/0", verdict=wrong)
    with pytest.raises(RewardFailedError, match=says) as caught:
        scorer(unseen, [])
    assert "--resume" in caught.value.remedy
    assert caught.value.exit_code == 1


def test_an_invalid_verdict_never_reaches_the_function(written):
    scorer = scorer_for(written("def score(v, t, h):\n    return 1 if v.status != 'invalid' else 1 / 0\n"))
    found = scorer(replace(TURN, verdict=invalid("the judge died")), [])
    assert (found.value, found.invalid_reason) == (None, "evaluation: the judge died")


@pytest.mark.skipif(not DOCUMENT.is_file(), reason="the document stands in the repository, not in the package")
def test_the_documented_example_runs(written, tmp_path):
    part = DOCUMENT.read_text().partition("## A reward of your own")[2].partition("\n## ")[0]
    (table,) = re.findall(r"```toml\n(.*?)```", part, re.DOTALL)
    (code,) = re.findall(r"```python\n(.*?)```", part, re.DOTALL)
    config = RolloutConfig.model_validate(tomllib.loads(table)["rollout"])
    written(code, file=config.reward.path.partition(":")[0])
    scorer = scorer_for(config.reward)
    fast = replace(TURN, verdict=Verdict("correct", True, True, speedup=4.0), completion_tokens=1000)
    assert scorer(fast, []).value == pytest.approx(0.3 + 2.0 - 0.01 + 0.1)
    again = replace(fast, index=1)
    assert scorer(again, [replace(fast, score=1.0)]).value == pytest.approx(0.3 + 2.0 - 0.05 - 0.01)
    assert scorer(replace(TURN, verdict=Verdict("compile_error", False, False)), []).value == 0.0
