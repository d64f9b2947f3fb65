"""``turnledger``: the commands, and what becomes of their errors."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text
from typer.core import TyperGroup

from turnledger.cli.commands import demo, doctor, importing, policies, runs, service, windows
from turnledger.cli.exits import REPORTED, Exit, exit_of, hint_of
from turnledger.cli.output import notes, printable
from turnledger.domain.errors import TurnledgerError

EPILOG = "Exit codes: 0 done, 1 does not hold, 2 usage, 3 unreachable, 4 refused, 5 damaged file, 6 fault."
RESERVED = (
    "diff",
    "compare",
    "fork",
    "recall",
    "verify",
    "export",
    "rebuild",
    "summarize",
    "check",
    "fit",
    "migrate",
)
"""Words that no command and no alias takes before its time."""

# The shell is named, not guessed from what started the command.
os.environ.setdefault("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")

_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""A command line that can't be understood; typer gives it no public name."""


class _Commands(TyperGroup):
    """The commands; whoever stops reading the output has seen enough."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # typer's public name of the context
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # What is still buffered has no reader; the interpreter must not try to flush it.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return Exit.DONE


app = typer.Typer(
    name="turnledger",
    cls=_Commands,
    help="A ledger for AI-agent runs: every message kept, every window explained, every iteration replayable.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


@app.callback(invoke_without_command=True)
def root(show_version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    """A ledger for AI-agent runs: every message kept, every window explained, every iteration replayable."""
    if show_version:
        typer.echo(version("turnledger"))
        raise typer.Exit


app.command("serve")(service.serve)
app.command("health")(service.health)
app.command("demo")(demo.demo)
app.command("import")(importing.import_file)
app.command("runs")(runs.list_runs)
app.command("show")(runs.show)
app.command("message")(runs.message)
app.command("window")(windows.window)
app.command("replay")(windows.replay)
app.command("policies")(policies.policies)
app.command("doctor")(doctor.doctor)


def main() -> None:
    """The entry point: errors that people can mend are a line or two, not a traceback."""
    try:
        sys.exit(app(prog_name="turnledger", standalone_mode=False) or Exit.DONE)
    except REPORTED as error:
        _report(error)
        sys.exit(exit_of(error))
    except _UsageError as error:
        if _wants_json(sys.argv):
            _report_json({"exit_code": Exit.USAGE, "message": error.format_message()})  # type: ignore[attr-defined]
        else:
            # Not for commands that are understood, which are quicker without.
            from typer.rich_utils import rich_format_error

            rich_format_error(error)  # type: ignore[arg-type]
        sys.exit(Exit.USAGE)
    except typer.Abort:
        sys.exit(Exit.INTERRUPTED)


def _report(error: BaseException) -> None:
    hint = hint_of(error)
    if _wants_json(sys.argv):
        _report_json(_document(error, hint))
        return
    notes().print(Text.assemble(("turnledger: ", "bold red"), printable(str(error))), soft_wrap=True)
    if hint:
        notes().print(Text(hint, "dim"), soft_wrap=True)


def _report_json(error: dict[str, Any]) -> None:
    sys.stderr.write(msgspec.json.encode({"error": error}).decode() + "\n")


def _document(error: BaseException, hint: str) -> dict[str, Any]:
    found: dict[str, Any] = {"exit_code": int(exit_of(error)), "message": str(error)}
    if isinstance(error, TurnledgerError):
        found |= {"reason": error.reason or type(error).__name__, "metadata": error.metadata}
    return found | ({"hint": hint} if hint else {})


def _wants_json(arguments: list[str]) -> bool:
    pairs = zip(arguments, [*arguments[1:], ""], strict=True)
    return any(a in ("--output=json", "-ojson") or (a in ("--output", "-o") and b == "json") for a, b in pairs)
