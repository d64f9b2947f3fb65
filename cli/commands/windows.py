"""``window`` and ``replay``: what was sent, and whether it is still what was sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import Annotated, Any

import typer
from rich.syntax import Syntax

from turnledger.cli.exits import Exit
from turnledger.cli.output import (
    Output,
    OutputOption,
    as_text,
    cell,
    console,
    emit,
    facts_table,
    plain,
    printable,
    progress,
    say,
    table,
    verbatim,
)
from turnledger.cli.rendering import item_text, number, refusals, spans
from turnledger.cli.targets import RunArgument, ServerOption, StoreOption, Target, TimeoutOption
from turnledger.cli.transcripts.slices import document as document_of
from turnledger.cli.transcripts.slices import members
from turnledger.client import Record, Run, Window, WindowMismatch
from turnledger.domain.errors import FieldInvalid

LINES_DEFAULT = 20


# window


def window(
    run_id: RunArgument,
    at: Annotated[
        int | None, typer.Option("--at", metavar="N", help="The iteration; default: the last.", min=1)
    ] = None,
    record: Annotated[bool, typer.Option("--record", help="What was decided, in place of the messages.")] = False,
    request: Annotated[
        bool, typer.Option("--request", help="The whole request as JSON: envelope and messages, byte for byte.")
    ] = False,
    lines: Annotated[int, typer.Option(help="Lines of each message for people; 0: all.", min=0)] = LINES_DEFAULT,
    server: ServerOption = "",
    store: StoreOption = "",
    timeout: TimeoutOption = 30.0,
    output: OutputOption = Output.TEXT,
) -> None:
    """Shows the window of one iteration as it was sent; its digest is checked."""
    if record and request:
        raise FieldInvalid("request", "is given in place of --record, not beside it", "both")
    with Target(server, store, timeout).connect() as ledger:
        sent = ledger.run(run_id).replay(at or 0)
    if request:
        _show_request(sent, output)
    elif output is Output.JSON:
        emit(_window_document(sent, with_items=not record))
    elif record:
        _print_head(sent)
        _print_records(sent)
    else:
        _print_head(sent)
        for item in sent.items:
            console().print(item_text(item, lines), soft_wrap=True)


def _window_document(sent: Window, *, with_items: bool) -> dict[str, Any]:
    document: dict[str, Any] = plain(sent.model_copy(update={"items": (), "envelope": None, "envelope_bytes": None}))
    del document["items"], document["replayed"]
    if with_items:
        document["messages"] = [{"id": i.id, "kind": i.kind, "message": verbatim(i.body)} for i in sent.items]
    return document


def _show_request(sent: Window, output: Output) -> None:
    document = _request_document(sent)
    if output is Output.JSON:
        emit({"run_id": sent.run_id, "iteration": sent.iteration, "digest": sent.digest.hex(), "request": document})
    elif console().is_terminal:
        text = json.dumps({name: json.loads(bytes(part)) for name, part in document.items()}, indent=2)
        console().print(Syntax(printable(text), "json", word_wrap=True, background_color="default"))
    else:
        emit(document)


def _request_document(sent: Window) -> dict[str, Any]:
    """The request as its worker sent it: the parts of the envelope under the names that providers give them."""
    document = {}
    if sent.envelope is not None and sent.envelope_bytes is not None:
        exact = sent.envelope_bytes
        if exact.model is not None:
            document["model"] = verbatim(json.dumps(exact.model.decode()).encode())
        if exact.parameters is not None:
            document |= {name: verbatim(part) for name, part in _members(exact.parameters)}
        document |= {name: verbatim(part) for name, part in (("system", exact.system), ("tools", exact.tools)) if part}
    return document | {"messages": verbatim(b"[" + b",".join(item.body for item in sent.items) + b"]")}


def _members(parameters: bytes) -> Iterator[tuple[str, bytes]]:
    for name, member in members(document_of(parameters.decode("utf-8", "surrogatepass"))):
        yield name, member.text.encode("utf-8", "surrogatepass")


def _print_head(sent: Window) -> None:
    say(f"{sent.run_id}, iteration {sent.iteration}", "bold")
    rows = {
        "step": sent.step_id,
        "messages": f"{len(sent.items):,}, {sum(len(item.body) for item in sent.items):,} bytes",
        "digest": f"{sent.digest.hex()}, as it was sent",
    }
    console().print(facts_table(rows))
    console().print()


def _print_records(sent: Window) -> None:
    if not sent.records:
        say("Strategy none: everything is sent, and there is nothing to decide.", "dim")
    for record in sent.records:
        _print_record(record)
    for fault in sent.faults:
        say(f"fault {fault.rule} at {number(fault.message_id)}: {fault.detail}", "red")


def _print_record(record: Record) -> None:
    reason = f" ({record.outcome_reason})" if record.outcome_reason else ""
    measured = record.measurement
    rows = {
        "strategy": f"{record.strategy}, version {record.strategy_version}: {record.outcome}{reason}",
        "measured": f"{measured.tokens if measured.tokens is not None else 'nothing'} tokens ({measured.source}), "
        f"threshold {measured.threshold_tokens}"
        if measured
        else "",
        "before": _size(record, "before"),
        "after": _size(record, "after"),
        "left": spans(record.removed),
        "of tools": ", ".join(map(as_text, record.dropped_observations)),
        "rewritten": spans(record.rewritten),
        "refused to leave": refusals(record.refusals),
        "pinned": spans(record.pins.pinned),
        "not sent": ", ".join(f"{number(o.message_id)} ({o.reason})" for o in record.omissions),
        "mended": ", ".join(f"{mend.kind} {number(mend.message_id)}" for mend in record.mends),
        "unchanged": f"the first {record.unchanged_items} messages, {record.unchanged_bytes:,} bytes",
        "first changed": number(record.first_changed_id),
    }
    console().print(facts_table({name: value for name, value in rows.items() if value}))


def _size(record: Record, which: str) -> str:
    size = getattr(record, which)
    tokens = f", {size.tokens:,} tokens" if size.tokens is not None else ""
    return f"{size.turns:,} turns, {size.items:,} messages, {size.characters:,} characters{tokens}"


# replay


@dataclass(frozen=True)
class _Replayed:
    """One iteration, and whether it has the digest it was sent with."""

    iteration: int
    messages: int
    bytes: int
    digest: str
    holds: bool


def replay(
    run_id: RunArgument,
    first: Annotated[
        int | None, typer.Option("--from", metavar="N", help="First iteration; default: the first.", min=1)
    ] = None,
    last: Annotated[
        int | None, typer.Option("--to", metavar="N", help="Last iteration; default: the last.", min=1)
    ] = None,
    server: ServerOption = "",
    store: StoreOption = "",
    timeout: TimeoutOption = 30.0,
    output: OutputOption = Output.TEXT,
) -> None:
    """Replays every iteration and checks each, byte for byte, against the digest it was sent with."""
    with Target(server, store, timeout).connect() as ledger:
        run = ledger.run(run_id)
        from_, to = first or 1, last or run.get().run.iteration
        rows = []
        with progress("replaying", max(0, to - from_ + 1)) as done:
            for row in _replayed(run, from_, to):
                rows.append(row)
                done()
    holds = all(row.holds for row in rows)
    if output is Output.JSON:
        fields = ("iteration", "messages", "bytes", "digest", "holds")
        listed = [dict(zip(fields, astuple(row), strict=True)) for row in rows]
        emit({"run_id": run_id, "holds": holds, "iterations": listed})
    else:
        _print_replayed(run_id, rows)
    if not holds:
        raise typer.Exit(Exit.DOES_NOT_HOLD)


def _replayed(run: Run, first: int, last: int) -> Iterator[_Replayed]:
    """Every iteration; after one that does not hold, the next."""
    while first <= last:
        try:
            for sent in run.replay_all(first, last):
                size = sum(len(item.body) for item in sent.items)
                yield _Replayed(sent.iteration, len(sent.items), size, sent.digest.hex(), True)
                first = sent.iteration + 1
        except WindowMismatch as error:
            yield _Replayed(error.iteration, 0, 0, "", False)
            first = error.iteration + 1


def _print_replayed(run_id: str, rows: list[_Replayed]) -> None:
    listed = table("it", "messages", "bytes", "digest", "", right=("it", "messages", "bytes"))
    for row in rows:
        if row.holds:
            listed.add_row(
                str(row.iteration), f"{row.messages:,}", f"{row.bytes:,}", row.digest[:16], cell("ok", "green")
            )
        else:
            listed.add_row(str(row.iteration), "", "", "", cell("NOT what was sent", "bold red"))
    console().print(listed)
    wrong = sum(not row.holds for row in rows)
    if wrong:
        say(f"{wrong} of {len(rows)} iterations of {run_id} are not what was sent: the store was changed.", "bold red")
    elif rows:
        say(f"All {len(rows)} iterations of {run_id} are what was sent.", "green")
    else:
        say(f"{run_id} has no iterations yet.", "dim")
