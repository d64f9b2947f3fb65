"""Bodies, envelopes and usage reports as they come in: limits, JSON, format, and the facts in them.

Tokens are counted here, before any lock is taken.
"""

from __future__ import annotations

from typing import Any

from turnledger.domain.envelopes import ENVELOPE_BYTES_MAX, Envelope
from turnledger.domain.errors import BodyNotJson, BodyNotOfFormat, FieldInvalid, LimitExceeded, shown
from turnledger.domain.formats import Format, NotOfFormat, Reading
from turnledger.domain.jsonbytes import parse
from turnledger.domain.messages import (
    APPEND_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    MESSAGES_PER_APPEND_MAX,
    REPLY_ID_BYTES_MAX,
    STAGE_ID_BYTES_MAX,
)
from turnledger.domain.run import NewMessage
from turnledger.domain.usage import USAGE_RAW_BYTES_MAX, Usage, token_count
from turnledger.domain.words import Role
from turnledger.ledger.commands import MessageInput, UsageInput
from turnledger.ledger.tokenizers import Tokenizer


def check_limits(messages: tuple[MessageInput, ...]) -> None:
    """Raises :class:`LimitExceeded` for too many messages or too large ones."""
    if len(messages) > MESSAGES_PER_APPEND_MAX:
        raise LimitExceeded("messages", MESSAGES_PER_APPEND_MAX, len(messages))
    for index, message in enumerate(messages):
        _check_size(message.body, f"messages[{index}].body", MESSAGE_BYTES_MAX)
        check_text(message.reply_id or "", f"messages[{index}].reply_id", REPLY_ID_BYTES_MAX)
        check_text(message.stage_id or "", f"messages[{index}].stage_id", STAGE_ID_BYTES_MAX)
        if message.usage:
            check_usage_limit(message.usage, f"messages[{index}].usage.raw")
    total = sum(len(message.body) for message in messages)
    if total > APPEND_BYTES_MAX:
        raise LimitExceeded("messages", APPEND_BYTES_MAX, total)


def check_usage_limit(usage: UsageInput, field: str) -> None:
    """Raises :class:`LimitExceeded` for a report that is too large."""
    _check_size(usage.raw or b"", field, USAGE_RAW_BYTES_MAX)


def check_envelope(envelope: Envelope) -> Envelope:
    """The envelope itself. Raises :class:`LimitExceeded`, :class:`BodyNotJson`, :class:`FieldInvalid`."""
    _check_size(envelope.encode(), "envelope", ENVELOPE_BYTES_MAX)
    return envelope.checked()


def check_text(text: str, field: str, limit: int) -> bytes:
    """The text in UTF-8. Raises :class:`FieldInvalid` for a lone surrogate, :class:`LimitExceeded`."""
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise FieldInvalid(field, "must be Unicode text", shown(text)) from error
    _check_size(data, field, limit)
    return data


def _check_size(data: bytes, field: str, limit: int) -> None:
    if len(data) > limit:
        raise LimitExceeded(field, limit, len(data))


def read_messages(messages: tuple[MessageInput, ...], format: Format, tokenizer: Tokenizer | None) -> list[NewMessage]:
    """The messages with their facts. Raises :class:`BodyNotJson`, :class:`BodyNotOfFormat`, :class:`FieldInvalid`."""
    return [_read_message(m, f"messages[{i}]", format, tokenizer) for i, m in enumerate(messages)]


def _read_message(message: MessageInput, field: str, format: Format, tokenizer: Tokenizer | None) -> NewMessage:
    reading = _read_body(message.body, f"{field}.body", format)
    if reading.role is not Role.MODEL:
        claims = {"reply_id": message.reply_id, "answers_iteration": message.answers_iteration, "usage": message.usage}
        for name, value in claims.items():
            if value is not None:
                raise FieldInvalid(f"{field}.{name}", "only for a model's message", f"role {reading.role}")
    return NewMessage(
        body=message.body,
        reading=reading,
        source=message.source,
        request=message.request,
        reply_id=message.reply_id,
        stage_id=message.stage_id,
        answers_iteration=message.answers_iteration,
        usage=read_usage(message.usage, f"{field}.usage", format) if message.usage else None,
        usage_raw=message.usage.raw if message.usage else None,
        tokens=tokenizer.count(reading.texts) if tokenizer else None,
    )


def _read_body(body: bytes, field: str, format: Format) -> Reading:
    try:
        return format.read(_parse(body, field))
    except NotOfFormat as error:
        where = f"{field}.{error.where}" if error.where else field
        raise BodyNotOfFormat(where, error.rule, shown(error.value), format.name) from error


def _parse(data: bytes, field: str) -> Any:
    try:
        return parse(data)
    except ValueError as error:
        raise BodyNotJson(field, "must be JSON", shown(str(error))) from error


def read_usage(usage: UsageInput, field: str, format: Format) -> Usage:
    """The report, normalised by the rules of the format; given numbers take precedence."""
    reported = Usage()
    if usage.raw is not None:
        report = _parse(usage.raw, f"{field}.raw")
        if not isinstance(report, dict):
            raise FieldInvalid(f"{field}.raw", "must be a JSON object", shown(report))
        reported = format.read_usage(report, field)
    given_input = token_count(usage.input_tokens, f"{field}.input_tokens")
    given_output = token_count(usage.output_tokens, f"{field}.output_tokens")
    return Usage(
        reported.input_tokens if given_input is None else given_input,
        reported.output_tokens if given_output is None else given_output,
    )
