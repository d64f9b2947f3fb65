"""The agent's loop, as a worker of turnledger has it: append what is new, send the window that comes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from turnledger.client import Envelope, LedgerClient, Run, Window
from turnledger.examples.flaky_hunt.model import REQUEST, ChatModel, Message, ModelUnavailable, texts_of
from turnledger.examples.flaky_hunt.tools import TOOLS, Workspace

ITERATIONS_MAX = 40
"""A model that has not found it by then is stopped."""


@dataclass(frozen=True)
class Refused:
    """Neighboring messages that a strategy left as they are, and its reason."""

    reason: str
    first_id: str
    last_id: str


@dataclass(frozen=True)
class Visit:
    """One iteration: what was sent, what the strategy did to it, and what the model then asked for."""

    iteration: int
    messages: int
    characters: int
    holds_request: bool
    """True where the request is in the window, byte for byte as it was appended."""
    rewritten: tuple[str, ...]
    removed: tuple[tuple[str, str], ...]
    refused: tuple[Refused, ...]
    prompt_tokens: int
    """As the provider reported it for this window."""
    calls: tuple[Message, ...]


@dataclass
class Hunt:
    """What a run left behind for the story to be told."""

    run: Run
    run_id: str
    strategy: str
    results: dict[str, str]
    """What the tools answered, by the id that the ledger gave the message, in the order of the calls."""
    visits: list[Visit] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    """The window to replay later, if the run came that far, and the last one."""
    answer: str | None = None
    """The model's last word; None where it was stopped."""


def play(
    ledger: LedgerClient,
    policy: Mapping[str, Any],
    model: ChatModel,
    reporter: Callable[[Visit], None],
    *,
    run_id: str,
    keep_iteration: int,
) -> Hunt:
    """Hunt until the model answers without a call, under one policy; `reporter` hears of every iteration.

    Raises ModelUnavailable, after it has closed the run as failed, and what the client raises.
    """
    envelope = Envelope(tools=TOOLS, model=model.name)
    run = ledger.open_run(format="openai.chat", policy=policy, run_id=run_id, envelope=envelope)
    hunt = Hunt(run, run_id, str(policy["strategy"]), {})
    try:
        with Workspace() as workspace:
            _loop(hunt, model, workspace, reporter, keep_iteration)
    except ModelUnavailable:
        run.close("failed")
        raise
    run.close("finished" if hunt.answer is not None else "cancelled")
    return hunt


def _loop(
    hunt: Hunt, model: ChatModel, workspace: Workspace, reporter: Callable[[Visit], None], keep_iteration: int
) -> None:
    window = hunt.run.step([{"role": "user", "content": REQUEST}])
    request = window.items[0].body
    for _ in range(ITERATIONS_MAX):
        reply, usage = model.complete(window.messages, TOOLS)
        visit = _visit(window, request, reply, usage)
        hunt.visits.append(visit)
        hunt.windows = [kept for kept in hunt.windows if kept.iteration == keep_iteration] + [window]
        reporter(visit)
        if not visit.calls:
            # Nothing follows, so there is no window to build: the reply is appended and that is all.
            hunt.run.append([reply], usage=usage)
            hunt.answer = "".join(texts_of(reply))
            return
        answers = [_answer(workspace, call) for call in visit.calls]
        window = hunt.run.step([reply, *answers], usage=usage)
        # The newest results stand last. They are told apart by message id, because providers repeat call ids.
        newest = [item.id for item in window.items if item.message["role"] == "tool"][-len(answers) :]
        hunt.results.update(zip(newest, (answer["content"] for answer in answers), strict=True))


def _answer(workspace: Workspace, call: Message) -> Message:
    result = workspace.call(call["function"]["name"], call["function"]["arguments"])
    return {"role": "tool", "tool_call_id": call["id"], "content": result}


def _visit(window: Window, request: bytes, reply: Message, usage: Mapping[str, Any]) -> Visit:
    return Visit(
        iteration=window.iteration,
        messages=len(window.messages),
        characters=sum(len(text) for message in window.messages for text in texts_of(message)),
        holds_request=any(item.body == request for item in window.items),
        rewritten=tuple(span.first_id for record in window.records for span in record.rewritten),
        removed=tuple((span.first_id, span.last_id) for record in window.records for span in record.removed),
        refused=tuple(
            Refused(refusal.reason, refusal.first_id, refusal.last_id)
            for record in window.records
            for refusal in record.refusals
        ),
        prompt_tokens=int(usage.get("prompt_tokens", 0)),
        calls=tuple(reply.get("tool_calls") or ()),
    )
