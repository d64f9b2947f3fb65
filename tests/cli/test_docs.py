"""docs/cli.md tells every command, option, document and exit code that there is, and no other."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from support.command import turnledger
from support.service import served
from turnledger.cli.exits import Exit
from turnledger.cli.main import app

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+)\n((?:(?!^## ).*\n?)*)", PAGE, re.MULTILINE))
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
NOT_SHARED = {"--help", "-h", "-o"}


def _rows(section: str, head: str) -> dict[str, str]:
    """The table with this head: what stands in backticks in its first column, and what its last column says."""
    _, _, after = section.partition(f"| {head} |")
    rows = {}
    for line in after.splitlines()[2:]:
        if not line.startswith("|"):
            break
        cells = line.strip("| ").split(" | ")
        rows |= dict.fromkeys(re.findall(r"`([^` ]+)[^`]*`", cells[0]) or [cells[0]], cells[-1])
    return rows


def _keys(command: str, name: str) -> set[str]:
    """What the page names as the keys of the entries of a list."""
    told = _rows(SECTIONS[command], "key")[name]
    return set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", told.partition(":")[2])))


def test_every_command_has_a_section() -> None:
    """And every section that is named like a command is one."""
    assert {title for title in SECTIONS if title == title.lower()} == set(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_is_told(name: str) -> None:
    """Its name stands in the command's table, and nothing else does; it says what it is for."""
    params = COMMANDS[name].params
    options = {opt for p in params if p.param_type_name == "option" for opt in p.opts} - NOT_SHARED
    assert set(_rows(SECTIONS[name], "option")) == options
    assert all(p.help for p in params if p.param_type_name == "option")


def test_every_exit_code_is_told() -> None:
    """No other is."""
    assert set(_rows(SECTIONS["Exit codes"], "code")) == {str(int(code)) for code in Exit}


def test_every_variable_is_told() -> None:
    """Those that options are read from."""
    read: set[str] = set()
    for command in COMMANDS.values():
        for param in command.params:
            read |= {param.envvar} if isinstance(param.envvar, str) else set(param.envvar or ())
    assert read <= set(_rows(SECTIONS["Environment"], "variable"))


@pytest.mark.parametrize(
    ("arguments", "nested"),
    [
        (("runs",), ("runs",)),
        (("show", "brought"), ("timeline",)),
        (("window", "brought"), ("messages",)),
        (("replay", "brought"), ("iterations",)),
        (("message", "brought/5"), ()),
        (("doctor",), ("checks",)),
    ],
    ids=lambda value: value[0] if value else "",
)
def test_every_key_is_told(store: str, arguments: tuple[str, ...], nested: tuple[str, ...]) -> None:
    """Documents have the keys that the page lists; entries of lists too."""
    document = turnledger(*arguments, "--store", store, "-o", "json").document
    command = arguments[0]
    assert set(document) == set(_rows(SECTIONS[command], "key")) - {"tokens"}
    for name in nested:
        assert {key for entry in document[name] for key in entry} == _keys(command, name)


def test_every_key_of_an_import_is_told(store: str) -> None:
    """As of a dry run."""
    path = Path(store.removeprefix("sqlite:///")).with_name("transcript.json")
    document = turnledger("import", path, "--format", "openai.chat", "--dry-run", "-o", "json").document
    assert set(document) == set(_rows(SECTIONS["import"], "key"))


def test_every_key_of_policies_and_health_is_told() -> None:
    """Commands that look into no store."""
    document = turnledger("policies", "-o", "json").document
    assert set(document) == set(_rows(SECTIONS["policies"], "key"))
    assert all(set(entry) == _keys("policies", "policies") for entry in document["policies"])
    with served() as client:
        answer = turnledger("health", "--server", client.address, "-o", "json").document
    assert set(answer) == set(_rows(SECTIONS["health"], "key"))


def test_the_examples_run(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In their order, with a transcript and a policy of the names that they use."""
    monkeypatch.chdir(Path(store.removeprefix("sqlite:///")).parent)
    (session,) = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    for line in session.splitlines():
        name, *arguments = shlex.split(line.removeprefix("$ "))
        assert name == "turnledger"
        ended = turnledger(*arguments)
        assert (line, ended.code, ended.err) == (line, 0, "")
        assert ended.raw
