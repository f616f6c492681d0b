"""Cursors of lists that grow while they are read: how far a reader has come, in one life of this gateway."""

from __future__ import annotations

import secrets

from agentix.gateway.errors import HTTPError


class Cursors:
    """Numbers as opaque text and back. A cursor of an earlier life of the gateway counts as 0: begin anew."""

    def __init__(self) -> None:
        self._life = secrets.token_hex(4)

    def write(self, number: int) -> str:
        """The cursor of a reader that has everything up to `number`."""
        return f"{self._life}.{number}"

    def read(self, text: str, param: str) -> int:
        """The number that `write` was given; 0 for an empty cursor. Raises HTTPError 400, which names `param`."""
        life, _, digits = text.partition(".")
        if text and not (life and digits.isascii() and digits.isdigit() and len(digits) <= 18):
            raise HTTPError(400, f"{param} must be the cursor of an earlier answer, not {text[:100]!r}", param=param)
        return int(digits) if life == self._life else 0
