"""JSON as bytes: what is read, what is refused, and numbers that come back as they were written."""

from __future__ import annotations

import pytest

from turnledger.domain.jsonbytes import NESTING_MAX, canonical, dump, parse, parse_exact

ODD_NUMBERS = (
    b'{"a":1.50,"b":0.30000000000000004441,"c":1e999,"d":-0,"e":-0.0,"f":1E5,"g":' + b"9" * 5000 + b',"h":[7,"1.50"]}'
)


def test_numbers_come_back_as_they_were_written() -> None:
    """Digit for digit, whatever Python would make of them, in text that needs escapes too."""
    assert dump(parse_exact(ODD_NUMBERS)) == ODD_NUMBERS
    escaped = b'{"lone":"\\ud800","n":1.50,"m":2.0}'
    assert dump(parse_exact(escaped)) == escaped


def test_numbers_that_python_cannot_hold_are_their_text() -> None:
    """They are values like others, so they can be told apart and written in canonical form; others stay numbers."""
    value = parse(ODD_NUMBERS)
    assert (value["a"], value["c"], value["g"], value["h"]) == (1.5, "1e999", "9" * 5000, [7, "1.50"])
    assert canonical(value) != canonical({**value, "c": "1e998"})


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_nesting_has_a_limit_of_its_own(opening: bytes) -> None:
    """At it and one past it, wherever it is asked from; brackets in text do not count."""
    closing = b"]" if opening == b"[" else b"}"
    parse(opening * NESTING_MAX + b"1" + closing * NESTING_MAX)
    with pytest.raises(ValueError, match="nested too deeply: more than 256 levels"):
        parse(opening * (NESTING_MAX + 1) + b"1" + closing * (NESTING_MAX + 1))
    assert parse(b'"' + b"[" * 1000 + b'\\"[' + b'"') == "[" * 1000 + '"['
    assert len(parse(b"[" + b"[]," * 1000 + b"[]]")) == 1001
