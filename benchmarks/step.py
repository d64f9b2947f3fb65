"""``step``: a Step that is answered by difference, against its floor and over the length of the run."""

from __future__ import annotations

import pickle
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import grpc

from benchmarks import processes, workload
from benchmarks.floor import METHOD, Call, Rows
from benchmarks.report import Aim, Report, Say, milliseconds, ratio
from benchmarks.worker import Worker, call_on, timed
from turnledger.domain.formats import format_named
from turnledger.domain.jsonbytes import parse
from turnledger.v1 import ledger_service_pb2 as pb

POLICY = '{"strategy": "sliding-window", "keep_recent_turns": 15}'
"""A window of thirty messages and the request."""
FLOOR_AIM = 1.8
GROWTH_AIM = 1.2
WARM_UP = 30
"""Steps before the measured ones: the window is full, and the code is warm."""
BLOCK = 20
"""Steps in a row before it is the other's turn: a caller's step finds the service warm from the one before."""
ROWS_PER_STEP = 3
"""Events: two messages and a window."""


def run(say: Say, *, quick: bool) -> Report:
    """Measures a step against its floor, and at runs of several lengths."""
    steps = 400 if quick else 2000
    lengths = (100, 1_000, 10_000) if quick else (100, 1_000, 10_000, 100_000)
    with tempfile.TemporaryDirectory(prefix="turnledger-bench-") as name:
        folder = Path(name)
        say("recording what each step sends, writes and answers")
        script = _record(folder, WARM_UP + steps)
        say("steps and their floor, turn about")
        ours, floor = _against_floor(folder, script)
        grown = _over_length(folder, lengths, steps // 2, say)
    first, last = lengths[0], lengths[-1]
    return Report(
        "step",
        measured="the median time of a Step with two new messages, answered as a difference to the window before, by "
        "one caller over gRPC on loopback: tokens counted, request id kept, flushed to a SQLite file",
        against="in the same run, turn about in blocks: a gRPC echo of the same bytes with one parse and one token "
        "count of the same bodies and one SQLite commit of the same rows; and the same Step in the shortest run",
        figures={
            "step": milliseconds(ours),
            "floor": milliseconds(floor),
            "by_messages": {str(length): milliseconds(times) for length, times in grown.items()},
            "request_bytes": len(script[-1].request),
            "answer_bytes": len(script[-1].answer),
        },
        aims=(
            Aim("step over its floor, at one caller", ratio(ours, floor), FLOOR_AIM),
            Aim(f"step at {last:,} messages over step at {first:,}", ratio(grown[last], grown[first]), GROWTH_AIM),
        ),
    )


def _record(folder: Path, steps: int) -> list[Call]:
    """What every step of a run sends, writes and answers."""
    file = folder / "recorded.db"
    with processes.service(file) as address, grpc.insecure_channel(address) as channel:
        worker = Worker(channel, "recorded", POLICY)
        made = [worker.step()[:2] for _ in range(steps)]
    return [_call(*said, rows) for said, rows in zip(made, _rows_by_step(file, steps), strict=True)]


def _call(request: bytes, answer: bytes, rows: Rows) -> Call:
    bodies = [message.body for message in pb.StepRequest.FromString(request).messages]
    format = format_named(workload.FORMAT)
    texts = [text for body in bodies for text in format.read(parse(body)).texts]
    return Call(request, bodies, texts, rows, answer)


def _rows_by_step(file: Path, steps: int) -> list[Rows]:
    """What each step wrote: its events and its request; of the directory the row as it was at the end."""
    with closing(sqlite3.connect(file)) as store:
        events = store.execute("SELECT * FROM events ORDER BY notification_id").fetchall()[-ROWS_PER_STEP * steps :]
        requests = store.execute("SELECT * FROM requests WHERE request_id LIKE 'step-%' ORDER BY request_id").fetchall()
        runs = store.execute("SELECT * FROM runs").fetchall()
    groups = [events[at : at + ROWS_PER_STEP] for at in range(0, len(events), ROWS_PER_STEP)]
    return [
        {"events": group, "runs": runs, "requests": [request]} for group, request in zip(groups, requests, strict=True)
    ]


def _against_floor(folder: Path, script: list[Call]) -> tuple[list[float], list[float]]:
    """Seconds of our steps and of the floor's, taken turn about."""
    path = folder / "script"
    path.write_bytes(pickle.dumps(script))
    ours: list[float] = []
    floor: list[float] = []
    with (
        processes.service(folder / "ours.db") as our_address,
        processes.floor(path, folder / "floor.db", workload.TOKENIZER) as floor_address,
        grpc.insecure_channel(our_address) as our_channel,
        grpc.insecure_channel(floor_address) as floor_channel,
    ):
        worker, echo = Worker(our_channel, "recorded", POLICY), call_on(floor_channel, METHOD)
        for at in range(0, len(script), BLOCK):
            block = script[at : at + BLOCK]
            ours += [worker.step()[2] for _ in block]
            floor += [timed(echo, call.request)[1] for call in block]
    return ours[WARM_UP:], floor[WARM_UP:]


def _over_length(folder: Path, lengths: Sequence[int], steps: int, say: Say) -> dict[int, list[float]]:
    """Seconds of steps by how many messages the run had before them, taken turn about."""
    taken: dict[int, list[float]] = {length: [] for length in lengths}
    with processes.service(folder / "grown.db") as address, grpc.insecure_channel(address) as channel:
        workers = {length: Worker(channel, f"grown-{length:09}", POLICY) for length in lengths}
        for length, worker in workers.items():
            say(f"appending {length:,} messages")
            worker.append(length)
        say("steps of runs of each length, turn about")
        for _ in range(WARM_UP + steps):
            for length, worker in workers.items():
                taken[length].append(worker.step()[2])
    return {length: seconds[WARM_UP:] for length, seconds in taken.items()}
