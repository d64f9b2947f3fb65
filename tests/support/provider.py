"""A local provider: speaks as much of the OpenAI and the Anthropic API as their SDKs need."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

Body = dict[str, Any]


@dataclass
class Provider:
    """Where it listens, what it was sent, and after how many calls of a tool it answers in words."""

    url: str = ""
    tool_calls: int = 10**6
    received: list[Body] = field(default_factory=list)

    def answer(self, path: str, body: Body) -> Body:
        """The answer to one request."""
        self.received.append(body)
        calls = len(self.received) <= self.tool_calls
        return _openai_answer(calls) if path.endswith("/chat/completions") else _anthropic_answer(calls)


@contextmanager
def providing(tool_calls: int = 10**6) -> Iterator[Provider]:
    """A provider that ends with the block."""
    provider = Provider(tool_calls=tool_calls)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            answer = json.dumps(provider.answer(self.path, body)).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args: Any) -> None:
            """Nothing on the test's screen."""

    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        provider.url = f"http://127.0.0.1:{http.server_port}"
        try:
            yield provider
        finally:
            http.shutdown()
            thread.join()


def _openai_answer(calls_tool: bool) -> Body:
    usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
    call = {"id": "call_9", "type": "function", "function": {"name": "run_tests", "arguments": "{}"}}
    said: Body = {"content": None, "tool_calls": [call]} if calls_tool else {"content": "Mended."}
    message = {"role": "assistant", **said, "refusal": None}
    choice = {"index": 0, "finish_reason": "tool_calls" if calls_tool else "stop", "message": message}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


def _anthropic_answer(calls_tool: bool) -> Body:
    call = {"type": "tool_use", "id": "toolu_9", "name": "run_tests", "input": {"a": 1}}
    content = [call if calls_tool else {"type": "text", "text": "Mended."}]
    usage = {"input_tokens": 3, "cache_read_input_tokens": 17, "cache_creation_input_tokens": 0, "output_tokens": 5}
    stop = "tool_use" if calls_tool else "end_turn"
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": stop}
    return {**head, "stop_sequence": None, "content": content, "usage": usage}
