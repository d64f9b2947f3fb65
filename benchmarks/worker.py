"""A worker that speaks to the service in bytes, so that the client's own work is in neither side of a ratio."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, count
from time import perf_counter

import grpc

from benchmarks import workload
from turnledger.domain.messages import MESSAGES_PER_APPEND_MAX
from turnledger.v1 import ledger_service_pb2 as pb
from turnledger.v1 import run_pb2, window_pb2

TIMEOUT_SECONDS = 60.0


def call_on(channel: grpc.Channel, method: str) -> Callable[[bytes], bytes]:
    """A call that takes and gives bytes."""
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
    return lambda request: call(request, timeout=TIMEOUT_SECONDS)


def timed(call: Callable[[bytes], bytes], request: bytes) -> tuple[bytes, float]:
    """The answer, and the seconds it took."""
    started = perf_counter()
    answer = call(request)
    return answer, perf_counter() - started


class Worker:
    """One worker and its run: exchange after exchange, each with a request id and the version it expects."""

    def __init__(self, channel: grpc.Channel, run_id: str, policy: str) -> None:
        self.steps = 0
        self._run_id = run_id
        self._append = call_on(channel, "/turnledger.v1.LedgerService/Append")
        self._step = call_on(channel, "/turnledger.v1.LedgerService/Step")
        self._numbers = count(1)
        self._base: window_pb2.WindowBase | None = None
        opening = pb.OpenRunRequest(
            run_id=run_id,
            request_id="opening",
            format=workload.FORMAT,
            policy_json=policy,
            tokenizer=workload.TOKENIZER,
            messages=[run_pb2.NewMessage(body=workload.request())],
        )
        open_run = call_on(channel, "/turnledger.v1.LedgerService/OpenRun")
        answer = pb.OpenRunResponse.FromString(open_run(opening.SerializeToString()))
        self._version = answer.run.version

    def append(self, messages: int) -> None:
        """So many messages without windows, in appends as large as they may be."""
        while messages > 0:
            size = min(messages, MESSAGES_PER_APPEND_MAX)
            bodies = chain.from_iterable(workload.exchange(next(self._numbers)) for _ in range(size // 2))
            request = pb.AppendRequest(
                run_id=self._run_id,
                request_id=f"append-{self._version}",
                messages=[run_pb2.NewMessage(body=body) for body in bodies],
            )
            answer = pb.AppendResponse.FromString(self._append(request.SerializeToString()))
            self._version = answer.version
            messages -= size

    def step(self) -> tuple[bytes, bytes, float]:
        """The next exchange as a step: what was sent, what was answered, and the seconds between."""
        self.steps += 1
        request = pb.StepRequest(
            run_id=self._run_id,
            request_id=f"step-{self.steps:08}",
            expectation=run_pb2.Expectation(version=self._version),
            messages=[run_pb2.NewMessage(body=body) for body in workload.exchange(next(self._numbers))],
            base=self._base,
        ).SerializeToString()
        raw, seconds = timed(self._step, request)
        answer = pb.StepResponse.FromString(raw)
        self._version = answer.version
        self._base = window_pb2.WindowBase(iteration=answer.window.iteration, digest=answer.window.digest)
        return request, raw, seconds
