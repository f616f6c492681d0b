"""An answer put together from the pieces in which it streams, in the form it has without streaming."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

from agentix.gateway.apis import Dialect

_MAX_CHARS = 2**20


class Deltas:
    """Collects what one stream says. What is malformed is passed over; of answers without bound, nothing is kept."""

    def __init__(self, dialect: Dialect) -> None:
        readers: dict[Dialect, Callable[[dict[str, Any]], None]] = {
            Dialect.CHAT: self._add_choices,
            Dialect.COMPLETIONS: self._add_choices,
            Dialect.RESPONSES: self._add_response,
            Dialect.MESSAGES: self._add_block,
        }
        self._add = readers.get(dialect)
        self._dialect = dialect
        self._num_chars = 0
        self._texts: dict[int, StringIO] = {}  # by choice, or by content block
        self._calls: dict[tuple[int, int], dict[str, Any]] = {}  # tool calls by choice and index; blocks have index 0
        self._response: dict[str, Any] | None = None

    def add(self, event: dict[str, Any]) -> None:
        """Take in one event."""
        if self._add is not None and self._num_chars <= _MAX_CHARS:
            self._add(event)

    def answer(self) -> dict[str, Any] | None:
        """The answer so far; None if nothing was said, or too much."""
        if self._num_chars > _MAX_CHARS:
            return None
        if self._dialect is Dialect.RESPONSES:
            return self._response
        texts = {index: text.getvalue() for index, text in self._texts.items()}
        indices = sorted(texts.keys() | {index for index, _ in self._calls})
        if not indices:
            return None
        if self._dialect is Dialect.MESSAGES:
            blocks = (self._calls.get((i, 0)) or {"type": "text", "text": texts[i]} for i in indices)
            return {"content": [_finished(block) for block in blocks]}
        if self._dialect is Dialect.COMPLETIONS:
            return {"choices": [{"index": i, "text": texts.get(i, "")} for i in indices]}
        return {"choices": [{"index": i, "message": self._message(i, texts.get(i, ""))} for i in indices]}

    def _message(self, index: int, text: str) -> dict[str, Any]:
        calls = [{"id": c["id"], "function": c} for (i, _), c in sorted(self._calls.items()) if i == index]
        return {"role": "assistant", "content": text, "tool_calls": calls}

    def _add_choices(self, event: dict[str, Any]) -> None:
        for choice in _dicts(event.get("choices")):
            index = choice.get("index")
            index = index if isinstance(index, int) else 0
            delta = choice.get("delta")
            self._add_text(index, choice.get("text"))
            if isinstance(delta, dict):
                self._add_text(index, delta.get("content"))
                for call in _dicts(delta.get("tool_calls")):
                    self._add_tool_call(index, call)

    def _add_tool_call(self, index: int, call: dict[str, Any]) -> None:
        number = call.get("index")
        known = self._calls.setdefault(
            (index, number if isinstance(number, int) else 0), {"id": None, "name": "", "arguments": ""}
        )
        known["id"] = call.get("id") or known["id"]
        function = call.get("function")
        for key in ("name", "arguments"):
            piece = function.get(key) if isinstance(function, dict) else None
            if isinstance(piece, str):
                known[key] += piece
                self._num_chars += len(piece)

    def _add_response(self, event: dict[str, Any]) -> None:
        """The events of Responses carry the whole response at its beginning and at its end, and each item when it is done."""
        if isinstance(event.get("response"), dict):
            self._response = event["response"]
        elif event.get("type") == "response.output_item.done" and self._response is not None:
            output = self._response.get("output")
            done = output if isinstance(output, list) else []
            self._response = {**self._response, "output": [*done, event.get("item")]}

    def _add_block(self, event: dict[str, Any]) -> None:
        """A content block of Messages begins, or goes on."""
        index, block, delta = event.get("index"), event.get("content_block"), event.get("delta")
        if not isinstance(index, int):
            return
        if isinstance(block, dict) and block.get("type") == "tool_use":
            self._calls[index, 0] = {**block, "json": ""}
        elif isinstance(block, dict):
            self._add_text(index, block.get("text"))
        if isinstance(delta, dict):
            self._add_text(index, delta.get("text"))
            piece = delta.get("partial_json")
            if isinstance(piece, str) and (index, 0) in self._calls:
                self._calls[index, 0]["json"] += piece
                self._num_chars += len(piece)

    def _add_text(self, index: int, piece: Any) -> None:
        if isinstance(piece, str) and piece:
            if index not in self._texts:
                self._texts[index] = StringIO()  # a list of the pieces would take ten times the memory
            self._texts[index].write(piece)
            self._num_chars += len(piece)


def _finished(block: dict[str, Any]) -> dict[str, Any]:
    """A content block whose input has come in pieces of JSON."""
    return {**block, "input": block["json"] or block.get("input")} if "json" in block else block


def _dicts(items: Any) -> list[dict[str, Any]]:
    return [i for i in items if isinstance(i, dict)] if isinstance(items, list) else []
