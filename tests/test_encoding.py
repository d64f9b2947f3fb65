"""How events become rows: they come back as they were, whatever they hold, for as long as rows are kept."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import MISSING, fields, replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import NoneType
from typing import Any, cast, get_origin

import msgspec
import pytest
from eventsourcing.domain import DomainEventProtocol, ImmutableAggregateProtocol
from eventsourcing.persistence import MapperDeserialisationError, StoredEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic.fields import FieldInfo

from support.any_event import COMPOSITIONS, any_event, hints, kinds_in, nested
from turnledger.domain import compositions
from turnledger.domain import events as e
from turnledger.domain.envelopes import Envelope
from turnledger.domain.events import EVENT_CLASSES, Body, RunEvent
from turnledger.domain.run import Run, project_run
from turnledger.domain.words import RunStatus
from turnledger.ledger import commands as c
from turnledger.ledger.application import Ledger
from turnledger.ledger.encoding import EventMapper, EventTranscoder, decode_state, encode_state, is_omitted
from turnledger.ledger.stores import open_ledger

MAPPER = EventMapper(EventTranscoder())
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
every_class = pytest.mark.parametrize("cls", EVENT_CLASSES.values(), ids=lambda cls: cls.__name__)


def closed(*, at: datetime = NOON, content: bytes | None = None) -> e.RunClosed:
    """A fact of few fields."""
    return e.RunClosed(
        originator_id="default/run/ledger",
        originator_version=9,
        recorded_time=at,
        status=RunStatus.FINISHED,
        body=Body.of(content) if content is not None else None,
    )


# There and back


@every_class
@given(st.data())
@settings(max_examples=60, deadline=None)
def test_events_come_back_as_they_were(cls: type[RunEvent], data: st.DataObject) -> None:
    """Every event is read as it was written, and would be written again with the same bytes."""
    event = data.draw(any_event(cls))
    row = MAPPER.to_stored_event(event)
    found = MAPPER.to_domain_event(row)
    assert type(found) is cls
    assert found.model_dump() == event.model_dump()
    assert encode_state(found) == row.state
    assert (row.topic, row.originator_id, row.originator_version) == (
        cls.TOPIC,
        event.originator_id,
        event.originator_version,
    )


@every_class
@given(st.data())
@settings(max_examples=20, deadline=None)
def test_content_is_no_part_of_the_state(cls: type[RunEvent], data: st.DataObject) -> None:
    """The state is the same with and without the content beside it, so a chain can be checked without any."""
    event = data.draw(any_event(cls))
    bare = event.model_copy(update={"body": None})
    assert encode_state(event) == encode_state(bare)
    assert not {"body", "originator_id", "originator_version"} & decode_state(cls.TOPIC, encode_state(event)).keys()


@given(COMPOSITIONS)
@settings(deadline=None)
def test_compositions_come_back_as_they_were(composition: compositions.Composition) -> None:
    """A composition survives its encoding and MessagePack."""
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(compositions.encode(composition)))
    assert compositions.decode(stored) == composition


@given(st.builds(Envelope, *[st.none() | st.binary()] * 4))
@settings(deadline=None)
def test_envelopes_come_back_as_they_were(envelope: Envelope) -> None:
    """Whatever the parts hold, and an empty part differs from an absent one; equal contents are equal envelopes."""
    content = envelope.encode()
    assert Envelope.decode(content) == envelope
    assert Envelope.decode(content).encode() == content


def test_times_are_kept_to_the_microsecond_in_utc() -> None:
    """A time comes back as the same moment in UTC, in whatever zone it was given."""
    moment = datetime(2026, 1, 2, 12, 0, 0, 1, tzinfo=timezone(timedelta(hours=5, minutes=45)))
    found = MAPPER.to_domain_event(MAPPER.to_stored_event(closed(at=moment)))
    assert found.recorded_time == moment
    assert found.recorded_time.tzinfo is not None
    assert found.recorded_time.utcoffset() == timedelta(0)


# What is left out

NEVER_EMPTY = {
    (e.RunOpened, "policy"): "a policy names its strategy",
    (e.RunPaused, "calls"): "a pause names a call",
    (e.WindowBuilt, "composition"): "a window that holds nothing is not built",
}
"""Fields of a type that admits what is left out, but which never hold that; and why."""


def _classes() -> list[type]:
    return list(dict.fromkeys(kind for cls in EVENT_CLASSES.values() for kind in nested(cls)))


def _omissible(hint: Any) -> set[str]:
    """The values of a type that are left out of a state, as text."""
    values = {NoneType: "None", bool: "False", tuple: "()", dict: "{}"}
    parts = [hint] if get_origin(hint) in (tuple, dict) else [hint, *kinds_in(hint)]
    return {values[kind] for kind in parts for kind in (get_origin(kind) or kind,) if kind in values}


def _default(cls: type, name: str) -> Any:
    """The default of a field; :data:`MISSING` where it has none."""
    info: FieldInfo | None = cls.model_fields[name] if issubclass(cls, RunEvent) else None
    if info is not None:
        return MISSING if info.is_required() else info.get_default(call_default_factory=True)
    field = next(f for f in fields(cls) if f.name == name)
    return field.default if field.default_factory is MISSING else field.default_factory()


def _is_kept(cls: type, name: str) -> bool:
    return name not in ("originator_id", "originator_version", "body") or not issubclass(cls, RunEvent)


def test_what_is_left_out_is_the_default() -> None:
    """Absent, empty and false fields are left out of a state; so each field that may be such must default to just
    that, for ever. A field that never is such must say why."""
    wrong = {
        (cls, name)
        for cls in _classes()
        for name, hint in hints(cls).items()
        if _is_kept(cls, name) and (values := _omissible(hint)) and values != {repr(_default(cls, name))}
    }
    assert wrong == NEVER_EMPTY.keys()


def test_the_walk_reaches_what_states_hold() -> None:
    """The walk over the fields goes into what they hold, or the test before would prove little."""
    names = {cls.__name__ for cls in _classes()}
    assert {"WindowBuilt", "RunState", "PendingCall", "Message", "Result", "Record", "Measurement", "Pins"} <= names
    assert _omissible(bool | None) == {"None", "False"}
    assert _omissible(tuple[int | None, ...]) == {"()"}
    assert _omissible(int) == set()


@pytest.mark.parametrize("value", [None, False, (), {}])
def test_absent_empty_and_false_are_left_out(value: object) -> None:
    """These, and only these, are not written."""
    assert is_omitted(value)


@pytest.mark.parametrize("value", [0, "", b"", True, (None,), {"a": None}, 0.0])
def test_zeros_and_empty_text_are_written(value: object) -> None:
    """A number and a text are written, whatever they are."""
    assert not is_omitted(value)


# What is no event of ours


@pytest.mark.parametrize(
    "topic", ["", "turnledger.RunClosed", "turnledger.RunClosed:2", "turnledger.domain.events:RunClosed"]
)
def test_an_unknown_topic_is_the_library_s_error(topic: str) -> None:
    """What has no topic of ours is not read, and the error says where it is."""
    row = replace(MAPPER.to_stored_event(closed()), topic=topic)
    with pytest.raises(MapperDeserialisationError, match=rf"unknown topic: {topic} at default/run/ledger version 9"):
        MAPPER.to_domain_event(row)


def _map(**values: object) -> bytes:
    return msgspec.msgpack.encode(values)


@pytest.mark.parametrize(
    "state",
    [
        b"",
        b"\xc1",
        encode_state(closed())[:-1],
        encode_state(closed()) + b"\x00",
        b"\x81\xa1\xff\x01",
        b"\x90",
        b"\xc0",
        b"\x91" * 100_000,
        b"\x81\x01\x02",
        b"\xd6\x05\x00\x00\x00\x00",
        _map(recorded_time=NOON),
        _map(recorded_time=NOON, status="over"),
        _map(recorded_time="noon", status="finished"),
        _map(recorded_time=NOON, status="finished", surplus=1),
        _map(recorded_time=NOON, status="finished", commitment=["no bytes"]),
    ],
    ids=repr,
)
def test_a_damaged_state_is_the_library_s_error(state: bytes) -> None:
    """Whatever is wrong with a state, one error is raised, and it says where."""
    row = replace(MAPPER.to_stored_event(closed()), state=state)
    with pytest.raises(
        MapperDeserialisationError, match=r"damaged state: turnledger.RunClosed:1 at default/run/ledger"
    ):
        MAPPER.to_domain_event(row)


@every_class
@given(st.data())
@settings(max_examples=30, deadline=None)
def test_any_bytes_are_read_or_refused(cls: type[RunEvent], data: st.DataObject) -> None:
    """A state with bytes changed, cut or replaced is read as an event of its class or refused with one error."""
    event = data.draw(any_event(cls))
    state = bytearray(encode_state(event))
    for _ in range(data.draw(st.integers(1, 3))):
        state[data.draw(st.integers(0, len(state) - 1))] = data.draw(st.integers(0, 255))
    damaged = data.draw(st.sampled_from([bytes(state), bytes(state)[: len(state) // 2], data.draw(st.binary())]))
    try:
        found = MAPPER.to_domain_event(replace(MAPPER.to_stored_event(event), state=damaged))
    except MapperDeserialisationError:
        return
    assert type(found) is cls


def test_a_row_of_the_library_is_read_without_content() -> None:
    """A stored event that is no row of ours has no content."""
    row = MAPPER.to_stored_event(closed(content=b"done"))
    bare = StoredEvent(row.originator_id, row.originator_version, row.topic, row.state)
    assert MAPPER.to_domain_event(row).body.content == b"done"
    assert MAPPER.to_domain_event(bare).body is None


# Topics and the library's protocols


def test_topics_are_unique_and_versioned() -> None:
    """Every class of event has a topic of its own, with a version; no class is forgotten in the table."""
    for topic, cls in EVENT_CLASSES.items():
        assert topic == cls.TOPIC
        assert re.fullmatch(rf"turnledger\.{cls.__name__}:[1-9][0-9]*", topic)
    assert len(set(EVENT_CLASSES.values())) == len(EVENT_CLASSES)
    defined = {cls for cls in vars(e).values() if isinstance(cls, type) and issubclass(cls, RunEvent)}
    assert defined - {RunEvent} == set(EVENT_CLASSES.values())


def _as_event(event: DomainEventProtocol[str]) -> DomainEventProtocol[str]:
    return event


def _as_aggregate(aggregate: ImmutableAggregateProtocol[str]) -> ImmutableAggregateProtocol[str]:
    return aggregate


def test_run_and_events_are_what_the_library_takes() -> None:
    """A run is an immutable aggregate and an event a domain event to the library (the type checker agrees)."""
    run = project_run(None, [_opening()])
    assert run is not None
    assert (_as_aggregate(run).id, _as_aggregate(run).version) == ("run", 1)
    event = _as_event(closed())
    assert (event.originator_id, event.originator_version) == ("default/run/ledger", 9)
    for name in ("id", "version"):
        with pytest.raises(AttributeError):
            setattr(run, name, "other")


def _opening() -> e.RunOpened:
    return e.RunOpened(
        originator_id="default/run/ledger",
        originator_version=1,
        recorded_time=NOON,
        body=Body(bytes(16), b"key"),
        format="openai.chat",
        policy={"strategy": "none"},
        step_base="run",
    )


def _message(value: dict[str, Any]) -> c.MessageInput:
    return c.MessageInput(msgspec.json.encode(value))


def _facts() -> Iterable[Any]:
    """Writes that need no window, of every kind."""
    calls = [{"id": f"call_{n}", "type": "function", "function": {"name": "look", "arguments": "{}"}} for n in range(3)]
    result = {"role": "tool", "tool_call_id": "call_0", "content": "seen"}
    messages = (
        _message({"role": "user", "content": "Go."}),
        _message({"role": "assistant", "content": None, "tool_calls": calls}),
        _message(result),
    )
    yield c.Append(run_id="run", messages=messages)
    yield c.SetEnvelope(run_id="run", envelope=Envelope(system=b'"Be brief."'))
    yield c.SetEnvelope(run_id="run", envelope=Envelope(system=b'"Be long."'))
    yield c.SetEnvelope(run_id="run", envelope=Envelope(system=b'"Be brief."'))
    yield c.PauseRun(run_id="run", calls=(c.CallRef(call_id=b"call_1"),), awaits_person=True)
    yield c.ResumeRun(run_id="run")
    yield c.AbandonToolCall(run_id="run", call=c.CallRef(call_id=b"call_2"), reason="no use")
    yield c.CloseRun(run_id="run", status=RunStatus.CANCELLED, reason="enough")


def test_the_library_s_repository_rebuilds_the_run() -> None:
    """Folding the ledger's stream through the library gives the run that the service holds, at every fact."""
    with open_ledger("memory:") as ledger:
        ledger.open_run(c.OpenRun(run_id="run", format="openai.chat"))
        for command in _facts():
            call = re.sub(r"(?<!^)(?=[A-Z])", "_", type(command).__name__).lower()
            getattr(ledger, call)(command)
            held = ledger.sessions.peek("default/run")
            assert held is not None
            _assert_same(_rebuilt(ledger), held.run)
        _assert_same(_rebuilt(ledger), ledger.loader.session("default/run").run)


def _rebuilt(ledger: Ledger) -> Run:
    return cast("Run", ledger.repository.get("default/run/ledger", projector_func=cast("Any", project_run)))


def _assert_same(found: Run, expected: Run) -> None:
    assert found.state == expected.state
    assert (found.key, found.arguments_key) == (expected.key, expected.arguments_key)
    assert found.opening.model_dump() == expected.opening.model_dump()


# What workers import


def test_the_domain_imports_no_store_and_no_wire() -> None:
    """Workers and auditors import the domain without the library, the wire or the encoding being installed."""
    code = """
import sys
unwanted = {"eventsourcing", "grpc", "msgspec", "google", "tiktoken", "sqlite3", "re2"} & set(sys.modules)
sys.exit(", ".join(sorted(unwanted)) or 0)
"""
    domain = Path(e.__file__).parent
    modules = [path.relative_to(domain).with_suffix("") for path in domain.rglob("*.py") if path.stem != "__init__"]
    everything = "".join(f"import turnledger.domain.{'.'.join(m.parts)}\n" for m in modules)
    done = subprocess.run([sys.executable, "-c", everything + code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
