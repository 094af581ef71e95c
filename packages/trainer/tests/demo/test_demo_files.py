"""The demo's files come with the package: it runs from a wheel, in any directory."""

import pytest

from warpsmith.trainer.config import load_grpo, load_sft
from warpsmith.trainer.demo import OWN_GRPO, OWN_SFT, DemoSettings
from warpsmith.trainer.demo import run as demo
from warpsmith.trainer.demo.run import checked_overrides
from warpsmith.trainer.errors import LaunchError


def test_the_files_of_the_demo_are_found_anywhere_and_fit_each_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load_sft(OWN_SFT).data.source.type == "generated"
    assert load_grpo(OWN_GRPO).held_out.problems
    sft, grpo = checked_overrides(DemoSettings(OWN_SFT, OWN_GRPO, tmp_path / "out"), resume=False)
    assert f"run.dir={tmp_path / 'out' / 'sft'}" in sft
    assert f"policy.path={tmp_path / 'out' / 'sft' / 'final_model'}" in grpo


@pytest.mark.parametrize(
    ("options", "says"),
    [(["--resume"], "--resume needs the directory of the demo"), (["--resume", "--output", "none"], "no demo in none")],
)
def test_a_demo_is_resumed_in_its_directory_alone(tmp_path, monkeypatch, command, capsys, options, says):
    monkeypatch.chdir(tmp_path)
    assert command("demo", *options) == 2
    assert says in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())


def test_an_interrupted_demo_says_how_to_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "launch", lambda *_, **__: 130)
    with pytest.raises(LaunchError, match="sft run was interrupted") as caught:
        demo._run("sft", DemoSettings(OWN_SFT, OWN_GRPO, tmp_path / "out"), [], False)
    assert f"demo --resume --output {tmp_path / 'out'}" in caught.value.remedy
