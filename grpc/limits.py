"""Limits and channel options of the service, in one place: option names are strings that nothing checks."""

from __future__ import annotations

REQUEST_BYTES_MAX = 64 * 1024 * 1024
"""Largest request or answer; above every limit that is checked by name, so that those answer first."""
CHUNK_BYTES_MAX = 4 * 1024 * 1024
"""Bodies in one message of a stream; a larger body travels alone."""
CALL_THREADS = 16
STREAMS_MAX = 16
STREAM_THREADS = STREAMS_MAX + 4
"""Some to spare, so that one stream too many is refused at once and does not wait for a thread."""
DRAIN_SECONDS = 5.0

SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", REQUEST_BYTES_MAX),
    ("grpc.max_send_message_length", REQUEST_BYTES_MAX),
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
)
