"""Who decides: a scripted stand-in, or a real model behind an OpenAI-compatible address."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, Protocol

Message = dict[str, Any]
"""A message of the OpenAI chat format."""

REQUEST = (
    "The build is red about one time in four, always with tests/test_checkout.py::test_walk_in_pays_list_price. "
    "Nobody has seen it fail on their own machine. The build shuffles the tests and does not keep the seed. "
    "Find the cause, mend it, and show that it is mended."
)


class ModelUnavailable(RuntimeError):
    """A model could not be asked, or its answer is not one; the text says which."""


class ChatModel(Protocol):
    """Answers a window with the next reply."""

    @property
    def name(self) -> str:
        """The model's name, for the envelope."""

    def complete(self, messages: Sequence[Message], tools: Sequence[Message]) -> tuple[Message, dict[str, Any]]:
        """The next assistant message, and the provider's own usage report. Raises ModelUnavailable."""


def texts_of(message: Message) -> list[str]:
    """What a model reads of a message, in order: its content, then the name and arguments of each call."""
    content = message.get("content")
    texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content or []]
    for call in message.get("tool_calls") or []:
        texts += [call["function"]["name"], call["function"]["arguments"]]
    return texts


class ScriptedModel:
    """A stand-in that plays a fixed hunt: it needs no network and no key, and it does not read the results.

    What the tools answer is real all the same, and so is what it says of it: the project, its orders and its defect
    are always the same. Its usage is an estimate, one token for four characters, not a count.
    """

    name = "scripted"

    def complete(self, messages: Sequence[Message], tools: Sequence[Message]) -> tuple[Message, dict[str, Any]]:
        """The reply that follows the newest one in the window. Raises ModelUnavailable for a window of another hunt."""
        newest = next((_first_call(message) for message in reversed(messages) if _calls(message)), None)
        if newest is not None and newest not in _POSITIONS:
            raise ModelUnavailable(f"the script has no call {newest!r}")
        reply = _SCRIPT[0 if newest is None else _POSITIONS[newest] + 1]
        read = [text for message in messages for text in texts_of(message)]
        prompt_tokens = _estimate([*read, json.dumps(list(tools))])
        return reply, {"prompt_tokens": prompt_tokens, "completion_tokens": _estimate(texts_of(reply))}


class OpenAICompatibleModel:
    """A model behind `/chat/completions`, asked with the standard library only.

    The key is sent to that address and nowhere else: a redirect is an error, not followed.
    """

    def __init__(self, base_url: str, api_key: str, model: str, timeout_seconds: float = 120.0) -> None:
        """`base_url` is what comes before `/chat/completions`. Raises ValueError where it is no http(s) address."""
        if not base_url.startswith(("https://", "http://")):
            raise ValueError(f"base_url must start with https:// or http://, not {base_url!r}")
        self.name = model
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._api_key = api_key
        self._timeout_seconds = timeout_seconds
        self._opener = urllib.request.build_opener(_NoRedirect)

    def complete(self, messages: Sequence[Message], tools: Sequence[Message]) -> tuple[Message, dict[str, Any]]:
        """The first choice, as the provider sent it, and its usage. Raises ModelUnavailable."""
        answer = self._post({"model": self.name, "messages": list(messages), "tools": list(tools)})
        try:
            reply, usage = answer["choices"][0]["message"], answer["usage"]
        except (LookupError, TypeError) as error:
            raise ModelUnavailable(f"{self._url}: the answer has no message or no usage") from error
        if not isinstance(reply, dict) or not isinstance(usage, dict):
            raise ModelUnavailable(f"{self._url}: message and usage must be objects")
        return reply, usage

    def _post(self, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        request = urllib.request.Request(self._url, json.dumps(body).encode(), headers)
        try:
            with self._opener.open(request, timeout=self._timeout_seconds) as response:
                return json.loads(response.read())
        except urllib.error.HTTPError as error:
            detail = error.read(2000).decode("utf-8", "replace").strip()
            raise ModelUnavailable(f"{self._url} answered {error.code} {error.reason}: {detail}") from error
        except (OSError, HTTPException) as error:
            raise ModelUnavailable(f"{self._url} cannot be reached: {error}") from error
        except ValueError as error:
            raise ModelUnavailable(f"{self._url}: the answer is not JSON: {error}") from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Leaves a redirect to be reported as the error it is here; following one would hand the key on."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


_NEW_TEST = """\
from shop.catalog import Catalog
from shop.discounts import Tier
from shop.price_book import quote


def test_a_price_is_remembered_for_its_own_tier() -> None:
    teapot = Catalog().find("TEAPOT")
    gold, none = (quote(teapot, 2, tier).total_cents for tier in (Tier.GOLD, Tier.NONE))
    assert (gold, none) == (9720, 10800), f"2 x TEAPOT: gold pays {gold}, no tier pays {none}, expected 9720 and 10800"
"""
_NEW_TEST_PATH = "tests/test_price_book_tiers.py"
_OLD_KEY = 'key = f"{product.sku}/{quantity}"'
_NEW_KEY = 'key = f"{product.sku}/{quantity}/{tier.value}"'

_Call = tuple[str, dict[str, Any]]

_STEPS: tuple[tuple[str, tuple[_Call, ...]], ...] = (
    ("First, what is there.", (("list_files", {}),)),
    ("The suite as it stands, file by file.", (("run_tests", {}),)),
    (
        "All pass. The build shuffles the tests, so two shuffled orders.",
        (("run_tests", {"seed": 5}), ("run_tests", {"seed": 6})),
    ),
    ("Both pass. One build in four is red, so I go on to the next seed.", (("run_tests", {"seed": 7}),)),
    (
        "Seed 7 shows it. Does the test need the others for that? Its file on its own.",
        (("run_tests", {"tests": ["tests/test_checkout.py"]}),),
    ),
    (
        "On its own it passes, so something that ran before it matters. Under seed 7 the price came from a cache, "
        "with the key 'MUG-BLUE/2'. Who keeps one?",
        (("search", {"text": "cache"}),),
    ),
    ("shop/price_book.py does.", (("read_file", {"path": "shop/price_book.py"}),)),
    (
        "The price depends on the tier, the key does not name it, and the book is a module's: it outlives a test. "
        "Then a customer with a tier must have bought the same before. Which test does that?",
        (("search", {"text": '"MUG-BLUE", 2'}),),
    ),
    ("One in test_invoices.py. Why does it not notice?", (("read_file", {"path": "tests/test_invoices.py"}),)),
    (
        "test_gold_invoice_shows_points looks at points only, and points come from the list price. So the "
        "red test is right, and the defect is the shop's. Before the mend, a test that shows it in every order.",
        (("write_file", {"path": _NEW_TEST_PATH, "content": _NEW_TEST}),),
    ),
    ("It must be red now.", (("run_tests", {"tests": [_NEW_TEST_PATH]}),)),
    (
        "Red, and it needs no other test for that. The mend: the tier belongs in the key.",
        (("edit_file", {"path": "shop/price_book.py", "old": _OLD_KEY, "new": _NEW_KEY}),),
    ),
    ("The order that was red: seed 7.", (("run_tests", {"seed": 7}),)),
    ("Green. And an order that nobody has looked at yet: seed 12.", (("run_tests", {"seed": 12}),)),
    (
        "Found and mended. shop/price_book.py remembers prices under product and quantity, but a price also depends on "
        "the customer's tier. In the order of seed 7 test_gold_invoice_shows_points runs first and leaves the gold "
        "price behind, and test_walk_in_pays_list_price is then served 34.20 from the cache instead of 38.00. The test "
        "was right: in the shop, a walk-in who buys what a gold customer just bought gets the gold price. The key now "
        f"names the tier. {_NEW_TEST_PATH} fails without that, whatever runs before it, and passes now; so do "
        "seeds 7 and 12.",
        (),
    ),
)


def _script() -> list[Message]:
    replies: list[Message] = []
    calls_before = 0
    for content, calls in _STEPS:
        reply: Message = {"role": "assistant", "content": content}
        if calls:
            reply["tool_calls"] = [
                {
                    "id": f"call_{calls_before + index}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for index, (name, arguments) in enumerate(calls, start=1)
            ]
        calls_before += len(calls)
        replies.append(reply)
    return replies


def _calls(message: Message) -> list[Message]:
    return list(message.get("tool_calls") or [])


def _first_call(message: Message) -> str:
    return str(_calls(message)[0]["id"])


def _estimate(texts: Sequence[str]) -> int:
    return sum(len(text) for text in texts) // 4


_SCRIPT = _script()
_POSITIONS = {_first_call(reply): position for position, reply in enumerate(_SCRIPT) if _calls(reply)}
