"""Messages, ranges and sizes for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from rich.text import Text

from turnledger.cli.output import printable
from turnledger.client import Item
from turnledger.client.models import MessageRange, Refusal

_ROLE_STYLES = {"user": "bold green", "assistant": "bold blue", "model": "bold blue", "tool": "bold yellow"}


def number(message_id: str) -> str:
    """A message's number in its run; the run is in the heading."""
    return message_id.rpartition("/")[2]


def span(first_id: str, last_id: str) -> str:
    """Neighbouring messages, by number."""
    return number(first_id) if first_id == last_id else f"{number(first_id)}-{number(last_id)}"


def spans(ranges: Iterable[MessageRange]) -> str:
    """Messages, by number."""
    return ", ".join(span(r.first_id, r.last_id) for r in ranges)


def refusals(refused: Iterable[Refusal], *, besides: str = "") -> str:
    """What stays, by reason; without one that says nothing new."""
    by_reason: dict[str, list[str]] = {}
    for row in refused:
        if row.reason == besides:
            continue
        by_reason.setdefault(row.reason, []).append(span(row.first_id, row.last_id))
    return "; ".join(f"{reason} {', '.join(found)}" for reason, found in by_reason.items())


def counted(words: Sequence[str]) -> str:
    """Words with how often each stands there in a row: ``model, 2 tool``."""
    rows = [(word, len(list(group))) for word, group in groupby(words)]
    return ", ".join(word if count == 1 else f"{count} {word}" for word, count in rows)


def item_text(item: Item, lines_max: int) -> Text:
    """An item of a window: what it is, and what a model reads of it."""
    message = item.message
    head = Text.assemble(
        (str(message.get("role", "?")), _ROLE_STYLES.get(str(message.get("role")), "bold")),
        (f"  {number(item.id)}" if item.kind in ("message", "treated") else f"  {item.id}", "dim"),
        ("" if item.kind == "message" else f"  {item.kind}", "magenta"),
    )
    return head.append("\n").append_text(_indented("\n".join(message_lines(message)), lines_max))


def _indented(text: str, lines_max: int) -> Text:
    lines = printable(text).split("\n")
    left_out = len(lines) - lines_max if lines_max else 0
    if left_out > 0:
        lines = [*lines[:lines_max], f"({left_out} more {'line' if left_out == 1 else 'lines'}: --lines 0 shows all)"]
    return Text("\n".join(f"  {line}" for line in lines))


def message_lines(message: dict[str, Any]) -> list[str]:
    """The texts, calls and results of a provider's message; of what is none of these, its kind."""
    lines = _content_lines(message.get("content"))
    for call in message.get("tool_calls") or ():
        function = call.get("function") or call.get("custom") or {}
        lines.append(f"→ {function.get('name')}({function.get('arguments', function.get('input', ''))})")
    return lines


def _content_lines(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [line for block in content or () for line in _block_lines(block)]


def _block_lines(block: dict[str, Any]) -> list[str]:
    match block.get("type"):
        case "text":
            return [str(block.get("text", ""))]
        case "thinking":
            return [f"({block.get('thinking', '')})"]
        case "tool_use":
            return [f"→ {block.get('name')}({json.dumps(block.get('input'), ensure_ascii=False)})"]
        case "tool_result":
            mark = "error " if block.get("is_error") else ""
            return [f"← {mark}" + "\n".join(_content_lines(block.get("content")))]
        case kind:
            return [f"[{kind}]"]
