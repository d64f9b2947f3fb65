"""Any JSON, and the many ways in which the same value is written as bytes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

TEXTS = st.text(st.characters(exclude_categories=()), max_size=40)
"""Any code points: NUL, lone surrogates and those outside the BMP among them."""

_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=0, max_value=3).map(lambda n: 10 ** (1000 * n)),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXTS,
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=12
)
"""Any value that JSON has a form for."""


def _written(value: Any, ascii_only: bool, indent: int | None, before: str) -> bytes:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    return (before + text + before).encode("utf-8", "surrogatepass")


def bodies(values: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    """The values as JSON bytes: escaped or not, compact or indented, with white space around them."""
    indents = st.sampled_from([None, 0, 2])
    return st.builds(_written, values, st.booleans(), indents, st.sampled_from(["", " ", "\r\n\t"]))
