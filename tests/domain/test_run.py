"""The aggregate alone: given facts, when a command, then exactly these facts, or this error."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from support.messages import blocks, call, chat
from turnledger.domain import events as e
from turnledger.domain.digests import commitment
from turnledger.domain.envelopes import Envelope
from turnledger.domain.errors import (
    FieldInvalid,
    IterationOutOfRange,
    MessageNotFound,
    ResultDuplicate,
    ResultOrphan,
    ResultsMixed,
    RunClosed,
    RunNotPaused,
    ToolCallNotOpen,
)
from turnledger.domain.formats import FORMATS
from turnledger.domain.ids import CallKey
from turnledger.domain.jsonbytes import parse
from turnledger.domain.messages import Call, Message, Result
from turnledger.domain.policies import parse_policy
from turnledger.domain.run import Lookups, NewMessage, Run, Stamp, opened, project_run
from turnledger.domain.state import Dropped, PendingCall, Reply, ReportedUsage, RunState
from turnledger.domain.usage import Usage
from turnledger.domain.words import OmissionReason, Role, RunStatus, Source
from turnledger.ledger.commands import MessageInput

KEY = "default/r"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
STAMP = Stamp(NOW, "someone", "request-1")
HEAD: dict[str, Any] = {
    "originator_id": "default/r/ledger",
    "recorded_time": NOW,
    "principal": "someone",
    "request_id": "request-1",
}
TAGS_KEY = b"k" * 16
SALT = bytes(16)
USER, CALLS_A = chat.user("the task"), chat.reply(None, call("a"))


@pytest.fixture(autouse=True)
def _salt_of_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that facts are equal to the ones that a test writes down."""
    monkeypatch.setattr("turnledger.domain.events.secrets.token_bytes", bytes)


# Given


def opening(*, format: str = "openai.chat", **options: Any) -> e.RunOpened:
    """The fact that begins the run."""
    defaults: dict[str, Any] = {
        "policy": parse_policy(""),
        "tokenizer": None,
        "labels": {},
        "step_base": "r",
        "context_limit_tokens": None,
        "arguments_key": TAGS_KEY,
    }
    return Run.open(KEY, STAMP, format=format, **{**defaults, **options})


def given(*messages: MessageInput, **options: Any) -> Run:
    """A run with these messages; all that a strict append refuses is marked."""
    run = opened(opening(**options))
    return run.append(STAMP, [new(m, run) for m in messages], lookups(), imported=True)[1]


def new(message: MessageInput, run: Run) -> NewMessage:
    """A message to append, as it comes in."""
    usage = message.usage
    return NewMessage(
        body=message.body,
        reading=run.format.read(parse(message.body)),
        source=message.source,
        request=message.request,
        reply_id=message.reply_id,
        stage_id=message.stage_id,
        answers_iteration=message.answers_iteration,
        usage=Usage(usage.input_tokens, usage.output_tokens) if usage else None,
    )


def lookups(called: Sequence[str] = (), windows: Sequence[int] = ()) -> Lookups:
    """What the ledger would answer: ids of calls, and the versions that windows 1, 2, … saw."""
    return Lookups(lambda iteration: windows[iteration - 1], lambda call_id: call_id.decode() in called)


def windowed(run: Run) -> Run:
    """The run after one more window."""
    state = replace(run.state, iteration=run.state.iteration + 1, window_version=run.version)
    return run.apply(
        e.WindowBuilt(
            originator_id="default/r/windows",
            originator_version=state.iteration,
            recorded_time=NOW,
            step_id="",
            ledger_version=run.version,
            ledger_head=b"",
            composition=(),
            item_count=0,
            items_hash=b"",
            digest=b"",
            state=state,
        )
    )


# When and then


def append(run: Run, *messages: MessageInput, imported: bool = False, **asked: Any) -> list[Message]:
    """The messages of the facts of an append; the run after them is the run that they fold into."""
    facts, after = run.append(STAMP, [new(m, run) for m in messages], lookups(**asked), imported=imported)
    assert after == project_run(run, facts)
    assert [fact.originator_version for fact in facts] == list(range(run.version + 1, after.version + 1))
    return [fact.message for fact in facts]


def folded(run: Run, *messages: MessageInput, **asked: Any) -> RunState:
    """The state after an append."""
    return run.append(STAMP, [new(m, run) for m in messages], lookups(**asked))[1].state


def tag(arguments: bytes = b"{}") -> bytes:
    """The tag of call arguments, given in canonical form."""
    return hmac.digest(TAGS_KEY, arguments, "sha256")[:8]


# Opening


def test_a_run_is_opened_with_its_policy_and_options() -> None:
    """The fact has all that was said, defaults filled in, and the key of the tags as its body."""
    fact = opening(
        policy=parse_policy({"strategy": "sliding-window", "keep_recent_turns": 3}),
        tokenizer="o200k_base",
        labels={"team": "core"},
        context_limit_tokens=1000,
        envelope=True,
        messages=2,
        imported=True,
    )
    assert fact == e.RunOpened(
        **HEAD,
        originator_version=1,
        body=e.Body(SALT, TAGS_KEY),
        format="openai.chat",
        policy={
            "strategy": "sliding-window",
            "version": 1,
            "keep_last_tool_results": 2,
            "pin_by": "tool",
            "keep_recent_turns": 3,
        },
        tokenizer="o200k_base",
        labels={"team": "core"},
        step_base="r",
        context_limit_tokens=1000,
        envelope=True,
        messages=2,
        imported=True,
    )
    run = opened(fact)
    assert (run.id, run.key, run.version, run.format.name) == ("r", KEY, 1, "openai.chat")
    assert run.state == RunState(version=1, fact_version=1)
    assert run.policy == parse_policy({"strategy": "sliding-window", "keep_recent_turns": 3})


# Messages


def test_an_appended_message_is_one_fact() -> None:
    """With its facts for the rules, the usage that came with it, and the body beside it."""
    run = given(USER)
    message = chat.reply("hm", call("a", "look", path="x", line=1), reply_id="A", stage_id="plan", usage=(7, 3))
    facts, after = run.append(STAMP, [new(message, run)], lookups())
    expected = Message(
        version=3,
        ordinal=2,
        role=Role.MODEL,
        source=Source.MODEL,
        iteration=0,
        commitment=commitment(SALT, message.body),
        size_bytes=len(message.body),
        characters=len("hm" + "look" + '{"path": "x", "line": 1}'),
        calls=(Call(b"a", b"look", tag(b'{"line":1,"path":"x"}')),),
        reply_id="A",
        stage_id="plan",
        read_through=2,
    )
    assert facts == [
        e.MessageAppended(
            **HEAD, originator_version=3, body=e.Body(SALT, message.body), message=expected, usage=Usage(7, 3)
        )
    ]
    assert run.version == 2
    assert after.state == RunState(
        version=3,
        fact_version=3,
        message_count=2,
        calls=(PendingCall(3, 0, b"a", b"look", tag(b'{"line":1,"path":"x"}'), 3),),
        person_message=2,
        last_message=3,
        replies=(Reply("A", 3, None, 2),),
        read_through=2,
        usage=ReportedUsage(0, Usage(7, 3), reply_version=3),
        input_tokens=7,
        output_tokens=3,
        dropped=Dropped(),
    )


@pytest.mark.parametrize(
    ("message", "role", "source"),
    [
        (chat.user(), Role.USER, Source.PERSON),
        (chat.user(source=Source.INJECTED), Role.USER, Source.INJECTED),
        (chat.system(), Role.SYSTEM, Source.INJECTED),
        (chat.reply("x"), Role.MODEL, Source.MODEL),
        (chat.result("a"), Role.TOOL, Source.TOOL),
    ],
)
def test_role_and_source(message: MessageInput, role: Role, source: Source) -> None:
    """The body says what it is; the worker may say who stands behind it."""
    (appended,) = append(given(USER, CALLS_A), message)
    assert (appended.role, appended.source) == (role, source)


@pytest.mark.parametrize(
    ("message", "request_version", "person_version"),
    [
        (chat.user(), 0, 3),
        (chat.user(request=True), 3, 3),
        (chat.user(source=Source.INJECTED), 0, 2),
        (chat.reply("x", source=Source.PERSON), 0, 2),
    ],
)
def test_who_asks(message: MessageInput, request_version: int, person_version: int) -> None:
    """The state knows the latest flagged message, and the latest of a person."""
    state = folded(given(USER), message)
    assert (state.flagged_request, state.person_message) == (request_version, person_version)
    assert state.request == (request_version or person_version)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (chat.user(source=Source.AUTHORED), "source"),
        (chat.user(source=Source.INJECTED, request=True), "request"),
        (chat.reply("x", request=True), "request"),
        (chat.system(request=True), "request"),
        (chat.result("a", request=True), "request"),
    ],
)
def test_claims_that_are_refused(message: MessageInput, field: str) -> None:
    """By the field, and the place of the message."""
    with pytest.raises(FieldInvalid) as refused:
        append(given(USER, CALLS_A), chat.user(), message)
    assert refused.value.field == f"messages[1].{field}"


def test_a_result_answers_its_call() -> None:
    """By version and index, with the tool's name and the tag of the arguments; the call is no longer open."""
    run = given(USER, chat.reply(None, call("a", "look"), call("b", "read", path="x")))
    (message,) = append(run, chat.result("b"))
    assert message.results == (Result(3, 1, b"read", tag(b'{"path":"x"}')),)
    assert message.mark is None
    assert [pending.id for pending in folded(run, chat.result("b")).calls] == [b"a"]


def test_an_error_is_an_error() -> None:
    """The flag of a result is one of its facts."""
    run = given(blocks.user(), blocks.reply(None, call("a")), format="anthropic.messages")
    body = b'{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"no","is_error":true}]}'
    assert append(run, MessageInput(body))[0].results == (Result(3, 0, b"look", tag(), is_error=True),)


@pytest.mark.parametrize(
    ("messages", "known", "error", "field"),
    [
        ([chat.result("nobody")], (), ResultOrphan, "messages[0]"),
        ([chat.result("old")], ("old",), ResultDuplicate, "messages[0]"),
        ([chat.result("a"), chat.result("a")], (), ResultDuplicate, "messages[1]"),
        ([*chat.exchange("b"), chat.result("b")], (), ResultDuplicate, "messages[2]"),
    ],
)
def test_results_that_are_refused(
    messages: list[MessageInput], known: Sequence[str], error: type[Exception], field: str
) -> None:
    """Orphans and second results, whether the ledger knows the call or the append brings it."""
    known = (*known, "a")
    with pytest.raises(error) as refused:
        append(given(USER, CALLS_A), *messages, called=known)
    assert refused.value.field == field  # type: ignore[attr-defined]


def test_an_import_marks_what_is_refused_otherwise() -> None:
    """It answers no call then, and is never sent; the state lists it."""
    run = given(USER, CALLS_A)
    marked = append(run, chat.result("nobody"), chat.result("old"), imported=True, called=["old"])
    assert [message.mark for message in marked] == [OmissionReason.ORPHAN_RESULT, OmissionReason.LATE_RESULT]
    assert marked[0].results == (Result(0, 0, b"", b""),)
    _, after = run.append(STAMP, [new(chat.result("nobody"), run)], lookups(), imported=True)
    assert [(o.reason, o.version) for o in after.state.omissions] == [(OmissionReason.ORPHAN_RESULT, 4)]
    assert after.state.last_message == run.state.last_message


def test_results_of_two_replies_are_refused() -> None:
    """In one message; an import marks it."""
    run = given(blocks.user(), *(blocks.reply(None, call(i)) for i in "ab"), format="anthropic.messages")
    mixed = blocks.results(("a", "x"), ("b", "y"))
    with pytest.raises(ResultsMixed) as refused:
        append(run, mixed)
    assert (refused.value.field, refused.value.call_id) == ("messages[0]", "b")
    assert append(run, mixed, imported=True)[0].mark is OmissionReason.ORPHAN_RESULT


def test_a_late_result_stands_alone() -> None:
    """It is kept and marked; beside another result or words it is refused, and an import marks it all."""
    run = given(blocks.user(), blocks.reply(None, call("a"), call("b")), format="anthropic.messages")
    run = run.apply(run.abandon(STAMP, CallKey(3, 0), b""))
    (message,) = append(run, blocks.result("a"))
    assert (message.mark, message.results[0].call_version) == (OmissionReason.LATE_RESULT, 3)
    for mixed in (blocks.results(("a", "x"), ("b", "y")), blocks.results(("a", "x"), beside="words")):
        with pytest.raises(ResultsMixed):
            append(run, mixed)
        (marked,) = append(run, mixed, imported=True)
        assert marked.mark is OmissionReason.LATE_RESULT


def test_one_message_of_a_turn_holds_results_and_words() -> None:
    """A second could not be sent, since results come first: not of another call, nor of a further part."""
    parts = [blocks.reply(None, call(i), reply_id="A") for i in "abc"]
    run = given(blocks.user(), *parts[:2], format="anthropic.messages")
    words = [blocks.results((i, "x"), beside="words") for i in "abc"]
    with pytest.raises(ResultsMixed) as refused:
        append(run, words[0], words[1])
    assert refused.value.field == "messages[1]"
    with pytest.raises(ResultsMixed):
        append(run, words[0], parts[2], words[2])
    assert append(run, words[0], words[1], imported=True)[1].mark is OmissionReason.ORPHAN_RESULT
    assert append(run, words[0], blocks.result("b"))[1].mark is None


@pytest.mark.parametrize(
    ("message", "mark"),
    [
        (chat.reply(None), OmissionReason.LEFT_OUT_EMPTY),
        (chat.user(None, source=Source.INJECTED), OmissionReason.LEFT_OUT_EMPTY),
        (chat.user(None), None),
    ],
)
def test_empty_messages(message: MessageInput, mark: OmissionReason | None) -> None:
    """Left out, but of a person."""
    (appended,) = append(given(USER), message)
    assert (appended.is_empty, appended.mark) == (True, mark)


# Reading


def test_what_a_reply_has_read() -> None:
    """Everything before it where it answers no window; else what the window held that it answers."""
    run = windowed(given(USER))
    run = run.append(STAMP, [new(chat.user(), run)], lookups())[1]
    (reply, second) = append(run, chat.reply("one"), chat.reply("two"))
    assert (reply.answers, reply.read_through) == (1, 2)
    assert (second.answers, second.read_through) == (None, 4)


def test_parts_of_a_reply_have_read_the_same() -> None:
    """And answer the same window."""
    run = windowed(given(USER))
    parts = append(run, chat.reply("one", reply_id="A"), chat.user(), chat.reply("two", reply_id="A"))
    assert [(part.answers, part.read_through) for part in (parts[0], parts[2])] == [(1, 2), (1, 2)]


def test_parts_of_replies_may_be_interleaved() -> None:
    """Each is a part of the reply whose id it has; after four others with ids it begins a new one."""
    replies = [chat.reply(str(i), reply_id=i) for i in "ABABCDEA"]
    run = given(USER)
    assert [(m.version, m.reply) for m in append(run, *replies)] == [
        *((3, None), (4, None), (5, 3), (6, 4)),
        *((7, None), (8, None), (9, None), (10, None)),
    ]


def test_a_window_that_was_passed_over() -> None:
    """It may still be answered, once: later it is one that is answered."""
    run = given(USER)
    for _ in range(3):
        run = windowed(run.append(STAMP, [new(chat.user(), run)], lookups())[1])
    seen = [3, 4, 5]
    run = run.append(STAMP, [new(chat.reply("to 3"), run)], lookups(windows=seen))[1]
    assert (run.state.answered_iteration, run.state.unanswered) == (3, (1, 2))
    late = [chat.reply("to 1", answers_iteration=1), chat.reply("to 1", answers_iteration=1)]
    first, second = append(run, *late, windows=seen)
    assert (first.answers, first.read_through) == (1, 5)
    assert (second.answers, second.read_through) == (None, 7)
    assert folded(run, late[0], windows=seen).unanswered == (2,)


@pytest.mark.parametrize("iteration", [0, -1, 2])
def test_a_window_that_there_is_not(iteration: int) -> None:
    """It can't be answered."""
    with pytest.raises(IterationOutOfRange) as refused:
        append(windowed(given(USER)), chat.reply("x", answers_iteration=iteration))
    assert (refused.value.field, refused.value.value) == ("messages[0].answers_iteration", iteration)


# Usage


def totals(state: RunState) -> tuple[int, int]:
    """Tokens in and out of the whole run."""
    return state.input_tokens, state.output_tokens


def test_a_report_is_one_fact() -> None:
    """For the last iteration unless it names one; the raw report stays beside it."""
    run = windowed(windowed(given(USER)))
    assert run.report_usage(STAMP, None, Usage(7, 3), b"{}") == e.UsageReported(
        **HEAD, originator_version=3, iteration=2, usage=Usage(7, 3), usage_raw=b"{}"
    )
    assert run.report_usage(STAMP, 1, Usage(7, 3), None).iteration == 1
    for iteration in (0, 3):
        with pytest.raises(IterationOutOfRange):
            run.report_usage(STAMP, iteration, Usage(), None)


def test_more_than_the_model_takes_is_flagged() -> None:
    """Equal to it is not."""
    run = windowed(given(USER, context_limit_tokens=100))
    assert run.report_usage(STAMP, None, Usage(101, 3), None).usage_implausible
    assert not run.report_usage(STAMP, None, Usage(100, 3), None).usage_implausible
    (fact,), _ = run.append(STAMP, [new(chat.reply("x", usage=(101, 1)), run)], lookups())
    assert fact.usage_implausible


def test_a_split_reply_counts_its_usage_once() -> None:
    """Whichever of its parts report it."""
    run = windowed(given(USER))
    parts = [chat.reply(str(i), reply_id="A", usage=(7, i)) for i in range(3)]
    assert totals(folded(run, *parts)) == (7, 2)
    one = chat.reply("before", reply_id="0", usage=(5, 5))
    silent = [one, chat.reply("a", reply_id="A"), chat.reply("b", reply_id="A", usage=(7, 3))]
    assert totals(folded(run, *silent)) == (12, 8)


def test_a_call_is_counted_once_however_it_is_reported() -> None:
    """By a report and with the reply, in either order; replies of other calls are counted each."""
    run = windowed(given(USER))
    reported = run.apply(run.report_usage(STAMP, None, Usage(7, 3), None))
    assert totals(folded(reported, chat.reply("x", usage=(8, 4)))) == (8, 4)
    replied = run.append(STAMP, [new(chat.reply("x", usage=(8, 4)), run)], lookups())[1]
    assert totals(replied.apply(replied.report_usage(STAMP, None, Usage(7, 3), None)).state) == (7, 3)
    assert totals(folded(run, chat.reply("x", usage=(8, 4)), chat.reply("y", usage=(1, 1)))) == (9, 5)


def test_the_latest_call_is_what_was_measured_last() -> None:
    """A late report of an earlier one counts, and leaves that."""
    run = windowed(windowed(given(USER)))
    run = run.apply(run.report_usage(STAMP, 2, Usage(7, 3), None))
    run = run.apply(run.report_usage(STAMP, 1, Usage(9, 1), None))
    assert run.state.usage == ReportedUsage(2, Usage(7, 3))
    assert totals(run.state) == (16, 4)


def test_a_report_is_no_fact_that_a_window_can_differ_by() -> None:
    """A window asked for after it is the one before."""
    run = windowed(given(USER))
    after = run.apply(run.report_usage(STAMP, None, Usage(7, 3), None))
    assert (after.state.version, after.state.fact_version) == (3, 2)


# Envelopes


def envelope_fact(run: Run, envelope: Envelope, **bodies: e.Body) -> e.EnvelopeSet | None:
    """The fact of an envelope; ``bodies`` are those in the ledger, by version (``v3``)."""
    return run.set_envelope(STAMP, envelope, 11, lambda version: bodies.get(f"v{version}"))


def test_an_envelope_is_one_fact_and_equal_bytes_are_kept_once() -> None:
    """In force already: no fact. In force before: a fact that names the earlier one."""
    first, second = Envelope(system=b'"one"', tools=b'[{"name":"look"}]'), Envelope(system=b'"two"')
    run = given(USER)
    fact = envelope_fact(run, first)
    assert fact == e.EnvelopeSet(
        **HEAD,
        originator_version=3,
        body=e.Body(SALT, first.encode()),
        commitment=commitment(SALT, first.encode()),
        size_bytes=len(first.encode()),
        has_tools=True,
        tokens=11,
    )
    assert fact.body is not None
    run = run.apply(fact)
    assert envelope_fact(run, first, v3=fact.body) is None
    other = envelope_fact(run, second, v3=fact.body)
    assert other is not None
    assert other.has_tools is False
    again = envelope_fact(run.apply(other), first, v3=fact.body)
    assert again is not None
    assert (again.same_as, again.body, again.commitment) == (3, None, fact.commitment)


# Pauses, calls given up, the end


def test_a_pause_and_its_end() -> None:
    """On some calls; the end of it is an error where there was none."""
    run = given(USER, chat.reply(None, call("a"), call("b")))
    with pytest.raises(RunNotPaused):
        run.resume(STAMP)
    fact = run.pause(STAMP, [CallKey(3, 1)], awaits_person=True)
    assert fact == e.RunPaused(**HEAD, originator_version=4, calls=(CallKey(3, 1),), awaits_person=True)
    paused = run.apply(fact)
    assert paused.state.status is RunStatus.PAUSED
    assert [(p.paused, p.awaits_person) for p in paused.state.calls] == [(False, False), (True, True)]
    end = paused.resume(STAMP)
    assert end == e.RunResumed(**HEAD, originator_version=5)
    assert paused.apply(end).state == replace(run.state, version=5, fact_version=5)


def test_a_second_pause_leaves_the_first_as_it_is() -> None:
    """What each call waits for is its own."""
    run = given(USER, chat.reply(None, call("a"), call("b")))
    run = run.apply(run.pause(STAMP, [CallKey(3, 0)], awaits_person=True))
    run = run.apply(run.pause(STAMP, [CallKey(3, 1)], awaits_person=False))
    assert [(p.paused, p.awaits_person) for p in run.state.calls] == [(True, True), (True, False)]


def test_a_call_is_given_up() -> None:
    """With the reason in words beside the fact, if there is one."""
    run = given(USER, CALLS_A)
    assert run.abandon(STAMP, CallKey(3, 0), b"slow") == e.ToolCallAbandoned(
        **HEAD,
        originator_version=4,
        body=e.Body(SALT, b"slow"),
        call=CallKey(3, 0),
        commitment=commitment(SALT, b"slow"),
    )
    silent = run.abandon(STAMP, CallKey(3, 0), b"")
    assert (silent.body, silent.commitment) == (None, None)
    assert [(p.abandoned, p.paused) for p in run.apply(silent).state.calls] == [(True, False)]


def test_the_end_of_a_run() -> None:
    """It has a status, and a reason if one was given."""
    assert given(USER).close(STAMP, RunStatus.FAILED, b"why") == e.RunClosed(
        **HEAD,
        originator_version=3,
        body=e.Body(SALT, b"why"),
        status=RunStatus.FAILED,
        commitment=commitment(SALT, b"why"),
    )


@pytest.mark.parametrize(
    "command",
    [
        lambda run: run.append(STAMP, [new(USER, run)], lookups()),
        lambda run: run.set_envelope(STAMP, Envelope(), None, lambda version: None),
        lambda run: run.report_usage(STAMP, None, Usage(), None),
        lambda run: run.pause(STAMP, [], awaits_person=False),
        lambda run: run.resume(STAMP),
        lambda run: run.abandon(STAMP, CallKey(2, 0), b""),
        lambda run: run.close(STAMP, RunStatus.FINISHED, b""),
    ],
)
@pytest.mark.parametrize("status", [RunStatus.FINISHED, RunStatus.FAILED, RunStatus.CANCELLED])
def test_nothing_happens_to_a_run_that_ended(command: Callable[[Run], object], status: RunStatus) -> None:
    """Whatever is asked of it."""
    run = windowed(given(USER))
    with pytest.raises(RunClosed) as refused:
        command(run.apply(run.close(STAMP, status, b"")))
    assert refused.value.status == status.value


# References to calls


def test_a_call_is_named_by_its_id_or_by_its_place() -> None:
    """An id must name exactly one open call; a place always does."""
    run = given(USER, chat.reply(None, call("x")), chat.reply(None, call("x"), call("y")))
    assert run.open_call("call", call_id=b"y") == CallKey(4, 1)
    assert run.open_call("call", message_id="r/4") == CallKey(4, 0)
    assert run.open_call("call", message_id="r/4", index=1) == CallKey(4, 1)
    for reference, matches in [
        ({"call_id": b"x"}, 2),
        ({"call_id": b"z"}, 0),
        ({"message_id": "r/2"}, 0),
        ({"message_id": "r/4", "index": 2}, 0),
    ]:
        with pytest.raises(ToolCallNotOpen) as refused:
            run.open_call("call", **reference)  # type: ignore[arg-type]
        assert refused.value.matches == matches
    given_up = run.apply(run.abandon(STAMP, CallKey(3, 0), b""))
    assert given_up.open_call("call", call_id=b"x") == CallKey(4, 0)


@pytest.mark.parametrize("identifier", ["s/3", "r/0", "r/x", "3", "r/w1/0", ""])
def test_a_place_is_in_a_message_of_the_run(identifier: str) -> None:
    """Another id names nothing."""
    with pytest.raises(MessageNotFound):
        given(USER, CALLS_A).open_call("call", message_id=identifier)


def test_every_format_reads_what_a_run_is_given() -> None:
    """A run knows its format by the name that it was opened with."""
    assert {name: opened(opening(format=name)).format.name for name in FORMATS} == {name: name for name in FORMATS}
