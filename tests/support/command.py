"""The command line in this process: what it prints, and how it ends."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from turnledger.cli.main import main
from turnledger.cli.output import console, notes


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        """Standard output, as text."""
        return self.raw.decode()

    @property
    def document(self) -> Any:
        """Standard output, as the one JSON document that it is."""
        return json.loads(self.raw)


class _Stream(io.TextIOWrapper):
    """A standard stream that is no terminal."""

    def __init__(self, written: bytes = b"") -> None:
        super().__init__(io.BytesIO(written), encoding="utf-8", write_through=True)

    @property
    def written(self) -> bytes:
        self.flush()
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue()


def turnledger(*arguments: object, stdin: bytes = b"", columns: int = 200) -> Ended:
    """Runs ``turnledger`` with these arguments."""
    out, err = _Stream(), _Stream()
    argv = ["turnledger", *map(str, arguments)]
    environment = {"COLUMNS": str(columns), "NO_COLOR": "1"}
    with (
        patch.object(sys, "argv", argv),
        patch.object(sys, "stdin", _Stream(stdin)),
        patch.dict("os.environ", environment),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        # A console keeps the width that it was made with.
        for made in (console, notes):
            made.cache_clear()
        try:
            main()
            code: object = 0
        except SystemExit as ended:
            code = ended.code
    assert isinstance(code, int)
    return Ended(code, out.written, err.written.decode())
