"""The calls that were over last, with their moments: what a timeline is drawn from."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from agentix.core.process_table import ProcessTable
from agentix.gateway.cursor import Cursors
from agentix.gateway.observer import Observer
from agentix.gateway.tenants import is_admin, tenant_of

if TYPE_CHECKING:
    from agentix.gateway.exchange import Call

MAX_CALLS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentCall:
    """A call that is over. Ids as its client knows them.

    Moments are seconds on the gateway's monotonic clock; None: it never came to that. `sent_s`: it went to the engine that had
    it last. Tokens as the engine counts them, None where it does not; `cached_tokens` of the prompt came from a prefix cache.
    """

    tenant: str
    program_id: str
    program_class: str
    thread_id: str
    call_id: str
    engine_id: str
    outcome: str
    arrived_s: float
    sent_s: float | None
    first_token_s: float | None
    over_s: float
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None


class RecentCalls(Observer):
    """A ring of the last `max_calls`, numbered from 1 on. Adding one takes constant time."""

    def __init__(self, table: ProcessTable, *, max_calls: int = MAX_CALLS) -> None:
        self._table = table
        self._calls: deque[RecentCall] = deque(maxlen=max_calls)
        self._cursors = Cursors()
        self._num_added = 0

    def over(self, call: Call, now: float) -> None:
        """Keep what is known of it."""
        row, account = self._table.row(call.identity.program_id), call.account
        self.add(
            RecentCall(
                tenant=call.tenant,
                program_id=call.identity.shown_id,
                program_class=row.program_class,
                thread_id=call.identity.thread_id,
                call_id=call.call_id,
                engine_id=call.engine_id,
                outcome=call.outcome.value,
                arrived_s=call.arrived_s,
                sent_s=call.sent_s,
                first_token_s=call.first_token_s,
                over_s=now,
                prompt_tokens=account.prompt_tokens,
                cached_tokens=account.cached_tokens,
                output_tokens=account.output_tokens,
            )
        )

    def add(self, call: RecentCall) -> None:
        """It is over."""
        self._calls.append(call)
        self._num_added += 1

    def after(self, number: int) -> Iterable[RecentCall]:
        """What was added behind that number and is still here, oldest first."""
        num_gone = self._num_added - len(self._calls)
        return islice(self._calls, max(0, number - num_gone), None)

    async def show(self, request: Request) -> Response:
        """GET /v1/calls: calls that are over, oldest first; with `after`, the `next` of an earlier answer, what is new since.

        A tenant's own; an admin gets everybody's. `now_s` is the moment of the answer on the clock of all the others.
        """
        calls = self.after(self._cursors.read(request.query_params.get("after", ""), "after"))
        if not is_admin(request):
            calls = (call for call in calls if call.tenant == tenant_of(request))
        data = [{"object": "call", **asdict(call)} for call in calls]
        return JSONResponse(
            {"object": "list", "data": data, "next": self._cursors.write(self._num_added), "now_s": time.monotonic()}
        )
