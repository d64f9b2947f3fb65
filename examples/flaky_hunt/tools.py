"""The agent's tools: real ones, in a copy of the project that ships with this example.

There is no shell, and paths are confined to the copy. The tests do run, though, and a model may write tests: whoever
lets a model of their own play lets it run Python as the user who started the demonstration.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

RUN_SECONDS_MAX = 60
READ_CHARACTERS_MAX = 60_000
HITS_MAX = 100

_TEST_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*\.py(::[^\s:\x00]+)*")
_VERDICT = re.compile(r"=+ (?P<counts>.+?) in [\d.]+s.*=+")
_SUMMARY = re.compile(r"=+ short test summary info =+")
# What Python itself may need to start. Nothing else is handed on: the tests see no keys and no settings of the user.
_ENVIRONMENT_KEPT = ("SYSTEMROOT", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "TMPDIR", "TEMP", "TMP")


class PytestMissing(RuntimeError):
    """The tools run a test suite and pytest is not installed."""

    def __init__(self) -> None:
        super().__init__("this demonstration runs a real test suite: pip install pytest")


class ToolRefused(ValueError):
    """A call that a tool does not carry out; its text is the result that the model gets."""


class Workspace:
    """A copy of the project in a temporary folder, and the tools that work on it. A context manager.

    Raises PytestMissing where the tests cannot be run.
    """

    def __init__(self) -> None:
        if find_spec("pytest") is None:
            raise PytestMissing
        self._folder = tempfile.TemporaryDirectory(prefix="turnledger-shop-")
        # Resolved once, because a temporary folder may stand behind a link, and paths are compared.
        self.root = Path(self._folder.name).resolve()
        _copy(files(__package__) / "project", self.root)
        self._tools: dict[str, Callable[..., str]] = {
            "list_files": self.list_files,
            "read_file": self.read_file,
            "search": self.search,
            "run_tests": self.run_tests,
            "write_file": self.write_file,
            "edit_file": self.edit_file,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()

    def call(self, name: str, arguments: str) -> str:
        """Carry out a model's call. Never raises for what a model got wrong: the result says what it was."""
        try:
            given = _arguments(name, arguments)
            return self._tools[name](**given)
        except (ToolRefused, OSError, UnicodeError) as refusal:
            return f"refused: {refusal}"

    def list_files(self) -> str:
        """Every file with its size in bytes."""
        return "\n".join(f"{path.stat().st_size:>6}  {self._name(path)}" for path in self._files())

    def read_file(self, path: str) -> str:
        """The text of a file."""
        text = self._inside(path).read_text(encoding="utf-8")
        if len(text) > READ_CHARACTERS_MAX:
            raise ToolRefused(f"{path} has {len(text)} characters, more than {READ_CHARACTERS_MAX}")
        return text

    def search(self, text: str) -> str:
        """The lines of all files that hold the text, as `path:line: text`."""
        if not text:
            raise ToolRefused("nothing to search for")
        hits = [hit for path in self._files() for hit in self._hits(path, text.casefold())]
        cut = [f"(and {len(hits) - HITS_MAX} more)"] if len(hits) > HITS_MAX else []
        return "\n".join([*hits[:HITS_MAX], *cut]) or f"no line holds {text!r}"

    def run_tests(self, seed: int | None = None, tests: list[str] | None = None) -> str:
        """Run the tests; first the lines of pytest's own summary, then the verdict, then its output as it came."""
        order = "by file" if seed is None else f"of seed {seed}"
        try:
            done = subprocess.run(
                [*_pytest_command(seed), *(self._test_id(test) for test in tests or [])],
                cwd=self.root,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=RUN_SECONDS_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"stopped: the tests, in the order {order}, took more than {RUN_SECONDS_MAX} s"
        output = done.stdout.decode("utf-8", "replace")
        verdict = f"exit status {done.returncode}: {_counts(output)}; test order {order}"
        return "\n".join([*_summary(output), verdict, "The output of pytest:", output])

    def write_file(self, path: str, content: str) -> str:
        """Write a new file, or all of an old one."""
        target = self._inside(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8", newline="\n")
        return f"wrote {path}, {len(content.splitlines())} lines"

    def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace a text that occurs once in a file."""
        target = self._inside(path)
        text = target.read_text(encoding="utf-8")
        if not old or text.count(old) != 1:
            raise ToolRefused(f"the text to replace occurs {text.count(old) if old else 0} times in {path}, not once")
        target.write_text(text.replace(old, new), encoding="utf-8", newline="\n")
        return f"changed {path} at line {text[: text.index(old)].count(chr(10)) + 1}"

    def _inside(self, path: str) -> Path:
        try:
            target = (self.root / path).resolve()
        except ValueError as error:
            raise ToolRefused(f"not a path: {path!r}") from error
        if not target.is_relative_to(self.root):
            raise ToolRefused(f"{path!r} is outside the project")
        return target

    def _test_id(self, test: str) -> str:
        # The pattern keeps options out: what starts with a dash would be one to pytest.
        if not _TEST_ID.fullmatch(test):
            raise ToolRefused(f"not a test: {test!r}; tests are named like tests/test_x.py::test_y")
        path = test.partition("::")[0]
        if not self._inside(path).is_file():
            raise ToolRefused(f"there is no file {path!r}")
        return test

    def _files(self) -> Iterator[Path]:
        for path in sorted(self.root.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _hits(self, path: Path, text: str) -> Iterator[str]:
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
            if text in line.casefold():
                yield f"{self._name(path)}:{number}: {line.strip()}"


def _copy(source: Traversable, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for entry in source.iterdir():
        # An installer compiles what it installs; the copy is of the sources.
        if entry.name == "__pycache__":
            continue
        if entry.is_dir():
            _copy(entry, target / entry.name)
        else:
            (target / entry.name).write_bytes(entry.read_bytes())


def _pytest_command(seed: int | None) -> list[str]:
    # Its own settings file and root, named, so that no settings of an outer project are found and used.
    command = [sys.executable, "-m", "pytest", "-c", "pytest.ini", "--rootdir", ".", "-p", "no:cacheprovider"]
    return command if seed is None else [*command, f"--order-seed={seed}"]


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _ENVIRONMENT_KEPT if name in os.environ}
    return kept | {
        # A changed file of the same size and second would otherwise be run from its old byte code.
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "COLUMNS": "80",
    }


def _summary(output: str) -> list[str]:
    """The lines of pytest's short summary, each cut to its first line."""
    parts = _SUMMARY.split(output)
    return [line for line in parts[-1].splitlines() if line.startswith(("FAILED ", "ERROR "))] if len(parts) > 1 else []


def _counts(output: str) -> str:
    """What pytest counted, without the time it took: the same tests give the same verdict."""
    lines = output.rstrip().splitlines()
    match = _VERDICT.fullmatch(lines[-1]) if lines else None
    return match["counts"] if match else "no tests were run"


def _arguments(name: str, text: str) -> dict[str, Any]:
    """A call's arguments, checked against the tool's schema as far as these schemas go. Raises ToolRefused."""
    if name not in _SCHEMAS:
        raise ToolRefused(f"there is no tool {name!r}")
    try:
        given = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise ToolRefused(f"the arguments are not JSON: {error}") from error
    if not isinstance(given, dict):
        raise ToolRefused("the arguments are not a JSON object")
    schema = _SCHEMAS[name]
    for field in schema["required"]:
        if field not in given:
            raise ToolRefused(f"{name} needs {field!r}")
    for field, value in given.items():
        if field not in schema["properties"]:
            raise ToolRefused(f"{name} has no argument {field!r}")
        if not _fits(value, schema["properties"][field]):
            raise ToolRefused(f"{field!r} must be: {schema['properties'][field]['description']}")
    return given


def _fits(value: object, schema: dict[str, Any]) -> bool:
    match schema["type"]:
        case "string":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case _:
            return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _tool(name: str, description: str, properties: dict[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


_PATH = _text("a path inside the project, such as shop/money.py")

TOOLS: list[dict[str, Any]] = [
    _tool("list_files", "List every file of the project with its size in bytes.", {}),
    _tool("read_file", "Read a file of the project.", {"path": _PATH}, ("path",)),
    _tool(
        "search",
        "Find the lines of the project's files that hold a text, whatever its case.",
        {"text": _text("plain text, not a pattern")},
        ("text",),
    ),
    _tool(
        "run_tests",
        "Run the project's tests. The result starts with the tests that did not pass and why, then the full output.",
        {
            "seed": {
                "type": "integer",
                "description": "a whole number that gives a shuffled order, always the same one; without it, by file",
            },
            "tests": {
                "type": "array",
                "items": {"type": "string"},
                "description": "tests or test files to run, such as tests/test_x.py::test_y; without it, all",
            },
        },
    ),
    _tool(
        "write_file",
        "Write a file of the project, whole.",
        {"path": _PATH, "content": _text("the text of the file")},
        ("path", "content"),
    ),
    _tool(
        "edit_file",
        "Replace a text that occurs exactly once in a file.",
        {"path": _PATH, "old": _text("the text to replace"), "new": _text("the text to put in its place")},
        ("path", "old", "new"),
    ),
]
"""The tools as a provider wants them, for the envelope of a run."""

_SCHEMAS: dict[str, dict[str, Any]] = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
