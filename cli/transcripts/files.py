"""The shapes of files, and who reads them."""

from __future__ import annotations

from enum import StrEnum

from turnledger.cli.transcripts.base import Transcript
from turnledger.cli.transcripts.neutral import read_lines
from turnledger.cli.transcripts.provider import read_request


class FileFormat(StrEnum):
    """The shapes of files that can be imported."""

    OPENAI_CHAT = "openai.chat"
    ANTHROPIC_MESSAGES = "anthropic.messages"
    NEUTRAL = "neutral"


def read_transcript(data: bytes, format: FileFormat) -> Transcript:
    """The transcript of a file. Raises :class:`Unreadable`."""
    return read_lines(data) if format is FileFormat.NEUTRAL else read_request(data, format.value)
