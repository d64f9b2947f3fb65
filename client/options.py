"""Channel options of the clients, in one place: their names are strings that nothing checks."""

from __future__ import annotations

import json

MESSAGE_BYTES_MAX = 64 * 1024 * 1024
TIMEOUT_SECONDS = 30.0

# Every write carries a request id, so repeating it is safe; ABORTED is for the caller to decide. Five attempts
# are what gRPC allows: spread over about five seconds, they outlast a restart of the service.
_SERVICE_CONFIG = {
    "methodConfig": [
        {
            "name": [{"service": "turnledger.v1.LedgerService"}, {"service": "turnledger.v1.AuditService"}],
            "retryPolicy": {
                "maxAttempts": 5,
                "initialBackoff": "0.2s",
                "maxBackoff": "3s",
                "backoffMultiplier": 2.5,
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
    # A request that is larger than this is not repeated.
    ("grpc.per_rpc_retry_buffer_size", MESSAGE_BYTES_MAX),
    # An attempt that falls between two tries to connect fails at once, so these are not rarer than those.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.keepalive_time_ms", 30_000),
)
