"""What a client can do for its programs without a program-aware engine: number its calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from agentix import wire
from agentix.bench.replay import ChatServer
from agentix.bench.reply import Reply


class CallsSoFar:
    """Sends each call with `priority`: how many calls of its program have been answered. Lower values go first in vLLM.

    Calls that a program sends side by side have one priority. The client sees no more than that: not how long a call was
    served, nor what other programs have had.
    """

    def __init__(self, server: ChatServer) -> None:
        self._server = server
        self._num_answered: Counter[str] = Counter()

    async def chat(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> Reply:
        """Send one call and read its answer to the end."""
        program_id = headers[wire.PROGRAM_HEADER]
        reply = await self._server.chat({**body, "priority": self._num_answered[program_id]}, headers)
        self._num_answered[program_id] += 1
        return reply

    async def end_program(self, program_id: str) -> str | None:
        """Say that a program is over; returns what went wrong."""
        del self._num_answered[program_id]
        return await self._server.end_program(program_id)
