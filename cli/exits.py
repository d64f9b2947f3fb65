"""What the command's exit codes mean, and which error is which."""

from __future__ import annotations

from enum import IntEnum

from eventsourcing.persistence import PersistenceError

from turnledger.client import MessageMismatch, ServiceFault, WindowMismatch
from turnledger.domain.errors import BadRequest, TurnledgerError, Unavailable


class Exit(IntEnum):
    """The exit codes; docs/cli.md lists them for people."""

    DONE = 0
    """Done, and what was checked holds."""
    DOES_NOT_HOLD = 1
    """What was checked does not hold."""
    USAGE = 2
    """The command line is wrong."""
    UNREACHABLE = 3
    """No service or no store answers."""
    REFUSED = 4
    """The ledger refuses: something is not there, or a rule or a limit forbids it."""
    DAMAGED = 5
    """The file to import is damaged; nothing of it was imported."""
    FAULT = 6
    """A fault of turnledger itself."""
    INTERRUPTED = 130
    """Ctrl-C."""


class Damaged(Exception):
    """A file that can't be imported; its text has one line for each damage."""


class NotInstalled(Exception):
    """A package that a command needs is not there; its text says how to get it."""


class ModelSilent(Exception):
    """The model that the demonstration was told to use does not answer."""


_EXITS: tuple[tuple[type[BaseException], Exit], ...] = (
    (Damaged, Exit.DAMAGED),
    (NotInstalled, Exit.USAGE),
    (ModelSilent, Exit.UNREACHABLE),
    (BadRequest, Exit.USAGE),
    (Unavailable, Exit.UNREACHABLE),
    (PersistenceError, Exit.UNREACHABLE),
    (WindowMismatch, Exit.DOES_NOT_HOLD),
    (MessageMismatch, Exit.DOES_NOT_HOLD),
    (ServiceFault, Exit.FAULT),
    (TurnledgerError, Exit.REFUSED),
)
REPORTED = tuple(kind for kind, _ in _EXITS)
"""The errors that people can mend: said in one line, without a traceback."""


def exit_of(error: BaseException) -> Exit:
    """The exit code of an error of :data:`REPORTED`."""
    return next(code for kind, code in _EXITS if isinstance(error, kind))


def hint_of(error: BaseException) -> str:
    """What to do about an error, where that is not in its text; empty where it is."""
    if isinstance(error, TurnledgerError):
        return _HINTS.get(error.reason) or _HINTS.get(type(error).__name__, "")
    return ""


_HINTS = {
    "ServiceUnreachable": "start a service with `turnledger serve`, name another with --server, "
    "or open a store with --store",
    "DeadlinePassed": "wait longer with --timeout",
    "RUN_NOT_FOUND": "`turnledger runs` lists what is there",
    "MESSAGE_NOT_FOUND": "`turnledger show RUN` shows the numbers of its messages; an id is RUN/NUMBER",
    "ITERATION_OUT_OF_RANGE": "`turnledger show RUN` lists its iterations",
    "RUN_EXISTS": "choose another id with --run",
    "POLICY_INVALID": "`turnledger policies` lists strategies and options",
    "VERSION_CONFLICT": "somebody else wrote to the run; choose another id with --run",
    "WindowMismatch": "bytes were changed in the store: compare it with a backup",
    "MessageMismatch": "bytes were changed in the store: compare it with a backup",
}
