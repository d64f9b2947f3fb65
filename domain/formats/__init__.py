"""Formats: how a provider writes messages.

A format is one module with one object that fulfils :class:`Format`. It reads from a body the facts that
the rules need and writes the few authored shapes that they call for. It never converts a message: what
is sent is what was given. To add one, write the module, register it in :data:`FORMATS`, and add its
fixtures to ``tests/formats``.
"""

from __future__ import annotations

from turnledger.domain.errors import FieldInvalid, shown
from turnledger.domain.formats.anthropic_messages import AnthropicMessages
from turnledger.domain.formats.base import Format, NotOfFormat, Profile, ReadCall, Reading, ReadResult
from turnledger.domain.formats.openai_chat import OpenAIChat

FORMATS: dict[str, Format] = {f.name: f for f in (OpenAIChat(), AnthropicMessages())}
"""Every format by the name that runs are opened with."""

__all__ = ["FORMATS", "Format", "NotOfFormat", "Profile", "ReadCall", "ReadResult", "Reading", "format_named"]


def format_named(name: str) -> Format:
    """The format, or :class:`FieldInvalid`."""
    try:
        return FORMATS[name]
    except KeyError:
        raise FieldInvalid("format", f"must be one of {', '.join(sorted(FORMATS))}", shown(name)) from None
