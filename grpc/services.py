"""The servicers: each call is parsed, done by the ledger, and answered. No rule lives here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc

from turnledger.domain.ids import message_id
from turnledger.grpc import wire_in, wire_out
from turnledger.ledger.answers import AppendAnswer
from turnledger.ledger.application import Ledger
from turnledger.ledger.queries import Queries
from turnledger.v1 import audit_service_pb2 as audit
from turnledger.v1 import audit_service_pb2_grpc as audit_grpc
from turnledger.v1 import ledger_service_pb2 as pb
from turnledger.v1 import ledger_service_pb2_grpc as pb_grpc
from turnledger.v1 import run_pb2

PRINCIPAL_METADATA = "turnledger-principal"
"""Metadata key under which a caller says who it is; recorded with every fact, not verified."""


def _principal(context: grpc.ServicerContext) -> str | None:
    found = dict(context.invocation_metadata() or ()).get(PRINCIPAL_METADATA)
    return found if isinstance(found, str) else None


class LedgerServicer(pb_grpc.LedgerServiceServicer):
    """What agent workers call."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._queries = Queries(ledger)

    def OpenRun(self, request: pb.OpenRunRequest, context: grpc.ServicerContext) -> pb.OpenRunResponse:
        """See the contract."""
        answer = self._ledger.open_run(wire_in.open_run(request), _principal(context))
        assert answer.head is not None
        run = wire_out.run(answer.head)
        return pb.OpenRunResponse(
            run=run, replayed=answer.replayed, message_ids=[message_id(run.run_id, v) for v in answer.versions]
        )

    def Append(self, request: pb.AppendRequest, context: grpc.ServicerContext) -> pb.AppendResponse:
        """See the contract."""
        answer = self._ledger.append(wire_in.append(request), _principal(context))
        return pb.AppendResponse(
            version=answer.version,
            message_ids=[message_id(request.run_id, v) for v in answer.versions],
            replayed=answer.replayed,
            omissions=[wire_out.omission(request.run_id, o) for o in answer.omissions],
        )

    def BuildWindow(self, request: pb.BuildWindowRequest, context: grpc.ServicerContext) -> pb.BuildWindowResponse:
        """See the contract."""
        answer = self._ledger.build_window(wire_in.build_window(request), _principal(context))
        return pb.BuildWindowResponse(version=answer.version, **_outcome(answer))

    def Step(self, request: pb.StepRequest, context: grpc.ServicerContext) -> pb.StepResponse:
        """See the contract."""
        answer = self._ledger.step(wire_in.step(request), _principal(context))
        return pb.StepResponse(
            version=answer.version,
            message_ids=[message_id(request.run_id, v) for v in answer.versions],
            replayed=answer.replayed,
            omissions=[wire_out.omission(request.run_id, o) for o in answer.omissions],
            **_outcome(answer),
        )

    def SetEnvelope(self, request: pb.SetEnvelopeRequest, context: grpc.ServicerContext) -> pb.SetEnvelopeResponse:
        """See the contract."""
        answer = self._ledger.set_envelope(wire_in.set_envelope(request), _principal(context))
        return pb.SetEnvelopeResponse(version=answer.version, commitment=answer.commitment, replayed=answer.replayed)

    def ReportUsage(self, request: pb.ReportUsageRequest, context: grpc.ServicerContext) -> pb.ReportUsageResponse:
        """See the contract."""
        answer = self._ledger.report_usage(wire_in.report_usage(request), _principal(context))
        return pb.ReportUsageResponse(
            version=answer.version,
            input_tokens=answer.usage.input_tokens,
            output_tokens=answer.usage.output_tokens,
            implausible=answer.implausible,
            replayed=answer.replayed,
        )

    def PauseRun(self, request: pb.PauseRunRequest, context: grpc.ServicerContext) -> pb.PauseRunResponse:
        """See the contract."""
        answer = self._ledger.pause_run(wire_in.pause_run(request), _principal(context))
        return pb.PauseRunResponse(version=answer.version, replayed=answer.replayed)

    def ResumeRun(self, request: pb.ResumeRunRequest, context: grpc.ServicerContext) -> pb.ResumeRunResponse:
        """See the contract."""
        answer = self._ledger.resume_run(wire_in.resume_run(request), _principal(context))
        return pb.ResumeRunResponse(version=answer.version, replayed=answer.replayed)

    def AbandonToolCall(
        self, request: pb.AbandonToolCallRequest, context: grpc.ServicerContext
    ) -> pb.AbandonToolCallResponse:
        """See the contract."""
        answer = self._ledger.abandon_tool_call(wire_in.abandon_tool_call(request), _principal(context))
        return pb.AbandonToolCallResponse(version=answer.version, replayed=answer.replayed)

    def CloseRun(self, request: pb.CloseRunRequest, context: grpc.ServicerContext) -> pb.CloseRunResponse:
        """See the contract."""
        answer = self._ledger.close_run(wire_in.close_run(request), _principal(context))
        return pb.CloseRunResponse(version=answer.version, replayed=answer.replayed)

    def GetRun(self, request: pb.GetRunRequest, context: grpc.ServicerContext) -> pb.GetRunResponse:
        """See the contract."""
        return wire_out.run_details(self._queries.run(request.run_id))


def _outcome(answer: AppendAnswer) -> dict[str, Any]:
    if answer.error is not None:
        return {"build_error": wire_out.build_error(answer.error)}
    assert answer.window is not None
    return {"window": wire_out.window(answer.window)}


class AuditServicer(audit_grpc.AuditServiceServicer):
    """What auditors call."""

    def __init__(self, ledger: Ledger) -> None:
        self._queries = Queries(ledger)

    def ListRuns(self, request: audit.ListRunsRequest, context: grpc.ServicerContext) -> audit.ListRunsResponse:
        """See the contract."""
        is_any = request.status == run_pb2.RUN_STATUS_UNSPECIFIED
        page = self._queries.list_runs(
            page_size=request.page_size,
            page_token=request.page_token,
            status=None if is_any else wire_in.status(request.status, "status"),
            labels=dict(request.labels),
        )
        return audit.ListRunsResponse(runs=map(wire_out.run, page.heads), next_page_token=page.next_page_token)

    def ReadLedger(
        self, request: audit.ReadLedgerRequest, context: grpc.ServicerContext
    ) -> Iterator[audit.ReadLedgerResponse]:
        """See the contract."""
        facts = self._queries.facts(
            request.run_id, request.from_version, request.to_version, bodies=not request.omit_bodies
        )
        for row, event in facts:
            yield wire_out.fact(row, event)

    def GetMessages(
        self, request: audit.GetMessagesRequest, context: grpc.ServicerContext
    ) -> audit.GetMessagesResponse:
        """See the contract."""
        found = self._queries.messages(request.run_id, request.message_ids)
        return audit.GetMessagesResponse(messages=[wire_out.ledger_message(request.run_id, m) for m in found])

    def ReplayWindow(
        self, request: audit.ReplayWindowRequest, context: grpc.ServicerContext
    ) -> Iterator[audit.ReplayWindowResponse]:
        """See the contract."""
        yield from wire_out.replay(self._queries.replay_one(request.run_id, request.iteration))

    def ReplayRun(
        self, request: audit.ReplayRunRequest, context: grpc.ServicerContext
    ) -> Iterator[audit.ReplayRunResponse]:
        """See the contract."""
        if request.omit_items:
            for head in self._queries.heads(request.run_id, request.from_iteration, request.to_iteration):
                part = audit.ReplayWindowResponse(window=wire_out.window(head))
                yield audit.ReplayRunResponse(iteration=head.window.iteration, part=part)
            return
        for answer in self._queries.replay(request.run_id, request.from_iteration, request.to_iteration):
            for part in wire_out.replay(answer):
                yield audit.ReplayRunResponse(iteration=answer.answer.window.iteration, part=part)
