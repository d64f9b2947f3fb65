"""What an opening must be, and whether a run was opened with the same content before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from turnledger.domain import events as e
from turnledger.domain.errors import FieldInvalid, LimitExceeded, PolicyInvalid, RunExists, shown
from turnledger.domain.formats import format_named
from turnledger.domain.policies import WHOLE_NUMBER_MAX, Policy, TokenBudget, parse_policy
from turnledger.domain.run import NewMessage, Run
from turnledger.domain.words import Role
from turnledger.ledger import commands as c
from turnledger.ledger.encoding import Row
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
    limit = command.context_limit_tokens
    if limit is not None and not 1 <= limit <= WHOLE_NUMBER_MAX:
        raise FieldInvalid("context_limit_tokens", f"must be 1 to {WHOLE_NUMBER_MAX}", str(limit))
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


def check_same_opening(
    run: Run,
    command: c.OpenRun,
    policy: Policy,
    messages: Sequence[NewMessage],
    facts: Sequence[tuple[Row, e.RunEvent]],
) -> None:
    """Raises :class:`RunExists` naming the first field in which an opening differs from that of the run.

    ``facts`` are those that came with it; content that was destroyed can't differ.
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
    appended = [event for _, event in facts if isinstance(event, e.MessageAppended)]
    envelopes = [event.body for _, event in facts if isinstance(event, e.EnvelopeSet)]
    if command.envelope is not None and envelopes[0] and envelopes[0].content != command.envelope.encode():
        raise RunExists(run.id, "envelope")
    for fact, new in zip(appended, messages, strict=True):
        if not _is_same_message(fact, new):
            raise RunExists(run.id, "messages")


def _is_same_message(fact: e.MessageAppended, new: NewMessage) -> bool:
    """Whether content and claims are those that the fact was made of."""
    message = fact.message
    reply_id = (new.reply_id or new.reading.reply_id) if new.reading.role is Role.MODEL else None
    claims = (new.source or new.reading.source, new.request, new.stage_id, reply_id, new.usage, new.usage_raw)
    recorded = (message.source, message.request, message.stage_id, message.reply_id, fact.usage, fact.usage_raw)
    return claims == recorded and (fact.body is None or fact.body.content == new.body)


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
