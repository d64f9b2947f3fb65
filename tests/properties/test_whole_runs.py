"""Properties of the windows of whole runs, of every policy and in both formats."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from random import Random

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from support.messages import Blocks, Chat, blocks, chat
from support.recording import LEDGER_STREAM, Recorded, record
from support.runs import EVERY_POLICY, RUN
from turnledger.domain import events as e
from turnledger.domain.words import Source
from turnledger.ledger.application import Ledger
from turnledger.ledger.queries import Queries
from turnledger.ledger.stores import open_ledger

CALLS = 40
RUNS = st.tuples(
    st.randoms(use_true_random=False), st.sampled_from([chat, blocks]), st.sampled_from(sorted(EVERY_POLICY))
)
whole_runs = settings(
    max_examples=15,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
Run = tuple[Random, Chat | Blocks, str]


@contextmanager
def recorded(run: Run) -> Iterator[tuple[Ledger, list[Recorded]]]:
    """A run that was driven to its end, and its ledger."""
    random, form, policy = run
    with open_ledger("memory:") as ledger:
        yield ledger, record(ledger, random, form, EVERY_POLICY[policy], CALLS)


def request_version(ledger: Ledger, until: int) -> int | None:
    """The latest message flagged as the request, else the latest from the person, among the facts so far."""
    facts = [fact for fact in ledger.events.get(LEDGER_STREAM) if fact.originator_version <= until]
    messages = [fact for fact in facts if isinstance(fact, e.MessageAppended)]
    flagged = [m.originator_version for m in messages if m.message.request]
    spoken = [m.originator_version for m in messages if m.message.source is Source.PERSON]
    return (flagged or spoken or [None])[-1]


@whole_runs
@given(RUNS)
def test_the_request_never_leaves(run: Run) -> None:
    """2.1, 2.2: every window holds the latest message that is the request."""
    with recorded(run) as (ledger, windows):
        for sent in windows:
            version = request_version(ledger, sent.window.ledger_version)
            assert version is None or version in sent.versions


@whole_runs
@given(RUNS)
def test_a_visit_changes_no_fact(run: Run) -> None:
    """The law: what the ledger held stays as it was, byte for byte, whatever a window left out."""
    with recorded(run) as (_, windows):
        for sent in windows:
            assert sent.after[: len(sent.before)] == sent.before
            assert len(sent.after) == sent.window.ledger_version


@whole_runs
@given(RUNS)
def test_the_unchanged_prefix_is_the_longest(run: Run) -> None:
    """7: what the record calls unchanged equals the window before, and the item after it differs."""
    with recorded(run) as (_, windows):
        for before, sent in pairwise(windows):
            for facts in sent.window.records:
                count = facts.unchanged_items
                old, new = ([(i.kind, i.body) for i in w.items] for w in (before, sent))
                assert old[:count] == new[:count]
                assert facts.unchanged_bytes == sum(len(body) for _, body in new[:count])
                assert count in (len(old), len(new)) or old[count] != new[count]


@whole_runs
@given(RUNS)
def test_a_replay_is_what_was_handed_out(run: Run) -> None:
    """5.1 of the design: at the end of a run every iteration can be sent again, byte for byte."""
    with recorded(run) as (ledger, windows):
        for sent in windows:
            again = Queries(ledger).replay_one(RUN, sent.window.iteration)
            assert again.items == sent.items
            assert again.answer.window == sent.window
