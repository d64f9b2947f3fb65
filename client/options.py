"""Channel options of the clients, in one place: their names are strings that nothing checks."""

from __future__ import annotations

import json

MESSAGE_BYTES_MAX = 64 * 1024 * 1024
TIMEOUT_SECONDS = 30.0

# Every write carries a request id, so repeating it is safe; ABORTED is for the caller to decide.
_SERVICE_CONFIG = {
    "methodConfig": [
        {
            "name": [{"service": "turnledger.v1.LedgerService"}, {"service": "turnledger.v1.AuditService"}],
            "retryPolicy": {
                "maxAttempts": 5,
                "initialBackoff": "0.1s",
                "maxBackoff": "2s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}

CHANNEL_OPTIONS: tuple[tuple[str, int | str], ...] = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.service_config", json.dumps(_SERVICE_CONFIG)),
    ("grpc.enable_retries", 1),
    ("grpc.keepalive_time_ms", 30_000),
)
