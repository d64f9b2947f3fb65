"""What the installed ``turnledger`` calls: says what to install where only the worker's part is there."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line."""
    try:
        from turnledger.cli.main import main as run
    except ModuleNotFoundError as error:
        sys.exit(f"turnledger: the command needs more packages ({error.name}): install 'turnledger[server]'")
    run()
