"""Makes W&B's workspace of the layout, and saves it."""

from collections.abc import Sequence
from typing import Any, Final

from warpsmith.records.wording import installing
from warpsmith.trainer.errors import WandbError
from warpsmith.trainer.telemetry.wandb_view.layout import STEP, ShownPanel, ShownSection

NAME: Final = "Warpsmith"
COLUMNS: Final = 3


def workspace_of(sections: Sequence[ShownSection], entity: str, project: str, name: str = NAME) -> Any:
    """Return the workspace, which nothing has been sent of.

    Args:
        sections: what it shows.
        entity: the user or team at W&B.
        project: the project.
        name: the view's name.

    Raises:
        WandbError: the package wandb-workspaces is missing.
    """
    try:
        import wandb_workspaces.reports.v2 as reports
        from wandb_workspaces import workspaces
    except ImportError as error:
        raise WandbError(
            f"A view of W&B needs the package wandb-workspaces ({error}).", installing("trainer", "wandb-view")
        ) from error
    return workspaces.Workspace(
        entity=entity,
        project=project,
        name=name,
        sections=[
            workspaces.Section(
                name=one.section.title,
                panels=[_plot(reports, panel) for panel in one.panels],
                is_open=one.section.opened,
                panel_settings=workspaces.SectionPanelSettings(x_axis=STEP),
                layout_settings=workspaces.SectionLayoutSettings(columns=COLUMNS, rows=-(-len(one.panels) // COLUMNS)),
            )
            for one in sections
        ],
        settings=workspaces.WorkspaceSettings(x_axis=STEP, sort_panels_alphabetically=False),
    )


def _plot(reports: Any, shown: ShownPanel) -> Any:
    panel = shown.panel
    return reports.LinePlot(
        title=panel.title,
        x=STEP,
        y=list(shown.figures),
        title_x="step",
        title_y=panel.unit,
        range_y=panel.bounds,
        log_y=panel.log,
    )


def save(workspace: Any) -> str:
    """Save the workspace at W&B; return its address.

    Raises:
        WandbError: W&B cannot be reached, or refuses it.
    """
    try:
        workspace.save()
        return str(workspace.url)
    except Exception as error:  # W&B's client raises errors of several libraries.
        raise WandbError(
            f"W&B did not save the view: {type(error).__name__}: {error}.",
            "Log in with `wandb login`, and name an entity and a project that you may write to.",
        ) from error
