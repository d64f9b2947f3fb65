"""Any event: every class, every field with any value of its type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from turnledger.domain import compositions
from turnledger.domain.digests import SALT_BYTES, ItemKind
from turnledger.domain.events import Body, RunEvent, RunOpened, RunPaused, WindowBuilt
from turnledger.domain.ids import CallKey

Strategy = st.SearchStrategy[Any]

_LONE_SURROGATES = "\ud800 \udfff".encode("utf-8", "surrogatepass")
_NUMBERS = st.integers(0, 2**62) | st.integers(0, 9)
_PARTS = st.one_of(
    st.builds(compositions.Range, _NUMBERS, _NUMBERS),
    st.builds(compositions.TreatedRange, _NUMBERS, _NUMBERS, st.text(min_size=1)),
    st.builds(compositions.Moved, _NUMBERS, st.none() | st.text(min_size=1)),
    st.builds(compositions.Authored, st.sampled_from(ItemKind), st.binary(), _NUMBERS),
)
COMPOSITIONS: st.SearchStrategy[compositions.Composition] = st.lists(_PARTS, min_size=1).map(tuple)
"""Any composition."""
_PLAIN = st.none() | st.booleans() | _NUMBERS | st.text()
_OPTIONS = st.dictionaries(st.text(), _PLAIN | st.lists(_PLAIN) | st.dictionaries(st.text(), _PLAIN), min_size=1)

_BY_TYPE: Mapping[object, Strategy] = {
    bool: st.booleans(),
    int: _NUMBERS,
    str: st.text(),
    bytes: st.binary() | st.just(_LONE_SURROGATES),
    NoneType: st.none(),
    datetime: st.datetimes(datetime(2000, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
    Body: st.builds(Body, st.binary(min_size=SALT_BYTES, max_size=SALT_BYTES), st.binary()),
}
_BY_FIELD: Mapping[tuple[type, str], Strategy] = {
    (RunOpened, "policy"): _OPTIONS,
    (WindowBuilt, "composition"): COMPOSITIONS.map(compositions.encode).map(tuple),
    (RunPaused, "calls"): st.lists(st.builds(CallKey, _NUMBERS, _NUMBERS), min_size=1).map(tuple),
}
"""Fields whose type says less than what may be in them, and those that never hold what would be left out."""


def hints(cls: type) -> dict[str, Any]:
    """The fields of an event or of something in one, with their types."""
    if issubclass(cls, RunEvent):
        return {name: field.annotation for name, field in cls.model_fields.items()}
    resolved = get_type_hints(cls)
    return {field.name: resolved[field.name] for field in fields(cast("Any", cls))}


def any_event(cls: type[RunEvent]) -> Strategy:
    """Any event of a class."""
    return st.builds(cls, **_any_fields(cls))


def _any_fields(cls: type) -> dict[str, Strategy]:
    return {
        name: _BY_FIELD[cls, name] if (cls, name) in _BY_FIELD else any_of(hint) for name, hint in hints(cls).items()
    }


def any_of(hint: Any) -> Strategy:
    """Any value of a type."""
    if hint in _BY_TYPE:
        return _BY_TYPE[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return st.one_of(*map(any_of, arguments))
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return st.lists(any_of(arguments[0]), max_size=3).map(tuple)
        return st.tuples(*map(any_of, arguments))
    if origin is dict:
        return st.dictionaries(*map(any_of, arguments), max_size=3)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return st.builds(hint, **_any_fields(hint))
    if isinstance(hint, type) and issubclass(hint, tuple):
        return st.builds(hint, **{name: any_of(of) for name, of in get_type_hints(hint).items()})
    raise NotImplementedError(f"no values for {hint}")


def kinds_in(hint: Any) -> Iterator[Any]:
    """The types that a type is made of, itself included."""
    yield hint
    for argument in get_args(hint):
        yield from kinds_in(argument)


def nested(cls: type) -> Iterator[type]:
    """A class and every dataclass that its fields hold, at any depth; some more than once."""
    yield cls
    for hint in hints(cls).values():
        for kind in kinds_in(hint):
            if is_dataclass(kind) and isinstance(kind, type):
                yield from nested(kind)
