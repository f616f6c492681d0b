"""An answer put together from the pieces in which it streams, in the form it has without streaming."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from io import StringIO
from typing import Any, TypeVar

from agentix.gateway.apis import Dialect

_MAX_CHARS = 2**20
_Key = TypeVar("_Key")


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
        self._texts: defaultdict[int, StringIO] = defaultdict(StringIO)  # by choice, or by content block
        self._calls: dict[tuple[int, int], dict[str, Any]] = {}  # tool calls by choice and index; blocks have index 0
        self._inputs: defaultdict[tuple[int, int], StringIO] = defaultdict(StringIO)  # arguments of each
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
            return {"content": [self._block(i) or {"type": "text", "text": texts[i]} for i in indices]}
        if self._dialect is Dialect.COMPLETIONS:
            return {"choices": [{"index": i, "text": texts.get(i, "")} for i in indices]}
        return {"choices": [{"index": i, "message": self._message(i, texts.get(i, ""))} for i in indices]}

    def _message(self, index: int, text: str) -> dict[str, Any]:
        functions = [
            {**call, "arguments": self._inputs[key].getvalue()} for key, call in sorted(self._calls.items()) if key[0] == index
        ]
        calls = [{"id": function["id"], "function": function} for function in functions]
        return {"role": "assistant", "content": text, "tool_calls": calls}

    def _block(self, index: int) -> dict[str, Any] | None:
        """The tool call that is this content block, its input as it came in pieces of JSON; None: the block is text."""
        block = self._calls.get((index, 0))
        if block is None:
            return None
        return {**block, "input": self._inputs[index, 0].getvalue() or block.get("input")}

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
        number, function = call.get("index"), call.get("function")
        key = (index, number if isinstance(number, int) else 0)
        known = self._calls.setdefault(key, {"id": None, "name": ""})
        known["id"] = call.get("id") or known["id"]
        name, arguments = (function.get("name"), function.get("arguments")) if isinstance(function, dict) else (None, None)
        if isinstance(name, str):
            known["name"] += name
            self._num_chars += len(name)
        self._add_piece(self._inputs, key, arguments)

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
            self._calls[index, 0] = block
        elif isinstance(block, dict):
            self._add_text(index, block.get("text"))
        if isinstance(delta, dict):
            self._add_text(index, delta.get("text"))
            if (index, 0) in self._calls:
                self._add_piece(self._inputs, (index, 0), delta.get("partial_json"))

    def _add_text(self, index: int, piece: Any) -> None:
        if piece:
            self._add_piece(self._texts, index, piece)

    def _add_piece(self, texts: defaultdict[_Key, StringIO], key: _Key, piece: Any) -> None:
        """Strings that grow by `+=` would take time in the square of their length, lists of pieces ten times the memory."""
        if isinstance(piece, str):
            texts[key].write(piece)
            self._num_chars += len(piece)


def _dicts(items: Any) -> list[dict[str, Any]]:
    return [i for i in items if isinstance(i, dict)] if isinstance(items, list) else []
