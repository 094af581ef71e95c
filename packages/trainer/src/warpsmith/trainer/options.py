"""Options that several commands of `warpsmith-trainer` take."""

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[Path, typer.Argument(help="TOML file of the run; `warpsmith-trainer schema` lists its keys.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Change a key, or remove it with `unset`; repeatable."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume from the newest checkpoint in run.dir.")]
MACHINE_HELP = "The machine, such as h200, 8xh100-80, a100-80, 4090 or cpu-24g; default: this one."
