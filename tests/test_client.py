"""The clients: windows from differences, provider SDKs as they are, deadlines and retries."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

import turnledger.client
from support.provider import Provider, providing
from support.service import USER, reply, result, served, sqlite_store
from turnledger.client import (
    AsyncLedgerClient,
    DeadlinePassed,
    Envelope,
    LedgerClient,
    Message,
    MessageMismatch,
    Run,
    ServiceUnreachable,
)
from turnledger.client.errors import BuildReasonUnknown, ReasonUnknown, WindowMismatch, error_of_build
from turnledger.client.windows import receive, receive_message
from turnledger.domain import errors as err
from turnledger.grpc import server
from turnledger.ledger import answers
from turnledger.v1 import audit_service_pb2, error_reason_pb2, window_pb2
from turnledger.v1 import ledger_service_pb2 as pb

LONG = "one line of output\n" * 40 + "Error: it broke\n"
POLICIES: tuple[dict[str, Any], ...] = (
    {"strategy": "none"},
    {"strategy": "sliding-window", "keep_recent_turns": 2},
    {"strategy": "compact-results"},
)


@pytest.fixture
def client() -> Iterator[LedgerClient]:
    """A service of this test's own."""
    with served() as connected:
        yield connected


def _varied(run: Run) -> Iterator[turnledger.client.Window]:
    """Windows that grow, drop, rewrite and close calls."""
    yield run.step([USER])
    for i in range(8):
        yield run.step([reply(f"c{i}", f"tool_{i % 3}"), result(f"c{i}", LONG), *([USER] if i % 4 == 3 else [])])
    yield run.step([reply("open"), USER])


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p["strategy"])
def test_differences_make_the_whole(client: LedgerClient, policy: dict[str, Any]) -> None:
    """What is put together from differences equals the whole window and the replay, ids included."""
    run = client.open_run(format="openai.chat", policy=policy)
    for window in _varied(run):
        stranger = client.run(run.id)
        whole, replayed = stranger.build_window(iteration=window.iteration), stranger.replay(window.iteration)
        assert whole.items == window.items == replayed.items
        assert whole.digest == window.digest == replayed.digest
        assert whole.records == window.records == replayed.records
        assert window.messages == [json.loads(item.body) for item in window.items]


def test_heads_tell_how_windows_came_about(client: LedgerClient) -> None:
    """All of a replay but what the windows held, which does not travel."""
    run = client.open_run(format="openai.chat", policy=POLICIES[1])
    windows = list(_varied(run))
    heads = list(run.window_heads())
    assert [(head.iteration, head.digest, head.records, head.faults, head.item_count) for head in heads] == [
        (sent.iteration, sent.digest, sent.records, sent.faults, len(sent.items)) for sent in run.replay_all()
    ]
    assert [head.iteration for head in run.window_heads(2, 3)] == [2, 3]
    request = audit_service_pb2.ReplayRunRequest(run_id=run.id, omit_items=True)
    answers_sent = list(client.stream(client.audit_service.ReplayRun, request))
    assert len(answers_sent) == len(windows)
    assert not any(answer.part.items for answer in answers_sent)


def test_only_what_is_new_travels(client: LedgerClient) -> None:
    """A step's answer is as large as what is new, not as the window."""
    run = client.open_run(format="openai.chat")
    first = run.step([{"role": "user", "content": LONG * 100}])
    base = pb.StepRequest(run_id=run.id, messages=[{"body": b'{"role":"user","content":"more"}'}])
    base.base.iteration, base.base.digest = first.iteration, first.digest
    answer = client.call(client.ledger_service.Step, base)
    assert answer.window.WhichOneof("content") == "delta"
    assert answer.ByteSize() < 500


def test_an_unknown_base_gets_the_whole(client: LedgerClient) -> None:
    """Another digest, or an iteration that never was: the whole window, not an error."""
    run = client.open_run(format="openai.chat", messages=[USER])
    for iteration, digest in ((1, b"x" * 32), (7, b"x" * 32), (0, b"")):
        request = pb.BuildWindowRequest(run_id=run.id)
        request.base.iteration, request.base.digest = iteration, digest
        answer = client.call(client.ledger_service.BuildWindow, request)
        assert answer.window.WhichOneof("content") == "whole"


def test_a_window_that_was_changed_on_the_way_is_not_handed_out(client: LedgerClient) -> None:
    """Its digest says so."""
    run = client.open_run(format="openai.chat", messages=[USER])
    window = client.call(client.ledger_service.BuildWindow, pb.BuildWindowRequest(run_id=run.id)).window
    window.whole.items[0].body = b'{"role":"user","content":"something else"}'
    with pytest.raises(WindowMismatch) as raised:
        receive(window, None)
    assert raised.value.iteration == 1


def test_a_window_too_large_for_one_answer_is_streamed(client: LedgerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller sees no difference."""
    monkeypatch.setattr(answers, "WINDOW_INLINE_BYTES_MAX", 1000)
    run = client.open_run(format="openai.chat")
    window = run.step([{"role": "user", "content": "x" * 9_000_000}] * 2)
    assert [len(item.body) for item in window.items] == [9_000_028] * 2


def test_any_content_comes_back(client: LedgerClient) -> None:
    """Lone surrogates, NUL, characters outside the BMP, long numbers, unknown fields, spaces."""
    bodies = [
        b'{"role":"user","content":"\\ud800 \\u0000 \xf0\x9f\x8c\x8d"}',
        b'{ "role" : "user", "content": "spaced",  "x_unknown": [1e5, ' + b"9" * 5000 + b"] }",
        '{"role":"user","content":"raw \ud800"}'.encode("utf-8", "surrogatepass"),
    ]
    run = client.open_run(format="openai.chat")
    window = run.step(bodies)
    assert [item.body for item in window.items] == bodies
    assert [m.body for m in run.messages([item.id for item in window.items])] == bodies


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A local provider that always calls a tool."""
    with providing() as local:
        yield local


def test_the_openai_sdk_takes_and_gives_messages_as_they_are(client: LedgerClient, provider: Provider) -> None:
    """``create(messages=window.messages)`` just works, and its reply and usage are appended as they come."""
    url, received = provider.url, provider.received
    run = client.open_run(format="openai.chat", policy={"strategy": "compact-results", "keep_raw": 0})
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as api:
        window = run.step([USER])
        for _ in range(2):
            completion = api.chat.completions.create(model="m", messages=window.messages)
            answer = completion.choices[0].message
            window = run.step([answer, result("call_9", LONG)], usage=completion.usage)
    assert [body["messages"] for body in received] == [run.replay(1).messages, run.replay(2).messages]
    assert [item.kind for item in window.items] == ["message", "message", "treated", "message", "message"]
    assert run.get().run.input_tokens == 40


def test_the_anthropic_sdk_takes_and_gives_messages_as_they_are(client: LedgerClient, provider: Provider) -> None:
    """Likewise; what was read from the cache is input too."""
    url, received = provider.url, provider.received
    run = client.open_run(format="anthropic.messages", policy={"strategy": "sliding-window", "keep_recent_turns": 4})
    with anthropic.Anthropic(base_url=url, api_key="none", max_retries=0) as api:
        window = run.step([USER])
        answer = api.messages.create(model="m", max_tokens=9, messages=window.messages)
        back = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_9", "content": "ok"}]}
        window = run.step([{"role": "assistant", "content": answer.content}, back], usage=answer.usage)
        api.messages.create(model="m", max_tokens=9, messages=window.messages)
    assert received[1]["messages"] == run.replay(2).messages
    assert run.get().run.input_tokens == 20


def test_the_envelope_of_an_iteration_is_on_record(client: LedgerClient) -> None:
    """With it, the exact request is; the same envelope again is kept once."""
    first, second = Envelope(system="be brief", tools=[{"name": "t"}], model="m"), Envelope(model="n")
    run = client.open_run(format="openai.chat", envelope=first)
    run.step([USER])
    run.set_envelope(second)
    run.step([USER])
    run.set_envelope(first)
    run.step([USER])
    assert [window.envelope for window in run.replay_all()] == [first, second, first]
    bodies = [fact.body for fact in run.ledger() if fact.topic.startswith("turnledger.EnvelopeSet")]
    assert [bool(body) for body in bodies] == [True, True, False]


def test_who_called_is_recorded() -> None:
    """With every fact."""
    with served(principal="worker-7") as client:
        run = client.open_run(format="openai.chat", messages=[USER])
        assert {fact.fields["principal"] for fact in run.ledger()} == {"worker-7"}


def test_an_error_carries_data(client: LedgerClient) -> None:
    """Attributes, not text."""
    run = client.open_run(format="openai.chat")
    with pytest.raises(err.VersionConflict) as raised:
        run.append([USER], expected_version=9)
    assert (raised.value.run_id, raised.value.expected_version, raised.value.actual_version) == (run.id, 9, 1)


def test_a_reason_of_another_release_is_an_error_of_its_own(client: LedgerClient) -> None:
    """It is neither a crash nor something to try again."""
    for reason in (9999, error_reason_pb2.ERROR_REASON_FIELD_INVALID):
        built = error_of_build(window_pb2.BuildError(reason=reason, message="a summary is due"))
        assert isinstance(built, BuildReasonUnknown)
        assert isinstance(built, err.NoWindow)
        assert "a summary is due. What the call appended is in the ledger" in str(built)
    unknown = client._channel.unary_unary(
        "/turnledger.v1.LedgerService/Invent",
        request_serializer=pb.GetRunRequest.SerializeToString,
        response_deserializer=pb.GetRunResponse.FromString,
    )
    with pytest.raises(ReasonUnknown, match="UNIMPLEMENTED"):
        client.call(unknown, pb.GetRunRequest())


def test_usage_needs_a_reply_to_belong_to(client: LedgerClient) -> None:
    """It is not dropped in silence."""
    with pytest.raises(err.FieldInvalid):
        client.open_run(format="openai.chat").step([USER], usage={"prompt_tokens": 1})


def test_usage_finds_its_reply_among_bytes_too(client: LedgerClient) -> None:
    """A reply may be given as the bytes that the provider sent."""
    run = client.open_run(format="openai.chat", messages=[USER])
    run.step([json.dumps(reply()).encode(), result()], usage={"prompt_tokens": 7, "completion_tokens": 1})
    assert run.get().run.input_tokens == 7


@pytest.mark.parametrize(
    ("field", "act"),
    [
        ("messages[0].body", lambda c, r: r.append([{"role": "user", "content": float("nan")}])),
        ("messages[1].body", lambda c, r: r.append([USER, {"role": "user", "content": {1, 2}}])),
        ("messages[0].source", lambda c, r: r.append([Message(USER, source="robot")])),
        ("messages[0].answers_iteration", lambda c, r: r.append([Message(USER, answers_iteration=-1)])),
        ("expectation.version", lambda c, r: r.append([USER], expected_version=-1)),
        ("iteration", lambda c, r: r.replay(-1)),
        ("from_iteration", lambda c, r: list(r.replay_all(-1))),
        ("page_size", lambda c, r: list(c.list_runs(page_size=-1))),
        ("labels", lambda c, r: c.open_run(format="openai.chat", labels={"a": 1})),
        ("envelope", lambda c, r: r.set_envelope({"system": "x"})),
        ("envelope.parameters", lambda c, r: r.set_envelope(Envelope(parameters={"top_p": float("inf")}))),
        ("policy", lambda c, r: c.open_run(format="openai.chat", policy={"keep": {1}})),
        ("usage", lambda c, r: r.report_usage({1, 2})),
        ("message_ids", lambda c, r: r.messages(f"{r.id}/1")),
        ("call.index", lambda c, r: r.abandon_tool_call((f"{r.id}/2", -1))),
        ("reason", lambda c, r: r.close(reason="lone \ud800")),
        ("principal", lambda c, r: LedgerClient(c.address, principal="Zoë\n")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_travel_is_refused_by_name(
    client: LedgerClient, field: str, act: Callable[[LedgerClient, Run], object]
) -> None:
    """Before anything is sent, as the service would."""
    run = client.open_run(format="openai.chat")
    with pytest.raises(err.FieldInvalid) as raised:
        act(client, run)
    assert raised.value.field == field
    assert run.get().run.version == 1


def test_a_run_that_was_not_asked_after_is_at_any_version(client: LedgerClient) -> None:
    """A handle knows no version before its first answer."""
    handle = client.run(client.open_run(format="openai.chat").id)
    assert handle.version is None
    handle.append([USER], expected_version=handle.version)
    handle.append([USER], expected_version=handle.version)
    assert handle.version == 3


def test_a_message_that_was_changed_is_not_handed_out(client: LedgerClient) -> None:
    """Its commitment says so."""
    run = client.open_run(format="openai.chat", messages=[USER])
    request = audit_service_pb2.GetMessagesRequest(run_id=run.id, message_ids=[f"{run.id}/2"])
    (message,) = client.call(client.audit_service.GetMessages, request).messages
    assert receive_message(message).message == USER
    message.body = message.body.replace(b"fail", b"pass")
    with pytest.raises(MessageMismatch) as raised:
        receive_message(message)
    assert raised.value.message_id == f"{run.id}/2"


def test_what_a_client_gives_can_be_written_as_json(client: LedgerClient) -> None:
    """Windows, records and facts, bytes as base64; and read again."""
    run = client.open_run(format="openai.chat", policy=POLICIES[2], messages=[USER, reply()])
    window = run.step([result(content=LONG)])
    for value in (window, window.records[0], run.get(), *run.ledger(), *run.messages([f"{run.id}/2"])):
        text = value.model_dump_json()
        assert json.loads(text)
    assert json.loads(window.model_dump_json())["digest"] == base64.urlsafe_b64encode(window.digest).decode()


def test_there_is_a_deadline() -> None:
    """No call waits for ever for one who takes the connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with LedgerClient(address, timeout=0.3) as client, pytest.raises(DeadlinePassed, match=address):
            client.run("r").get()


def test_an_absent_service_is_said_to_be_unreachable() -> None:
    """After the retries that are safe."""
    with LedgerClient("127.0.0.1:1", timeout=20) as client, pytest.raises(ServiceUnreachable, match=r"^127.0.0.1:1: "):
        client.run("r").get()


def test_what_the_contract_has_numbers_for_comes_as_words(client: LedgerClient) -> None:
    """The words are those that the calls take."""
    run = client.open_run(format="openai.chat", messages=[USER, reply(), result()])
    assert [(m.role, m.source) for m in run.messages([f"{run.id}/{v}" for v in (2, 3, 4)])] == [
        ("user", "person"),
        ("model", "model"),
        ("tool", "tool"),
    ]
    assert run.get().run.status == "open"
    run.close("cancelled")
    assert [listed.status for listed in client.list_runs(status="cancelled")] == ["cancelled"]


def test_a_status_that_does_not_fit_is_named_with_those_that_do(client: LedgerClient) -> None:
    """Before anything is sent."""
    run = client.open_run(format="openai.chat")
    for wrong in ("open", "done"):
        with pytest.raises(err.FieldInvalid, match=f"finished, failed, cancelled, but it is {wrong}"):
            run.close(wrong)
    with pytest.raises(err.FieldInvalid, match="open, paused, finished, failed, cancelled, but it is done"):
        list(client.list_runs(status="done"))


def test_a_restart_between_two_attempts_writes_once(tmp_path: Path) -> None:
    """The service goes and comes back on its port and file; a repeated request is one write."""
    with server.start(sqlite_store(tmp_path)) as first:
        address = first.address
        with LedgerClient(address) as client:
            run = client.open_run(format="openai.chat", run_id="restarted")
            before = run.append([USER], request_id="once")
    with server.start(sqlite_store(tmp_path), address), LedgerClient(address) as client:
        after = client.run("restarted").append([USER], request_id="once")
        assert (after.version, after.message_ids, after.replayed) == (before.version, before.message_ids, True)


async def test_the_asynchronous_client_does_the_same(client: LedgerClient) -> None:
    """Many runs at once over one connection, each with its own windows."""
    async with AsyncLedgerClient(client.address) as ledger:

        async def play(number: int) -> list[bytes]:
            run = await ledger.open_run(format="openai.chat", policy=POLICIES[1], run_id=f"async-{number}")
            windows = [await run.step([USER])]
            for i in range(4):
                windows.append(await run.step([reply(f"c{i}"), result(f"c{i}", LONG)]))
            assert [w.digest async for w in run.replay_all()] == [w.digest for w in windows]
            assert [m.id for m in await run.messages([windows[0].items[0].id])] == [f"{run.id}/2"]
            return [w.digest for w in windows]

        digests = await asyncio.gather(*(play(number) for number in range(20)))
        listed = [run.run_id async for run in ledger.list_runs(page_size=7)]
    assert len({tuple(d) for d in digests}) == 20
    assert len(listed) == 20


def test_many_workers_at_once(client: LedgerClient) -> None:
    """Threads on runs of their own, and on one run together: no message is lost, none doubled."""
    shared = client.open_run(format="openai.chat")

    def work(number: int) -> None:
        own = client.open_run(format="openai.chat", policy=POLICIES[2])
        own.step([USER])
        for i in range(5):
            own.step([reply(f"c{i}"), result(f"c{i}", LONG)])
            client.run(shared.id).append([{"role": "user", "content": f"{number}/{i}"}])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    said = [json.loads(fact.body)["content"] for fact in shared.ledger() if fact.topic.startswith("turnledger.Message")]
    assert sorted(said) == sorted(f"{n}/{i}" for n in range(8) for i in range(5))


def test_the_public_names_are_these() -> None:
    """A name that goes, goes on purpose."""
    assert turnledger.client.__all__ == [
        "Appended",
        "AsyncLedgerClient",
        "AsyncRun",
        "DeadlinePassed",
        "Envelope",
        "Fact",
        "Item",
        "LedgerClient",
        "LedgerMessage",
        "Message",
        "MessageMismatch",
        "Record",
        "Refusal",
        "Run",
        "RunDetails",
        "RunInfo",
        "ServiceFault",
        "ServiceUnreachable",
        "Window",
        "WindowHead",
        "WindowMismatch",
    ]
