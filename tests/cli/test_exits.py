"""How commands end: codes, what is said about errors, words that are kept free."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import get_args

import pytest
import typer

from support.command import turnledger
from support.service import served, sqlite_store
from turnledger.cli.commands import policies
from turnledger.cli.commands.importing import TokenizerName
from turnledger.cli.main import RESERVED, app
from turnledger.ledger.queries import Queries
from turnledger.ledger.tokenizers import TOKENIZERS


def _error(ended_err: str) -> dict[str, object]:
    (line,) = ended_err.splitlines()
    error: dict[str, object] = json.loads(line)["error"]
    return error


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        (2, ("rusn",)),
        (2, ("show", "r", "--bogus")),
        (2, ("runs", "--limit", "many")),
        (2, ("message", "no-number")),
        (2, ("runs", "--label", "no-value")),
        (2, ("runs", "--store", "sqlite:////nowhere/none.db")),
        (3, ("runs", "--server", "unix:/nowhere", "--timeout", "0.1")),
    ],
)
def test_errors_are_said_in_both_outputs(code: int, arguments: tuple[str, ...]) -> None:
    """For people in words, for programs as one JSON object on standard error; nothing on standard output."""
    shown = turnledger(*arguments)
    told = turnledger(*arguments, "--output", "json")
    assert (shown.code, told.code) == (code, code)
    assert (shown.raw, told.raw) == (b"", b"")
    assert "Traceback" not in shown.err
    assert _error(told.err)["exit_code"] == code


@pytest.mark.parametrize(
    "arguments", [("show", "none"), ("window", "brought", "--at", "9"), ("message", "brought/99")], ids=lambda a: a[0]
)
def test_what_is_not_there_is_refused_with_what_to_do(store: str, arguments: tuple[str, ...]) -> None:
    """The reason of the catalogue for programs, a hint for both."""
    told = turnledger(*arguments, "--store", store, "-o", "json")
    assert told.code == 4
    error = _error(told.err)
    assert error["reason"]
    assert str(error["hint"]) in turnledger(*arguments, "--store", store).err


def test_a_damaged_file_is_its_own_code(tmp_path: Path) -> None:
    """And nothing was imported."""
    path = tmp_path / "broken.json"
    path.write_text("[{")
    ended = turnledger("import", path, "--format", "openai.chat", "--store", sqlite_store(tmp_path), "-o", "json")
    assert (ended.code, _error(ended.err)["exit_code"]) == (5, 5)


def test_a_fault_of_ours_is_its_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told from what the caller can mend."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(Queries, "list_runs", fail)
    with served() as client:
        assert turnledger("runs", "--server", client.address).code == 6


def test_an_interrupt_is_its_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a shell has it."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(policies, "_strategy", interrupt)
    assert turnledger("policies").code == 130


def test_a_near_miss_is_suggested() -> None:
    """A newcomer's slip is answered with the command that was meant."""
    assert "Did you mean 'runs'?" in turnledger("rusn").err


def test_a_store_goes_before_the_environment(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """But two ledgers named on one command line are refused."""
    monkeypatch.setenv("TURNLEDGER_SERVER", "unix:/nowhere")
    assert turnledger("runs", "--store", store).code == 0
    assert turnledger("runs", "--store", store, "--server", "unix:/elsewhere").code == 2


def test_words_for_later_are_free() -> None:
    """No command has one of them."""
    group = typer.main.get_command(app)
    assert set(RESERVED).isdisjoint(group.commands)  # type: ignore[attr-defined]


def test_the_version_is_the_installed_one() -> None:
    """And nothing else is printed."""
    assert turnledger("--version").out == version("turnledger") + "\n"


def test_every_tokenizer_can_be_asked_for() -> None:
    """What ``import`` offers is what the ledger has."""
    assert set(get_args(TokenizerName)) == set(TOKENIZERS)
