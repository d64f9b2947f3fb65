"""JSON as bytes: read strictly, written so that any content survives.

Content is whatever JSON can carry: lone surrogates, NUL, numbers of any length. It is never normalised;
what is stored is the bytes that were given.
"""

from __future__ import annotations

import json
import re
import uuid
from itertools import accumulate
from math import isfinite
from typing import Any, NoReturn

NESTING_MAX = 256
"""Deepest nesting of arrays and objects: far from where any reader of the bytes would give up, however deep it
is called itself."""
INTEGER_DIGITS_MAX = 4000
"""Longer integers are not converted, which takes time that grows with their square."""

_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKETS = re.compile(r"[^][{}]+")
_DEPTH = {"[": 1, "{": 1, "]": -1, "}": -1}


class Number:
    """A number as it was written, digit for digit."""

    def __init__(self, text: str) -> None:
        self.text = text


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def parse(data: bytes) -> Any:
    """The value of JSON bytes in UTF-8. Raises ValueError, whatever is wrong with them."""
    try:
        # Lone surrogates written raw are no UTF-8, but they are what some systems send.
        text = data.decode("utf-8", "surrogatepass")
        _check_nesting(text)
        return _DECODER.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def parse_exact(data: bytes) -> Any:
    """As :func:`parse`, with every number that Python might write otherwise as a :class:`Number`, so that
    :func:`dump` gives it back as it was."""
    text = data.decode("utf-8", "surrogatepass")
    return _EXACT_DECODER.decode(text)


def _check_nesting(text: str) -> None:
    if text.count("[") + text.count("{") <= NESTING_MAX:
        return
    brackets = _BRACKETS.sub("", _STRINGS.sub("", text))
    if max(accumulate(map(_DEPTH.__getitem__, brackets)), default=0) > NESTING_MAX:
        raise ValueError(f"nested too deeply: more than {NESTING_MAX} levels")


# No rule needs the value of a number that Python can't hold; its text tells it from others.
def _integer(text: str) -> int | str:
    return int(text) if len(text) <= INTEGER_DIGITS_MAX else text


def _float(text: str) -> float | str:
    value = float(text)
    return value if isfinite(value) else text


def _exact_integer(text: str) -> int | Number:
    return Number(text) if text == "-0" or len(text) > INTEGER_DIGITS_MAX else int(text)


_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_int=_integer, parse_float=_float)
_EXACT_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_int=_exact_integer, parse_float=Number)


def dump(value: object) -> bytes:
    """Compact JSON bytes of a value, deterministic for a given order of keys.

    Text stays readable UTF-8; where it holds a lone surrogate everything is escaped instead.
    Raises ValueError for NaN and infinities, TypeError for what JSON has no form for.
    """
    try:
        return _dumped(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return _dumped(value, ensure_ascii=True).encode("ascii")


class _HoldsNumber(Exception):
    """A value holds a :class:`Number`."""


def _without_form(given: object) -> NoReturn:
    if isinstance(given, Number):
        raise _HoldsNumber
    raise TypeError(f"{type(given).__name__} has no form in JSON")


_SEPARATORS = (",", ":")
_ENCODERS = {
    ensure_ascii: json.JSONEncoder(
        ensure_ascii=ensure_ascii, allow_nan=False, separators=_SEPARATORS, default=_without_form
    )
    for ensure_ascii in (False, True)
}
_CANONICAL_ENCODER = json.JSONEncoder(allow_nan=False, separators=_SEPARATORS, sort_keys=True)


def _dumped(value: object, *, ensure_ascii: bool) -> str:
    try:
        return _ENCODERS[ensure_ascii].encode(value)
    except _HoldsNumber:
        return _dumped_exactly(value, ensure_ascii=ensure_ascii)


def _dumped_exactly(value: object, *, ensure_ascii: bool) -> str:
    numbers: list[str] = []
    # Stands for a number until the text is there; random, so that nothing in the text can be taken for it.
    stand_in = uuid.uuid4().hex

    def number(given: object) -> str:
        if not isinstance(given, Number):
            _without_form(given)
        numbers.append(given.text)
        return stand_in

    text = json.dumps(value, ensure_ascii=ensure_ascii, allow_nan=False, separators=_SEPARATORS, default=number)
    first, *others = text.split(f'"{stand_in}"')
    return first + "".join(n + other for n, other in zip(numbers, others, strict=True))


def canonical(value: object) -> bytes:
    """As :func:`dump`, with keys in order: equal values give equal bytes."""
    return _CANONICAL_ENCODER.encode(value).encode("ascii")


def text_bytes(text: str) -> bytes:
    """Text taken from content, as bytes that can hold lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def bytes_text(data: bytes) -> str:
    """The text of :func:`text_bytes`."""
    return data.decode("utf-8", "surrogatepass")
