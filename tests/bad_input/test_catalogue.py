"""The catalogue of errors, walked: each reason provoked by a real call, and what it carries as its comment says."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from eventsourcing.persistence import OperationalError

from support.service import USER, result
from support.wire import CHAT, POLICY, Refusal, Wire, call_named, good, message, opening, reason_of, reply, wired
from turnledger.ledger.application import Ledger
from turnledger.v1 import audit_service_pb2 as audit
from turnledger.v1 import error_reason_pb2, run_pb2
from turnledger.v1 import ledger_service_pb2 as pb

PROTO = Path(__file__).parents[2] / "protos/turnledger/v1/error_reason.proto"
BLOCKS = "anthropic.messages"


@dataclass(frozen=True)
class Entry:
    """What the comment of a reason says of it."""

    code: str | None
    other: str | None
    keys: frozenset[str]
    is_build_error: bool


def _entry(comment: str) -> Entry:
    said = re.sub(r"\s*//\s*", " ", comment)
    code = re.search(r"Code ([A-Z_]+)(?:, with (\w+))?\.", said)
    keys = re.search(r"Metadata: ([^.(]+)", said)
    assert keys
    listed = frozenset(key.strip() for key in keys[1].split(",")) - {"none"}
    return Entry(code and code[1], code and code[2], listed, "build error" in said.lower())


_BLOCK = re.compile(r"((?:  //.*\n)+)  ERROR_REASON_(\w+) = [1-9]")
CATALOGUE = {name: _entry(comment) for comment, name in _BLOCK.findall(PROTO.read_text())}
"""Every reason with what its comment says."""


# Each provokes its error, and gives it with the metadata that it must have.
Provoked = tuple[Refusal | pb.BuildWindowResponse | pb.StepResponse, dict[str, str]]


def _field_invalid(wire: Wire, run: str, folder: Path) -> Provoked:
    rule = "must be one of anthropic.messages, openai.chat"
    return wire.refusal("OpenRun", opening("new", format="x")), {"field": "format", "rule": rule, "value": "x"}


def _body_not_json(wire: Wire, run: str, folder: Path) -> Provoked:
    refused = wire.refusal("Append", good("Append", run, messages=[message(USER), message(b'{"role": NaN}')]))
    return refused, {"field": "messages[1].body", "rule": "must be JSON", "value": "NaN is no JSON value"}


def _body_not_of_format(wire: Wire, run: str, folder: Path) -> Provoked:
    refused = wire.refusal("Append", good("Append", run, messages=[message({"role": "wizard", "content": ""})]))
    rule = "must be one of system, developer, user, assistant, tool"
    return refused, {"field": "messages[0].body.role", "rule": rule, "value": "wizard", "format": CHAT}


def _policy_invalid(wire: Wire, run: str, folder: Path) -> Provoked:
    refused = wire.refusal("OpenRun", opening("new", policy_json='{"strategy":"x"}'))
    rule = "must be one of none, sliding-window, token-budget, compact-results"
    return refused, {"field": "policy.strategy", "rule": rule, "value": "x"}


def _page_token_invalid(wire: Wire, run: str, folder: Path) -> Provoked:
    refused = wire.refusal("ListRuns", audit.ListRunsRequest(page_token="bogus"))
    rule = "must be the next_page_token of the same query"
    return refused, {"field": "page_token", "rule": rule, "value": "bogus"}


def _limit_exceeded(wire: Wire, run: str, folder: Path) -> Provoked:
    refused = wire.refusal("CloseRun", good("CloseRun", run, reason="w" * 4097))
    return refused, {"field": "reason", "limit": "4096", "value": "4097"}


def _run_not_found(wire: Wire, run: str, folder: Path) -> Provoked:
    return wire.refusal("GetRun", good("GetRun", "nobody")), {"run_id": "nobody"}


def _message_not_found(wire: Wire, run: str, folder: Path) -> Provoked:
    refused = wire.refusal("GetMessages", good("GetMessages", run, message_ids=["other/2"]))
    return refused, {"run_id": run, "message_id": "other/2"}


def _run_exists(wire: Wire, run: str, folder: Path) -> Provoked:
    return wire.refusal("OpenRun", opening(run, step_base="x")), {"run_id": run, "field": "step_base"}


def _request_id_reused(wire: Wire, run: str, folder: Path) -> Provoked:
    wire.call("ResumeRun", good("ResumeRun", run, request_id="q"))
    refused = wire.refusal("CloseRun", good("CloseRun", run, request_id="q"))
    return refused, {"run_id": run, "request_id": "q", "field": "call"}


def _version_conflict(wire: Wire, run: str, folder: Path) -> Provoked:
    refused = wire.refusal("Append", good("Append", run, expectation=run_pb2.Expectation(version=1)))
    return refused, {"run_id": run, "expected_version": "1", "actual_version": "5"}


def _run_closed(wire: Wire, run: str, folder: Path) -> Provoked:
    wire.call("CloseRun", good("CloseRun", run))
    return wire.refusal("Append", good("Append", run)), {"run_id": run, "status": "finished"}


def _run_paused(wire: Wire, run: str, folder: Path) -> Provoked:
    return wire.call("BuildWindow", good("BuildWindow", run, while_paused=False)), {"run_id": run}


def _run_not_paused(wire: Wire, run: str, folder: Path) -> Provoked:
    wire.call("ResumeRun", good("ResumeRun", run))
    return wire.refusal("ResumeRun", good("ResumeRun", run)), {"run_id": run}


def _result_orphan(wire: Wire, run: str, folder: Path) -> Provoked:
    refused = wire.refusal("Append", good("Append", run, messages=[message(result("c9"))]))
    return refused, {"run_id": run, "field": "messages[0]", "call_id": "c9"}


def _result_duplicate(wire: Wire, run: str, folder: Path) -> Provoked:
    refused = wire.refusal("Append", good("Append", run, messages=[message(result("c2"))] * 2))
    return refused, {"run_id": run, "field": "messages[1]", "call_id": "c2"}


def _tool_use(call_id: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": call_id, "name": "t", "input": {}}]}


def _tool_results(*call_ids: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": i, "content": "x"} for i in call_ids]}


def _results_mixed(wire: Wire, run: str, folder: Path) -> Provoked:
    bodies = [USER, _tool_use("a"), USER, _tool_use("b"), _tool_results("a", "b")]
    refused = wire.refusal("OpenRun", opening("new", format=BLOCKS, messages=[message(b) for b in bodies]))
    return refused, {"run_id": "new", "field": "messages[4]", "call_id": "b"}


def _tool_call_not_open(wire: Wire, run: str, folder: Path) -> Provoked:
    refused = wire.refusal("AbandonToolCall", good("AbandonToolCall", run, call=call_named("c9")))
    return refused, {"run_id": run, "field": "call", "value": "c9", "matches": "0"}


def _iteration_out_of_range(wire: Wire, run: str, folder: Path) -> Provoked:
    refused = wire.refusal("BuildWindow", good("BuildWindow", run, iteration=9))
    return refused, {"run_id": run, "field": "iteration", "value": "9", "iteration": "1"}


def _compaction_unmeasurable(wire: Wire, run: str, folder: Path) -> Provoked:
    budget = f"{run}-budget"
    wire.call("OpenRun", opening(budget, policy_json='{"strategy":"token-budget","threshold_tokens":10}'))
    wire.call("BuildWindow", good("BuildWindow", budget))
    nothing = run_pb2.Usage(input_tokens=0, output_tokens=0)
    answered = [message(reply("c1"), usage=nothing), message(result("c1"))]
    return wire.call("Step", good("Step", budget, messages=answered)), {
        "run_id": budget,
        "format": CHAT,
        "iteration": "1",
    }


def _window_invalid(wire: Wire, run: str, folder: Path) -> Provoked:
    tools = f"{run}-tools"
    bodies = [message(body) for body in (USER, _tool_use("a"), _tool_results("a"))]
    no_tools = run_pb2.Envelope(model=b"m")
    wire.call("OpenRun", opening(tools, format=BLOCKS, policy_json=POLICY, envelope=no_tools, messages=bodies))
    answer = wire.call("BuildWindow", good("BuildWindow", tools))
    return answer, {"run_id": tools, "rule": "tools-declared", "message_id": f"{tools}/4"}


def _nothing_to_answer(wire: Wire, run: str, folder: Path) -> Provoked:
    silent = f"{run}-silent"
    wire.call("OpenRun", opening(silent, messages=[]))
    return wire.call("Step", good("Step", silent, messages=[])), {"run_id": silent, "message_id": ""}


def _fails_with(error: Exception) -> Callable[[Ledger], None]:
    def change(ledger: Ledger) -> None:
        def fail(*args: object, **options: object) -> None:
            raise error

        ledger.recorder.insert_events = fail  # type: ignore[method-assign]

    return change


def _store_unavailable(wire: Wire, run: str, folder: Path) -> Provoked:
    with wired(folder, _fails_with(OperationalError("disk full"))) as failing:
        return failing.refusal("OpenRun", opening("new")), {}


def _service_busy(wire: Wire, run: str, folder: Path) -> Provoked:
    with wired(folder) as stopping:
        stopping.service._interceptor.stopping.set()
        return stopping.refusal("OpenRun", opening("new")), {}


def _internal(wire: Wire, run: str, folder: Path) -> Provoked:
    with wired(folder, _fails_with(RuntimeError("a bug"))) as failing:
        refused = failing.refusal("OpenRun", opening("new"))
    assert re.fullmatch("[0-9a-f]{16}", refused.metadata["fault_id"])
    return refused, {"fault_id": refused.metadata["fault_id"]}


_HERE: dict[str, Any] = dict(globals())
PROVOKED: dict[str, Callable[[Wire, str, Path], Provoked]] = {
    reason: _HERE[f"_{reason.lower()}"] for reason in CATALOGUE if f"_{reason.lower()}" in _HERE
}
"""For each reason the function of its name."""


def test_every_reason_is_provoked() -> None:
    """A reason of the contract that no call here provokes is not in the catalogue, or it has no case."""
    reasons = {name.removeprefix("ERROR_REASON_") for name in error_reason_pb2.ErrorReason.keys()} - {"UNSPECIFIED"}
    assert set(CATALOGUE) == reasons
    assert set(PROVOKED) == reasons


@pytest.mark.parametrize("reason", PROVOKED)
def test_a_reason_is_what_its_comment_says(wire: Wire, run: str, tmp_path: Path, reason: str) -> None:
    """Code, further details, and the keys and values of its metadata; a build error comes with the answer."""
    entry = CATALOGUE[reason]
    provoked, metadata = PROVOKED[reason](wire, run, tmp_path)
    if isinstance(provoked, Refusal):
        assert not entry.is_build_error
        assert provoked == Refusal(entry.code or "", reason, metadata, (entry.other,) if entry.other else ())
    else:
        assert entry.is_build_error
        assert (reason_of(provoked.build_error), dict(provoked.build_error.metadata)) == (reason, metadata)
    assert set(metadata) == entry.keys


@pytest.mark.parametrize("reason", sorted(r for r, entry in CATALOGUE.items() if entry.is_build_error))
def test_a_build_error_leaves_the_facts_written(wire: Wire, run: str, tmp_path: Path, reason: str) -> None:
    """Its answer says the version that the run is at, and has no window."""
    provoked, metadata = PROVOKED[reason](wire, run, tmp_path)
    assert not isinstance(provoked, Refusal)
    assert not provoked.HasField("window")
    assert provoked.version == wire.call("GetRun", good("GetRun", metadata["run_id"])).run.version
