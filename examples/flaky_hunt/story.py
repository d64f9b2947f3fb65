"""The demonstration: one hunt under two policies, and what became of the line that mattered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from turnledger.client import LedgerClient
from turnledger.examples.flaky_hunt.agent import Hunt, Visit, play
from turnledger.examples.flaky_hunt.model import ChatModel, Message, ScriptedModel, texts_of

EVERYTHING: dict[str, Any] = {"strategy": "none"}
COMPACT: dict[str, Any] = {"strategy": "compact-results", "keep_raw": 1}
REPLAYED_ITERATION = 9
DECISIVE = "FAILED tests/test_checkout.py::test_walk_in_pays_list_price - "
"""How the line that mattered starts; what follows is the price that was wrong and where it came from."""

_CALL_CHARACTERS_MAX = 24
_COLUMNS = ("it", "msgs", "chars", "tokens", "the reply calls", "rewritten; what stays, why")


@dataclass(frozen=True)
class Check:
    """Something that the demonstration claims, and whether it holds."""

    text: str
    holds: bool


@dataclass(frozen=True)
class Told:
    """What became of the demonstration."""

    model: str
    hunts: tuple[Hunt, ...]
    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        """Everything that was checked holds."""
        return all(check.holds for check in self.checks)

    @property
    def document(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "holds": self.holds,
            "model": self.model,
            "runs": [_run_document(hunt) for hunt in self.hunts],
            "checks": [{"text": check.text, "holds": check.holds} for check in self.checks],
        }


def _run_document(hunt: Hunt) -> dict[str, Any]:
    return {
        "run_id": hunt.run_id,
        "strategy": hunt.strategy,
        "iterations": len(hunt.visits),
        "characters_sent": sum(visit.characters for visit in hunt.visits),
        "tokens_reported": sum(visit.prompt_tokens for visit in hunt.visits),
        "characters_max": max(visit.characters for visit in hunt.visits),
        "answer": hunt.answer,
    }


def run_demo(address: str, console: Console, model: ChatModel | None = None, *, run_suffix: str = "") -> Told:
    """Play the hunt twice against the ledger at `address` and tell what happened.

    Without a model the scripted stand-in plays. `run_suffix` ends the ids of the two runs; left empty, it is made up,
    so that the demonstration can be run again on the same ledger.

    Raises ModelUnavailable, PytestMissing and what the client raises.
    """
    player = model or ScriptedModel()
    suffix = run_suffix or uuid4().hex[:6]
    _header(console, player)
    with LedgerClient(address) as ledger:
        everything = _pass(console, ledger, player, "everything re-sent", EVERYTHING, f"flaky-hunt-none-{suffix}")
        compact = _pass(console, ledger, player, "older results compacted", COMPACT, f"flaky-hunt-compact-{suffix}")
        _answer(console, compact)
        _sent(console, everything, compact)
        _line_that_mattered(console, everything, compact)
        checks = (_request_kept(console, everything, compact), _originals(console, compact), _replay(console, compact))
    _next(console)
    return Told(player.name, (everything, compact), checks)


def _header(console: Console, model: ChatModel) -> None:
    _title(console, "turnledger: the hunt for a flaky test")
    _say(
        console,
        "An agent hunts a flaky test in a small shop project. Its tools are real: they read, run and change a copy of "
        "the project in a temporary folder, and every result below is what pytest really said.",
    )
    if isinstance(model, ScriptedModel):
        _say(
            console,
            "The model is a SCRIPTED STAND-IN: its replies are fixed, no model is called, and its tokens are an "
            "estimate (characters / 4). So this shows what is sent, not how well a model does with it. "
            "For a real one: --base-url https://... --model NAME, with the key in "
            "OPENAI_API_KEY. It may then write tests and run them, as you, on this machine.",
            "yellow",
        )
    else:
        _say(
            console,
            f"The model is {model.name}. It may write tests and run them, as you, on this machine. The story is told "
            "for whatever it does; not every hunt meets the line it is about.",
            "yellow",
        )


def _pass(
    console: Console, ledger: LedgerClient, model: ChatModel, what: str, policy: Mapping[str, Any], run_id: str
) -> Hunt:
    _title(console, f"policy {policy['strategy']}: {what}")
    _say(console, f"Run {run_id}; a message id is {run_id}/<number>, below only its number.", "dim")
    console.print()
    _row(console, _COLUMNS, "bold")

    def report(visit: Visit) -> None:
        cells = (str(visit.iteration), str(visit.messages), f"{visit.characters:,}", f"{visit.prompt_tokens:,}")
        _row(console, (*cells, "\n".join(_call(call) for call in visit.calls) or "(answer)", _changes(visit)))

    hunt = play(ledger, policy, model, report, run_id=run_id, keep_iteration=REPLAYED_ITERATION)
    if not any(visit.removed for visit in hunt.visits):
        done = "" if hunt.windows[-1].records else ", and none was rewritten"
        _say(console, f"No message left the window of this run{done}.", "dim")
    return hunt


def _answer(console: Console, hunt: Hunt) -> None:
    _title(console, "what the agent found")
    _say(console, hunt.answer or f"Nothing: it was stopped after {len(hunt.visits)} iterations.")


def _sent(console: Console, everything: Hunt, compact: Hunt) -> None:
    _title(console, "what was sent")
    table = _comparison("over the whole run", "change")
    hunts = (everything, compact)
    table.add_row("iterations", *(f"{len(hunt.visits)}" for hunt in hunts))
    _compare(table, "characters sent", *(sum(visit.characters for visit in hunt.visits) for hunt in hunts))
    _compare(table, "tokens reported", *(sum(visit.prompt_tokens for visit in hunt.visits) for hunt in hunts))
    _compare(table, "largest window", *(max(visit.characters for visit in hunt.visits) for hunt in hunts))
    console.print(table)


def _compare(table: Table, what: str, everything: int, compact: int) -> None:
    change = f"{(compact - everything) / everything:+.0%}" if everything else "-"
    table.add_row(what, f"{everything:,}", f"{compact:,}", change)


@dataclass(frozen=True)
class _Place:
    """Where a line stands in a window, in characters of what the model reads."""

    message_id: str
    text: str
    """All of the text that holds it."""
    before: int
    after: int
    raw_results: int
    """Characters of tool results in the window that are as the tools gave them, the line not counted."""

    def share(self, line: str) -> float:
        return len(line) / (self.before + len(line) + self.after)


def _line_that_mattered(console: Console, everything: Hunt, compact: Hunt) -> None:
    _title(console, "the line that mattered")
    line = _decisive_line(compact)
    if line is None or line != _decisive_line(everything):
        _say(console, "No test run of this hunt printed it, so there is no line to look for.", "yellow")
        return
    _say(console, "One line of one test run told where to look: a price that came from a cache, and its key.")
    _quote(console, line)
    places = [_place(hunt, line) for hunt in (everything, compact)]
    table = _comparison("in the last window")
    table.add_row("characters before it", *(f"{place.before:,}" if place else "-" for place in places))
    table.add_row("characters after it", *(f"{place.after:,}" if place else "-" for place in places))
    table.add_row("its share of the window", *(f"{place.share(line):.2%}" if place else "-" for place in places))
    table.add_row("raw tool output around it", *(f"{place.raw_results:,}" if place else "-" for place in places))
    console.print(table)
    _as_it_stands(console, places[1])


def _as_it_stands(console: Console, place: _Place | None) -> None:
    if place is None:
        _say(console, "Under compact-results it is not in the last window; the ledger still has it.", "yellow")
        return
    _say(console, f"Under compact-results message {_number(place.message_id)}, once a whole test run, now reads:")
    _quote(console, place.text)
    _say(
        console,
        "It kept this line because the default signal is the first line that speaks of an error or failure, and this "
        "run_tests puts pytest's summary first. A tool that opens with its verdict is kept well; one that buries it "
        "needs a signal pattern of its own. What the agent itself wrote is never rewritten.",
    )


def _request_kept(console: Console, everything: Hunt, compact: Hunt) -> Check:
    _title(console, "what can be checked")
    visits = [*everything.visits, *compact.visits]
    kept = sum(visit.holds_request for visit in visits)
    return _check(
        console, kept == len(visits), f"The request stands in {kept} of {len(visits)} windows, byte for byte."
    )


def _originals(console: Console, hunt: Hunt) -> Check:
    """Fetch what was rewritten by id and compare it with what the tools answered at the time."""
    ids = [item.id for item in hunt.windows[-1].items if item.kind == "treated"]
    recovered, equal = 0, 0
    for original in hunt.run.messages(ids) if ids else ():
        answered = hunt.results[original.id].encode()
        content = json.loads(original.body)["content"].encode()
        equal += content == answered
        recovered += len(content)
    text = (
        f"{len(ids)} results stand rewritten in the last window. Their originals, fetched by id: {equal} of {len(ids)} "
        f"equal to what the tool answered, {recovered:,} bytes."
    )
    return _check(console, equal == len(ids), text)


def _replay(console: Console, hunt: Hunt) -> Check:
    sent = hunt.windows[0]
    replayed = hunt.run.replay(sent.iteration)
    same_digest = replayed.digest == sent.digest
    same_bodies = [item.body for item in replayed.items] == [item.body for item in sent.items]
    text = (
        f"Iteration {sent.iteration} replayed from the ledger: {len(replayed.items)} bodies, "
        f"{sum(len(item.body) for item in replayed.items):,} bytes, {'equal' if same_bodies else 'NOT EQUAL'}; "
        f"digest {sent.digest.hex()[:16]}..., {'equal' if same_digest else 'NOT EQUAL'}."
    )
    return _check(console, same_digest and same_bodies, text)


def _next(console: Console) -> None:
    _title(console, "what to try next")
    table = Table.grid(padding=(0, 3, 0, 0))
    table.add_row("turnledger serve", "a ledger of your own (the one above has stopped)")
    table.add_row("README.md", "the same loop in a few lines, for your agent and your provider")
    table.add_row("examples/flaky_hunt/agent.py", "all that the agent above needs to know of the ledger")
    console.print(table)
    console.print()


def _decisive_line(hunt: Hunt) -> str | None:
    lines = (line for result in hunt.results.values() for line in result.splitlines())
    return next((line for line in lines if line.startswith(DECISIVE)), None)


def _place(hunt: Hunt, line: str) -> _Place | None:
    """Where the line stands first in the last window of a hunt."""
    items = hunt.windows[-1].items
    texts = [(item, text) for item in items for text in texts_of(item.message)]
    total = sum(len(text) for _, text in texts)
    raw = sum(len(text) for item, text in texts if item.message["role"] == "tool" and item.kind != "treated")
    before = 0
    for item, text in texts:
        at = text.find(line)
        if at >= 0:
            in_raw = 0 if item.kind == "treated" else len(line)
            return _Place(item.id, text, before + at, total - before - at - len(line), raw - in_raw)
        before += len(text)
    return None


def _changes(visit: Visit) -> str:
    parts = []
    if visit.rewritten:
        parts.append(f"rewritten {', '.join(sorted((_number(id_) for id_ in visit.rewritten), key=int))}")
    if visit.removed:
        parts.append(f"left {', '.join(_span(first, last) for first, last in visit.removed)}")
    reasons: dict[str, list[str]] = {}
    for refused in visit.refused:
        reasons.setdefault(refused.reason, []).append(_span(refused.first_id, refused.last_id))
    parts += [f"{reason} {', '.join(spans)}" for reason, spans in reasons.items()]
    return "\n".join(parts) or "-"


def _call(call: Message) -> str:
    try:
        arguments = json.loads(call["function"]["arguments"] or "{}")
    except ValueError:
        arguments = {}
    first = next(iter(arguments.items()), None) if isinstance(arguments, dict) else None
    shown = "" if first is None else f" {first[0]}={first[1]}" if isinstance(first[1], int) else f" {_plain(first[1])}"
    text = str(call["function"]["name"]) + shown
    return text if len(text) <= _CALL_CHARACTERS_MAX else text[: _CALL_CHARACTERS_MAX - 3] + "..."


def _plain(value: object) -> str:
    return " ".join(str(entry) for entry in value) if isinstance(value, list) else str(value)


def _number(id_: str) -> str:
    return id_.rpartition("/")[2]


def _span(first_id: str, last_id: str) -> str:
    return _number(first_id) if first_id == last_id else f"{_number(first_id)}-{_number(last_id)}"


def _title(console: Console, text: str) -> None:
    console.print()
    console.rule(Text(text, "bold"), align="left")


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style))


def _quote(console: Console, text: str) -> None:
    console.print(Padding(Text(text, "cyan"), (1, 2)))


def _check(console: Console, holds: bool, text: str) -> Check:
    mark = Text("ok    ", "green") if holds else Text("WRONG ", "bold red")
    table = Table.grid()
    table.add_row(mark, Text(text))
    console.print(table)
    return Check(text, holds)


def _comparison(title: str, *more: str) -> Table:
    table = Table(title, "none", "compact-results", *more, box=None, header_style="bold", padding=(0, 3, 0, 0))
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def _row(console: Console, cells: tuple[str, ...], style: str = "") -> None:
    """One line of a table that is printed as the run goes on, so its widths are fixed."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    for width in (2, 4, 7, 6):
        table.add_column(width=width, justify="right", no_wrap=True)
    table.add_column(width=_CALL_CHARACTERS_MAX, no_wrap=True)
    table.add_column(ratio=1)
    table.add_row(*(Text(cell) for cell in cells), style=style)
    console.print(table)
