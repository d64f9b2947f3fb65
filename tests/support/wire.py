"""The service as raw contract messages see it: every call by name, refusals whole, every row of the store."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import code_pb2, error_details_pb2
from grpc_status import rpc_status

from support.service import USER, result
from turnledger.domain.jsonbytes import dump
from turnledger.grpc import server
from turnledger.ledger.application import Ledger
from turnledger.ledger.stores import open_ledger
from turnledger.v1 import audit_service_pb2 as audit
from turnledger.v1 import error_reason_pb2, run_pb2, window_pb2
from turnledger.v1 import ledger_service_pb2 as pb

MIB = 1024 * 1024
SECONDS = 20.0
"""An answer that takes longer is none."""
CHAT = "openai.chat"
SERVICES = (
    pb.DESCRIPTOR.services_by_name["LedgerService"],
    audit.DESCRIPTOR.services_by_name["AuditService"],
)
RPCS: dict[str, MethodDescriptor] = {method.name: method for service in SERVICES for method in service.methods}
"""Every call of the contract by its name."""


def with_field(name: str) -> list[str]:
    """The calls whose request has a field of this name."""
    return [rpc for rpc, method in RPCS.items() if name in method.input_type.fields_by_name]


WRITES = with_field("request_id")


@dataclass(frozen=True)
class Refusal:
    """An error as it came: its code, its one ErrorInfo, and the kinds of what else was in its details."""

    code: str
    reason: str
    metadata: dict[str, str]
    others: tuple[str, ...] = ()


class Wire:
    """A service on an SQLite file, spoken to over a channel of its own."""

    service: server.Server
    """The service, where it is in this process."""

    def __init__(self, channel: grpc.Channel, file: Path) -> None:
        self._channel = channel
        self._file = file

    def all(self, rpc: str, request: Message | bytes) -> list[Any]:
        """Every answer of a call, as many as there are."""
        method = RPCS[rpc]
        path = f"/{method.containing_service.full_name}/{rpc}"
        kind = self._channel.unary_stream if method.server_streaming else self._channel.unary_unary
        call = kind(path, _bytes, GetMessageClass(method.output_type).FromString)
        answer = call(request, timeout=SECONDS)
        return list(answer) if method.server_streaming else [answer]

    def call(self, rpc: str, request: Message | bytes) -> Any:
        """The only answer, or the first."""
        return self.all(rpc, request)[0]

    def refusal(self, rpc: str, request: Message | bytes) -> Refusal:
        """Why a call fails; the store must be the same row for row afterwards."""
        before = self.rows()
        refused = self.refused(rpc, request)
        assert self.rows() == before, f"{rpc} was refused and wrote all the same"
        return refused

    def refused(self, rpc: str, request: Message | bytes) -> Refusal:
        """Why a call fails, where there may be no store to look into."""
        try:
            answers = self.all(rpc, request)
        except grpc.RpcError as error:
            return read_refusal(error)
        raise AssertionError(f"{rpc} was taken: {str(answers)[:300]}")

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of every table: events with bodies and chains, directory, requests."""
        return rows_of(self._file)


class FarWire(Wire):
    """Likewise, on a file that is there for the service alone, and is looked at in a copy."""

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """See :class:`Wire`."""
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "copy.db"
            for suffix in ("", "-wal"):
                shutil.copy(f"{self._file}{suffix}", f"{copy}{suffix}")
            return rows_of(copy, mode="rw")


def rows_of(file: Path, mode: str = "ro") -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table of a store."""
    with closing(sqlite3.connect(f"file:{file}?mode={mode}", uri=True)) as store:
        names = [name for (name,) in store.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        assert {"events", "runs", "requests"} <= {*names}
        return {name: store.execute(f"SELECT * FROM {name}").fetchall() for name in names}


def read_refusal(error: grpc.RpcError) -> Refusal:
    """The error of a failed call; it must have exactly one ErrorInfo, and that of our domain."""
    status = rpc_status.from_call(error)  # type: ignore[arg-type]
    assert status is not None, f"no details: {error}"
    infos = [d for d in status.details if d.Is(error_details_pb2.ErrorInfo.DESCRIPTOR)]
    assert len(infos) == 1, status
    info = error_details_pb2.ErrorInfo.FromString(infos[0].value)
    assert info.domain == "turnledger"
    others = tuple(d.TypeName().rpartition(".")[2] for d in status.details if d not in infos)
    return Refusal(code_pb2.Code.Name(status.code), info.reason, dict(info.metadata), others)


def _bytes(request: Message | bytes) -> bytes:
    return request if isinstance(request, bytes) else request.SerializeToString()


@contextmanager
def wired(folder: Path, change: Callable[[Ledger], object] = lambda ledger: None, **options: Any) -> Iterator[Wire]:
    """A service on a file of its own, whose ledger ``change`` may alter first."""
    file = folder / "ledger.db"
    ledger = open_ledger(f"sqlite:///{file}", **options)
    change(ledger)
    with server.Server(ledger, "127.0.0.1:0") as service, wired_to(service.address, file) as wire:
        wire.service = service
        yield wire


@contextmanager
def wired_to(address: str, file: Path, kind: type[Wire] = Wire) -> Iterator[Wire]:
    """A service that runs elsewhere, on a file."""
    # Neither a limit of the channel nor a retry may come before what the service says.
    channel_options = [("grpc.max_receive_message_length", -1), ("grpc.enable_retries", 0)]
    with grpc.insecure_channel(address, channel_options) as channel:
        yield kind(channel, file)


# A run in which every write has something to do


def message(body: object, **claims: Any) -> run_pb2.NewMessage:
    """A message to append; bytes are sent as they are."""
    return run_pb2.NewMessage(body=body if isinstance(body, bytes) else dump(body), **claims)


def reply(*call_ids: str) -> dict[str, Any]:
    """A model's reply that makes calls."""
    calls = [{"id": i, "type": "function", "function": {"name": "run_tests", "arguments": "{}"}} for i in call_ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


POLICY = '{"strategy":"sliding-window","keep_recent_turns":2}'
STANDING_VERSION = 5


def opening(run: str, **others: Any) -> pb.OpenRunRequest:
    """The opening of a standing run."""
    fields: dict[str, Any] = {"format": CHAT, "policy_json": POLICY, "messages": [message(USER)], **others}
    return pb.OpenRunRequest(run_id=run, **fields)


def standing(wire: Wire, run: str) -> str:
    """Opens a run in which every write has something to do: one window is out, and it is paused on one of its two
    open calls. It is at :data:`STANDING_VERSION`."""
    wire.call("OpenRun", opening(run))
    wire.call("BuildWindow", pb.BuildWindowRequest(run_id=run))
    wire.call("Append", pb.AppendRequest(run_id=run, messages=[message(reply("c1", "c2"))]))
    wire.call("PauseRun", pb.PauseRunRequest(run_id=run, calls=[call_named("c1")]))
    usage = run_pb2.Usage(input_tokens=7)
    wire.call("ReportUsage", pb.ReportUsageRequest(run_id=run, usage=usage))
    return run


def call_named(call_id: str | bytes) -> run_pb2.ToolCallRef:
    """A reference by the provider's id."""
    return run_pb2.ToolCallRef(call_id=call_id.encode() if isinstance(call_id, str) else call_id)


GOOD: dict[str, Callable[[str], Message]] = {
    "OpenRun": opening,
    "Append": lambda run: pb.AppendRequest(run_id=run, messages=[message(result("c2"))]),
    "BuildWindow": lambda run: pb.BuildWindowRequest(run_id=run, while_paused=True),
    "Step": lambda run: pb.StepRequest(run_id=run, messages=[message(result("c2"))], while_paused=True),
    "SetEnvelope": lambda run: pb.SetEnvelopeRequest(run_id=run, envelope=run_pb2.Envelope(model=b"m")),
    "ReportUsage": lambda run: pb.ReportUsageRequest(run_id=run, usage=run_pb2.Usage(input_tokens=5)),
    "PauseRun": lambda run: pb.PauseRunRequest(run_id=run, calls=[call_named("c2")]),
    "ResumeRun": lambda run: pb.ResumeRunRequest(run_id=run),
    "AbandonToolCall": lambda run: pb.AbandonToolCallRequest(run_id=run, call=call_named("c2")),
    "CloseRun": lambda run: pb.CloseRunRequest(run_id=run, status=run_pb2.RUN_STATUS_FINISHED),
    "GetRun": lambda run: pb.GetRunRequest(run_id=run),
    "ListRuns": lambda run: audit.ListRunsRequest(),
    "ReadLedger": lambda run: audit.ReadLedgerRequest(run_id=run),
    "GetMessages": lambda run: audit.GetMessagesRequest(run_id=run, message_ids=[f"{run}/2"]),
    "ReplayWindow": lambda run: audit.ReplayWindowRequest(run_id=run),
    "ReplayRun": lambda run: audit.ReplayRunRequest(run_id=run),
}
"""For every call a request that a standing run takes."""


def good(rpc: str, run: str, **others: Any) -> Any:
    """A request that a standing run takes, with fields put in or in place of its own."""
    request: Any = GOOD[rpc](run)
    for name in others:
        request.ClearField(name)
    request.MergeFrom(type(request)(**others))
    return request


# Places of a kind of message in the requests


def places(kind: Descriptor) -> list[tuple[str, str]]:
    """Every call and path at which requests hold a message of this kind; of a list, its first."""
    return [(rpc, path) for rpc, method in RPCS.items() for path in _paths(method.input_type, kind, "")]


def _paths(inside: Descriptor, kind: Descriptor, before: str) -> Iterator[str]:
    for field in inside.fields:
        if field.type != FieldDescriptor.TYPE_MESSAGE or field.message_type.GetOptions().map_entry:
            continue
        path = f"{before}{field.name}{'[0]' if field.is_repeated else ''}"
        if field.message_type is kind:
            yield path
        yield from _paths(field.message_type, kind, f"{path}.")


def put(request: Message, path: str, value: Message) -> Any:
    """The request with the message at a path replaced; a list has that one message only."""
    name, _, rest = path.partition(".")
    if name.endswith("[0]"):
        held = getattr(request, name.removesuffix("[0]"))
        if not rest or not held:
            del held[:]
            held.add()
        inner = held[0]
    else:
        inner = getattr(request, name)
    if rest:
        put(inner, rest, value)
    else:
        inner.CopyFrom(value)
        inner.SetInParent()
    return request


def reason_of(build_error: window_pb2.BuildError) -> str:
    """The name of a build error's reason in the catalogue."""
    return error_reason_pb2.ErrorReason.Name(build_error.reason).removeprefix("ERROR_REASON_")


def is_replayed(answer: Any) -> bool:
    """Whether a write had been answered before; of a window alone, the window says so."""
    replayed: bool = (answer.window if isinstance(answer, pb.BuildWindowResponse) else answer).replayed
    return replayed
