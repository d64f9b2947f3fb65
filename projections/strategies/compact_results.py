"""``compact-results``: rewrites older tool results in place to the one line that keeps their signal (8.6)."""

from __future__ import annotations

import re2

from turnledger.domain.errors import PolicyInvalid, shown
from turnledger.domain.policies import CompactResults
from turnledger.domain.words import NotEngaged, RefusalReason
from turnledger.projections.strategies.base import Decision, Rewrite, View

SIGNAL_CHARACTERS_MAX = 200
HEAD_CHARACTERS_MAX = 80
DEFAULT_SIGNAL = r"(?i)error|fail|exception|traceback|fatal|panic|denied|not found"
"""A line that speaks of an error or failure."""


class CompactResultsStrategy:
    """Acts in every pass on results that are old enough and were read."""

    def __init__(self, policy: CompactResults) -> None:
        self._keep_raw = policy.keep_raw
        try:
            self._signal = re2.compile(policy.signal or DEFAULT_SIGNAL, _options())
        except re2.error as error:
            said = str(error.args[0], "utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
            raise PolicyInvalid("policy.signal", f"must be an RE2 pattern: {said}", shown(policy.signal)) from error

    def decide(self, view: View) -> Decision:
        """Rewrites every result that neither the keep depth nor a rule keeps raw."""
        rewrites: list[Rewrite] = []
        stays: list[tuple[int, RefusalReason]] = []
        newest = 0
        for results in view.results():
            # A message is treated as a whole: one recent result in it keeps all of it.
            if newest < self._keep_raw:
                stays.append((results.version, RefusalReason.INSIDE_KEEP_RAW))
            elif results.refusal is not None:
                stays.append((results.version, results.refusal))
            else:
                where = view.message_id(results.version)
                texts = tuple(self.line(text, where) for text in view.result_texts(results.version))
                rewrites.append(Rewrite(results.version, texts))
            newest += results.count
        reason = None if rewrites else NotEngaged.NOTHING_TO_REWRITE
        return Decision(reason, operations=tuple(rewrites), stays=tuple(stays))

    def line(self, text: str, message_id: str) -> str:
        """The line that stands for a result: how much was left out, where it is kept, and the signal."""
        lines = _lines(text)
        for line in lines:
            if found := self._signal.search(_searchable(line)):
                whole, kept = line.strip(), _around(line, *found.span())
                break
        else:
            whole = text.strip()
            kept = whole[:HEAD_CHARACTERS_MAX]
        left_out = len(lines) - len(_lines(kept))
        said = f"{left_out} {'line' if left_out == 1 else 'lines'}"
        if len(kept) < len(whole) and len(_lines(whole)) <= len(_lines(kept)):
            # Some of what is kept of a line is all that the model sees of it, and it must not take it for the whole.
            said = f"{said} and part of this one" if left_out else "part of this line"
        return f"[{said} left out, kept as {message_id}] {kept}"


def _options() -> re2.Options:
    options = re2.Options()
    # The engine would write a bad pattern to standard error as well.
    options.log_errors = False
    return options


def _around(line: str, start: int, end: int) -> str:
    """As much of a line as is kept, from its beginning if that holds the match."""
    indent = len(line) - len(line.lstrip())
    whole, end = line.strip(), end - indent
    if end <= SIGNAL_CHARACTERS_MAX:
        return whole[:SIGNAL_CHARACTERS_MAX]
    first = max(0, min(start - indent, end - SIGNAL_CHARACTERS_MAX))
    return whole[first : first + SIGNAL_CHARACTERS_MAX]


def _lines(text: str) -> list[str]:
    """The lines of a text; what ends one is not part of it, and ends no empty one behind the last."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def _searchable(line: str) -> str:
    # The engine takes UTF-8; what has no form in it can't be part of a pattern either.
    return line.encode("utf-8", "replace").decode("utf-8")
