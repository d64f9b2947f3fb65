"""What an opening must be, and whether a run was opened with the same content before."""

from __future__ import annotations

from collections.abc import Mapping

from turnledger.domain import events as e
from turnledger.domain.errors import FieldInvalid, LimitExceeded, PolicyInvalid, RunExists, shown
from turnledger.domain.formats import format_named
from turnledger.domain.policies import Policy, TokenBudget, parse_policy
from turnledger.domain.run import Run
from turnledger.ledger import commands as c
from turnledger.ledger.parsing import check_envelope, check_limits, check_text
from turnledger.ledger.tokenizers import check_tokenizer
from turnledger.projections.strategies import strategy_of

LABELS_MAX = 32
LABEL_KEY_BYTES_MAX = 64
LABEL_VALUE_BYTES_MAX = 256
STEP_BASE_BYTES_MAX = 128


def check_opening(command: c.OpenRun) -> Policy:
    """The policy of an opening, once everything about it that needs no ledger was checked."""
    format_named(command.format)
    policy = parse_policy(command.policy)
    strategy_of(policy)
    if command.tokenizer:
        check_tokenizer(command.tokenizer)
    elif isinstance(policy, TokenBudget) and policy.measure == "tokenizer":
        raise PolicyInvalid("policy.measure", "tokenizer needs a run with a tokenizer", "no tokenizer")
    if command.context_limit_tokens is not None and command.context_limit_tokens < 1:
        raise FieldInvalid("context_limit_tokens", "must be at least 1", str(command.context_limit_tokens))
    _check_labels(command.labels)
    check_text(command.step_base, "step_base", STEP_BASE_BYTES_MAX)
    if command.envelope is not None:
        check_envelope(command.envelope)
    check_limits(command.messages)
    return policy


def message_versions(opening: e.RunOpened) -> tuple[int, ...]:
    """The versions of the messages that came with an opening."""
    first = 3 if opening.envelope else 2
    return tuple(range(first, first + opening.messages))


def check_same_opening(run: Run, command: c.OpenRun, policy: Policy, bodies: Mapping[int, e.Body]) -> None:
    """Raises :class:`RunExists` naming the first field in which an opening differs from that of the run.

    ``bodies`` are the contents that came with it; one that was destroyed can't differ.
    """
    opening = run.opening
    given = {
        "format": command.format,
        "policy": policy.model_dump(),
        "tokenizer": command.tokenizer or None,
        "labels": dict(command.labels),
        "step_base": command.step_base or command.run_id,
        "context_limit_tokens": command.context_limit_tokens,
        "imported": command.imported,
        "envelope": command.envelope is not None,
        "messages": len(command.messages),
    }
    for name, value in given.items():
        if getattr(opening, name) != value:
            raise RunExists(run.id, name)
    if command.envelope is not None and 2 in bodies and bodies[2].content != command.envelope.encode():
        raise RunExists(run.id, "envelope")
    for version, message in zip(message_versions(opening), command.messages, strict=True):
        if version in bodies and bodies[version].content != message.body:
            raise RunExists(run.id, "messages")


def _check_labels(labels: Mapping[str, str]) -> None:
    if len(labels) > LABELS_MAX:
        raise LimitExceeded("labels", LABELS_MAX, len(labels))
    for name, value in labels.items():
        if "\0" in name + value:
            raise FieldInvalid("labels", "must not hold NUL, which stores can't search", shown(name))
        if not name:
            raise FieldInvalid("labels", "keys must not be empty", shown(name))
        check_text(name, "labels", LABEL_KEY_BYTES_MAX)
        check_text(value, f"labels.{shown(name)}", LABEL_VALUE_BYTES_MAX)
