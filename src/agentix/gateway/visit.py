"""One call's stay in one engine: counted while it lasts, judged once, and to be cut short."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from agentix.gateway.cancel_scope import CancelScope
from agentix.gateway.engine_transport import EngineAnswer
from agentix.gateway.engines import EnginePool, EngineState


class Visit:
    """A call in an engine, from when it is sent until its answer is over or nobody wants it any more.

    What it says of the engine goes to the engine's breaker once: `failed`, or a success when the answer is complete
    (`succeeded`) or was on its way when the client left. A visit that ends before there was any answer says nothing.
    It ends with its block, or if it is to go on (`keep`) when it is told to.
    """

    __slots__ = ("_is_kept", "_judged", "_pool", "_program_id", "_ticket", "answer", "begun", "is_cut", "scope", "state")

    def __init__(self, pool: EnginePool, state: EngineState, program_id: str) -> None:
        self.state = state
        self.scope = CancelScope()  # of the time until the answer begins
        self.answer: EngineAnswer | None = None
        self.begun = False
        self.is_cut = False
        self._pool = pool
        self._program_id = program_id
        self._ticket = 0
        self._judged = False
        self._is_kept = False

    def __enter__(self) -> Self:
        self.state.num_calls += 1
        self.state.num_routed += 1
        self.state.cuts.add(self.cut)
        self._ticket = self.state.breaker.sent(time.monotonic())
        if self._ticket:
            self._pool.tell(self.state)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if not self._is_kept:
            self.leave()

    def keep(self) -> None:
        """Go on until `leave`: there is an answer to be read."""
        self._is_kept = True

    def leave(self) -> None:
        """The answer is over, or nobody wants it any more."""
        self._hang_up()  # if the end has not come: that is what cancels the call in the engine
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
        self._hang_up()

    def _hang_up(self) -> None:
        if self.answer is not None:
            self.answer.close()

    def _judge(self, *, failed: bool) -> None:
        if not self._judged:
            self._judged = True
            self._pool.report(self.state, self._program_id, self._ticket, failed=failed)
