"""What every window of a whole run holds, leaves out and says of it: judged from the facts, without the engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from support.provider_rules import CHECKERS
from support.recording import Case, Recorded, recorded
from support.retelling import Standing, Turn, first_span, retold, rows
from support.whole_runs import of_many_runs, of_whole_runs
from turnledger.domain.digests import ItemKind
from turnledger.domain.errors import WindowInvalid
from turnledger.domain.formats import FORMATS
from turnledger.domain.jsonbytes import parse
from turnledger.domain.policies import CompactResults, SlidingWindow, TokenBudget
from turnledger.domain.records import Record, Refusal, Size, Span
from turnledger.domain.words import NotEngaged
from turnledger.domain.words import RefusalReason as Why
from turnledger.ledger.tokenizers import tokenizer_named
from turnledger.projections.arrange import ABANDONED_TEXT, EMPTY_TEXT

VERBATIM = "none"
"""The policy under which everything is sent, whatever its provider says."""


@of_whole_runs
def test_a_call_and_its_results_never_part(case: Case) -> None:
    """1.1, 1.3, 1.7: a turn is in a window as a whole or not at all. Before every result, a real or an authored
    one, stands another part of its turn; and no call goes without one, as its provider sees it."""
    for standing, sent in retold(case):
        for turn in standing.turns:
            assert len(sent.messages.intersection(turn.versions)) in (0, len(turn.versions))
        if case.policy == VERBATIM:
            continue
        turn_of = {version: turn for turn in standing.turns for version in turn.versions}
        results = {message.version for turn in standing.turns for message in turn.results}
        for (before, _), (version, item) in pairwise(sent.placed):
            if version in results or item.kind is ItemKind.CLOSING_RESULT:
                assert turn_of.get(before) is turn_of[version]
        assert CHECKERS[case.format]([parse(item.body) for item in sent.items], has_tools=True) == []


@of_whole_runs
def test_no_window_is_left_invalid(case: Case) -> None:
    """10: whatever the order in which calls, results and messages came, there is a window that its provider takes."""
    assert WindowInvalid not in recorded(case).refused


@of_whole_runs
def test_the_request_never_leaves(case: Case) -> None:
    """2.1, 2.2: every window holds the latest flagged message, else the latest of the person: as it was or, where
    there was nothing in it, as a placeholder."""
    for standing, sent in retold(case):
        assert standing.request in sent.messages


@of_whole_runs
def test_nothing_outside_the_plan_leaves(case: Case) -> None:
    """4.1 to 4.3: what left is the first contiguous run of whole turns that nothing holds back: neither the keep
    depth nor the request, a pin, a pause, an open call, or a result that was not read."""
    for standing, sent in retold(case):
        for record in sent.window.records:
            if left := standing.within(record.removed):
                assert left == first_span(held_back(case, standing, record.pins.stand_down))
                assert standing.named(record.removed) == {v for i in left for v in standing.turns[i].versions}


@of_whole_runs
def test_no_pin_is_given_up_without_need(case: Case) -> None:
    """3.6: only after two records that a pin kept from removing anything, only where nothing could leave with it,
    and no more of them than that takes."""
    blocked = 0
    for standing, sent in retold(case):
        for record in sent.window.records:
            if record.pins.stand_down:
                assert blocked >= 2
                assert first_span(held_back(case, standing, record.pins.stand_down[:-1])) == []
                assert record.removed
            names_pin = any(refusal.reason is Why.LAST_TOOL_RESULT for refusal in record.refusals)
            blocked = blocked + 1 if names_pin and not record.removed else 0


@of_whole_runs
def test_nothing_is_rewritten_that_must_stay_raw(case: Case) -> None:
    """8.6: neither the newest results, nor what was not read, is pinned, or belongs to a call that is paused."""
    for standing, sent in retold(case):
        for record in sent.window.records:
            for turn in standing.turns:
                for message in turn.results:
                    if (message.version, message.version) in record.rewritten:
                        assert stays_raw(case, standing)[message.version] is None


@of_whole_runs
def test_every_turn_is_accounted_for(case: Case) -> None:
    """1.4, 7: of the window before and what came since, each turn is sent or among what the record says left; and
    what is never sent is told as omitted."""
    for standing, sent in retold(case):
        everything = {version for turn in standing.turns for version in turn.versions}
        marked = {message.version for message in standing.marked} if case.policy == VERBATIM else set()
        left = {version for record in sent.window.records for version in standing.named(record.removed)}
        assert sent.messages == (everything | marked) - left
        for record in sent.window.records:
            assert record.removed_count == len(left)
            gone = [standing.turns[i] for i in reversed(standing.within(record.removed))]
            names = dict.fromkeys(call.name.encode() for turn in gone for call in turn.answered)
            assert record.dropped_observations == tuple(names)
            told = {omission.version: omission.reason for omission in record.omissions}
            for message in standing.marked:
                assert message.version <= standing.before or told.get(message.version) is message.mark


@of_whole_runs
def test_every_turn_that_stays_has_its_reason(case: Case) -> None:
    """4.4: each candidate that stays is refused by the reason that the facts give; neighbours share a row."""
    for standing, sent in retold(case):
        for record in sent.window.records:
            assert list(record.refusals) == refusals(case, standing, sent, record)


@of_whole_runs
def test_the_sizes_add_up(case: Case) -> None:
    """6.1, 7: what a record says of the window is what it measures, and before it was larger by what left or was
    rewritten, and by the notice that stood there."""
    notice: list[bytes] = []
    for standing, sent in retold(case):
        for record in sent.window.records:
            left = [standing.turns[i] for i in standing.within(record.removed)]
            rewritten = standing.named(record.rewritten)
            gone = [body for turn in left for body in as_sent(case, turn)] + notice
            gone += [recorded(case).body(version) for version in rewritten]
            notice = sent.bodies(ItemKind.NOTICE)
            new = notice + [item.body for version, item in sent.placed if version in rewritten]
            after = measured(case, (item.body for item in sent.items))
            assert after == sizes(record.after)
            assert sizes(record.before) == after + measured(case, gone) - measured(case, new)
            assert (record.before.turns, record.after.turns) == (len(standing.turns), len(standing.turns) - len(left))


@of_whole_runs
def test_the_unchanged_prefix_is_the_longest(case: Case) -> None:
    """7: what the record calls unchanged equals the window before byte for byte, and what comes after it does not."""
    for before, sent in pairwise(recorded(case).windows):
        for record in sent.window.records:
            count = record.unchanged_items
            old, new = ([(i.kind, i.body, i.salt) for i in window.items] for window in (before, sent))
            assert old[:count] == new[:count]
            assert record.unchanged_bytes == sum(len(body) for _, body, _ in new[:count])
            assert count in (len(old), len(new)) or old[count] != new[count]
            assert record.first_changed_id == (sent.items[count].id if count < len(new) else None)


# What the facts come to under a policy


def held_back(case: Case, standing: Standing, given_up: Sequence[Span]) -> list[Why | None]:
    """Why each turn refuses to leave, without the pins that were given up."""
    policy = case.parsed_policy
    assert isinstance(policy, SlidingWindow | TokenBudget)
    recent = policy.keep_recent_turns
    pinned = standing.pinned(policy.pin_limit, recent, by_arguments=policy.pin_by == "tool-and-arguments")
    return standing.reasons(recent, [i for i in pinned if standing.turns[i].span not in given_up])


def stays_raw(case: Case, standing: Standing) -> dict[int, Why | None]:
    """Why the results of each message are not rewritten."""
    policy = case.parsed_policy
    assert isinstance(policy, CompactResults)
    pins = standing.pinned(policy.pin_limit, 0, by_arguments=policy.pin_by == "tool-and-arguments")
    pinned = [standing.turns[i] for i in pins]
    return {
        message.version: Why.INSIDE_KEEP_RAW
        if standing.is_among_newest(message, policy.keep_raw)
        else standing.holds_raw(turn, message, pinned)
        for turn in standing.turns
        for message in turn.results
    }


def refusals(case: Case, standing: Standing, sent: Recorded, record: Record) -> list[Refusal]:
    """The rows of a record that explain what stays."""
    if isinstance(case.parsed_policy, CompactResults):
        raw = stays_raw(case, standing)
        open_to_it = raw.keys() - sent.settled_before - standing.named(record.rewritten)
        told = [
            next((raw[v] or Why.REPLACEMENT_NOT_SMALLER for v in turn.versions if v in open_to_it), None)
            for turn in standing.turns
        ]
        return rows(standing.turns, told)
    if record.outcome_reason in (NotEngaged.UNDER_THRESHOLD, NotEngaged.NOT_MEASURED):
        return []
    reasons = held_back(case, standing, record.pins.stand_down)
    span, left = first_span(reasons), standing.within(record.removed)
    stays = [why or (Why.REPLACEMENT_NOT_SMALLER if i in span else Why.BEYOND_SPAN) for i, why in enumerate(reasons)]
    return rows(standing.turns, [None if i in left else why for i, why in enumerate(stays)])


# Sizes


class Measured(NamedTuple):
    """Of messages as they are sent."""

    items: int
    bytes: int
    characters: int
    tokens: int

    def __add__(self, other: Measured) -> Measured:  # type: ignore[override]
        return Measured(*(one + more for one, more in zip(self, other, strict=True)))

    def __sub__(self, other: Measured) -> Measured:
        return Measured(*(one - less for one, less in zip(self, other, strict=True)))


def measured(case: Case, bodies: Iterable[bytes]) -> Measured:
    """What messages come to."""
    return sum((_measured(case.format, body) for body in bodies), Measured(0, 0, 0, 0))


@cache
def _measured(format: str, body: bytes) -> Measured:
    reading, tokenizer = FORMATS[format].read(parse(body)), tokenizer_named("cl100k_base")
    assert tokenizer is not None
    return Measured(1, len(body), reading.characters, tokenizer.count(reading.texts))


def sizes(size: Size) -> Measured:
    """What a record says."""
    return Measured(size.items, size.bytes, size.characters, size.tokens or 0)


def as_sent(case: Case, turn: Turn) -> Sequence[bytes]:
    """The messages of a turn that could leave: closed where it was given up, replaced where it is empty."""
    format = FORMATS[case.format]
    empty = format.user_message(EMPTY_TEXT)
    messages = [empty if m.is_empty else recorded(case).body(m.version) for m in turn.messages]
    return messages + [format.closing_result(call.id, ABANDONED_TEXT) for call in turn.calls if call.abandoned]


PROPERTIES = (
    test_a_call_and_its_results_never_part,
    test_no_window_is_left_invalid,
    test_the_request_never_leaves,
    test_nothing_outside_the_plan_leaves,
    test_no_pin_is_given_up_without_need,
    test_nothing_is_rewritten_that_must_stay_raw,
    test_every_turn_is_accounted_for,
    test_every_turn_that_stays_has_its_reason,
    test_the_sizes_add_up,
    test_the_unchanged_prefix_is_the_longest,
)


@of_many_runs
def test_all_of_it_in_many_runs(case: Case) -> None:
    """Likewise, in runs that are others each time."""
    for holds in PROPERTIES:
        holds.hypothesis.inner_test(case)
