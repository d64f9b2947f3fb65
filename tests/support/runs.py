"""Runs in few words: what is appended, and what the windows hold.

A :class:`Story` tells the same run to two ledgers, of which one forgets everything between two calls, as a
process that was just started would. Whatever a test sees, both saw; and every window was replayed as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from support.messages import Blocks, Body, Chat, chat
from turnledger.domain.envelopes import Envelope
from turnledger.domain.errors import TurnledgerError
from turnledger.domain.records import Fault, Omission, Record
from turnledger.domain.words import RunStatus
from turnledger.ledger import commands as c
from turnledger.ledger.answers import AppendAnswer, ReplayAnswer, WindowAnswer
from turnledger.ledger.application import Ledger
from turnledger.ledger.queries import Queries
from turnledger.ledger.stores import open_ledger

RUN = "r"

T = TypeVar("T")


# Policies


def sliding(keep: int, pins: int = 0, **options: Any) -> Body:
    """``sliding-window``; no pins where none are asked for."""
    return {"strategy": "sliding-window", "keep_recent_turns": keep, "keep_last_tool_results": pins, **options}


def budget(threshold: int, pins: int = 0, **options: Any) -> Body:
    """``token-budget``; no pins where none are asked for."""
    return {"strategy": "token-budget", "threshold_tokens": threshold, "keep_last_tool_results": pins, **options}


def compact(**options: Any) -> Body:
    """``compact-results``."""
    return {"strategy": "compact-results", **options}


NONE: Body = {"strategy": "none"}
MENDED: Body = {"strategy": "none", "mend": True}

EVERY_POLICY: dict[str, Body] = {
    "none": NONE,
    "none, mended": MENDED,
    "sliding-window": sliding(3, 2),
    "sliding-window, pins by arguments": sliding(2, 3, pin_by="tool-and-arguments"),
    "token-budget, reported": budget(1500, 2, keep_recent_turns=4),
    "token-budget, tokenizer": budget(300, 1, measure="tokenizer", keep_recent_turns=3),
    "compact-results": compact(),
    "compact-results, pinned": compact(keep_raw=0, keep_last_tool_results=2, signal="seen"),
}
"""Policies of every kind, each small enough to act in a short run."""


# Windows


@dataclass(frozen=True)
class Sent:
    """A window as a test looks at it; ids without the run."""

    iteration: int
    ids: list[str]
    kinds: list[str]
    raw: list[bytes]
    records: tuple[Record, ...]
    faults: tuple[Fault, ...]
    composition: list[Any]
    replayed: bool
    digest: bytes = field(compare=False)
    """Differs between two ledgers, since the salts do."""

    @property
    def bodies(self) -> list[Body]:
        """The messages."""
        return [json.loads(body) for body in self.raw]

    @property
    def record(self) -> Record:
        """The record."""
        (record,) = self.records
        return record

    @property
    def texts(self) -> list[Any]:
        """The content of each message: its text, the text of its one result, or what else it is."""
        return [_text(body["content"]) for body in self.bodies]

    def text(self, identifier: str) -> Any:
        """The content of one message."""
        return self.texts[self.ids.index(identifier)]


def _text(content: Any) -> Any:
    if isinstance(content, list) and len(content) == 1 and content[0]["type"] in ("text", "tool_result"):
        block = content[0]
        return block["text"] if block["type"] == "text" else block["content"]
    return content


def stays(record: Record) -> list[tuple[str, int, int, int]]:
    """The refusals: reason, first and last version, number of turns."""
    return [(r.reason.value, r.first, r.last, r.turns) for r in record.refusals]


def mends(record: Record) -> list[tuple[str, int]]:
    """The mends: kind and version."""
    return [(m.kind.value, m.version) for m in record.mends]


def omissions(found: Sequence[Omission]) -> list[tuple[str, int]]:
    """The omissions: reason and version."""
    return [(o.reason.value, o.version) for o in found]


# Runs


class Story:
    """One run, told to two ledgers."""

    def __init__(
        self, policy: Body, *messages: c.MessageInput, form: Chat | Blocks = chat, tools: bool = False, **opening: Any
    ) -> None:
        self._held = open_ledger("memory:")
        self._forgetful = open_ledger("memory:")
        envelope = Envelope(tools=b'[{"name":"look"}]') if tools else None
        command = c.OpenRun(
            run_id=RUN, format=form.format, policy=policy, messages=messages, envelope=envelope, **opening
        )
        self._both(lambda ledger: ledger.open_run(command), lambda answer: answer.versions)

    def append(self, *messages: c.MessageInput, imported: bool = False) -> AppendAnswer:
        """Appends messages."""
        command = c.Append(run_id=RUN, messages=messages, imported=imported)
        return self._both(lambda ledger: ledger.append(command))

    def step(self, *messages: c.MessageInput, imported: bool = False, while_paused: bool = False) -> Sent:
        """Appends messages and builds the next window; raises what comes in place of one."""
        command = c.Step(run_id=RUN, messages=messages, imported=imported, while_paused=while_paused)
        return self._both(lambda ledger: self._window(ledger, ledger.step(command)))

    def build(self, iteration: int | None = None, *, while_paused: bool = False) -> Sent:
        """Builds the next window."""
        command = c.BuildWindow(run_id=RUN, iteration=iteration, while_paused=while_paused)
        return self._both(lambda ledger: self._window(ledger, ledger.build_window(command)))

    def report(self, input_tokens: int | None, output_tokens: int | None = 10, iteration: int | None = None) -> bool:
        """Reports usage; says whether it was flagged as implausible."""
        usage = c.UsageInput(input_tokens=input_tokens, output_tokens=output_tokens)
        command = c.ReportUsage(run_id=RUN, usage=usage, iteration=iteration)
        return self._both(lambda ledger: ledger.report_usage(command)).implausible

    def envelope(self, **parts: bytes) -> None:
        """Sets the envelope."""
        command = c.SetEnvelope(run_id=RUN, envelope=Envelope(**parts))
        self._both(lambda ledger: ledger.set_envelope(command), lambda answer: answer.version)

    def pause(self, *call_ids: str, awaits_person: bool = False) -> None:
        """Pauses the run on calls."""
        refs = tuple(c.CallRef(call_id=i.encode()) for i in call_ids)
        command = c.PauseRun(run_id=RUN, calls=refs, awaits_person=awaits_person)
        self._both(lambda ledger: ledger.pause_run(command))

    def resume(self) -> None:
        """Resumes the run."""
        self._both(lambda ledger: ledger.resume_run(c.ResumeRun(run_id=RUN)))

    def abandon(self, call_id: str = "", *, version: int = 0, index: int = 0) -> None:
        """Gives up a call, named by its id or by its place."""
        ref = c.CallRef(message_id=f"{RUN}/{version}", index=index) if version else c.CallRef(call_id=call_id.encode())
        self._both(lambda ledger: ledger.abandon_tool_call(c.AbandonToolCall(run_id=RUN, call=ref)))

    def close(self, status: RunStatus = RunStatus.FINISHED) -> None:
        """Ends the run."""
        self._both(lambda ledger: ledger.close_run(c.CloseRun(run_id=RUN, status=status)))

    @property
    def ledger(self) -> Ledger:
        """The ledger that remembers."""
        return self._held

    def _window(self, ledger: Ledger, answer: AppendAnswer) -> Sent:
        if answer.error is not None:
            raise answer.error
        assert answer.window is not None
        again = Queries(ledger).replay_one(RUN, answer.window.window.iteration)
        sent = _sent(answer.window)
        assert replace(_replayed(again), replayed=sent.replayed) == sent
        return sent

    def _both(self, ask: Callable[[Ledger], T], seen: Callable[[T], object] | None = None) -> T:
        told = _told(self._held, ask, seen)
        self._forgetful.sessions.clear()
        told_anew = _told(self._forgetful, ask, seen)
        assert told_anew[1] == told[1]
        if isinstance(told[0], TurnledgerError):
            raise told[0]
        return told[0]


def _told(
    ledger: Ledger, ask: Callable[[Ledger], T], seen: Callable[[T], object] | None
) -> tuple[T | TurnledgerError, object]:
    try:
        answer = ask(ledger)
    except TurnledgerError as error:
        return error, (type(error), error.metadata)
    return answer, seen(answer) if seen else answer


def _sent(answer: WindowAnswer) -> Sent:
    assert answer.whole is not None
    window = answer.window
    assert all(record.digest == window.digest for record in window.records)
    return Sent(
        window.iteration,
        [item.id.removeprefix(RUN + "/") for item in answer.whole],
        [item.kind.label for item in answer.whole],
        [item.body for item in answer.whole],
        tuple(replace(record, digest=b"") for record in window.records),
        window.faults,
        [list(part) for part in window.composition],
        answer.replayed,
        window.digest,
    )


def _replayed(answer: ReplayAnswer) -> Sent:
    return _sent(replace(answer.answer, whole=answer.items))
