"""``import``: replays a recorded transcript as its worker would have.

The whole transcript is first replayed on a ledger in memory, so that nothing is written of one that would be refused
half-way. The calls of the import itself have request ids of their own, made from the file: an import that was
interrupted is taken up where it stopped by the same command.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from turnledger.cli.commands.runs import parse_labels
from turnledger.cli.output import Output, OutputOption, console, emit, facts_table, notes, plain, progress, say
from turnledger.cli.rendering import number
from turnledger.cli.targets import ServerOption, StoreOption, Target, TimeoutOption
from turnledger.cli.transcripts.base import Transcript, Unreadable, damaged
from turnledger.cli.transcripts.files import FileFormat, read_transcript
from turnledger.cli.transcripts.worker import Imported, Opening, check_lines, replay_transcript
from turnledger.domain.errors import FieldInvalid, Unavailable, shown
from turnledger.domain.ids import check_run_id
from turnledger.domain.jsonbytes import canonical
from turnledger.domain.policies import parse_policy

STDIN = "-"
TokenizerName = Literal["o200k_base", "cl100k_base"]
_NAMED_MAX = 8
"""Messages named in a row for people."""


def import_file(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The transcript; - reads standard input.")],
    format: Annotated[FileFormat, typer.Option("--format", help="The shape of the file (docs/cli.md).")],
    run: Annotated[str, typer.Option("--run", metavar="ID", help="Id of the run; default: made from the file.")] = "",
    policy: Annotated[
        str, typer.Option("--policy", metavar="JSON", help="The policy as JSON, or @FILE that holds it.")
    ] = '{"strategy": "none"}',
    tokenizer: Annotated[TokenizerName | None, typer.Option(help="Counts tokens; default: none.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A label of the run; may repeat.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would come of it; nothing is written, no service needed.")
    ] = False,
    server: ServerOption = "",
    store: StoreOption = "",
    timeout: TimeoutOption = 30.0,
    output: OutputOption = Output.TEXT,
) -> None:
    """Replays a recorded transcript as its worker would have: before each reply one step, with everything since the
    reply before.

    A damaged file is reported by line, and nothing of it is imported. What a strict append refuses (a result that
    answers no call, a second one) is kept, marked and reported.
    """
    data, target = _read(file), Target(server, store, timeout)
    opening = _opening(data, format, run, policy, tokenizer or "", label or [])
    try:
        transcript = read_transcript(data, format)
        check_lines(transcript)
        made = _replay(Target("", "memory:"), transcript, opening, "checking")
        if not dry_run:
            made = _import(target, transcript, opening)
    except Unreadable as error:
        raise damaged(file, error.damages) from error
    if output is Output.JSON:
        emit(_document(made, transcript, dry_run=dry_run))
    else:
        _print(made, transcript, dry_run=dry_run)
        if not dry_run:
            say(f"See it: turnledger show {made.run_id}{target.options}", "dim")


def _read(file: str) -> bytes:
    if file == STDIN:
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise FieldInvalid("FILE", f"must be a file that can be read ({error.strerror})", shown(file)) from error


def _opening(data: bytes, format: FileFormat, run: str, policy: str, tokenizer: str, labels: list[str]) -> Opening:
    """How the run begins, checked before the file is looked at."""
    text = _read(policy[1:]).decode("utf-8", "replace") if policy.startswith("@") else policy
    parsed = parse_policy(text)
    if run:
        check_run_id(run, "run")
    given = parse_labels(labels)
    identity = canonical([format.value, run, parsed.model_dump(mode="json"), tokenizer, sorted(given.items())])
    prefix = f"import-{hashlib.sha256(identity + data).hexdigest()[:32]}"
    return Opening(run, parsed, tokenizer, given, prefix)


def _replay(target: Target, transcript: Transcript, opening: Opening, what: str) -> Imported:
    with target.connect(creates=True) as ledger, progress(what, len(transcript.lines)) as advance:
        return replay_transcript(ledger, transcript, opening, advance)


def _import(target: Target, transcript: Transcript, opening: Opening) -> Imported:
    try:
        return _replay(target, transcript, opening, "importing")
    except Unavailable:
        said = "The import stopped half-way: the same command goes on where it stopped, within a day."
        notes().print(said, style="yellow", soft_wrap=True)
        raise


def _document(made: Imported, transcript: Transcript, *, dry_run: bool) -> dict[str, Any]:
    return {
        "run_id": made.run_id,
        "format": transcript.format,
        "dry_run": dry_run,
        "messages": made.messages,
        "iterations": made.iterations,
        "removed": made.removed,
        "rewritten": made.rewritten,
        "omissions": plain(made.omissions),
        "without_window": [{"message_id": where, "reason": reason} for where, reason in made.without_window],
    }


def _print(made: Imported, transcript: Transcript, *, dry_run: bool) -> None:
    done = "Nothing was written. It would be" if dry_run else "Imported as"
    say(f"{done} run {made.run_id}:", "bold")
    rows = {
        "messages": f"{made.messages:,} of format {transcript.format}",
        "iterations": f"{made.iterations:,}",
        "left windows": f"{made.removed:,}" if made.removed else "",
        "rewritten": f"{made.rewritten:,}" if made.rewritten else "",
        "kept, never sent": _listed([f"{o.reason} {number(o.message_id)}" for o in made.omissions]),
        "no window after": _listed([f"{number(where)} {reason}" for where, reason in made.without_window]),
    }
    console().print(facts_table({name: value for name, value in rows.items() if value}))


def _listed(found: list[str]) -> str:
    more = len(found) - _NAMED_MAX
    return ", ".join(found[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
