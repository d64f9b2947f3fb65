"""What a benchmark reports: what was measured, against what, and which aims were met."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median, quantiles
from typing import Any

Say = Callable[[str], None]
"""Tells whoever waits what is being done."""


@dataclass(frozen=True, slots=True)
class Aim:
    """An upper bound that a figure shall keep."""

    name: str
    measured: float
    aim: float

    @property
    def met(self) -> bool:
        """Whether it is kept."""
        return self.measured <= self.aim

    @property
    def document(self) -> dict[str, Any]:
        """The aim as JSON has it."""
        return {**asdict(self), "met": self.met}


@dataclass(frozen=True, slots=True)
class Report:
    """One benchmark, run once."""

    name: str
    measured: str
    """What was measured, in a sentence."""
    against: str
    """What it is compared with."""
    figures: dict[str, Any]
    aims: Sequence[Aim] = field(default_factory=tuple)

    @property
    def document(self) -> dict[str, Any]:
        """The report as JSON has it."""
        fields = {name: getattr(self, name) for name in ("name", "measured", "against", "figures")}
        return fields | {"aims": [aim.document for aim in self.aims]}


def milliseconds(seconds: Sequence[float]) -> dict[str, float]:
    """Times as what is told of them, in milliseconds."""
    return {
        "count": len(seconds),
        "median_ms": round(median(seconds) * 1000, 3),
        "p95_ms": round(quantiles(seconds, n=20)[-1] * 1000, 3),
    }


def ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """The first median over the second."""
    return round(median(above) / median(below), 3)
