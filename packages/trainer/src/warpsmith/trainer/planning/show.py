"""A plan as tables, and as JSON."""

from dataclasses import asdict
from typing import Any

from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table

from warpsmith.trainer.planning.build import MemoryPlan
from warpsmith.trainer.planning.layouts import Change
from warpsmith.trainer.planning.parts import Device
from warpsmith.trainer.planning.sizes import gib

_WHEN = {
    "always": "always", "pass": "forward and backward pass", "update": "optimizer's update", "start": "at the start",
    "sync": "weight sync",
}  # fmt: skip


def show(plan: MemoryPlan, change: Change | None) -> None:
    """Print the plan, what does not fit, and a change that would."""
    console = Console()
    console.print(Group(*(_table(device, names) for names, device in _alike(plan.gpus) if device.parts)))
    console.print(_table(plan.host, "host"))
    facts = Table("fact", "value", title="figures")
    for name, value in plan.facts.items():
        facts.add_row(name.replace("_", " "), f"{value:,}")
    console.print(facts)
    console.print("* a rule of thumb; the others are computed from sizes. Nothing here was measured.")
    for misfit in plan.misfits:
        console.print(f"[bold red]does not fit[/]: {escape(misfit)}", highlight=False)
    if plan.fits:
        console.print(f"[bold green]fits[/] {plan.machine.name}", highlight=False)
    elif change is not None:
        console.print("[bold]the nearest change that fits[/], as lines of the file or after --set:", highlight=False)
        for line in change:
            console.print(f"  {escape(line)}", highlight=False)
    else:
        console.print(
            "[bold]No known change makes it fit[/], nor do three at once: use a larger machine "
            "(--machine), a smaller model, or fewer ranks if --num-processes sets their number.",
            highlight=False,
        )


def as_json(plan: MemoryPlan, change: Change | None) -> dict[str, Any]:
    """Return the plan as plain values; sizes in bytes."""
    return {
        "fits": plan.fits,
        "machine": asdict(plan.machine),
        "model": asdict(plan.shape),
        "devices": [asdict(device) | {"peak": device.peak} for device in (*plan.gpus, plan.host)],
        "facts": plan.facts,
        "misfits": plan.misfits,
        "change": None if change is None else list(change),
    }


def _alike(gpus: list[Device]) -> list[tuple[str, Device]]:
    """Return GPUs with the same contents once, under all their names."""
    groups: list[tuple[list[str], Device]] = []
    for gpu in gpus:
        found = next((names for names, other in groups if other.parts == gpu.parts), None)
        if found is None:
            groups.append(([gpu.name], gpu))
        else:
            found.append(gpu.name.removeprefix("GPU "))
    return [(", ".join(names), gpu) for names, gpu in groups]


def _table(device: Device, names: str) -> Table:
    colour = "green" if device.fits else "red"
    table = Table(
        "part", "when", title=f"{names}: [{colour}]{gib(device.peak)}[/] of {gib(device.bytes)} GiB", min_width=70
    )
    table.add_column("GiB", justify="right")
    for part in device.parts:
        table.add_row(escape(part.name) + (" *" if part.assumed else ""), _WHEN[part.when], gib(part.bytes))
    return table
