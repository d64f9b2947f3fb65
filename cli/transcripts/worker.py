"""Replays a transcript on a ledger, as its worker would have sent it.

Everything since the reply before goes with one call; where a model answers next, that call builds its window too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnledger.cli.transcripts.base import Damage, Line, Transcript, Unreadable
from turnledger.client import LedgerClient, Run, Window
from turnledger.client.models import Omission
from turnledger.domain.errors import NoWindow, TurnledgerError
from turnledger.domain.formats import format_named
from turnledger.domain.messages import APPEND_BYTES_MAX, MESSAGES_PER_APPEND_MAX
from turnledger.ledger.commands import MessageInput, UsageInput
from turnledger.ledger.parsing import check_limits, read_messages


@dataclass(frozen=True, slots=True)
class Opening:
    """How the run begins."""

    run_id: str
    policy: Any
    tokenizer: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    request_prefix: str = "import"
    """First part of the request ids of its calls: the same for the same import."""


@dataclass(slots=True)
class Imported:
    """What came of it."""

    run_id: str
    messages: int = 0
    iterations: int = 0
    removed: int = 0
    """Messages that left windows."""
    rewritten: int = 0
    omissions: tuple[Omission, ...] = ()
    """Messages that are kept but never sent."""
    without_window: list[tuple[str, str]] = field(default_factory=list)
    """The message after which the worker would have asked for a window, and why there was none."""


def check_lines(transcript: Transcript) -> None:
    """Reads every message as the ledger will. Raises :class:`Unreadable` naming each that it would refuse."""
    format = format_named(transcript.format)
    damages = []
    for line in transcript.lines:
        given = (_input(line),)
        try:
            check_limits(given)
            read_messages(given, format, None)
        except TurnledgerError as error:
            damages.append(Damage(line.number, str(error).removeprefix("messages[0].")))
    if damages:
        raise Unreadable(*damages)


def _input(line: Line) -> MessageInput:
    usage = line.message.usage
    return MessageInput(line.message.body, usage=UsageInput(raw=usage) if usage is not None else None)


def replay_transcript(
    ledger: LedgerClient, transcript: Transcript, opening: Opening, advance: Callable[[int], object]
) -> Imported:
    """Opens the run and makes every call; ``advance`` is told how many messages each brought.

    Raises what the client raises.
    """
    run = ledger.open_run(
        run_id=opening.run_id,
        format=transcript.format,
        policy=opening.policy,
        tokenizer=opening.tokenizer,
        labels=opening.labels,
        envelope=transcript.envelope,
        request_id=f"{opening.request_prefix}.0",
    )
    # Of a run that is there already, the calls that were made before are answered as they were.
    run.version = 1 + (transcript.envelope is not None)
    made = Imported(run.id, messages=len(transcript.lines))
    number = 0
    for batch in transcript.batches():
        for part, is_last in _parts(batch):
            number += 1
            request = {"expected_version": run.version, "request_id": f"{opening.request_prefix}.{number}"}
            _send(run, part, made, request, with_window=is_last and not batch[-1].is_models)
            advance(len(part))
    made.omissions = tuple(_omissions(run))
    return made


def _send(run: Run, part: Sequence[Line], made: Imported, request: dict[str, Any], *, with_window: bool) -> None:
    messages = [line.message for line in part]
    if not with_window:
        run.append(messages, imported=True, **request)
        return
    try:
        _count(made, run.step(messages, imported=True, **request))
    except NoWindow as error:
        made.without_window.append((f"{run.id}/{run.version}", error.reason))


def _count(made: Imported, window: Window) -> None:
    made.iterations = window.iteration
    made.removed += sum(record.removed_count for record in window.records)
    made.rewritten += sum(record.rewritten_count for record in window.records)


def _parts(batch: Sequence[Line]) -> Iterator[tuple[Sequence[Line], bool]]:
    """A batch in parts that one call takes, and whether it is the last of them."""
    start, size = 0, 0
    for index, line in enumerate(batch):
        size += len(line.message.body)
        if index > start and (index - start == MESSAGES_PER_APPEND_MAX or size > APPEND_BYTES_MAX):
            yield batch[start:index], False
            start, size = index, len(line.message.body)
    yield batch[start:], True


def _omissions(run: Run) -> Iterator[Omission]:
    for fact in run.ledger(bodies=False):
        message = fact.fields.get("message") or {}
        if message.get("mark"):
            yield Omission(reason=message["mark"], message_id=f"{run.id}/{fact.version}")
