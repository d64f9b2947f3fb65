"""Policies: which strategy builds a run's windows, and its options. Data, validated when a run is opened.

A policy is fixed for the run (WINDOW-RULES 8.1). Required options have no default: how much past an agent
needs is a fact about the agent (8.2).
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from turnledger.domain.errors import PolicyInvalid, shown
from turnledger.domain.jsonbytes import canonical, parse

WHOLE_NUMBER_MAX = 2**53
"""What every reader of JSON takes for the same number."""
Turns = Annotated[int, Field(ge=1, le=WHOLE_NUMBER_MAX, strict=True)]
Tokens = Annotated[int, Field(ge=1, le=WHOLE_NUMBER_MAX, strict=True)]
Count = Annotated[int, Field(ge=0, le=WHOLE_NUMBER_MAX, strict=True)]


class Policy(BaseModel):
    """What all policies share."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    own_fields: ClassVar[frozenset[str]] = frozenset(("strategy", "version", "keep_last_tool_results", "pin_by"))
    """What is not an option of the strategy itself."""

    strategy: str
    version: Literal[1] = 1
    """Version of the strategy; a run keeps the one it was opened with (8.3)."""
    keep_last_tool_results: Count | Literal[False] = 2
    """How many latest tool results outside the recent turns may not leave; 0 or false: none (3.1)."""
    pin_by: Literal["tool", "tool-and-arguments"] = "tool"
    """What makes two results the same thing (3.5)."""

    @property
    def pin_limit(self) -> int:
        """``keep_last_tool_results`` as a number."""
        return int(self.keep_last_tool_results)

    @property
    def options(self) -> dict[str, Any]:
        """The strategy's own options, defaults filled in."""
        return {k: v for k, v in self.model_dump(mode="json").items() if k not in self.own_fields}

    @cached_property
    def options_digest(self) -> bytes:
        """SHA-256 of the whole policy in canonical form."""
        return hashlib.sha256(canonical(self.model_dump(mode="json"))).digest()

    @cached_property
    def treatment_id(self) -> str:
        """Names what this policy makes of a message: word, version and options."""
        options = hashlib.sha256(canonical(self.options)).hexdigest()[:16]
        return f"{self.strategy}.{self.version}.{options}"


class NonePolicy(Policy):
    """Sends every message, in order. Nothing is added and, unless ``mend``, nothing mended."""

    strategy: Literal["none"] = "none"
    mend: Annotated[bool, Field(strict=True)] = False
    """Mend what the provider would refuse: order, open calls, empty messages."""


class SlidingWindow(Policy):
    """Drops what is older than the newest turns."""

    strategy: Literal["sliding-window"] = "sliding-window"
    keep_recent_turns: Turns
    """How many of the newest turns stay."""


class TokenBudget(Policy):
    """Drops what is older than the newest turns once the measured input is over a threshold."""

    strategy: Literal["token-budget"] = "token-budget"
    threshold_tokens: Tokens
    """Acts above this many input tokens; equal is under it."""
    keep_recent_turns: Turns = 6
    """How many of the newest turns stay."""
    measure: Literal["reported", "tokenizer"] = "reported"
    """What the provider reported for the last call, or the run's tokenizer over the window."""


class CompactResults(Policy):
    """Rewrites older tool results in place to the one line that keeps their signal."""

    strategy: Literal["compact-results"] = "compact-results"
    keep_last_tool_results: Count | Literal[False] = 0
    """How many latest tool results are not rewritten; 0 or false: none (3.1)."""
    keep_raw: Count = 1
    """How many of the newest results stay as they are; what the model has not read always does."""
    signal: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    """Pattern (RE2 syntax) of the line to keep; default: a line that speaks of an error or failure."""


AnyPolicy = Annotated[NonePolicy | SlidingWindow | TokenBudget | CompactResults, Field(discriminator="strategy")]
_ADAPTER: TypeAdapter[Policy] = TypeAdapter(AnyPolicy)

POLICY_CLASSES: dict[str, type[Policy]] = {
    "none": NonePolicy,
    "sliding-window": SlidingWindow,
    "token-budget": TokenBudget,
    "compact-results": CompactResults,
}
"""Every policy by the name of its strategy."""


def parse_policy(value: Any) -> Policy:
    """A policy from its JSON text or from a mapping; empty text means ``none``.

    Raises :class:`PolicyInvalid` naming the option.
    """
    if isinstance(value, str):
        try:
            value = parse(value.encode("utf-8", "surrogatepass")) if value else {"strategy": "none"}
        except ValueError as error:
            raise PolicyInvalid("policy", f"must be a JSON object ({error})", shown(value)) from error
    if not isinstance(value, dict):
        raise PolicyInvalid("policy", "must be a JSON object", shown(value))
    strategy = value.get("strategy")
    if not isinstance(strategy, str) or strategy not in POLICY_CLASSES:
        names = ", ".join(POLICY_CLASSES)
        raise PolicyInvalid("policy.strategy", f"must be one of {names}", shown(strategy))
    try:
        return _ADAPTER.validate_python(value)
    except ValidationError as error:
        raise _policy_invalid(error) from error


def _policy_invalid(error: ValidationError) -> PolicyInvalid:
    # An option that is unknown is said first: it may be the one that seems to be missing, misspelt.
    first = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
    # The location starts with the tag of the union; a part of it may name a branch of a field's type.
    names = [str(part) for part in first["loc"][1:2]]
    rule = "is required" if first["type"] == "missing" else first["msg"]
    value = "absent" if first["type"] == "missing" else shown(first["input"])
    return PolicyInvalid(".".join(["policy", *names]), rule, value)
