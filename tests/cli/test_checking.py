"""``replay``, ``doctor``, ``policies``: what is checked, and what is found wrong."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from support.command import turnledger
from support.service import served
from turnledger.cli.commands import doctor
from turnledger.domain.policies import POLICY_CLASSES


def _tamper(store: str) -> None:
    """Changes the first result, which the second window alone holds."""
    with closing(sqlite3.connect(store.removeprefix("sqlite:///"))) as connection, connection:
        changed = connection.execute("UPDATE events SET body = x'7b7d' WHERE stream = 'ledger' AND version = 5")
        assert changed.rowcount == 1


def test_every_iteration_is_replayed(store: str) -> None:
    """Each with its digest; a part where asked."""
    document = turnledger("replay", "brought", "--store", store, "-o", "json").document
    assert document["holds"] is True
    assert [row["iteration"] for row in document["iterations"]] == [1, 2, 3, 4]
    part = turnledger("replay", "brought", "--from", 2, "--to", 3, "--store", store, "-o", "json").document
    assert part["iterations"] == document["iterations"][1:3]
    assert "All 4 iterations of brought are what was sent." in turnledger("replay", "brought", "--store", store).out


def test_a_changed_store_is_found_out(store: str) -> None:
    """The iterations that are not what was sent are named, and the others are checked all the same."""
    _tamper(store)
    ended = turnledger("replay", "brought", "--store", store, "-o", "json")
    assert ended.code == 1
    wrong = [row["iteration"] for row in ended.document["iterations"] if not row["holds"]]
    assert 2 in wrong
    assert [row["iteration"] for row in ended.document["iterations"]] == [1, 2, 3, 4]
    shown = turnledger("replay", "brought", "--store", store)
    assert shown.code == 1
    assert shown.out.count("NOT what was sent") == len(wrong)
    assert turnledger("message", "brought/5", "--store", store).code == 1


def test_a_sound_installation_is_sound(store: str) -> None:
    """Every check of the installation and of a store."""
    ended = turnledger("doctor", "--store", store, "-o", "json")
    assert (ended.code, ended.document["holds"]) == (0, True)
    assert {"turnledger", "SQLite", "store", "store's file", "disk"} <= {c["check"] for c in ended.document["checks"]}
    assert "Nothing is wrong." in turnledger("doctor", "--store", store).out


def test_a_service_is_tried(store: str) -> None:
    """One that answers is fine; one that was named and does not answer is not."""
    with served() as client:
        assert turnledger("doctor", "--server", client.address).code == 0
    ended = turnledger("doctor", "--server", "unix:/nowhere", "--timeout", "0.1", "-o", "json")
    assert ended.code == 1
    assert [check["check"] for check in ended.document["checks"] if check["status"] == "failed"] == ["service"]


def test_a_store_that_is_not_there_fails(tmp_path: Path) -> None:
    """And is not made by looking for it."""
    ended = turnledger("doctor", "--store", f"sqlite:///{tmp_path}/none.db", "-o", "json")
    assert (ended.code, ended.document["checks"][-1]["status"]) == (1, "failed")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_and_a_missing_vocabulary_are_told(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to do about them."""

    def missing(name: str) -> None:
        raise RuntimeError(f"{name} is not there")

    monkeypatch.setattr(doctor, "tokenizer_named", missing)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, 0))  # type: ignore[attr-defined]
    ended = turnledger("doctor", "--store", store, "-o", "json")
    found = {check["check"]: check for check in ended.document["checks"]}
    assert ended.code == 1
    assert (found["disk"]["status"], found["tokenizer o200k_base"]["status"]) == ("warning", "failed")
    assert found["tokenizer o200k_base"]["hint"]
    assert "2 of " in turnledger("doctor", "--store", store).out


def test_every_strategy_is_told() -> None:
    """With every option it has."""
    listed = {entry["strategy"]: entry for entry in turnledger("policies", "-o", "json").document["policies"]}
    shown = turnledger("policies").out
    assert set(listed) == set(POLICY_CLASSES)
    for strategy, policy in POLICY_CLASSES.items():
        options = set(policy.model_fields) - {"strategy", "version"}
        assert {option["name"] for option in listed[strategy]["options"]} == options
        assert all(option in shown for option in {strategy, *options})
