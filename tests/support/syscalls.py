"""Watches a process from outside, through ptrace: when it writes a store's log, flushes it, and answers a caller.

Linux only, on x86_64 and aarch64. As a command it attaches to a process id and prints one word a line, each before
the system call that it names may go on: ``watching`` first, then ``log`` (bytes go to a write-ahead log), ``flush``
(a log is on disk), ``answer`` (a message goes to a socket).
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_SEIZE, _INTERRUPT, _SYSCALL, _GET_SYSCALL_INFO = 0x4206, 0x4207, 24, 0x420E
_TRACE_SYSGOOD, _TRACE_CLONE = 0x01, 0x08
_SYSCALL_STOP = signal.SIGTRAP | 0x80
_WALL = 0x40000000
_ENTRY, _EXIT = 1, 2
_DATA_FRAME = 0
_FRAME_HEADER_BYTES = 9
# Of each machine: pwrite64, fdatasync, fsync, sendmsg.
_NUMBERS = {"x86_64": (18, 75, 74, 46), "aarch64": (68, 83, 82, 211)}


class Watched:
    """What a process that is being watched does."""

    def __init__(self, tracer: subprocess.Popen[str]) -> None:
        self._tracer = tracer

    def until_answer(self) -> list[str]:
        """What was done up to the next answer, which must have been given."""
        assert self._tracer.stdout is not None
        done: list[str] = []
        while not done or done[-1] != "answer":
            line = self._tracer.stdout.readline().strip()
            assert line, f"the tracer ended after {done}"
            done.append(line)
        return done


@contextmanager
def watching(pid: int) -> Iterator[Watched | None]:
    """Watches a process for the block; None where this is not permitted here."""
    command = [sys.executable, __file__, str(pid)]
    tracer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert tracer.stdout is not None
        yield Watched(tracer) if tracer.stdout.readline() == "watching\n" else None
    finally:
        tracer.kill()
        tracer.communicate()


class _Tracer:
    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self._libc.ptrace.restype = ctypes.c_long
        self._pwrite, self._fdatasync, self._fsync, self._sendmsg = _NUMBERS[platform.machine()]
        self._memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
        self._entered: dict[int, tuple[int, ...]] = {}

    def _ptrace(self, request: int, tid: int, address: int | None = None, data: object = None) -> None:
        if self._libc.ptrace(request, tid, address, data) == -1:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))

    def attach(self) -> None:
        """Stops at every system call of every thread from now on."""
        for task in Path(f"/proc/{self._pid}/task").iterdir():
            self._ptrace(_SEIZE, int(task.name), None, _TRACE_SYSGOOD | _TRACE_CLONE)
            self._ptrace(_INTERRUPT, int(task.name))

    def run(self) -> None:
        """Reports until the process has ended."""
        while True:
            try:
                tid, status = os.waitpid(-1, _WALL)
            except ChildProcessError:
                return
            if os.WIFSTOPPED(status):
                self._stopped(tid, os.WSTOPSIG(status), status >> 16)

    def _stopped(self, tid: int, number: int, event: int) -> None:
        if number == _SYSCALL_STOP:
            self._at_syscall(tid)
        passed_on = number if not event and number != _SYSCALL_STOP else 0
        with suppress(ProcessLookupError):  # It was killed meanwhile.
            self._ptrace(_SYSCALL, tid, None, passed_on)

    def _at_syscall(self, tid: int) -> None:
        info = ctypes.create_string_buffer(88)
        self._ptrace(_GET_SYSCALL_INFO, tid, len(info), ctypes.addressof(info))
        if info.raw[0] == _ENTRY:
            called = struct.unpack_from("=7Q", info.raw, 24)
            self._entered[tid] = called
            self._enters(*called[:3])
        elif info.raw[0] == _EXIT and tid in self._entered:
            (returned,) = struct.unpack_from("=q", info.raw, 24)
            called = self._entered.pop(tid)
            if called[0] in (self._fdatasync, self._fsync) and returned == 0 and self._is_log(called[1]):
                print("flush", flush=True)

    def _enters(self, number: int, descriptor: int, argument: int) -> None:
        if number == self._pwrite and self._is_log(descriptor):
            print("log", flush=True)
        elif number == self._sendmsg and any(kind == _DATA_FRAME for kind in _frames(self._sent(argument))):
            print("answer", flush=True)

    def _is_log(self, descriptor: int) -> bool:
        return str(Path(f"/proc/{self._pid}/fd/{descriptor}").readlink()).removesuffix(" (deleted)").endswith("-wal")

    def _sent(self, header: int) -> bytes:
        """The bytes of a ``msghdr``."""
        vectors, count = struct.unpack("=QQ", self._read(header + 16, 16))
        pairs = struct.iter_unpack("=QQ", self._read(vectors, 16 * count))
        return b"".join(self._read(start, size) for start, size in pairs)

    def _read(self, address: int, size: int) -> bytes:
        return os.pread(self._memory, size, address)


def _frames(sent: bytes) -> Iterator[int]:
    """The kinds of the HTTP/2 frames in what was sent; small answers begin with a frame."""
    at = 0
    while at + _FRAME_HEADER_BYTES <= len(sent):
        yield sent[at + 3]
        at += _FRAME_HEADER_BYTES + int.from_bytes(sent[at : at + 3])


def _main() -> None:
    try:
        tracer = _Tracer(int(sys.argv[1]))
        tracer.attach()
    except (OSError, KeyError) as error:
        print(f"not permitted: {error}", flush=True)
        return
    print("watching", flush=True)
    tracer.run()


if __name__ == "__main__":
    _main()
