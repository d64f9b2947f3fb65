"""Usage as providers report it, normalised (WINDOW-RULES 6.4)."""

from __future__ import annotations

from dataclasses import dataclass

from turnledger.domain.errors import FieldInvalid, shown

USAGE_RAW_BYTES_MAX = 64 * 1024
TOKENS_MAX = 10**12
"""No call has ever come near this; a larger report is absurd and refused."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call; None where the report does not say."""

    input_tokens: int | None = None
    """Cached input included, whatever the provider's own field means."""
    output_tokens: int | None = None

    @property
    def is_unmeasurable(self) -> bool:
        """A provider that reports zeros reports nothing (WINDOW-RULES 6.5)."""
        return self.input_tokens == 0 and not self.output_tokens


def token_count(value: object, field: str) -> int | None:
    """A reported number of tokens: whole and not negative, or None where absent.

    Raises :class:`FieldInvalid` naming ``field``.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= TOKENS_MAX:
        raise FieldInvalid(field, f"must be a whole number from 0 to {TOKENS_MAX}", shown(value))
    return value
