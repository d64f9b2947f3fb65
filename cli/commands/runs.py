"""``runs``, ``show`` and ``message``: what a ledger holds."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Literal

import typer

from turnledger.cli.output import (
    Output,
    OutputOption,
    cell,
    console,
    emit,
    facts_table,
    plain,
    say,
    table,
    verbatim,
    when,
)
from turnledger.cli.rendering import counted, message_lines, number, refusals, spans
from turnledger.cli.targets import RunArgument, ServerOption, StoreOption, Target, TimeoutOption
from turnledger.client import Fact, LedgerMessage, Run, RunDetails, RunInfo, WindowHead
from turnledger.domain.errors import FieldInvalid

LIMIT_DEFAULT = 50
Status = Literal["open", "paused", "finished", "failed", "cancelled"]


# runs


def list_runs(
    status: Annotated[Status | None, typer.Option(help="Only runs that stand so.")] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Only runs with this label.")] = None,
    limit: Annotated[int, typer.Option(help="How many at most; 0: all.", min=0)] = LIMIT_DEFAULT,
    server: ServerOption = "",
    store: StoreOption = "",
    timeout: TimeoutOption = 30.0,
    output: OutputOption = Output.TEXT,
) -> None:
    """Lists runs, latest opened first."""
    labels = parse_labels(label or ())
    with Target(server, store, timeout).connect() as ledger:
        found = ledger.list_runs(status=status, labels=labels)
        runs = list(islice(found, limit or None))
        more = next(found, None) is not None
    if output is Output.JSON:
        emit({"runs": [run_document(run) for run in runs], "more": more})
        return
    columns = ("run", "status", "strategy", "it", "messages", "tokens in", "out", "opened")
    rows = table(*columns, right=_NUMBERS, wrap=("run",))
    for run in runs:
        sizes = (run.iteration, run.message_count, run.input_tokens, run.output_tokens)
        strategy = run.policy["strategy"]
        rows.add_row(run.run_id, run.status, strategy, *(f"{n:,}" for n in sizes), f"{when(run.opened_time):.16}")
    console().print(rows)
    if not runs:
        say("No run fits." if status or labels else "No runs yet.", "dim")
    if more:
        say(f"There are more than {limit}: --limit 0 lists all.", "dim")


_NUMBERS = ("it", "messages", "tokens in", "out")


def parse_labels(given: Sequence[str]) -> dict[str, str]:
    """Labels given as ``key=value``. Raises :class:`FieldInvalid`."""
    labels = {}
    for label in given:
        name, separator, value = label.partition("=")
        if not separator:
            raise FieldInvalid("label", "must be KEY=VALUE", label)
        labels[name] = value
    return labels


def run_document(run: RunInfo) -> dict[str, Any]:
    """A run for programs: its fields, the policy as an object."""
    document: dict[str, Any] = plain(run)
    del document["policy_json"]
    return document | {"policy": verbatim(run.policy_json.encode())}


# show


@dataclass(frozen=True)
class _Step:
    """The facts that came before a window, and the window; None for those after the last one."""

    facts: tuple[Fact, ...]
    window: WindowHead | None


def show(
    run_id: RunArgument,
    server: ServerOption = "",
    store: StoreOption = "",
    timeout: TimeoutOption = 30.0,
    output: OutputOption = Output.TEXT,
) -> None:
    """Shows a run as a timeline: for each iteration what came, what left, what was rewritten, what refused to leave."""
    with Target(server, store, timeout).connect() as ledger:
        run = ledger.run(run_id)
        details = run.get()
        steps = _steps(run, details.run.iteration)
        if output is Output.JSON:
            emit(_details_document(details) | {"timeline": [_step_document(step) for step in steps]})
            return
        _print_details(details)
        _print_timeline(steps)


def _steps(run: Run, iterations: int) -> Iterator[_Step]:
    facts = run.ledger(bodies=False)
    came: list[Fact] = []
    for head in run.window_heads() if iterations else ():
        while not came or came[-1].version < head.ledger_version:
            came.append(next(facts))
        yield _Step(tuple(came), head)
        came = []
    came += facts
    if came:
        yield _Step(tuple(came), None)


def _details_document(details: RunDetails) -> dict[str, Any]:
    return {
        "run": run_document(details.run),
        "request_message_id": details.request_message_id,
        "open_calls": plain(details.open_calls),
    }


def _step_document(step: _Step) -> dict[str, Any]:
    facts = [
        {"version": fact.version, "topic": fact.topic, "recorded_time": plain(fact.recorded_time), "what": _word(fact)}
        for fact in step.facts
    ]
    if step.window is None:
        return {"iteration": None, "facts": facts}
    return {"iteration": step.window.iteration, "facts": facts, "window": plain(step.window)}


def _print_details(details: RunDetails) -> None:
    run = details.run
    say(run.run_id, "bold")
    rows = {
        "status": run.status,
        "format": run.format,
        "policy": run.policy_json,
        "tokenizer": run.tokenizer,
        "labels": ", ".join(f"{name}={value}" for name, value in sorted(run.labels.items())),
        "opened": when(run.opened_time),
        "changed": when(run.updated_time),
        "messages": f"{run.message_count:,}, to version {run.version}",
        "tokens": f"{run.input_tokens:,} in, {run.output_tokens:,} out, as reported",
        "request": number(details.request_message_id),
        "waits on": ", ".join(f"{call.tool_name} ({number(call.message_id)})" for call in details.open_calls),
        "ledger head": run.ledger_head.hex(),
        "windows head": run.windows_head.hex(),
    }
    console().print(facts_table({name: value for name, value in rows.items() if value}))
    console().print()


def _print_timeline(steps: Iterator[_Step]) -> None:
    columns = ("it", "came", "sent", "chars", "left", "rewritten", "refused to leave")
    wrap = ("came", "left", "rewritten", "refused to leave")
    rows = table(*columns, right=("it", "sent", "chars"), wrap=wrap)
    for step in steps:
        came = counted([_word(fact) for fact in step.facts])
        if step.window is None:
            rows.add_row("-", cell(came), "", "", "", "", "")
            continue
        head = step.window
        records = head.records
        rows.add_row(
            str(head.iteration),
            cell(came),
            f"{head.item_count:,}",
            "".join(f"{record.after.characters:,}" for record in records[-1:]),
            cell(spans(r for record in records for r in record.removed), "red"),
            cell(spans(r for record in records for r in record.rewritten), "yellow"),
            cell(_refused(head), "dim"),
        )
    console().print(rows)


def _refused(head: WindowHead) -> str:
    """Why older turns stay, and of a window that was sent as it stood what its provider would object to."""
    found = (refusals(record.refusals, besides="inside-keep-window") for record in head.records)
    kept = "; ".join(text for text in found if text)
    return "; ".join([*([kept] if kept else []), *(f"fault {f.rule} {number(f.message_id)}" for f in head.faults)])


_WORDS = {
    "RunOpened": "opened",
    "EnvelopeSet": "envelope",
    "UsageReported": "usage",
    "RunPaused": "paused",
    "RunResumed": "resumed",
    "ToolCallAbandoned": "call given up",
}


def _word(fact: Fact) -> str:
    """A fact in a word."""
    topic = fact.topic.removeprefix("turnledger.").partition(":")[0]
    if topic == "MessageAppended":
        message = fact.fields["message"]
        return f"{message['role']} ({message['mark']})" if message.get("mark") else str(message["role"])
    return str(fact.fields["status"]) if topic == "RunClosed" else _WORDS.get(topic, topic)


# message


def message(
    message_id: Annotated[str, typer.Argument(metavar="ID", help="The message's id, RUN/NUMBER.")],
    raw: Annotated[bool, typer.Option("--raw", help="Only its bytes, exactly as they were given.")] = False,
    server: ServerOption = "",
    store: StoreOption = "",
    timeout: TimeoutOption = 30.0,
    output: OutputOption = Output.TEXT,
) -> None:
    """Shows one message by its id, whether it is still in a window or not; its bytes are checked."""
    run_id, separator, _ = message_id.rpartition("/")
    if not separator:
        raise FieldInvalid("ID", "must be RUN/NUMBER", message_id)
    with Target(server, store, timeout).connect() as ledger:
        (found,) = ledger.run(run_id).messages([message_id])
    if raw:
        sys.stdout.buffer.write(found.body)
    elif output is Output.JSON:
        emit(_message_document(found))
    else:
        _print_message(found)


def _message_document(found: LedgerMessage) -> dict[str, Any]:
    document: dict[str, Any] = plain(found)
    del document["body"]
    return document | {"message": verbatim(found.body)}


def _print_message(found: LedgerMessage) -> None:
    say(found.message_id, "bold")
    rows = {
        "role": f"{found.role}, from {found.source}",
        "iteration": str(found.iteration),
        "request": "flagged as the request" if found.request else "",
        "not sent": found.mark,
        "reply": found.reply_id,
        "stage": found.stage_id,
        "size": f"{found.size_bytes:,} bytes, {found.characters:,} characters"
        + (f", {found.tokens:,} tokens" if found.tokens is not None else ""),
        "recorded": when(found.recorded_time),
        "commitment": found.commitment.hex(),
    }
    console().print(facts_table({name: value for name, value in rows.items() if value}))
    console().print()
    say("\n".join(message_lines(found.message)))
