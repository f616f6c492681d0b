"""Typed reading of one JSON object: each method gives the value of a key or calls `fail` with what is wrong.

Null counts as absent everywhere. Keys that are not asked for are ignored, so traces may carry more than we read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn


class Fields:
    """A JSON object under inspection. `fail(problem)` must raise; it knows where the object stands."""

    def __init__(self, raw: Any, *, fail: Callable[[str], NoReturn]) -> None:
        self._fail = fail
        if not isinstance(raw, dict):
            fail(f"a JSON object is expected, not {_kind(raw)}")
        self._raw: dict[str, Any] = raw

    def text(self, key: str) -> str:
        """A string that must be there and not be empty."""
        value = self.optional_text(key)
        if not value:
            self._fail(f"{key} is missing" if value is None else f"{key} is empty")
        return value

    def optional_text(self, key: str) -> str | None:
        """A string, maybe empty, or None."""
        value = self._raw.get(key)
        if value is not None and not isinstance(value, str):
            self._wrong(key, "a string", value)
        return value

    def count(self, key: str) -> int:
        """A whole number ≥ 0 that must be there."""
        value = self.optional_count(key)
        if value is None:
            self._fail(f"{key} is missing")
        return value

    def optional_count(self, key: str) -> int | None:
        """A whole number ≥ 0, or None."""
        value = self._raw.get(key)
        if value is None:
            return None
        return self._checked_count(key, value)

    def seconds(self, key: str) -> float | None:
        """A finite number of seconds ≥ 0, or None."""
        value = self._raw.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._wrong(key, "a number of seconds", value)
        if value < 0:
            self._fail(f"{key} is negative: {value}")
        try:
            seconds = float(value)
        except OverflowError:
            seconds = math.inf
        if not math.isfinite(seconds):
            self._fail(f"{key} is not finite")
        return seconds

    def flag(self, key: str) -> bool:
        """A boolean; absent is false."""
        value = self._raw.get(key)
        if value is not None and not isinstance(value, bool):
            self._wrong(key, "true or false", value)
        return bool(value)

    def mapping(self, key: str) -> Mapping[str, Any]:
        """An object; absent is empty."""
        value = self._raw.get(key)
        if value is not None and not isinstance(value, dict):
            self._wrong(key, "an object", value)
        return value or {}

    def items(self, key: str) -> list[Any]:
        """A list that must be there and not be empty."""
        value = self._list(key)
        if not value:
            self._fail(f"{key} is missing" if value is None else f"{key} is empty")
        return value

    def optional_items(self, key: str) -> list[Any]:
        """A list; absent is empty."""
        return self._list(key) or []

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings that must be there."""
        value = self._list(key)
        if value is None:
            self._fail(f"{key} is missing")
        if not all(isinstance(item, str) for item in value):
            self._wrong(key, "a list of strings", value)
        return tuple(value)

    def counts(self, key: str) -> tuple[int, ...] | None:
        """A list of whole numbers ≥ 0, or None."""
        value = self._list(key)
        return None if value is None else tuple(self._checked_count(key, item) for item in value)

    def count_lists(self, key: str) -> list[tuple[int, ...]]:
        """A list that must be there, of lists of whole numbers ≥ 0."""
        rows = self.items(key)
        for row in rows:
            if not isinstance(row, list):
                self._wrong(key, "a list of lists", row)
        return [tuple(self._checked_count(key, item) for item in row) for row in rows]

    def parts(self, key: str) -> tuple[tuple[str, int], ...] | None:
        """A list of [name, whole number ≥ 0] pairs, or None."""
        value = self._list(key)
        if value is None:
            return None
        for part in value:
            if not isinstance(part, list) or len(part) != 2 or not isinstance(part[0], str):
                self._fail(f"{key}: every part is [name, tokens]")
        return tuple((name, self._checked_count(key, tokens)) for name, tokens in value)

    def messages(self, key: str) -> tuple[Mapping[str, Any], ...] | None:
        """A list of chat messages, each with a role and content (text, a list of parts, or null), or None."""
        value = self._list(key)
        if value is None:
            return None
        for message in value:
            if not isinstance(message, dict) or not isinstance(message.get("role"), str):
                self._fail(f"{key}: every message needs a role")
            if not isinstance(message.get("content"), str | list | None):
                self._wrong("content of a message", "text", message["content"])
        return tuple(value)

    def _list(self, key: str) -> list[Any] | None:
        value = self._raw.get(key)
        if value is not None and not isinstance(value, list):
            self._wrong(key, "a list", value)
        return value

    def _checked_count(self, key: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            self._wrong(key, "a whole number", value)
        if value < 0:
            self._fail(f"{key} is negative: {value}")
        return value

    def _wrong(self, key: str, expected: str, value: Any) -> NoReturn:
        self._fail(f"{key} must be {expected}, not {_kind(value)}")


def _kind(value: Any) -> str:
    """The value's type in JSON's words."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "null")
