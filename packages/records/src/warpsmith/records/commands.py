"""The frame of every console command: `--version`, and typed errors as one paragraph with exit code 2."""

import os
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from warpsmith.records import process_log
from warpsmith.records.errors import UsageError, WarpsmithError
from warpsmith.records.last_words import notes_of

OutputOption = Annotated[Path | None, typer.Option("--output", "-o", metavar="OUT", help="The same as OUT.")]
"""For commands whose output is an argument: every command takes its output by `-o` too."""


def output_of(argument: Path | None, option: Path | None) -> Path:
    """Return a command's output, given as the argument OUT or by `OutputOption`.

    Raises:
        UsageError: neither is given, or both are.
    """
    if argument is None and option is None:
        raise UsageError("There is no output.", "Name it as OUT, or with --output.")
    if argument is not None and option is not None:
        raise UsageError(f"The output is named twice: {argument} and {option}.", "Leave out one of them.")
    return Path(argument or option or "")


class _WholeCommands(TyperGroup):
    """A group whose help does not truncate the text for each command to one line."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a row for each command."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, one.get_short_help_str(limit=500)) for name, one in commands if one is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def new_app(command: str, version: str, purpose: str) -> typer.Typer:
    """Return a Typer application with `--version` and a help text.

    Args:
        command: the name of the console command, for example `warpsmith-records`.
        version: the version of the package that owns the command.
        purpose: the help text: one sentence, then examples.
    """
    # Plain help: tables cut names and choices that do not fit (`--reference-time…`), and nobody can type those.
    app = typer.Typer(
        name=command,
        cls=_WholeCommands,
        help=purpose,
        no_args_is_help=True,
        rich_markup_mode=None,
        add_completion=False,
    )

    def show_version(wanted: bool) -> None:
        if wanted:
            typer.echo(f"{command} {version}")
            raise typer.Exit

    @app.callback(help=purpose)
    def root(
        _version: bool = typer.Option(
            False, "--version", callback=show_version, is_eager=True, help="Print the version and exit."
        ),
    ) -> None:
        return

    return app


def run(app: Callable[[], None]) -> None:
    """Run `app`; print a WarpsmithError as one paragraph on stderr and exit with its code.

    Errors of the operating system are handled the same way: a path that cannot be created or written, a full disk. A
    traceback is shown only with `WARPSMITH_DEBUG=1`.
    """
    try:
        app()
    except (WarpsmithError, OSError) as error:
        if os.environ.get("WARPSMITH_DEBUG") == "1":
            raise
        shown = error if isinstance(error, WarpsmithError) else _refused(error)
        print_error(shown)
        raise SystemExit(shown.exit_code) from None


def end_at_once(error: WarpsmithError) -> NoReturn:
    """Print an error as `run` does and end the process at once, from any thread, without closing anything.

    For errors after which an orderly shutdown would hang and hide the message.
    """
    print_error(error)
    os._exit(error.exit_code)


def print_error(error: WarpsmithError) -> None:
    """Print an error as one paragraph on stderr, and below it the logs that it quotes.

    If stderr is closed or a broken pipe, the exit code still reports the error.
    """
    paragraph = " ".join(f"error: {error}".split())
    shown = textwrap.fill(paragraph, width=100, break_long_words=False, break_on_hyphens=False)
    process_log.show("\n\n".join([shown, *notes_of(error)]))


def _refused(error: OSError) -> WarpsmithError:
    where = f" ({error.filename})" if error.filename else ""
    return UsageError(
        f"The operating system refused: {error.strerror or error}{where}.",
        "Check the path, its permissions and the free disk space; WARPSMITH_DEBUG=1 shows the traceback.",
    )
