"""Kills the service under load, as often as it is told, and prints as one line of JSON what came of it.

From the root: ``.venv/bin/python tests/faults/kills.py --kills 1000 --seed 1``. Exits with 1 where a promise does not
hold, and says after which kill of which seed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from time import monotonic

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.kills import Broken, Campaign, run_campaign


def _progress(campaign: Campaign) -> None:
    if sys.stderr.isatty():
        print(f"\r{campaign.kills} kills, {campaign.steps_acknowledged} steps", end="", file=sys.stderr, flush=True)


def main() -> int:
    """Runs the command; gives its exit code."""
    parser = argparse.ArgumentParser(description="Kills the service under load and checks what is left.")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    began = monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            campaign = run_campaign(Path(folder), asked.kills, asked.seed, _progress)
        except Broken as broken:
            print(f"does not hold: {broken}", file=sys.stderr)
            return 1
    print(json.dumps({**asdict(campaign), "seconds": round(monotonic() - began, 1)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
