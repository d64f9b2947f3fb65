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
            self._signal = re2.compile(policy.signal or DEFAULT_SIGNAL)
        except re2.error as error:
            raise PolicyInvalid("policy.signal", f"must be an RE2 pattern: {error}", shown(policy.signal)) from error

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
        signal = next((line for line in lines if self._signal.search(_searchable(line))), None)
        if signal is None:
            kept = text[:HEAD_CHARACTERS_MAX]
            left_out = len(lines) - len(_lines(kept))
        else:
            kept = signal.strip()[:SIGNAL_CHARACTERS_MAX]
            left_out = len(lines) - 1
        return f"[{left_out} {'line' if left_out == 1 else 'lines'} left out, kept as {message_id}] {kept}"


def _lines(text: str) -> list[str]:
    """The lines of a text; what ends one is not part of it, and ends no empty one behind the last."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def _searchable(line: str) -> str:
    # The engine takes UTF-8; what has no form in it can't be part of a pattern either.
    return line.encode("utf-8", "replace").decode("utf-8")
