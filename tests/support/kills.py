"""A service under load that is killed again and again, and what must hold after every kill."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import grpc

from support.killable import Launcher, launching
from support.service import USER, result
from support.store_chains import Place, beginning, place_of, reading
from support.waiting import SECONDS_MAX
from support.wire import message, opening, reply
from turnledger.client import LedgerClient, Window
from turnledger.client.windows import receive
from turnledger.v1 import ledger_service_pb2 as pb
from turnledger.v1 import ledger_service_pb2_grpc as services

WORKERS = 4
RUNS_PER_WORKER = 2
LOAD_SECONDS_MAX = 0.15
SHARE_NEW_RUN = 0.04
SHARE_NO_ANSWER = 0.1
"""Steps that end with a reply that nothing answers: facts without a window."""
SHARE_RETRIED = 0.15
"""Answered requests that are made once more."""
_CUT = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN)


_NO_RETRIES = [("grpc.enable_retries", 0)]


class Broken(AssertionError):
    """A promise that does not hold."""


@dataclass
class Campaign:
    """What a campaign has done so far."""

    seed: int
    kills: int = 0
    steps_acknowledged: int = 0
    retries_answered_as_first: int = 0
    """Of requests that were committed and not answered, or answered before."""
    retries_answered_anew: int = 0
    """Of requests of which nothing was committed."""


@dataclass(frozen=True)
class Told:
    """An answer: what must be the same for ever."""

    version: int
    message_ids: tuple[str, ...]
    iteration: int = 0
    """0 where there is no window."""
    digest: bytes = b""
    content: bytes = b""
    """Hash of the window's items, byte for byte."""


@dataclass
class Tracked:
    """A run as its worker knows it."""

    id: str
    place: Place
    """As last read from the file."""
    version: int = 0
    iteration: int = 0
    told: list[Told] = field(default_factory=list)
    """Windows that were answered."""
    checked: int = 0
    """How many of those were replayed since."""
    pending: Any = None
    """The request that was made and not answered."""


def content_of(window: Window) -> bytes:
    """Hash of all of a window's items."""
    hashed = hashlib.sha256()
    for item in window.items:
        for part in (item.kind.encode(), item.id.encode(), item.salt, item.body):
            hashed.update(len(part).to_bytes(8) + part)
    return hashed.digest()


def told_of(answer: Any) -> Told:
    """What an answer says; its window must have the digest that it came with."""
    if isinstance(answer, pb.OpenRunResponse):
        return Told(answer.run.version, tuple(answer.message_ids))
    said = (answer.version, tuple(answer.message_ids))
    if answer.HasField("build_error"):
        return Told(*said)
    window = receive(answer.window, None).window
    return Told(*said, window.iteration, window.digest, content_of(window))


class Worker:
    """Steps runs of its own until the service is gone."""

    def __init__(self, name: str, campaign: Campaign) -> None:
        self._name = name
        self._campaign = campaign
        self._opened = 0
        self.runs = [self._new_run() for _ in range(RUNS_PER_WORKER)]
        self._left: list[Tracked] = []
        """Runs that it works on no more, since the last kill."""
        self._finished: list[Tracked] = []

    def _new_run(self) -> Tracked:
        self._opened += 1
        run_id = f"{self._name}-{self._opened}"
        return Tracked(run_id, beginning(run_id))

    def work(self, stub: services.LedgerServiceStub, random: Random, stopping: Event) -> None:
        """Makes one request after the other, until the service does not answer."""
        while not stopping.is_set():
            index = random.randrange(len(self.runs))
            if random.random() < SHARE_NEW_RUN and self.runs[index].pending is None:
                self._left.append(self.runs[index])
                self.runs[index] = self._new_run()
            run = self.runs[index]
            request = run.pending = self._next_request(run, random)
            try:
                answer = _called(stub, request)
                first = self.answered(run, answer, replayed=False)
                if random.random() < SHARE_RETRIED:
                    again = _called(stub, request)
                    if not again.replayed or told_of(again) != first:
                        raise Broken(f"{run.id}: the same request was answered {told_of(again)}, first {first}")
                    self._campaign.retries_answered_as_first += 1
            except grpc.RpcError as error:
                if error.code() not in _CUT:
                    raise Broken(f"{run.id}: {error}") from error
                return

    def _next_request(self, run: Tracked, random: Random) -> Any:
        request_id = f"r-{random.getrandbits(64):x}"
        if run.version == 0:
            return opening(run.id, request_id=request_id)
        if random.random() < SHARE_NO_ANSWER:
            said = [message({"role": "assistant", "content": "Done."})]
        else:
            calls = [f"c{run.version}-{i}" for i in range(random.randint(1, 3))]
            results = [result(call, "x" * random.randrange(2000)) for call in calls]
            said = [message(USER), message(reply(*calls)), *map(message, results)]
        return pb.StepRequest(run_id=run.id, request_id=request_id, messages=said)

    def answered(self, run: Tracked, answer: Any, *, replayed: bool) -> Told:
        """Takes an answer in; it must be the one that the request has to get."""
        told = told_of(answer)
        due = _committed(run)
        if (told.version, told.iteration or run.iteration, answer.replayed) != (*due, replayed):
            raise Broken(f"{run.id}: answered {told}, replayed {answer.replayed}; due was {due}, replayed {replayed}")
        run.version, run.iteration = due
        run.pending = None
        if told.iteration:
            run.told.append(told)
        if not isinstance(answer, pb.OpenRunResponse):
            self._campaign.steps_acknowledged += 1
        return told

    def recovered(self, client: LedgerClient, file: Path) -> None:
        """After a kill: what was answered is there, what was not is there whole or not at all, and is retried."""
        for run in (*self.runs, *self._left):
            with reading(file) as store:
                run.place = place_of(store, run.id, run.place)
            check_place(run)
            for told in run.told[run.checked :]:
                check_replay(told, client.run(run.id).replay(told.iteration))
            run.checked = len(run.told)
            if run.pending is not None:
                was_committed = run.place.ledger_version > run.version
                self.answered(run, _called(client.ledger_service, run.pending), replayed=was_committed)
                if was_committed:
                    self._campaign.retries_answered_as_first += 1
                else:
                    self._campaign.retries_answered_anew += 1
        self._finished += self._left
        self._left = []

    @property
    def all_runs(self) -> list[Tracked]:
        """Every run that it ever had."""
        return [*self._finished, *self._left, *self.runs]


def _committed(run: Tracked) -> tuple[int, int]:
    """Version and iteration of a run once its pending request is committed."""
    if run.pending is None:
        return run.version, run.iteration
    facts = len(run.pending.messages)
    if isinstance(run.pending, pb.OpenRunRequest):
        return 1 + facts, 0
    return run.version + facts, run.iteration + (facts > 1)


def _called(stub: Any, request: Any) -> Any:
    call = stub.OpenRun if isinstance(request, pb.OpenRunRequest) else stub.Step
    return call(request, timeout=SECONDS_MAX)


def check_place(run: Tracked) -> None:
    """A run stands where its last answer left it, or where its pending request leads: nowhere between."""
    found = (run.place.ledger_version, run.place.windows_version)
    if found not in ((run.version, run.iteration), _committed(run)):
        raise Broken(f"{run.id} is at {found}; answered was {(run.version, run.iteration)}, made {_committed(run)}")


def check_replay(told: Told, window: Window) -> None:
    """A window is the one that was answered, byte for byte."""
    if (window.iteration, window.digest, content_of(window)) != (told.iteration, told.digest, told.content):
        raise Broken(f"{window.run_id}: window {told.iteration} is not what was answered")


def run_campaign(folder: Path, kills: int, seed: int, progress: Callable[[Campaign], None]) -> Campaign:
    """Kills the service so many times; raises :class:`Broken` where something does not hold, with the number of the
    kill and the seed."""
    campaign = Campaign(seed)
    workers = [Worker(f"w{n}", campaign) for n in range(WORKERS)]
    file = folder / "ledger.db"
    with launching() as launcher, ThreadPoolExecutor(WORKERS) as pool:
        try:
            while campaign.kills < kills:
                _life(launcher, file, workers, campaign, pool)
                campaign.kills += 1
                progress(campaign)
            with LedgerClient(launcher.start(f"sqlite:///{file}")) as client:
                for worker in workers:
                    worker.recovered(client, file)
                _check_everything(client, file, [run for worker in workers for run in worker.all_runs])
        except Exception as error:
            raise Broken(f"kill {campaign.kills}, seed {seed}: {error}") from error
    return campaign


def _life(launcher: Launcher, file: Path, workers: list[Worker], campaign: Campaign, pool: ThreadPoolExecutor) -> None:
    """One service, from its start to its kill."""
    random = Random(f"{campaign.seed}/{campaign.kills}")
    address, stopping = launcher.start(f"sqlite:///{file}"), Event()
    with LedgerClient(address) as client:
        for worker in workers:
            worker.recovered(client, file)
    with grpc.insecure_channel(address, _NO_RETRIES) as channel:
        stub = services.LedgerServiceStub(channel)
        working = [pool.submit(worker.work, stub, Random(random.random()), stopping) for worker in workers]
        Event().wait(random.uniform(0.002, LOAD_SECONDS_MAX))
        launcher.kill()
        stopping.set()
        for future in working:
            future.result(SECONDS_MAX)


def _check_everything(client: LedgerClient, file: Path, runs: Iterable[Tracked]) -> None:
    """All runs from their beginning: rows, chains, and every window that was answered."""
    for run in runs:
        with reading(file) as store:
            assert place_of(store, run.id, beginning(run.id)) == place_of(store, run.id, run.place)
        windows = {window.iteration: window for window in client.run(run.id).replay_all()} if run.iteration else {}
        if len(windows) != run.iteration:
            raise Broken(f"{run.id} has {len(windows)} windows of {run.iteration}")
        for told in run.told:
            check_replay(told, windows[told.iteration])
