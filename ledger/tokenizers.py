"""Tokenizers from vocabularies that ship inside the package: nothing is downloaded at run time."""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import tiktoken

from turnledger.domain.errors import FieldInvalid, shown


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    """The facts of a vocabulary that its table does not hold (source: the tiktoken package, MIT)."""

    sha256: str
    pattern: str
    special_tokens: dict[str, int]


_VOCABULARIES = {
    "o200k_base": _Vocabulary(
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        "|".join(
            (
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                r"\p{N}{1,3}",
                r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
                r"\s*[\r\n]+",
                r"\s+(?!\S)",
                r"\s+",
            )
        ),
        {"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
    ),
    "cl100k_base": _Vocabulary(
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
        {
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
    ),
}
TOKENIZERS = tuple(_VOCABULARIES)
"""Names of the tokenizers that a run can be opened with."""


class Tokenizer:
    """Counts tokens. Text that looks like a special token is ordinary text (WINDOW-RULES 6.6)."""

    def __init__(self, name: str, encoding: tiktoken.Encoding) -> None:
        self.name = name
        self._encoding = encoding

    def count(self, texts: Sequence[str]) -> int:
        """Tokens of all texts, each counted on its own."""
        return sum(len(self._encoding.encode_ordinary(text)) for text in texts)


@lru_cache(maxsize=len(_VOCABULARIES))
def _load(name: str) -> Tokenizer:
    vocabulary = _VOCABULARIES[name]
    packed = files("turnledger.ledger").joinpath("vocab", f"{name}.tiktoken.gz").read_bytes()
    table = gzip.decompress(packed)
    found = hashlib.sha256(table).hexdigest()
    if found != vocabulary.sha256:
        raise RuntimeError(f"the packaged vocabulary {name} is damaged: SHA-256 {found}, not {vocabulary.sha256}")
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in table.splitlines())}
    encoding = tiktoken.Encoding(
        name, pat_str=vocabulary.pattern, mergeable_ranks=ranks, special_tokens=vocabulary.special_tokens
    )
    return Tokenizer(name, encoding)


def check_tokenizer(name: str) -> str:
    """The name itself, or :class:`FieldInvalid`."""
    if name not in _VOCABULARIES:
        raise FieldInvalid("tokenizer", f"must be one of {', '.join(TOKENIZERS)}, or empty", shown(name))
    return name


def tokenizer_named(name: str | None) -> Tokenizer | None:
    """The tokenizer, loaded on first use (about 0.25 s and 75 MB), or None for no name."""
    return _load(check_tokenizer(name)) if name else None
