"""What goes with the messages of a request: system prompt, tools, model, parameters."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from turnledger.domain.digests import lp
from turnledger.domain.errors import BodyNotJson, FieldInvalid, shown
from turnledger.domain.jsonbytes import parse

ENVELOPE_BYTES_MAX = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Envelope:
    """The exact bytes of each part; None where a part is absent."""

    system: bytes | None = None
    tools: bytes | None = None
    model: bytes | None = None
    parameters: bytes | None = None

    def encode(self) -> bytes:
        """The content that is stored and committed to: for each part one byte 0 (absent), or 1 and
        ``lp(part)``."""
        return b"".join(b"\x00" if part is None else b"\x01" + lp(part) for part in astuple(self))

    @classmethod
    def decode(cls, content: bytes) -> Envelope:
        """The envelope whose :meth:`encode` this is."""
        parts: list[bytes | None] = []
        at = 0
        while at < len(content):
            if content[at] == 0:
                parts.append(None)
                at += 1
                continue
            size = int.from_bytes(content[at + 1 : at + 5], "big")
            parts.append(content[at + 5 : at + 5 + size])
            at += 5 + size
        return cls(*parts)

    def checked(self) -> Envelope:
        """The envelope itself, or :class:`BodyNotJson` or :class:`FieldInvalid` naming the part."""
        if self.system is not None:
            _json(self.system, "envelope.system")
        if self.tools is not None and not isinstance(_json(self.tools, "envelope.tools"), list):
            raise FieldInvalid(
                "envelope.tools", "must be a JSON array", shown(self.tools[:100].decode("utf-8", "replace"))
            )
        if self.parameters is not None and not isinstance(_json(self.parameters, "envelope.parameters"), dict):
            value = shown(self.parameters[:100].decode("utf-8", "replace"))
            raise FieldInvalid("envelope.parameters", "must be a JSON object", value)
        if self.model is not None:
            try:
                self.model.decode("utf-8")
            except UnicodeDecodeError as error:
                raise FieldInvalid("envelope.model", "must be UTF-8", shown(repr(self.model))) from error
        return self

    @property
    def has_tools(self) -> bool:
        """True where at least one tool is declared."""
        return self.tools is not None and bool(parse(self.tools))

    @property
    def texts(self) -> list[str]:
        """The parts that a model reads, as text to be counted."""
        return [part.decode("utf-8", "surrogatepass") for part in (self.system, self.tools) if part is not None]


def _json(part: bytes, field: str) -> object:
    try:
        return parse(part)
    except ValueError as error:
        raise BodyNotJson(field, "must be JSON", shown(str(error))) from error
