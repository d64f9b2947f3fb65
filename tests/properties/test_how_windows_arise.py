"""How every window of a whole run comes about: from the facts alone, in whatever process, in whatever form."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from unittest.mock import patch

from support.recording import LEDGER_STREAM, TREATED, WINDOWS_STREAM, Case, Recording, continued, recorded
from support.whole_runs import of_many_runs, of_whole_runs
from turnledger.client.windows import Held, receive
from turnledger.domain import compositions
from turnledger.domain import events as e
from turnledger.domain.run import project_run
from turnledger.ledger.tokenizers import tokenizer_named
from turnledger.projections.live import Live
from turnledger.projections.visit import Draft, Visit
from turnledger.projections.windows import NO_ITEMS


@of_whole_runs
def test_a_visit_changes_no_fact(case: Case) -> None:
    """The law: whatever a window leaves out, every row that was stored stays as it was, with body and chain. A visit
    adds to the windows and the treated texts; to the ledger only what was appended with it is added."""
    for sent in recorded(case).windows:
        added = {stream: rows[len(sent.before.get(stream, ())) :] for stream, rows in sent.after.items()}
        for stream, rows in sent.before.items():
            if not stream.startswith(TREATED):
                assert sent.after[stream][: len(rows)] == rows
            assert all(row in sent.after[stream] for row in rows)
        assert tuple(row.originator_version for row in added.pop(LEDGER_STREAM)) == sent.appended
        assert [row.originator_version for row in added.pop(WINDOWS_STREAM)] == [sent.window.iteration]
        assert all(stream.startswith(TREATED) for stream, rows in added.items() if rows)


@of_whole_runs
def test_windows_follow_from_the_facts(case: Case) -> None:
    """4.8: what is kept between visits changes nothing. Every window, built again from the first fact on and from
    nothing that a window left behind in the store, is the one that was handed out."""
    recording = recorded(case)
    for sent, draft in zip(recording.windows, derived(recording), strict=True):
        assert tuple(compositions.encode(draft.composition)) == sent.window.composition
        assert draft.records == sent.window.records
        assert draft.faults == sent.window.faults
        assert draft.state == sent.window.state
        assert draft.digest == sent.window.digest


@of_whole_runs
def test_a_run_goes_on_in_any_process(case: Case) -> None:
    """4.8: processes that end at any point hand out the windows, records and digests of one that never did."""
    without_break, with_breaks = recorded(case).replayed, continued(case).replayed
    for one, other in zip(without_break, with_breaks, strict=True):
        assert other.items == one.items
        assert other.answer.window == one.answer.window


@of_whole_runs
def test_a_difference_gives_the_whole(case: Case) -> None:
    """8.4: a client that applies the difference to the window that it holds has the window with every byte and salt."""
    run = continued(case)
    held: dict[int, Held] = {}
    for difference, whole in zip(run.differences, run.replayed, strict=True):
        message = difference.message
        assert message.HasField("delta") == bool(difference.base)
        window = held[message.iteration] = receive(message, held.get(difference.base))
        received = [(item.item_kind, item.id, item.body, item.salt) for item in window.window.items]
        assert received == [(item.kind, item.id, item.body, item.salt) for item in whole.items]
        assert window.window.digest == whole.answer.window.digest


@of_whole_runs
def test_a_replay_is_what_was_handed_out(case: Case) -> None:
    """8.3: at the end of a run every iteration can be sent again, byte for byte, with its record."""
    recording = recorded(case)
    for again, sent in zip(recording.replayed, recording.windows, strict=True):
        assert again.items == sent.items
        assert again.answer.window == sent.window


def derived(recording: Recording) -> Iterator[Draft]:
    """Every window, built from the facts alone. When it was asked for is given, and so are the salts of treated
    texts, which were drawn by chance."""
    tokenizer = tokenizer_named("cl100k_base")
    assert tokenizer is not None
    run, live, items = None, Live(), NO_ITEMS
    for before, sent in pairwise([None, *recording.windows]):
        assert sent is not None
        since = recording.facts[before.window.ledger_version if before else 0 : sent.window.ledger_version]
        run = project_run(run, since)
        assert run is not None
        live = live.add(fact.message for fact in since if isinstance(fact, e.MessageAppended))
        visit = Visit(run, live, items, recording.body, tokenizer.count, while_paused=sent.window.while_paused)
        salts = iter(sent.salts[len(sent.appended) :])
        with patch.object(secrets, "token_bytes", lambda size, salts=salts: next(salts)):
            draft = visit.build()
        yield draft
        run, live, items = replace(run, state=draft.state), draft.live, draft.items


PROPERTIES = (
    test_a_visit_changes_no_fact,
    test_windows_follow_from_the_facts,
    test_a_run_goes_on_in_any_process,
    test_a_difference_gives_the_whole,
    test_a_replay_is_what_was_handed_out,
)


@of_many_runs
def test_all_of_it_in_many_runs(case: Case) -> None:
    """Likewise, in runs that are others each time."""
    for holds in PROPERTIES:
        holds.hypothesis.inner_test(case)
