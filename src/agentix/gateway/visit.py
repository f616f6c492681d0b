"""One call's stay in one engine: counted while it lasts, judged once, and to be cut short."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

import anyio
import httpx2

from agentix.gateway.engines import EnginePool, EngineState


class Visit:
    """A call in an engine, from when it is sent until its answer is over or nobody wants it any more.

    What it says of the engine goes to the engine's breaker once: `failed`, or a success when the answer is complete
    (`succeeded`) or was on its way when the client left. A visit that ends before there was any answer says nothing.
    """

    __slots__ = ("_judged", "_pool", "_program_id", "_ticket", "begun", "is_cut", "response", "scope", "state")

    def __init__(self, pool: EnginePool, state: EngineState, program_id: str) -> None:
        self.state = state
        self.scope = anyio.CancelScope()  # of the time until the answer begins
        self.response: httpx2.Response | None = None
        self.begun = False
        self.is_cut = False
        self._pool = pool
        self._program_id = program_id
        self._ticket = 0
        self._judged = False

    def __enter__(self) -> Self:
        self.state.num_calls += 1
        self.state.num_routed += 1
        self.state.cuts.add(self.cut)
        self._ticket = self.state.breaker.sent(time.monotonic())
        if self._ticket:
            self._pool.tell(self.state)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self.begun:
            self.succeeded()
        elif not self._judged:
            self.state.breaker.abandoned(self._ticket)
        self.state.cuts.discard(self.cut)
        self.state.num_calls -= 1
        self._pool.left(self.state)

    def failed(self) -> None:
        """The engine has failed the call; not if it was we who cut it short."""
        self._judge(failed=not self.is_cut)

    def succeeded(self) -> None:
        """The engine has answered."""
        self._judge(failed=False)

    def cut(self) -> None:
        """Break the call off: whoever waits for the answer, or for more of it, gets an error at once."""
        self.is_cut = True
        self.scope.cancel()
        if self.response is not None:
            self.response.extensions["hang_up"]()

    def _judge(self, *, failed: bool) -> None:
        if not self._judged:
            self._judged = True
            self._pool.report(self.state, self._program_id, self._ticket, failed=failed)
