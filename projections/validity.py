"""Whether a provider accepts a window (WINDOW-RULES 10). Names the rule and the message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from turnledger.domain.formats import Profile
from turnledger.domain.records import Fault
from turnledger.domain.words import Role
from turnledger.projections.entries import Entry

OPENS_WITH_USER = "opens-with-user"
EMPTY_CONTENT = "empty-content"
CALL_UNANSWERED = "call-unanswered"
RESULT_WITHOUT_CALL = "result-without-call"
RESULTS_FIRST = "results-first"
TOOLS_DECLARED = "tools-declared"


def faults(entries: list[Entry], profile: Profile, tools_declared: bool | None) -> list[Fault]:
    """Every rule of the profile that the window breaks, in the order of its messages.

    ``tools_declared`` is None where no envelope is known, and then nothing is said of tools.
    """
    found = list(_shape(entries, profile, tools_declared))
    found += _Pairing(profile).check(entries)
    return sorted(found, key=lambda fault: fault.version)


def _shape(entries: list[Entry], profile: Profile, tools_declared: bool | None) -> Iterator[Fault]:
    if entries and profile.opens_with_user and entries[0].role not in (Role.USER, Role.TOOL):
        yield Fault(OPENS_WITH_USER, entries[0].version, f"the first message is of role {entries[0].role}")
    for entry in entries:
        message = entry.message
        if message is None:
            continue
        if message.is_empty:
            yield Fault(EMPTY_CONTENT, entry.version, "the message holds nothing")
        if profile.wants_tools_declared and tools_declared is False and (message.calls or message.results):
            yield Fault(TOOLS_DECLARED, entry.version, "tool parts, but no tools in the envelope")


class _Pairing:
    """Every result directly after its call, every call answered."""

    def __init__(self, profile: Profile) -> None:
        self._joins = profile.joins_neighbors
        self._unanswered: dict[tuple[int, int], int] = {}
        """The message of each call that waits for its result, by its place."""
        self._after_other = False
        self._last_role: Role | None = None

    def check(self, entries: Iterable[Entry]) -> Iterator[Fault]:
        for entry in entries:
            if entry.role is Role.MODEL:
                yield from self._model(entry)
            elif entry.role is Role.TOOL:
                yield from self._tool(entry)
            else:
                # Where neighbors are joined, results may still follow on the same side.
                if not self._joins:
                    yield from self._close()
                self._after_other = True
            self._last_role = entry.role
        yield from self._close()

    def _model(self, entry: Entry) -> Iterator[Fault]:
        if not (self._joins and self._last_role is Role.MODEL):
            yield from self._close()
        self._after_other = False
        for index in range(len(entry.message.calls) if entry.message else 0):
            self._unanswered[entry.version, index] = entry.version

    def _tool(self, entry: Entry) -> Iterator[Fault]:
        if self._joins and self._after_other:
            yield Fault(RESULTS_FIRST, entry.version, "results must come before other content of the user's side")
        for key in _answers(entry):
            if self._unanswered.pop(key, None) is None:
                yield Fault(RESULT_WITHOUT_CALL, entry.version, "the result is not directly after its call")
        if entry.message and entry.message.mixes_content:
            self._after_other = True

    def _close(self) -> Iterator[Fault]:
        for version in self._unanswered.values():
            yield Fault(CALL_UNANSWERED, version, "a call is not answered directly after its message")
        self._unanswered.clear()


def _answers(entry: Entry) -> list[tuple[int, int]]:
    if entry.closes is not None:
        return [entry.closes]
    results = entry.message.results if entry.message else ()
    return [(result.call_version, result.call_index) for result in results]
