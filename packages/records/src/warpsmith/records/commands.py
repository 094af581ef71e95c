"""The frame of every console command: `--version`, and typed errors as one paragraph with exit code 2."""

import os
import sys
import textwrap
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

import typer

from warpsmith.records.errors import UsageError, WarpsmithError
from warpsmith.records.last_words import notes_of


def new_app(command: str, version: str, purpose: str) -> typer.Typer:
    """Return a Typer application with `--version` and a help text that shows what the command is for.

    Args:
        command: the console command's own name, for example `warpsmith-records`.
        version: the version of the package that owns the command.
        purpose: the help text: one sentence, then examples.
    """
    app = typer.Typer(
        name=command, help=purpose, no_args_is_help=True, rich_markup_mode="markdown", add_completion=False
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

    So is what the operating system refuses: a path that cannot be made or written, a full disk. A traceback is shown
    only when the environment has `WARPSMITH_DEBUG=1`.
    """
    try:
        app()
    except (WarpsmithError, OSError) as error:
        if os.environ.get("WARPSMITH_DEBUG") == "1":
            raise
        told = error if isinstance(error, WarpsmithError) else _refused(error)
        tell(told)
        raise SystemExit(told.exit_code) from None


def end_at_once(error: WarpsmithError) -> NoReturn:
    """Tell of an error as `run` does and end the process here and now, from any thread, without closing anything.

    For what leaves nothing to be closed in order: to be used where waiting would end the process without a word.
    """
    tell(error)
    os._exit(error.exit_code)


def tell(error: WarpsmithError) -> None:
    """Print an error as one paragraph on stderr, and below it the logs that it quotes."""
    paragraph = " ".join(f"error: {error}".split())
    # The exit code says it as well, where nobody reads: a closed stderr is None, a broken pipe raises.
    with suppress(OSError):
        if sys.stderr is not None:
            told = textwrap.fill(paragraph, width=100, break_long_words=False, break_on_hyphens=False)
            sys.stderr.write("\n\n".join([told, *notes_of(error)]) + "\n")
            sys.stderr.flush()


def _refused(error: OSError) -> WarpsmithError:
    where = f" ({error.filename})" if error.filename else ""
    return UsageError(
        f"The operating system refused: {error.strerror or error}{where}.",
        "Check the path, its permissions and the free disk space; WARPSMITH_DEBUG=1 shows the traceback.",
    )
