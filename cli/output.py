"""What the command prints: one JSON document for programs, or tables and colour for people."""

from __future__ import annotations

import sys
import threading
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Literal

import msgspec
import typer
from pydantic import BaseModel
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from turnledger.client import Record
from turnledger.domain.jsonbytes import dump, parse_exact


class Output(StrEnum):
    """For whom a command prints."""

    TEXT = "text"
    JSON = "json"


OutputOption = Annotated[
    Output, typer.Option("--output", "-o", help="For people, or one JSON document for programs (docs/cli.md).")
]


class _Output(Console):
    """A console that leaves it to the command what becomes of output that nobody reads."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


@cache
def console() -> Console:
    """Standard output, for people."""
    return _Output(highlight=False)


@cache
def notes() -> Console:
    """Standard error, for people: progress, and what went wrong."""
    return Console(stderr=True, highlight=False)


# For programs


def emit(document: Any) -> None:
    """Writes one JSON document and a line's end to standard output."""
    sys.stdout.flush()
    sys.stdout.buffer.write(msgspec.json.encode(document) + b"\n")
    sys.stdout.buffer.flush()


def verbatim(body: bytes) -> msgspec.Raw:
    """JSON that stands in a document byte for byte; only what is no Unicode text is escaped."""
    try:
        body.decode()
    except UnicodeDecodeError:
        body = dump(parse_exact(body))
    return msgspec.Raw(body)


def plain(value: Any) -> Any:
    """A model as JSON has it: bytes in hexadecimal, names of tools as text, times in ISO 8601; what is None is left
    out."""
    if isinstance(value, Record):
        return _fields(value) | {"dropped_observations": [as_text(name) for name in value.dropped_observations]}
    if isinstance(value, BaseModel):
        return _fields(value)
    if isinstance(value, Mapping):
        return {name: plain(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if isinstance(value, datetime) else value


def _fields(model: BaseModel) -> dict[str, Any]:
    return {name: plain(v) for name in type(model).model_fields if (v := getattr(model, name)) is not None}


def as_text(name: bytes) -> str:
    """The name of a tool; what is no Unicode text in it is escaped."""
    return name.decode("utf-8", "backslashreplace")


# For people

_SHOWN_AS_IS = {"\n", "\t"}
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories of what a terminal obeys or hides."""


def printable(text: str) -> str:
    """The text with everything that a terminal would obey or hide made visible: what an agent read is shown, not
    carried out."""
    if text.isprintable():
        return text
    return "".join(map(_visible, text))


@cache
def _visible(character: str) -> str:
    if character in _SHOWN_AS_IS or unicodedata.category(character) not in _HIDDEN:
        return character
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def say(text: str, style: str = "") -> None:
    """Prints text for people; the terminal breaks its lines."""
    console().print(Text(printable(text), style), soft_wrap=True)


def table(*columns: str, right: tuple[str, ...] = (), wrap: tuple[str, ...] = ()) -> Table:
    """A table whose columns have these heads: numbers to the ``right``, what may be long in columns that ``wrap``."""
    made = Table(box=None, header_style="bold", padding=(0, 2, 0, 0), pad_edge=False)
    for column in columns:
        justify: Literal["left", "right"] = "right" if column in right else "left"
        made.add_column(column, justify=justify, no_wrap=column not in wrap, overflow="fold")
    return made


def facts_table(rows: Mapping[str, str]) -> Table:
    """Names and values, one pair a line."""
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in rows.items():
        made.add_row(Text(name, "dim"), Text(printable(value)))
    return made


def cell(text: object, style: str = "") -> Text:
    """A cell of a table, with nothing in it that the terminal would obey."""
    return Text(printable(str(text)), style)


def when(moment: datetime) -> str:
    """A time for people, as it is where they are."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


PROGRESS_AFTER_SECONDS = 0.7
"""What is done sooner shows no progress."""


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Any]:
    """A bar on standard error where that is a terminal, once the work has taken a while; yields what is called after
    each unit of work. A ``total`` of None is work whose size is not known."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=notes(), transient=True, disable=not notes().is_terminal)
    task = bar.add_task(what, total=total)
    later = threading.Timer(PROGRESS_AFTER_SECONDS, bar.start)
    later.daemon = True
    later.start()
    try:
        yield lambda done=1: bar.advance(task, done)
    finally:
        later.cancel()
        later.join()
        bar.stop()
