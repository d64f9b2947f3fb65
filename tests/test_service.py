"""The service over the wire: errors, limits, idempotency, conflicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from support.service import USER, reply, result, served
from turnledger.client import Envelope, LedgerClient, Message, Run
from turnledger.client.errors import BY_REASON
from turnledger.domain import errors as err
from turnledger.domain.jsonbytes import dump
from turnledger.grpc import errors as wire_errors
from turnledger.v1 import audit_service_pb2 as audit
from turnledger.v1 import error_reason_pb2, run_pb2
from turnledger.v1 import ledger_service_pb2 as pb

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def client() -> Iterator[LedgerClient]:
    """One service for the module; every test opens runs of its own."""
    with served() as connected:
        yield connected


@pytest.fixture
def run(client: LedgerClient) -> Run:
    """A run that waits on one call."""
    opened = client.open_run(format="openai.chat", policy={"strategy": "sliding-window", "keep_recent_turns": 2})
    opened.step([USER])
    opened.append([reply()])
    return opened


def _version(run: Run) -> int:
    return run.get().run.version


Provoked = dict[str, tuple[type[err.TurnledgerError], Callable[[LedgerClient, Run], object], dict[str, str]]]
"""For each reason: the error, a call that provokes it, and what the error must carry."""

PROVOKED: Provoked = {
    "FIELD_INVALID": (err.FieldInvalid, lambda c, r: c.open_run(format="x"), {"field": "format", "value": "x"}),
    "BODY_NOT_JSON": (err.BodyNotJson, lambda c, r: r.append([USER, b'{"role": NaN}']), {"field": "messages[1].body"}),
    "BODY_NOT_OF_FORMAT": (
        err.BodyNotOfFormat,
        lambda c, r: r.append([{"role": "wizard", "content": ""}]),
        {"field": "messages[0].body.role", "value": "wizard", "format": "openai.chat"},
    ),
    "POLICY_INVALID": (
        err.PolicyInvalid,
        lambda c, r: c.open_run(format="openai.chat", policy={"strategy": "sliding-window", "keep_recent_turns": 0}),
        {"field": "policy.keep_recent_turns", "value": "0"},
    ),
    "PAGE_TOKEN_INVALID": (
        err.PageTokenInvalid,
        lambda c, r: c.call(c.audit_service.ListRuns, audit.ListRunsRequest(page_token="bogus")),
        {"field": "page_token", "value": "bogus"},
    ),
    "LIMIT_EXCEEDED": (
        err.LimitExceeded,
        lambda c, r: r.append([USER] * 1001),
        {"field": "messages", "limit": "1000", "value": "1001"},
    ),
    "RUN_NOT_FOUND": (err.RunNotFound, lambda c, r: c.run("nobody").append([USER]), {"run_id": "nobody"}),
    "MESSAGE_NOT_FOUND": (err.MessageNotFound, lambda c, r: r.messages(["other/1"]), {"message_id": "other/1"}),
    "RUN_EXISTS": (
        err.RunExists,
        lambda c, r: c.open_run(format="openai.chat", run_id=r.id),
        {"field": "policy"},
    ),
    "REQUEST_ID_REUSED": (
        err.RequestIdReused,
        lambda c, r: (r.append([USER], request_id="q1"), r.append([USER, USER], request_id="q1")),
        {"request_id": "q1", "field": "messages"},
    ),
    "VERSION_CONFLICT": (
        err.VersionConflict,
        lambda c, r: r.append([USER], expected_version=1),
        {"expected_version": "1", "actual_version": "3"},
    ),
    "RUN_CLOSED": (err.RunClosed, lambda c, r: (r.close("failed"), r.append([USER])), {"status": "failed"}),
    "RUN_PAUSED": (err.RunPaused, lambda c, r: (r.pause(["c1"]), r.build_window()), {}),
    "RUN_NOT_PAUSED": (err.RunNotPaused, lambda c, r: r.resume(), {}),
    "RESULT_ORPHAN": (
        err.ResultOrphan,
        lambda c, r: r.append([result("nope")]),
        {"field": "messages[0]", "call_id": "nope"},
    ),
    "RESULT_DUPLICATE": (
        err.ResultDuplicate,
        lambda c, r: r.append([result(), result()]),
        {"field": "messages[1]", "call_id": "c1"},
    ),
    "RESULTS_MIXED": (err.ResultsMixed, lambda c, r: _mix_results(c), {"field": "messages[4]", "call_id": "b"}),
    "TOOL_CALL_NOT_OPEN": (
        err.ToolCallNotOpen,
        lambda c, r: r.abandon_tool_call("c9"),
        {"field": "call", "value": "c9", "matches": "0"},
    ),
    "ITERATION_OUT_OF_RANGE": (
        err.IterationOutOfRange,
        lambda c, r: r.build_window(iteration=9),
        {"field": "iteration", "value": "9", "iteration": "1"},
    ),
    "COMPACTION_UNMEASURABLE": (err.CompactionUnmeasurable, lambda c, r: _report_zeros(c), {"iteration": "1"}),
    "WINDOW_INVALID": (err.WindowInvalid, lambda c, r: _declare_no_tools(c), {"rule": "tools-declared"}),
    "NOTHING_TO_ANSWER": (err.NothingToAnswer, lambda c, r: r.build_window(), {}),
}


def _mix_results(client: LedgerClient) -> None:
    run = client.open_run(format="anthropic.messages")
    calls = [{"role": "assistant", "content": [{"type": "tool_use", "id": i, "name": "t", "input": {}}]} for i in "ab"]
    both = [{"type": "tool_result", "tool_use_id": i, "content": "x"} for i in "ab"]
    ask = {"role": "user", "content": "go"}
    run.append([ask, calls[0], ask, calls[1], {"role": "user", "content": both}])


def _report_zeros(client: LedgerClient) -> None:
    run = client.open_run(format="openai.chat", policy={"strategy": "token-budget", "threshold_tokens": 10})
    run.step([USER])
    run.step([reply(), result()], usage={"prompt_tokens": 0, "completion_tokens": 0})


def _declare_no_tools(client: LedgerClient) -> None:
    policy = {"strategy": "sliding-window", "keep_recent_turns": 1}
    run = client.open_run(format="anthropic.messages", policy=policy, envelope=Envelope(model="m"))
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "t", "input": {}}]}
    answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]}
    run.step([{"role": "user", "content": "go"}, call, answer])


@pytest.mark.parametrize("reason", PROVOKED)
def test_an_error_is_typed_and_carries_its_data(client: LedgerClient, run: Run, reason: str) -> None:
    """Each reason of the catalogue, provoked by a real call, with the field and value that it names."""
    cls, provoke, carried = PROVOKED[reason]
    with pytest.raises(cls) as raised:
        provoke(client, run)
    assert raised.value.reason == reason
    assert {key: raised.value.metadata[key] for key in carried} == carried


def test_every_reason_is_provoked() -> None:
    """A reason that no test provokes is not in the catalogue. The last three are provoked below and in
    test_server.py."""
    reasons = {name.removeprefix("ERROR_REASON_") for name in error_reason_pb2.ErrorReason.keys()} - {"UNSPECIFIED"}
    assert reasons - set(PROVOKED) == {"STORE_UNAVAILABLE", "SERVICE_BUSY", "INTERNAL"}


BUILD_ONLY = {"COMPACTION_UNMEASURABLE", "WINDOW_INVALID", "NOTHING_TO_ANSWER", "RUN_PAUSED"}
WRITES_FIRST = BUILD_ONLY | {"REQUEST_ID_REUSED", "RUN_CLOSED"}


@pytest.mark.parametrize("reason", sorted(set(PROVOKED) - WRITES_FIRST))
def test_an_error_writes_nothing(client: LedgerClient, run: Run, reason: str) -> None:
    """The run is as it was."""
    before = run.get()
    with pytest.raises(err.TurnledgerError):
        PROVOKED[reason][1](client, run)
    assert run.get() == before


@pytest.mark.parametrize("reason", sorted(set(PROVOKED) - BUILD_ONLY))
def test_the_status_has_one_error_info(client: LedgerClient, run: Run, reason: str) -> None:
    """On the wire an error is a status with exactly one ErrorInfo of our domain, and what else fits its code."""
    seen: list[grpc.RpcError] = []

    class Watching(LedgerClient):
        def call(self, method: Any, request: Any) -> Any:
            try:
                return method(request, timeout=10)
            except grpc.RpcError as error:
                seen.append(error)
                raise

    watching = Watching.__new__(Watching)
    watching.__dict__.update(client.__dict__)
    with pytest.raises(grpc.RpcError):
        PROVOKED[reason][1](watching, Run(watching, run.id))
    status = rpc_status.from_call(seen[-1])
    assert status is not None
    infos = [d for d in status.details if d.Is(error_details_pb2.ErrorInfo.DESCRIPTOR)]
    assert len(infos) == 1
    info = error_details_pb2.ErrorInfo()
    infos[0].Unpack(info)
    assert (info.domain, info.reason) == ("turnledger", reason)
    assert status.code == wire_errors.status_of(BY_REASON[reason].from_metadata(dict(info.metadata))).code


# Limits: at each, and one past it.


def _sized(size: int) -> bytes:
    """A message of exactly this many bytes."""
    shell = len(dump({"role": "user", "content": ""}))
    return dump({"role": "user", "content": "x" * (size - shell)})


LIMITS: list[tuple[str, Callable[[LedgerClient, Run, int], object], int]] = [
    ("messages[0].body", lambda c, r, n: r.append([_sized(n)]), 16 * MIB),
    ("messages", lambda c, r, n: r.append([USER] * n), 1000),
    ("messages", lambda c, r, n: r.append([_sized(n // 2), _sized(n - n // 2 - n // 4), _sized(n // 4)]), 32 * MIB),
    ("messages[0].reply_id", lambda c, r, n: r.append([Message(reply("z"), reply_id="i" * n)]), 256),
    ("messages[0].stage_id", lambda c, r, n: r.append([Message(USER, stage_id="i" * n)]), 256),
    ("request_id", lambda c, r, n: r.append([USER], request_id="q" * n), 128),
    ("step_base", lambda c, r, n: c.open_run(format="openai.chat", step_base="i" * n), 128),
    ("labels", lambda c, r, n: c.open_run(format="openai.chat", labels={str(i): "" for i in range(n)}), 32),
    ("labels", lambda c, r, n: c.open_run(format="openai.chat", labels={"k" * n: ""}), 64),
    ("labels.k", lambda c, r, n: c.open_run(format="openai.chat", labels={"k": "v" * n}), 256),
    ("reason", lambda c, r, n: r.close(reason="w" * n), 4096),
    ("usage.raw", lambda c, r, n: r.report_usage(b" " * (n - 2) + b"{}"), 64 * 1024),
    ("envelope", lambda c, r, n: r.set_envelope(Envelope(system=b'"' + b"x" * (n - 10) + b'"')), 16 * MIB),
    ("message_ids", lambda c, r, n: r.messages([f"{r.id}/2"] * n), 1000),
]


@pytest.mark.parametrize(("field", "call", "limit"), LIMITS, ids=[f"{f}-{n}" for f, _, n in LIMITS])
def test_a_limit_holds_at_it_and_one_past_it(
    client: LedgerClient, run: Run, field: str, call: Callable[[LedgerClient, Run, int], object], limit: int
) -> None:
    """What is at the limit is taken; one more is refused by name, with both numbers."""
    with pytest.raises(err.LimitExceeded) as raised:
        call(client, run, limit + 1)
    assert (raised.value.field, raised.value.limit, raised.value.value) == (field, limit, limit + 1)
    call(client, run, limit)


@pytest.mark.parametrize(
    ("field", "call", "limit"),
    [
        ("run_id", lambda c, n: c.open_run(format="openai.chat", run_id="r" * n), 128),
        ("page_size", lambda c, n: list(c.list_runs(page_size=n)), 1000),
    ],
)
def test_a_name_or_size_out_of_range_is_refused(
    client: LedgerClient, field: str, call: Callable[[LedgerClient, int], object], limit: int
) -> None:
    """Likewise, as a field that is out of range."""
    call(client, limit)
    with pytest.raises(err.FieldInvalid) as raised:
        call(client, limit + 1)
    assert raised.value.field == field


def test_what_exceeds_the_transport_is_typed_too(run: Run) -> None:
    """GRPC itself refuses it, and the client says so in our words."""
    with pytest.raises(err.LimitExceeded) as raised:
        run.append([_sized(65 * MIB)])
    assert (raised.value.field, raised.value.limit) == ("request", 64 * MIB)


# Doing it twice.


def _twice(act: Callable[[], Any]) -> tuple[Any, Any]:
    return act(), act()


def test_a_repeated_append_is_one(run: Run) -> None:
    """The first outcome, marked as replayed."""
    first, second = _twice(lambda: run.append([result(), USER], request_id="same"))
    assert not first.replayed
    assert second.replayed
    assert second.message_ids == first.message_ids
    assert _version(run) == first.version


def test_a_repeated_step_gives_the_first_window(run: Run) -> None:
    """Whole or as a difference, whichever the retry asks for."""
    stranger = Run(run._client, run.id)
    first = run.step([result()], request_id="same")
    again, whole = run.step([result()], request_id="same"), stranger.step([result()], request_id="same")
    assert not first.replayed
    assert again.replayed
    assert whole.replayed
    assert first.digest == again.digest == whole.digest
    assert [i.body for i in first.items] == [i.body for i in again.items] == [i.body for i in whole.items]


def test_a_repeated_build_error_is_the_same(run: Run) -> None:
    """The facts are written once."""
    for _ in range(2):
        with pytest.raises(err.NothingToAnswer):
            run.step([result(), {"role": "assistant", "content": "done"}], request_id="same")
    assert _version(run) == 5


@pytest.mark.parametrize(
    "act",
    [
        lambda r: r.set_envelope(Envelope(model="m"), request_id="same"),
        lambda r: r.report_usage({"prompt_tokens": 5, "completion_tokens": 1}, request_id="same"),
        lambda r: r.pause(["c1"], request_id="same"),
        lambda r: r.abandon_tool_call("c1", request_id="same"),
        lambda r: r.close(request_id="same"),
    ],
    ids=["set_envelope", "report_usage", "pause", "abandon", "close"],
)
def test_every_write_can_be_repeated(run: Run, act: Callable[[Run], object]) -> None:
    """The second time nothing is written, and nothing is refused."""
    act(run)
    version = _version(run)
    act(run)
    assert _version(run) == version


def test_a_run_that_is_opened_twice_is_one(client: LedgerClient) -> None:
    """With the same content; with other content the field is named."""
    opening: dict[str, Any] = {
        "format": "openai.chat",
        "run_id": "opened-twice",
        "policy": {"strategy": "none"},
        "labels": {"a": "b"},
        "envelope": Envelope(model="m"),
        "messages": [USER],
    }
    first, second = _twice(lambda: client.open_run(**opening))
    assert first.id == second.id
    others = {
        "format": "anthropic.messages",
        "policy": {"strategy": "none", "mend": True},
        "tokenizer": "cl100k_base",
        "labels": {"a": "c"},
        "step_base": "x",
        "context_limit_tokens": 5,
        "envelope": Envelope(model="n"),
        "messages": [{"role": "user", "content": "else"}],
        "imported": True,
    }
    for field, other in others.items():
        with pytest.raises(err.RunExists) as raised:
            client.open_run(**{**opening, field: other})
        assert raised.value.field == field


def test_a_run_without_an_id_is_found_again_by_its_request(client: LedgerClient) -> None:
    """A retry of an opening without an id opens no second run."""
    first, second = _twice(lambda: client.open_run(format="openai.chat", request_id="opening-1"))
    assert first.id == second.id


def test_nothing_new_gives_the_last_window_again(run: Run) -> None:
    """Usage apart: a report changes no window."""
    window = run.step([result()])
    run.report_usage({"prompt_tokens": 5, "completion_tokens": 1})
    again = run.build_window()
    assert again.replayed
    assert again.digest == window.digest
    assert run.build_window(iteration=1).digest == run.replay(1).digest


def test_a_call_is_named_by_its_place(client: LedgerClient) -> None:
    """Where a provider's id names several open calls, the position does not."""
    run = client.open_run(format="openai.chat", messages=[USER, reply("same"), USER, reply("same")])
    with pytest.raises(err.ToolCallNotOpen) as raised:
        run.abandon_tool_call("same")
    assert raised.value.matches == 2
    run.abandon_tool_call((f"{run.id}/3", 0))
    assert [(c.message_id, c.abandoned) for c in run.get().open_calls] == [
        (f"{run.id}/3", True),
        (f"{run.id}/5", False),
    ]


def test_a_reference_must_name_a_call(client: LedgerClient, run: Run) -> None:
    """Neither id nor position is a bad field, not a crash."""
    request = pb.AbandonToolCallRequest(run_id=run.id, call=run_pb2.ToolCallRef())
    with pytest.raises(err.FieldInvalid) as raised:
        client.call(client.ledger_service.AbandonToolCall, request)
    assert raised.value.field == "call"


def test_the_first_broken_rule_is_reported(client: LedgerClient, run: Run) -> None:
    """Shape, limits, existence, request id, version, state, rules: in this order."""
    run.append([USER], request_id="used")
    run.close()
    broken = pb.AppendRequest(
        run_id="nobody", messages=[run_pb2.NewMessage(body=b"x" * (16 * MIB + 1))], request_id="q" * 200
    )
    expected: list[tuple[type[err.TurnledgerError], dict[str, Any]]] = [
        (err.LimitExceeded, {"messages": [run_pb2.NewMessage(body=b"{}")]}),
        (err.RunNotFound, {"run_id": run.id}),
    ]
    for cls, mend in expected:
        with pytest.raises(cls):
            client.call(client.ledger_service.Append, broken)
        for name, value in mend.items():
            broken.ClearField(name)
            broken.MergeFrom(pb.AppendRequest(**{name: value}))
    with pytest.raises(err.RequestIdReused):
        run.append([USER, USER], request_id="used", expected_version=1)
    with pytest.raises(err.VersionConflict):
        run.append([USER], expected_version=1)
    with pytest.raises(err.RunClosed):
        run.append([result("nope")])
