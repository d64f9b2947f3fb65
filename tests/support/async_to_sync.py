"""Makes the synchronous client from the asynchronous one: ``python tests/support/async_to_sync.py``.

``--check`` writes nothing and fails where the two have drifted apart.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

CLIENT = Path(__file__).parents[2] / "client"
HEADER = '''"""The synchronous client. Made from ``turnledger.client.aio`` by ``make gen``: do not edit."""
'''
_RULES = (
    (r"\basync def\b", "def"),
    (r"\basync for\b", "for"),
    (r"\bawait ", ""),
    (r"\b__aenter__\b", "__enter__"),
    (r"\b__aexit__\b", "__exit__"),
    (r"\bgrpc\.aio\.", "grpc."),
    (r"\bAsync(LedgerClient|Run|Iterator)\b", r"\1"),
)


def sync_source(source: str) -> str:
    """The synchronous module of an asynchronous one."""
    body = source.split('"""\n', 1)[1]
    for pattern, replacement in _RULES:
        body = re.sub(pattern, replacement, body)
    return HEADER + body


def main() -> int:
    """Writes or checks the synchronous client."""
    made = sync_source((CLIENT / "aio.py").read_text())
    target = CLIENT / "sync.py"
    if "--check" not in sys.argv:
        target.write_text(made)
        return 0
    return int(target.read_text() != made)


if __name__ == "__main__":
    sys.exit(main())
