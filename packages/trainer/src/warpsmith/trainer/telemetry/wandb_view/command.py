"""The command `warpsmith-trainer wandb-view`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from warpsmith.trainer.telemetry.wandb_view.layout import ShownSection, shown_sections


def wandb_view_command(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a run with at least one step.")],
    *,
    entity: Annotated[
        str | None,
        typer.Option("--entity", help="User or team at W&B to save the view for; without, nothing is sent."),
    ] = None,
    project: Annotated[str, typer.Option("--project", help="Project at W&B (wandb.project).")] = "warpsmith",
    name: Annotated[str, typer.Option("--name", help="Name of the view.")] = "Warpsmith",
    as_json: Annotated[bool, typer.Option("--json", help="Print sections, panels and figures as JSON.")] = False,
) -> None:
    """Make a view of W&B for a run's figures: sections, panels and axes, in the order in which one reads a run.

    Without --entity it prints what the view has. With it, it saves the view in the project; the runs there that have
    the same figures are shown in it too.

    Example: warpsmith-trainer wandb-view runs/demo/grpo --entity my-team
    """
    from warpsmith.trainer.telemetry.wandb_view.figures import figures_of_run

    sections = shown_sections(figures_of_run(run_dir))
    if as_json:
        typer.echo(json.dumps(plain(sections), indent=2))
    elif entity is None:
        typer.echo("\n".join(lines(sections)))
    if entity is not None:
        from warpsmith.trainer.telemetry.wandb_view.workspace import save, workspace_of

        typer.echo(save(workspace_of(sections, entity, project, name)), err=as_json)


def plain(sections: list[ShownSection]) -> list[dict[str, object]]:
    """Return the view as JSON values."""
    return [
        {
            "section": one.section.title,
            "open": one.section.opened,
            "panels": [
                {
                    "title": shown.panel.title,
                    "figures": list(shown.figures),
                    "unit": shown.panel.unit,
                    "bounds": list(shown.panel.bounds),
                    "log": shown.panel.log,
                }
                for shown in one.panels
            ],
        }
        for one in sections
    ]


def lines(sections: list[ShownSection]) -> list[str]:
    """Return the view as text."""
    found = []
    for one in sections:
        found.append(one.section.title)
        found += [f"  {shown.panel.title} ({shown.panel.unit}): {', '.join(shown.figures)}" for shown in one.panels]
    return found
