"""The page on stored bytes is right: each of its vectors is computed anew, with nothing but hashes, and by the code."""

from __future__ import annotations

import hashlib
import hmac
import re
import sqlite3
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from turnledger.domain import compositions, digests, ids
from turnledger.domain import events as e
from turnledger.domain.compositions import Authored, Composition, Moved, Range, TreatedRange
from turnledger.domain.digests import ItemKind
from turnledger.domain.envelopes import Envelope
from turnledger.domain.events import EVENT_CLASSES, Body
from turnledger.domain.messages import Message
from turnledger.domain.policies import CompactResults, NonePolicy
from turnledger.domain.state import RunState
from turnledger.domain.words import Role, RunStatus, Source
from turnledger.ledger import commands as c
from turnledger.ledger.encoding import EventMapper, EventTranscoder, encode_state
from turnledger.ledger.requests import fingerprint
from turnledger.ledger.sqlite import SqliteRecorder

PAGE = (Path(__file__).parents[1] / "docs" / "stored-bytes.md").read_text()

Values = dict[str, bytes]


def read_values(kind: str) -> Values:
    """The page's values of a kind, ``given`` or ``computed``, by name.

    A line is ``name = hexadecimal`` or ``name : text``, in a block marked with the kind.
    """
    found: Values = {}
    for block in re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            name, sign, value = line.split(maxsplit=2)
            assert name not in found, f"{name} stands on the page twice"
            found[name] = bytes.fromhex(value) if sign == "=" else value.encode()
    return found


GIVEN, COMPUTED = read_values("given"), read_values("computed")


# From scratch: nothing but hashes


def h(*parts: bytes) -> bytes:
    """SHA-256 of the parts, one after the other."""
    return hashlib.sha256(b"".join(parts)).digest()


def lp(data: bytes) -> bytes:
    """The length, then the bytes."""
    return struct.pack(">I", len(data)) + data


def mac(salt: bytes, content: bytes) -> bytes:
    """HMAC-SHA-256."""
    return hmac.new(salt, content, hashlib.sha256).digest()


def packed(value: Any) -> bytes:
    """Small values in MessagePack."""
    if value == {}:
        return b"\x80"
    if isinstance(value, str):
        data = value.encode()
        return (bytes((0xA0 + len(data),)) if len(data) < 32 else b"\xd9" + bytes((len(data),))) + data
    if isinstance(value, bytes):
        return b"\xc4" + bytes((len(value),)) + value
    if isinstance(value, int):
        assert 0 <= value < 128
        return bytes((value,))
    assert isinstance(value, list)
    return bytes((0x90 + len(value),)) + b"".join(map(packed, value))


def by_hand(v: Values) -> Values:
    """Every computed value from the given ones, with nothing but hashes."""
    run, namespace = v["run"], v["namespace"]
    request = mac(v["request.salt"], v["request.content"])
    reply = mac(v["reply.salt"], v["reply.content"])
    treated = mac(v["treated.salt"], v["treated.content"])
    parts = [b"\x01" + lp(v[f"envelope.{name}"]) for name in ("system", "model", "parameters")]
    envelope = parts[0] + b"\x00" + parts[1] + parts[2]
    treatment = f"compact-results.1.{h(v['treatment.options']).hex()[:16]}"
    keys = [
        b"\x01" + request,
        b"\x04" + h(v["notice.content"]),
        b"\x01" + reply,
        b"\x02" + treated,
        b"\x05" + h(v["closing.content"]),
        b"\x06" + h(v["placeholder.content"]),
    ]
    items = [h(b"turnledger/items/1")]
    for key in keys:
        items.append(h(items[-1], key))
    chain = [h(b"turnledger/chain/1", lp(run), lp(b"ledger"))]
    for version in (1, 2, 3):
        topic, state = v[f"event.{version}.topic"], v[f"event.{version}.state"]
        chain.append(h(chain[-1], struct.pack(">Q", version), lp(topic), lp(state)))
    composition = [
        ["range", 2, 2],
        ["authored", 4, v["notice.content"], 0],
        ["range", 11, 11],
        ["treated", 12, 12, treatment],
        ["authored", 5, v["closing.content"], 11],
        ["authored", 6, v["placeholder.content"], 13],
        ["moved", 17],
        ["moved", 18, treatment],
    ]
    fields_of_request = {
        "call": "CloseRun",
        "run_id": "run-1",
        "expectation": {},
        "status": "finished",
        "reason": "done",
    }
    return {
        "request.commitment": request,
        "reply.commitment": reply,
        "treated.commitment": treated,
        "envelope.content": envelope,
        "envelope.commitment": mac(v["envelope.salt"], envelope),
        "chain.windows.0": h(b"turnledger/chain/1", lp(run), lp(b"windows")),
        **{f"chain.ledger.{n}": value for n, value in enumerate(chain)},
        **{f"key.{n}": value for n, value in enumerate(keys, 1)},
        **{f"i.{n}": value for n, value in enumerate(items)},
        "digest": h(b"turnledger/window/1", mac(v["envelope.salt"], envelope), items[-1]),
        "digest.no-envelope": h(b"turnledger/window/1", bytes(32), items[-1]),
        "treatment.id": treatment.encode(),
        "composition": packed(composition),
        "id.message": run + b"/2",
        "id.authored": run + b"/w3/1",
        "id.step": run + b":iter:3:context",
        "id.opened": b"run-" + h(namespace + b"/" + v["request-id"]).hex()[:32].encode(),
        **{f"field.{name}": mac(v["field.salt"], packed(value)) for name, value in fields_of_request.items()},
    }


# By the code


def by_the_code(v: Values) -> Values:
    """Every computed value from the given ones, as the service and the clients compute it."""
    run, namespace = v["run"].decode(), v["namespace"].decode()
    committed = {
        name: Body(v[f"{name}.salt"], v[f"{name}.content"]).commitment for name in ("request", "reply", "treated")
    }
    envelope = Envelope(v["envelope.system"], None, v["envelope.model"], v["envelope.parameters"])
    assert Envelope.decode(envelope.encode()) == envelope
    enveloped = Body(v["envelope.salt"], envelope.encode()).commitment
    authored = {name: v[f"{name}.content"] for name in ("notice", "closing", "placeholder")}
    treatment = CompactResults(keep_raw=1).treatment_id
    keys = [
        digests.item_key(ItemKind.MESSAGE, committed["request"]),
        digests.item_key(ItemKind.NOTICE, authored["notice"]),
        digests.item_key(ItemKind.MESSAGE, committed["reply"]),
        digests.item_key(ItemKind.TREATED, committed["treated"]),
        digests.item_key(ItemKind.CLOSING_RESULT, authored["closing"]),
        digests.item_key(ItemKind.PLACEHOLDER, authored["placeholder"]),
    ]
    items = [digests.items_hash(keys[:n]) for n in range(7)]
    chain = [digests.chain_start(run, ids.LEDGER)]
    for version in (1, 2, 3):
        topic, state = v[f"event.{version}.topic"].decode(), v[f"event.{version}.state"]
        chain.append(digests.chain_next(chain[-1], version, topic, state))
    composition: Composition = (
        Range(2, 2),
        Authored(ItemKind.NOTICE, authored["notice"]),
        Range(11, 11),
        TreatedRange(12, 12, treatment),
        Authored(ItemKind.CLOSING_RESULT, authored["closing"], 11),
        Authored(ItemKind.PLACEHOLDER, authored["placeholder"], 13),
        Moved(17),
        Moved(18, treatment),
    )
    asked = c.CloseRun(run_id=run, status=RunStatus.FINISHED, reason="done", request_id="any")
    return {
        **{f"{name}.commitment": value for name, value in committed.items()},
        "envelope.content": envelope.encode(),
        "envelope.commitment": enveloped,
        "chain.windows.0": digests.chain_start(run, ids.WINDOWS),
        **{f"chain.ledger.{n}": value for n, value in enumerate(chain)},
        **{f"key.{n}": value for n, value in enumerate(keys, 1)},
        **{f"i.{n}": value for n, value in enumerate(items)},
        "digest": digests.window_digest(enveloped, items[-1]),
        "digest.no-envelope": digests.window_digest(None, items[-1]),
        "treatment.id": treatment.encode(),
        "composition": msgspec.msgpack.encode(compositions.encode(composition)),
        "id.message": ids.message_id(run, 2).encode(),
        "id.authored": ids.authored_id(run, 3, 1).encode(),
        "id.step": ids.step_id(run, 3).encode(),
        "id.opened": ids.run_id_of_request(namespace, v["request-id"].decode()).encode(),
        **{f"field.{name}": value for name, value in fingerprint(asked, v["field.salt"]).items()},
    }


@pytest.mark.parametrize("compute", [by_hand, by_the_code])
def test_every_value_of_the_page_can_be_computed(compute: Callable[[Values], Values]) -> None:
    """From what the page gives follows what it says is computed, value by value, and nothing else."""
    found = compute(GIVEN)
    assert {name: value.hex() for name, value in found.items()} == {n: value.hex() for n, value in COMPUTED.items()}


def test_given_values_are_all_used() -> None:
    """No value stands on the page without a use."""
    used: set[str] = set()

    class Watched(Values):
        def __getitem__(self, name: str) -> bytes:
            used.add(name)
            return super().__getitem__(name)

    by_hand(Watched(GIVEN))
    assert used == GIVEN.keys()


# States

NOON = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def example_events() -> Iterator[e.RunEvent]:
    """The events whose states are on the page."""
    run, request = GIVEN["run"].decode(), Body(GIVEN["request.salt"], GIVEN["request.content"])
    ledger = ids.originator_id(ids.run_key(GIVEN["namespace"].decode(), run), ids.LEDGER)
    yield e.RunOpened(
        originator_id=ledger,
        originator_version=1,
        recorded_time=NOON,
        body=Body(bytes(16), bytes(16)),
        format="openai.chat",
        policy=NonePolicy().model_dump(),
        step_base=run,
        messages=1,
    )
    message = Message(
        version=2,
        ordinal=1,
        role=Role.USER,
        source=Source.PERSON,
        iteration=0,
        commitment=request.commitment,
        size_bytes=len(request.content),
        characters=13,
    )
    yield e.MessageAppended(
        originator_id=ledger, originator_version=2, recorded_time=NOON, body=request, message=message
    )
    yield e.RunClosed(
        originator_id=ledger,
        originator_version=3,
        recorded_time=NOON.replace(microsecond=500_000),
        principal="ci",
        status=RunStatus.FINISHED,
    )


def test_states_are_stored_as_on_the_page() -> None:
    """The encoder gives the page's states for the page's events, and the mapper reads them back."""
    mapper = EventMapper(EventTranscoder())
    for event in example_events():
        version = event.originator_version
        assert event.TOPIC.encode() == GIVEN[f"event.{version}.topic"]
        assert encode_state(event).hex() == GIVEN[f"event.{version}.state"].hex()
        assert mapper.to_domain_event(mapper.to_stored_event(event)).model_dump() == event.model_dump()


# Tables


def table(heading: str) -> list[list[str]]:
    """The rows of the first table under a heading, cells without backticks."""
    section = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = section[section.index("| ") :].split("\n\n", 1)[0].splitlines()
    lines = [line for line in lines if line.startswith("| ")]
    return [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in lines[1:]]


def first_words(rows: Iterable[list[str]]) -> set[str]:
    """The words of the first cells."""
    return {word for row in rows for word in row[0].split(", ")}


def test_the_page_names_every_column(tmp_path: Path) -> None:
    """A row has the columns that the page says, under the keys that it says."""
    with closing(SqliteRecorder(str(tmp_path / "runs.db"))), closing(sqlite3.connect(tmp_path / "runs.db")) as store:
        columns = {row[1] for row in store.execute("PRAGMA table_info(events)")}
        keys = {row[2] for row in store.execute("PRAGMA index_info(events_key)")}
    assert first_words(table("Rows")) == columns
    assert keys == {"run_key", "stream", "version"}


def test_the_page_names_every_event() -> None:
    """Every topic is on the page, in its stream."""
    assert {row[0] for row in table("Events")} == EVENT_CLASSES.keys()


def test_the_page_names_every_item_kind() -> None:
    """Every kind is on the page, with its number and with what is hashed of it."""
    assert [(int(number), kind) for number, kind, *_ in table("Items and digests")] == [(k, k.label) for k in ItemKind]
    for number, _, item, *_ in table("Items and digests"):
        assert ItemKind(int(number)).is_salted == (item == "commitment")


def test_the_page_names_everything_of_the_state_to_go_on() -> None:
    """Every field of the state is on the page."""
    assert first_words(table("The state to go on")) == {field.name for field in fields(RunState)}
