"""The APIs that the gateway speaks, as a table: one row for each route that engines compute for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Dialect(Enum):
    """In which shape bodies, events and errors come: the family that a route belongs to."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    RESPONSES = "responses"
    MESSAGES = "messages"
    EMBEDDINGS = "embeddings"
    TOKENS = "tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One route.

    scheduled      its calls are calls of a program, with a row in the process table; others only count or look up tokens
    asks_for_usage a stream tells its usage only if `stream_options.include_usage` asks for it
    anthropic      errors have Anthropic's shape instead of OpenAI's
    """

    path: str
    dialect: Dialect
    scheduled: bool = True
    asks_for_usage: bool = False
    anthropic: bool = False


APIS = (
    Api(path="/v1/chat/completions", dialect=Dialect.CHAT, asks_for_usage=True),
    Api(path="/v1/completions", dialect=Dialect.COMPLETIONS, asks_for_usage=True),
    Api(path="/v1/responses", dialect=Dialect.RESPONSES),
    Api(path="/v1/messages", dialect=Dialect.MESSAGES, anthropic=True),
    Api(path="/v1/embeddings", dialect=Dialect.EMBEDDINGS),
    Api(path="/v1/messages/count_tokens", dialect=Dialect.TOKENS, scheduled=False, anthropic=True),
    Api(path="/tokenize", dialect=Dialect.TOKENS, scheduled=False),
    Api(path="/detokenize", dialect=Dialect.TOKENS, scheduled=False),
)
