"""The elements of a JSON document as they are written, and where: what is kept of a transcript is its own bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


class NotJson(ValueError):
    """What is wrong, and at which character of the text."""

    def __init__(self, rule: str, at: int) -> None:
        super().__init__(rule)
        self.at = at


@dataclass(frozen=True, slots=True)
class Slice:
    """A JSON value as it is written."""

    text: str
    at: int
    """Index of its first character."""

    @property
    def opens_with(self) -> str:
        """``[`` of a list, ``{`` of an object."""
        return self.text[:1]


def document(text: str) -> Slice:
    """The one value of a text. Raises :class:`NotJson`."""
    value, at = _value(text, _skip(text, 0))
    if at < len(text):
        raise NotJson("something follows the document", at)
    return value


def elements(array: Slice) -> Iterator[Slice]:
    """The elements of an array that :func:`document` has read."""
    at = _skip(array.text, 1)
    while array.text[at] != "]":
        element, at = _value(array.text, at)
        yield Slice(element.text, array.at + element.at)
        at = _skip(array.text, at + 1) if array.text[at] == "," else at


def members(object: Slice) -> Iterator[tuple[str, Slice]]:
    """The members of an object that :func:`document` has read."""
    at = _skip(object.text, 1)
    while object.text[at] != "}":
        name, at = _value(object.text, at)
        member, at = _value(object.text, _skip(object.text, at + 1))
        yield json.loads(name.text), Slice(member.text, object.at + member.at)
        at = _skip(object.text, at + 1) if object.text[at] == "," else at


def _value(text: str, at: int) -> tuple[Slice, int]:
    """The value at an index, and the index of what follows it."""
    try:
        _, end = _DECODER.raw_decode(text, at)
    except RecursionError as error:
        raise NotJson("nested too deeply", at) from error
    except json.JSONDecodeError as error:
        raise NotJson(error.msg, error.pos) from error
    except ValueError as error:  # An integer of thousands of digits.
        raise NotJson(str(error), at) from error
    return Slice(text[at:end], at), _skip(text, end)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()
