"""The command line."""

from __future__ import annotations

import os

# gRPC's own log would stand between our lines on standard error; what it has to say comes as an exception.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
