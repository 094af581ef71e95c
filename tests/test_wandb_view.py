"""The view of W&B holds every figure of the recorded run, each in a panel of its own kind."""

from pathlib import Path

from warpsmith.trainer.telemetry.wandb_view.figures import figures_of_run
from warpsmith.trainer.telemetry.wandb_view.layout import OTHER, shown_sections

RUN = Path(__file__).resolve().parent / "data" / "recorded-run"


def test_every_figure_of_a_recorded_run_has_its_place():
    names = figures_of_run(RUN)
    sections = shown_sections(names)
    shown = [name for one in sections for panel in one.panels for name in panel.figures]
    assert sorted(shown) == names and len(names) > 80
    assert OTHER not in [one.section for one in sections]
