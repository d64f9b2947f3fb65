"""What any call can be refused for, walked over the contract: a new call without a case fails here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.service import USER, result
from support.wire import (
    GOOD,
    RPCS,
    STANDING_VERSION,
    WRITES,
    Refusal,
    Wire,
    call_named,
    good,
    message,
    opening,
    reply,
    standing,
    wired,
    with_field,
)
from turnledger.v1 import run_pb2

AFTER_OPENING = [rpc for rpc in WRITES if rpc != "OpenRun"]
ANY_VERSION = run_pb2.Expectation(any=run_pb2.Expectation.AnyVersion())
NO_RUN = run_pb2.Expectation(no_run=run_pb2.Expectation.NoRun())


def expecting(version: int) -> run_pb2.Expectation:
    """An expectation of this version."""
    return run_pb2.Expectation(version=version)


def refused_field(name: str, value: str, rule: str) -> Refusal:
    """What is said of a field that is not of its shape."""
    metadata = {"field": name, "rule": rule, "value": value}
    return Refusal("INVALID_ARGUMENT", "FIELD_INVALID", metadata, ("BadRequest",))


def test_every_call_has_a_good_request() -> None:
    """The walks below take them from one table, which holds every call of the contract and no other."""
    assert set(GOOD) == set(RPCS)


@pytest.mark.parametrize("rpc", RPCS)
def test_a_good_request_is_taken(wire: Wire, run: str, rpc: str) -> None:
    """So what is refused below is refused for the one thing that is wrong. Writes write, and reads do not."""
    before = wire.rows()
    answer = wire.call(rpc, good(rpc, run))
    assert "build_error" not in answer.DESCRIPTOR.fields_by_name or not answer.HasField("build_error")
    assert (wire.rows() != before) == (rpc in AFTER_OPENING)


BAD_RUN_IDS = ("a b", "ü", "r" * 129, "a/b", "a\n", "a\0", "../a", "run%")


@pytest.mark.parametrize("rpc", with_field("run_id"))
def test_what_is_no_run_id_is_refused(wire: Wire, run: str, rpc: str) -> None:
    """By every call; only an opening may leave it out."""
    for run_id in BAD_RUN_IDS:
        refused = wire.refusal(rpc, good(rpc, run, run_id=run_id))
        assert refused == refused_field("run_id", run_id, "must match [A-Za-z0-9._:-]{1,128}")
    if rpc == "OpenRun":
        assert wire.call(rpc, good(rpc, "")).run.run_id
    else:
        assert wire.refusal(rpc, good(rpc, "")).metadata["field"] == "run_id"


@pytest.mark.parametrize("rpc", with_field("run_id"))
def test_a_run_that_is_not_there_is_named(wire: Wire, run: str, rpc: str) -> None:
    """By every call but an opening, which makes it."""
    request = good(rpc, run, run_id="nobody" if rpc != "OpenRun" else "somebody-new")
    if rpc == "OpenRun":
        assert wire.call(rpc, request).run.run_id == "somebody-new"
    else:
        assert wire.refusal(rpc, request) == Refusal(
            "NOT_FOUND", "RUN_NOT_FOUND", {"run_id": "nobody"}, ("ResourceInfo",)
        )


@pytest.mark.parametrize("rpc", [rpc for rpc in with_field("run_id") if rpc != "OpenRun"])
def test_a_run_of_another_namespace_is_not_there(tmp_path: Path, rpc: str) -> None:
    """Though it is in the same file, and whatever way it is named."""
    with wired(tmp_path, namespace="theirs") as theirs:
        standing(theirs, "shared")
    with wired(tmp_path) as ours:
        assert ours.refusal(rpc, good(rpc, "shared")).reason == "RUN_NOT_FOUND"
        assert ours.refusal(rpc, good(rpc, "theirs/shared")).metadata["field"] == "run_id"


@pytest.mark.parametrize("status", ["RUN_STATUS_FINISHED", "RUN_STATUS_FAILED", "RUN_STATUS_CANCELLED"])
@pytest.mark.parametrize("rpc", AFTER_OPENING)
def test_a_closed_run_takes_nothing_more(wire: Wire, run: str, rpc: str, status: str) -> None:
    """Every write says so, and how the run ended."""
    wire.call("CloseRun", good("CloseRun", run, status=run_pb2.RunStatus.Value(status)))
    ended = status.removeprefix("RUN_STATUS_").lower()
    expected = Refusal("FAILED_PRECONDITION", "RUN_CLOSED", {"run_id": run, "status": ended}, ("PreconditionFailure",))
    assert wire.refusal(rpc, good(rpc, run)) == expected


@pytest.mark.parametrize("rpc", sorted(set(RPCS) - set(AFTER_OPENING)))
def test_a_closed_run_is_still_read(wire: Wire, run: str, rpc: str) -> None:
    """And opening it again answers as before."""
    wire.call("CloseRun", good("CloseRun", run))
    before = wire.rows()
    assert wire.all(rpc, good(rpc, run))
    assert wire.rows() == before


WRONG = (0, 1, STANDING_VERSION - 1, STANDING_VERSION + 1, 2**63, 2**64 - 1)


@pytest.mark.parametrize("rpc", with_field("expectation"))
def test_another_version_than_expected_is_a_conflict(wire: Wire, run: str, rpc: str) -> None:
    """With both numbers; no run is expected as version 0."""
    for number, expectation in [*((n, expecting(n)) for n in WRONG), (0, NO_RUN)]:
        metadata = {"run_id": run, "expected_version": str(number), "actual_version": str(STANDING_VERSION)}
        refused = wire.refusal(rpc, good(rpc, run, expectation=expectation))
        assert refused == Refusal("ABORTED", "VERSION_CONFLICT", metadata)


@pytest.mark.parametrize(
    "expectation", [expecting(STANDING_VERSION), ANY_VERSION, run_pb2.Expectation()], ids=["version", "any", "none"]
)
@pytest.mark.parametrize("rpc", with_field("expectation"))
def test_the_version_that_is_there_is_met(wire: Wire, run: str, rpc: str, expectation: run_pb2.Expectation) -> None:
    """And so is any."""
    before = wire.rows()
    wire.call(rpc, good(rpc, run, expectation=expectation))
    assert wire.rows() != before


def test_every_write_but_an_opening_has_an_expectation() -> None:
    """An opening expects that there is no such run."""
    assert with_field("expectation") == AFTER_OPENING


OTHER_CONTENT: dict[str, dict[str, Any]] = {
    "Append": {"messages": [message(USER)], "imported": True},
    "BuildWindow": {"iteration": 2, "while_paused": False},
    "Step": {"messages": [message(USER)], "imported": True, "while_paused": False},
    "SetEnvelope": {"envelope": run_pb2.Envelope(model=b"n")},
    "ReportUsage": {"iteration": 1, "usage": run_pb2.Usage(input_tokens=6)},
    "PauseRun": {"calls": [call_named("c1")], "awaits_person": True},
    "ResumeRun": {},
    "AbandonToolCall": {"call": call_named("c1"), "reason": "why"},
    "CloseRun": {"status": run_pb2.RUN_STATUS_FAILED, "reason": "why"},
}
"""For every write the fields that are its content, each with another value than a good request has."""
NO_CONTENT = {"run_id", "request_id", "expectation", "base"}
"""Which run and request it is, what every write has, and what a retry may hold anew."""
REUSES = [(rpc, field) for rpc, fields in OTHER_CONTENT.items() for field in [*fields, "expectation"]]


def reused(run: str, request_id: str, field: str) -> Refusal:
    """What is said of a request id that was used before."""
    return Refusal("ALREADY_EXISTS", "REQUEST_ID_REUSED", {"run_id": run, "request_id": request_id, "field": field})


@pytest.mark.parametrize("rpc", AFTER_OPENING)
def test_every_field_of_a_write_has_other_content(rpc: str) -> None:
    """The table below names all fields of a request that are content."""
    assert set(OTHER_CONTENT[rpc]) == {f.name for f in RPCS[rpc].input_type.fields} - NO_CONTENT


@pytest.mark.parametrize(("rpc", "field"), REUSES)
def test_a_request_id_with_other_content_is_refused(wire: Wire, run: str, rpc: str, field: str) -> None:
    """By name of the first field that differs."""
    wire.call(rpc, good(rpc, run, request_id="q"))
    other = expecting(STANDING_VERSION) if field == "expectation" else OTHER_CONTENT[rpc][field]
    assert wire.refusal(rpc, good(rpc, run, request_id="q", **{field: other})) == reused(run, "q", field)


@pytest.mark.parametrize("rpc", AFTER_OPENING)
def test_a_request_id_of_another_call_is_refused(wire: Wire, run: str, rpc: str) -> None:
    """An id is one request of a run, not one of each call."""
    first = "Append" if rpc != "Append" else "SetEnvelope"
    wire.call(first, good(first, run, request_id="q"))
    assert wire.refusal(rpc, good(rpc, run, request_id="q")) == reused(run, "q", "call")


OTHER_OPENINGS: dict[str, Any] = {
    "format": "anthropic.messages",
    "policy_json": '{"strategy":"none"}',
    "tokenizer": "cl100k_base",
    "labels": {"a": "b"},
    "step_base": "x",
    "context_limit_tokens": 5,
    "envelope": run_pb2.Envelope(model=b"m"),
    "messages": [message({"role": "user", "content": "else"})],
    "imported": True,
}


def test_every_field_of_an_opening_has_other_content() -> None:
    """The table above names all fields of an opening that are content."""
    assert set(OTHER_OPENINGS) == {f.name for f in RPCS["OpenRun"].input_type.fields} - NO_CONTENT


@pytest.mark.parametrize("field", OTHER_OPENINGS)
def test_opening_again_with_other_content_is_refused(wire: Wire, run: str, field: str) -> None:
    """By name of the field; the policy is named as such, whatever its form."""
    request = opening(run, **{field: OTHER_OPENINGS[field]})
    named = "policy" if field == "policy_json" else field
    assert wire.refusal("OpenRun", request) == Refusal(
        "ALREADY_EXISTS", "RUN_EXISTS", {"run_id": run, "field": named}, ("ResourceInfo",)
    )


def test_an_opening_without_an_id_is_named_by_its_request(wire: Wire) -> None:
    """Other content under the same request id is another opening of that run."""
    request = good("OpenRun", "", request_id="opening-once")
    opened = wire.call("OpenRun", request).run.run_id
    request.step_base = "else"
    metadata = {"run_id": opened, "field": "step_base"}
    assert wire.refusal("OpenRun", request) == Refusal("ALREADY_EXISTS", "RUN_EXISTS", metadata, ("ResourceInfo",))


@pytest.mark.parametrize("rpc", WRITES)
def test_a_request_id_may_be_any_text(wire: Wire, run: str, rpc: str) -> None:
    """NUL and all: a retry finds it."""
    for _ in range(2):
        wire.call(rpc, good(rpc, run, request_id="q\0 ü/'\n"))
    if rpc in AFTER_OPENING:
        assert [row[1] for row in wire.rows()["requests"] if row[0] == f"default/{run}"] == ["q\0 ü/'\n"]


@pytest.mark.parametrize(("call_id", "reason"), [("c9", "RESULT_ORPHAN"), ("c3", "RESULT_DUPLICATE")])
@pytest.mark.parametrize("rpc", with_field("messages"))
def test_a_result_that_answers_nothing_is_refused(wire: Wire, run: str, rpc: str, call_id: str, reason: str) -> None:
    """An orphan, and a second result; message and call are named, and what stands before them is not written."""
    name = f"{run}-new" if rpc == "OpenRun" else run
    bodies = [USER, reply("c3"), result("c3"), result(call_id)]
    request = good(rpc, name, messages=[message(body) for body in bodies])
    metadata = {"run_id": name, "field": "messages[3]", "call_id": call_id}
    expected = Refusal("FAILED_PRECONDITION", reason, metadata, ("PreconditionFailure",))
    assert wire.refusal(rpc, request) == expected
    request.imported = True
    assert wire.call(rpc, request).message_ids
