"""JSON as bytes: read strictly, written so that any content survives.

Content is whatever JSON can carry: lone surrogates, NUL, numbers of any length. It is never normalised;
what is stored is the bytes that were given.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def parse(data: bytes) -> Any:
    """The value of JSON bytes in UTF-8. Raises ValueError, whatever is wrong with them."""
    try:
        # Lone surrogates written raw are no UTF-8, but they are what some systems send.
        text = data.decode("utf-8", "surrogatepass")
        try:
            return json.loads(text, parse_constant=_no_constant)
        except ValueError as error:
            if isinstance(error, json.JSONDecodeError) or "digits" not in str(error):
                raise
            # Python refuses to convert integers of thousands of digits; no rule needs their value.
            return json.loads(text, parse_constant=_no_constant, parse_int=str)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def dump(value: object) -> bytes:
    """Compact JSON bytes of a value, deterministic for a given order of keys.

    Text stays readable UTF-8; where it holds a lone surrogate everything is escaped instead.
    Raises ValueError for NaN and infinities, TypeError for what JSON has no form for.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


def canonical(value: object) -> bytes:
    """As :func:`dump`, with keys in order: equal values give equal bytes."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"), sort_keys=True).encode("ascii")


def text_bytes(text: str) -> bytes:
    """Text taken from content, as bytes that can hold lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def bytes_text(data: bytes) -> str:
    """The text of :func:`text_bytes`."""
    return data.decode("utf-8", "surrogatepass")
