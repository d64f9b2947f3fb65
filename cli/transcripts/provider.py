"""Transcripts in a provider's own shape: a JSON list of messages, or a request body that holds one."""

from __future__ import annotations

from turnledger.cli.transcripts.base import Damage, Line, Transcript, Unreadable, text_of
from turnledger.cli.transcripts.slices import NotJson, Slice, document, elements, members
from turnledger.client import Envelope, Message
from turnledger.domain.jsonbytes import dump, parse

_OF_THE_ENVELOPE = ("system", "tools", "model")


def read_request(data: bytes, format: str) -> Transcript:
    """The messages of a request body or list, byte for byte; what else the body holds is the envelope.

    Raises :class:`Unreadable`.
    """
    text = text_of(data)
    try:
        whole = document(text)
    except NotJson as error:
        raise Unreadable(Damage(_line(text, error.at), f"no JSON: {error}")) from error
    if whole.opens_with == "[":
        return Transcript(format, _lines(text, whole))
    parts = dict(members(whole)) if whole.opens_with == "{" else {}
    messages = parts.pop("messages", None)
    if messages is None or messages.opens_with != "[":
        raise Unreadable(Damage(1, 'must be a JSON list of messages, or an object with a list "messages"'))
    return Transcript(format, _lines(text, messages), _envelope(parts))


def _lines(text: str, messages: Slice) -> tuple[Line, ...]:
    lines = []
    number, counted = 1, 0
    for element in elements(messages):
        number += text.count("\n", counted, element.at)
        counted = element.at
        lines.append(line_of(element.text.encode("utf-8"), number))
    return tuple(lines)


def line_of(body: bytes, number: int, usage: bytes | None = None) -> Line:
    """The line of a message; whether it is one of its format is seen later. ``usage`` is that of a reply, JSON."""
    try:
        value = parse(body)
    except ValueError:
        value = None
    is_models = isinstance(value, dict) and value.get("role") == "assistant"
    return Line(Message(body, usage=usage if is_models else None), number, is_models)


def _envelope(parts: dict[str, Slice]) -> Envelope | None:
    known = {name: parts.pop(name).text for name in _OF_THE_ENVELOPE if name in parts}
    model = parse(known["model"].encode()) if "model" in known else None
    if model is not None and not isinstance(model, str):
        raise Unreadable(Damage(1, f'"model" must be a text, but it is {known["model"]}'))
    # A later member of one name counts, as it does for the provider.
    others = ",".join(f"{dump(name).decode()}:{part.text}" for name, part in parts.items())
    if not known and not others:
        return None
    return Envelope(
        system=known["system"].encode() if "system" in known else None,
        tools=known["tools"].encode() if "tools" in known else None,
        model=model,
        parameters=f"{{{others}}}".encode() if others else None,
    )


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
