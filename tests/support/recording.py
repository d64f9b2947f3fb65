"""A whole run as it happened: every window that was handed out, and what was stored before and after each call."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from random import Random
from typing import Any, cast
from unittest.mock import patch

from support.messages import Blocks, Chat, blocks, chat
from support.runs import EVERY_POLICY, RUN
from support.varied import Worker, told
from turnledger.domain import compositions
from turnledger.domain import events as e
from turnledger.domain.digests import ItemKind
from turnledger.domain.policies import Policy, parse_policy
from turnledger.grpc import wire_out
from turnledger.ledger import commands as c
from turnledger.ledger.answers import AppendAnswer, Item, ReplayAnswer, WindowAnswer
from turnledger.ledger.application import Ledger
from turnledger.ledger.encoding import Row
from turnledger.ledger.queries import Queries
from turnledger.ledger.stores import open_ledger
from turnledger.v1 import window_pb2

KEY = f"default/{RUN}"
LEDGER_STREAM = f"{KEY}/ledger"
WINDOWS_STREAM = f"{KEY}/windows"
TREATED = f"{KEY}/treated/"
RUNS_REMEMBERED = 128
"""As many as the properties share."""
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
FORMS: dict[str, Chat | Blocks] = {form.format: form for form in (chat, blocks)}

Stored = dict[str, list[Row]]
"""Every row of a store, with body and chain, by stream."""


@dataclass(frozen=True)
class Case:
    """What decides a run: of two that are equal, every byte is."""

    seed: int
    format: str
    policy: str
    """A name of :data:`support.runs.EVERY_POLICY`."""
    calls: int

    @property
    def form(self) -> Chat | Blocks:
        """How its messages are made."""
        return FORMS[self.format]

    @property
    def parsed_policy(self) -> Policy:
        """Its policy, defaults filled in."""
        return parse_policy(EVERY_POLICY[self.policy])


@dataclass(frozen=True)
class Recorded:
    """A window with its bodies, and what was stored around the call that handed it out."""

    window: e.WindowBuilt
    items: tuple[Item, ...]
    appended: tuple[int, ...]
    """Ledger versions of the messages that came with the call."""
    before: Stored
    after: Stored
    salts: tuple[bytes, ...]
    """What was drawn by chance in the call: for each message that came with it, then for each treated text."""

    @cached_property
    def composition(self) -> compositions.Composition:
        """What it is made of."""
        return compositions.decode(self.window.composition)

    @cached_property
    def placed(self) -> list[tuple[int, Item]]:
        """Its items, each with the ledger version of its message, or of the one that it stands for; 0: a notice."""
        authored = iter([part.version for part in self.composition if isinstance(part, compositions.Authored)])
        return [(_version_of(item) if item.kind.is_salted else next(authored), item) for item in self.items]

    @cached_property
    def messages(self) -> set[int]:
        """Ledger versions of the messages that it holds, whatever their form; those that it names but to close a
        call of theirs apart."""
        return {version for version, item in self.placed if version and item.kind is not ItemKind.CLOSING_RESULT}

    def bodies(self, kind: ItemKind) -> list[bytes]:
        """Of its items of a kind."""
        return [item.body for item in self.items if item.kind is kind]

    @cached_property
    def settled_before(self) -> set[int]:
        """The messages that had been treated, or found not to become shorter, before the call."""
        return {r.originator_version for s, rows in self.before.items() if s.startswith(TREATED) for r in rows}


def _version_of(item: Item) -> int:
    return int(item.id.removeprefix(f"{RUN}/"))


@dataclass(frozen=True)
class Recording:
    """A run that went on without a break."""

    case: Case
    windows: tuple[Recorded, ...]
    """Those that were new, in order."""
    refused: tuple[type[Exception], ...]
    """Why other calls had no answer, or no window."""
    facts: tuple[e.RunEvent, ...]
    """All of the ledger, with bodies."""
    replayed: tuple[ReplayAnswer, ...]
    """Every iteration, as it was sent again at the end."""

    def body(self, version: int) -> bytes:
        """The content of a fact that has one."""
        body = self.facts[version - 1].body
        assert body is not None
        return body.content


@lru_cache(RUNS_REMEMBERED)
def recorded(case: Case) -> Recording:
    """Drives the run of a case, and writes down what happened."""
    with _open(case) as (ledger, worker, salts):
        windows, refused = [], []
        before = _stored(ledger)
        for ask in worker.calls(case.calls):
            drawn = len(salts.drawn)
            answer, error = told(ledger, ask)
            after = _stored(ledger)
            if error is not None:
                refused.append(error[0])
            if window := _new_window(answer):
                assert window.whole is not None
                drew = tuple(salts.drawn[drawn:])
                windows.append(Recorded(window.window, window.whole, answer.versions, before, after, drew))
            before = after
        queries = Queries(ledger)
        facts = tuple(fact for _, fact in queries.facts(RUN, 0, 0, bodies=True))
        replayed = tuple(queries.replay(RUN)) if windows else ()
        return Recording(case, tuple(windows), tuple(refused), facts, replayed)


@dataclass(frozen=True)
class Difference:
    """A window that was new, as it came over the wire for a client that holds another."""

    base: int
    """Iteration of the window that is held; 0: none."""
    message: window_pb2.Window


@dataclass(frozen=True)
class Continued:
    """The same run, whose process forgot everything now and then, and whose worker asked for differences only."""

    differences: tuple[Difference, ...]
    replayed: tuple[ReplayAnswer, ...]


@lru_cache(RUNS_REMEMBERED)
def continued(case: Case) -> Continued:
    """Drives the run of a case in processes that end at any point, for a client that holds what it got."""
    with _open(case) as (ledger, worker, _):
        asking = _AskingForDifferences(ledger, Random(case.seed))
        for ask in worker.calls(case.calls):
            if asking.random.random() < 0.5:
                ledger.sessions.clear()
            answer, _ = told(cast("Ledger", asking), ask)
            if window := _new_window(answer):
                asking.receive(window)
        replayed = tuple(Queries(ledger).replay(RUN)) if asking.received else ()
        return Continued(tuple(asking.received), replayed)


class _AskingForDifferences:
    """A ledger, asked for every window as a difference to one that the client holds, mostly the last."""

    def __init__(self, ledger: Ledger, random: Random) -> None:
        self._ledger = ledger
        self.random = random
        self.received: list[Difference] = []
        self._base: c.Base | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def step(self, command: c.Step) -> AppendAnswer:
        return self._ledger.step(replace(command, base=self._choose_base()))

    def build_window(self, command: c.BuildWindow) -> AppendAnswer:
        return self._ledger.build_window(replace(command, base=self._choose_base()))

    def receive(self, answer: WindowAnswer) -> None:
        message = window_pb2.Window.FromString(wire_out.window(answer).SerializeToString())
        self.received.append(Difference(self._base.iteration if self._base else 0, message))

    def _choose_base(self) -> c.Base | None:
        if self.received:
            held = self.received[-1] if self.random.random() < 0.7 else self.random.choice(self.received)
            self._base = c.Base(held.message.iteration, held.message.digest)
        return self._base


class _Salts:
    """Salts by chance that can be repeated, and all that were drawn."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.drawn: list[bytes] = []

    def __call__(self, size: int) -> bytes:
        self.drawn.append(self._random.randbytes(size))
        return self.drawn[-1]


@contextmanager
def _open(case: Case) -> Iterator[tuple[Ledger, Worker, _Salts]]:
    salts = _Salts(case.seed)
    with open_ledger("memory:", clock=lambda: NOON) as ledger, patch.object(secrets, "token_bytes", salts):
        worker = Worker(Random(case.seed), case.form)
        ledger.open_run(worker.opening(EVERY_POLICY[case.policy]))
        yield ledger, worker, salts


def _stored(ledger: Ledger) -> Stored:
    streams = {str(n.originator_id) for n in ledger.store.select_notifications(None, 10**6)}
    return {stream: list(ledger.store.select_rows(stream, [(1, 2**62)], bodies=True)) for stream in sorted(streams)}


def _new_window(answer: Any) -> WindowAnswer | None:
    if isinstance(answer, AppendAnswer) and answer.window is not None and not answer.window.replayed:
        return answer.window
    return None
