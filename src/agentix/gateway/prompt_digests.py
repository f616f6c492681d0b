"""What a prompt consists of, without a word of it: keyed digests of its messages, in pieces, with their lengths.

Equal beginnings of two prompts have equal digests, so whoever has the digests knows what a prefix cache can find. Without the
key, which never leaves the gateway, nobody can tell a text by its digest, nor find out by trying texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

from agentix.gateway.apis import Dialect
from agentix.gateway.identity import Turn, read_prompt

PIECE_CHARS = 1024
"""Messages are cut into pieces of so many characters: of what two have in common at the front, less than one is missed."""

Digested = list[list[Any]]
"""One message: its pieces as [digest, characters]."""

_PREAMBLES = ("tools", "system", "instructions")  # as chat templates have it: before what was said
_PREAMBLE_ROLES = frozenset({"system", "developer"})


def digest_prompt(body: Mapping[str, Any], key: bytes) -> list[Digested]:
    """The messages of a request of any API, in order; definitions of tools and instructions are messages too.

    What an engine wrote is one piece for each turn, in the form in which `digest_answer` gives it, whatever became of its
    spelling. Reasoning that clients send back is left out, since templates drop it. O(text of the prompt).
    """
    heads = [_pieces(_plain(body[name]), key) for name in _PREAMBLES if body.get(name)]
    items: Any = next((body[name] for name in ("messages", "input", "prompt") if body.get(name)), [])
    return [*heads, *(digested for item in _listed(items) for digested in _item(item, key))]


def digest_answer(answer: Iterable[Turn], key: bytes) -> list[Digested]:
    """What the engine wrote: a message of one piece for each turn."""
    return [[[_digest(f"{turn.role}\0{turn.text}", key), max(1, len(turn.text))]] for turn in answer]


def _item(item: Any, key: bytes) -> Iterator[Digested]:
    """A message of a chat, or an item of the Responses API; a prompt that is text alone."""
    if isinstance(item, dict) and item.get("role") not in _PREAMBLE_ROLES:
        turns = read_prompt(Dialect.RESPONSES, {"input": [item]}).turns
        if all(turn.written for turn in turns):  # also if there are none: reasoning
            yield from digest_answer(turns, key)
            return
    yield _pieces(_plain(item), key)


def _pieces(text: str, key: bytes) -> Digested:
    stretches = (text[at : at + PIECE_CHARS] for at in range(0, len(text), PIECE_CHARS))
    return [[_digest(stretch, key), len(stretch)] for stretch in stretches]


def _plain(value: Any) -> str:
    """Text as it is, everything else as JSON with its keys in order, less the cache marks that move from call to call."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(_without_marks(value), sort_keys=True)
    except RecursionError:
        return "nested too deeply"


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_marks(inner) for name, inner in value.items() if name != "cache_control"}
    return [_without_marks(inner) for inner in value] if isinstance(value, list) else value


def _listed(items: Any) -> list[Any]:
    """Messages or items one by one; token ids together, as they are one prompt."""
    is_list = isinstance(items, list) and all(isinstance(item, dict | str) for item in items)
    return items if is_list else [items]


def _digest(text: str, key: bytes) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=key).hexdigest()
