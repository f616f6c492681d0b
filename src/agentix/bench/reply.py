"""One streamed chat completion as it comes in: when its pieces arrived, what the server counted, how it ended."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

_BAD_ENDS = {"abort", "error"}  # finish reasons by which vLLM says that it gave up


class BrokenStream(ValueError):
    """The stream says that the call failed, or is not a stream of completion chunks. Never leaves this package."""


@dataclass(slots=True)
class Reply:
    """Filled while the stream runs. `error` is None if and only if the call ended well."""

    first_token_s: float | None = None
    last_token_s: float | None = None
    end_s: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    is_finished: bool = False
    error: str | None = None

    def read(self, data: str, now_s: float) -> None:
        """Take in the data of one event that arrived at `now_s`. Raises BrokenStream."""
        if data == "[DONE]":
            self.is_finished = True
            return
        try:
            chunk = json.loads(data)
        except ValueError as error:
            raise BrokenStream(f"broken stream: {error}") from error
        if not isinstance(chunk, dict):
            raise BrokenStream("broken stream: an event is not a JSON object")
        if chunk.get("error"):
            raise BrokenStream(f"error in stream: {error_text(chunk)}")
        for choice in _objects(chunk.get("choices")):
            self._read_choice(choice, now_s)
        self._read_usage(_object(chunk.get("usage")))

    def _read_choice(self, choice: dict[str, Any], now_s: float) -> None:
        delta = _object(choice.get("delta"))
        has_text = any(delta.get(key) for key in ("content", "reasoning", "reasoning_content", "tool_calls"))
        finish_reason = choice.get("finish_reason")
        if has_text and self.first_token_s is None:
            self.first_token_s = now_s
        if has_text or finish_reason:
            self.last_token_s = now_s
        if finish_reason in _BAD_ENDS:
            raise BrokenStream(f"the server ended the answer with finish_reason {finish_reason!r}")
        self.is_finished = self.is_finished or bool(finish_reason)

    def _read_usage(self, usage: dict[str, Any]) -> None:
        """Usage may come once at the end, or grow from chunk to chunk: the last one counts."""
        if usage:
            self.prompt_tokens = count_in(usage, "prompt_tokens")
            self.output_tokens = count_in(usage, "completion_tokens")
            self.cached_tokens = count_in(_object(usage.get("prompt_tokens_details")), "cached_tokens")


def count_in(source: dict[str, Any], key: str) -> int | None:
    """A whole number that a server may or may not have given."""
    value = source.get(key)
    return value if isinstance(value, int) else None


def error_text(body: Any) -> str:
    """The message in an OpenAI-shaped error, or the body itself, cut to a readable length."""
    error = body.get("error", body) if isinstance(body, dict) else body
    message = error.get("message", error) if isinstance(error, dict) else error
    return str(message).strip()[:300]


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
