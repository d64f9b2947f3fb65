"""A worker that does everything a worker may do, in an order that chance decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

from support.messages import Blocks, Body, Called, Chat, call, said
from support.runs import RUN
from turnledger.domain.envelopes import Envelope
from turnledger.domain.errors import TurnledgerError
from turnledger.domain.words import Source
from turnledger.ledger import commands as c
from turnledger.ledger.answers import AppendAnswer
from turnledger.ledger.application import Ledger

Ask = Callable[[Ledger], Any]
"""One call of a ledger."""


class Worker:
    """Makes the calls of a worker, one after the other; of two with the same chance, the same."""

    def __init__(self, random: Random, form: Chat | Blocks) -> None:
        self._random = random
        self._form = form
        self._repeats_ids = random.random() < 0.5
        """The calls of every reply are named from the beginning, as some providers do."""
        self._made = 0
        self._replies = 0
        self._open: list[str] = []
        """Ids of calls that wait for their result."""
        self._given_up: list[str] = []
        self._paused = False

    def opening(self, policy: Body) -> c.OpenRun:
        """How the run begins."""
        return c.OpenRun(
            run_id=RUN,
            format=self._form.format,
            policy=policy,
            tokenizer="cl100k_base",
            envelope=Envelope(system=b'"Be brief."', tools=b'[{"name":"look"}]', model=b"model-1"),
            messages=(self._form.user("Find the bug."),),
        )

    def calls(self, count: int) -> Iterator[Ask]:
        """So many calls, and at the end those that let the run go on."""
        for _ in range(count):
            yield self._random.choice(self._possible())()
        yield lambda ledger: ledger.resume_run(c.ResumeRun(run_id=RUN))
        yield self._step(self._form.user("And now?"))

    def _possible(self) -> list[Callable[[], Ask]]:
        always = [self._exchange, self._reply, self._further_part, self._question, self._odd, self._usage]
        always += [self._envelope, self._again, self._aside]
        often = [self._exchange] * 5
        waiting = [self._results, self._results, self._results, self._abandon, self._pause] if self._open else []
        late = [self._late] if self._given_up else []
        return often + always + waiting + late + ([self._resume] * 3 if self._paused else [])

    # What is appended

    def _step(self, *messages: c.MessageInput, imported: bool = False) -> Ask:
        command = c.Step(run_id=RUN, messages=messages, imported=imported, while_paused=self._random.random() < 0.5)
        if messages and self._random.random() < 0.2:
            only = c.Append(run_id=RUN, messages=messages, imported=imported)
            return lambda ledger: ledger.append(only)
        return lambda ledger: ledger.step(command)

    def _calls(self) -> list[Called]:
        several = self._random.choice((1, 1, 1, 2, 3))
        return [self._call(index if self._repeats_ids else self._made) for index in range(several)]

    def _call(self, number: int, named: str = "call") -> Called:
        self._made += 1
        self._open.append(f"{named}_{number}")
        return call(self._open[-1], self._random.choice(("look", "run", "read")), at=self._made % 3)

    def _text(self, call_id: str) -> str:
        return f"seen by {call_id}\n" + "nothing here\n" * self._random.randrange(40) + "error: it failed"

    def _result(self, call_id: str) -> c.MessageInput:
        return self._form.result(call_id, self._text(call_id))

    def _reply_id(self) -> str:
        self._replies += 1
        return f"reply_{self._replies}"

    def _take(self) -> str:
        return self._open.pop(self._random.randrange(len(self._open)))

    def _exchange(self) -> Ask:
        claims: dict[str, Any] = {"usage": (self._random.randrange(3000), 20)} if self._random.random() < 0.7 else {}
        if self._random.random() < 0.1:
            claims["answers_iteration"] = self._random.randrange(1, 9)
        reply = self._form.reply("Let me see.", *self._calls(), reply_id=self._reply_id(), **claims)
        results = [self._result(self._take()) for _ in range(self._random.choice((1, 1, len(self._open))))]
        return self._step(reply, *results)

    def _reply(self) -> Ask:
        return self._step(self._form.reply("Thinking.", *self._calls(), stage_id="planner"))

    def _further_part(self) -> Ask:
        """More of the reply that was the last to have an id, or of one that never began. No reply uses an id twice."""
        calls = [self._call(self._made, "further") for _ in range(self._random.randrange(3))]
        return self._step(self._form.reply("And further.", *calls, reply_id=f"reply_{self._replies}"))

    def _results(self) -> Ask:
        """Results of waiting calls, in any order; where the format can, several in one message, or beside text."""
        if isinstance(self._form, Chat) or self._random.random() < 0.4:
            return self._step(self._result(self._take()))
        ids = [self._take() for _ in range(self._random.randint(1, len(self._open)))]
        beside = self._random.choice((None, "And be quick."))
        flagged = beside is not None and self._random.random() < 0.3
        return self._step(self._form.results(*((i, self._text(i)) for i in ids), beside=beside, request=flagged))

    def _question(self) -> Ask:
        source = self._random.choice((None, None, Source.INJECTED))
        flagged = source is None and self._random.random() < 0.3
        return self._step(self._form.user("What about this? " * 9, source=source, request=flagged))

    def _aside(self) -> Ask:
        """What the agent's own code puts in."""
        if isinstance(self._form, Chat) and self._random.random() < 0.5:
            return self._step(self._form.system("Be careful from here on."))
        return self._step(self._form.user("Remember the plan.", source=Source.INJECTED))

    def _odd(self) -> Ask:
        """What a strict append refuses, or what is never sent as it is."""
        empty: Body = {"role": "user", "content": None if isinstance(self._form, Chat) else []}
        orphan = self._form.result("no such call", "found")
        choice = self._random.choice((said(empty), orphan, self._result(f"call_{self._made - 1}")))
        return self._step(choice, imported=self._random.random() < 0.7)

    def _late(self) -> Ask:
        return self._step(self._result(self._random.choice(self._given_up)))

    # What else is said

    def _abandon(self) -> Ask:
        call_id = self._take()
        self._given_up.append(call_id)
        command = c.AbandonToolCall(run_id=RUN, call=c.CallRef(call_id=call_id.encode()), reason="it hangs")
        return lambda ledger: ledger.abandon_tool_call(command)

    def _pause(self) -> Ask:
        self._paused = True
        ref = c.CallRef(call_id=self._random.choice(self._open).encode())
        command = c.PauseRun(run_id=RUN, calls=(ref,), awaits_person=self._random.random() < 0.5)
        return lambda ledger: ledger.pause_run(command)

    def _resume(self) -> Ask:
        self._paused = False
        return lambda ledger: ledger.resume_run(c.ResumeRun(run_id=RUN))

    def _usage(self) -> Ask:
        usage = c.UsageInput(input_tokens=self._random.randrange(3000), output_tokens=1)
        return lambda ledger: ledger.report_usage(c.ReportUsage(run_id=RUN, usage=usage))

    def _envelope(self) -> Ask:
        system = self._random.choice((b'"Be brief."', b'"Be thorough."'))
        command = c.SetEnvelope(run_id=RUN, envelope=Envelope(system=system, tools=b'[{"name":"look"}]'))
        return lambda ledger: ledger.set_envelope(command)

    def _again(self) -> Ask:
        command = c.BuildWindow(run_id=RUN, while_paused=self._random.random() < 0.5)
        return lambda ledger: ledger.build_window(command)


def told(ledger: Ledger, ask: Ask) -> tuple[Any, Any]:
    """The answer, and what tells one error from another: one that was raised, or one in place of a window."""
    try:
        answer = ask(ledger)
    except TurnledgerError as error:
        return None, (type(error), error.metadata)
    if isinstance(answer, AppendAnswer) and answer.error is not None:
        return replace(answer, error=None), (type(answer.error), answer.error.metadata)
    return answer, None
