"""Reaching an engine: the first in a ranking that takes the call and begins to answer it, and its answer in pieces."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import httpx2

from agentix.gateway.accounting import parse_json
from agentix.gateway.engine_transport import EngineAnswer, RawHeaders
from agentix.gateway.engines import EnginePool
from agentix.gateway.errors import HTTPError
from agentix.gateway.events import is_engines_fault, told_error
from agentix.gateway.rate_limit import read_retry_after
from agentix.gateway.visit import Visit

MAX_LOST = 3  # a call that so many engines broke off is not given to another: it may be what they die of
_FIRST_ERROR = (b'data: {"error"', b'data:{"error"', b"event: error\n")


class EngineLost(Exception):
    """The engine broke off in the middle of a call, or failed it, and no other engine may have it."""


class EngineBusy(HTTPError):
    """A hosted engine takes no more calls now. Nothing has been computed: the call can be sent again, after `retry_after_s`."""

    def __init__(self, engine_id: str, retry_after_s: float) -> None:
        message = f"engine {engine_id} takes no more calls now"
        super().__init__(429, message, "rate_limit_error", math.ceil(retry_after_s), code="rate_limit_exceeded")
        self.engine_id = engine_id


@dataclass(slots=True, kw_only=True)
class Answer:
    """An answer whose beginning is there; its visit lasts as long as the block that it is used in.

    `first`: the first piece of a stream of events, else the whole body; `rest`: what follows.
    `failed`: the engine has made an error of its own of the call (not: has refused it).
    """

    status_code: int
    headers: Mapping[str, str]
    raw_headers: RawHeaders
    visit: Visit
    first: bytes = b""
    rest: AsyncIterator[bytes] | None = field(default=None)
    failed: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.visit.leave()


async def send(
    pool: EnginePool,
    engine_ids: Iterable[str],
    open_call: Callable[[str], Awaitable[EngineAnswer]],
    *,
    program_id: str = "",
    repeatable: bool = True,
    bound: bool = False,
) -> Answer:
    """The answer of the first engine that begins one; to be used in a block (`with`).

    `open_call` makes the request to an engine by its id; it is sent when that is awaited.
    An engine that cannot be reached, or takes no calls any more, is skipped; `bound`: not the latter, because no other engine
    has what is asked for. One that breaks off or fails before any of its answer is there is left for the next, so that the
    call may be computed twice, but is never answered twice; `repeatable` False: not even that. The last engine's own error
    is its answer. Raises EngineBusy if a hosted engine asks for patience, EngineLost if the last one breaks off, HTTPError
    503 if none can be reached.
    """
    lost: list[EngineLost] = []
    rest = (s for s in map(pool.states.get, engine_ids) if s is not None and (bound or s.takes_calls))
    state = next(rest, None)
    while state is not None and len(lost) < (MAX_LOST if repeatable else 1):
        opening = open_call(state.target.engine_id)
        with Visit(pool, state, program_id) as visit:
            try:
                answer = await _begin(opening, visit)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                visit.failed()
                pool.report_unreachable(state.target.engine_id, error)
                state = next(rest, None)
                continue
            except EngineLost as error:
                visit.failed()
                lost.append(error)
                state = next(rest, None)
                continue
            _heed_limits(answer)
            another = next(rest, None) if answer.failed and repeatable and len(lost) + 1 < MAX_LOST else None
            if another is None:
                visit.keep()
                return answer
            lost.append(EngineLost(f"engine {state.target.engine_id} failed the call (status {answer.status_code})"))
            state = another
    if lost:
        raise lost[-1]
    raise HTTPError.no_engine()


async def chunks(answer: Answer) -> AsyncIterator[bytes]:
    """The body as it comes, undecoded. Raises EngineLost where it breaks off."""
    if answer.first:
        yield answer.first
    if answer.rest is not None:
        try:
            async for chunk in answer.rest:
                yield chunk
        except httpx2.HTTPError as error:
            answer.visit.failed()
            raise _lost(answer.visit, "in the middle of its answer", error) from error
    answer.visit.succeeded()


async def _begin(opening: Awaitable[EngineAnswer], visit: Visit) -> Answer:
    """Send the call and wait for the first piece of its answer. Raises EngineLost, or httpx's errors of unreachable engines."""
    answer = None
    try:
        with visit.scope:
            visit.answer = said = await opening
            answer = Answer(status_code=said.status_code, headers=said.headers, raw_headers=said.raw_headers, visit=visit)
            if said.headers.get("content-type", "").startswith("text/event-stream"):
                pieces = aiter(said)
                answer.first, answer.rest = await anext(pieces, b""), pieces
            else:
                answer.first = await said.read()
    except (httpx2.ConnectError, httpx2.ConnectTimeout):
        raise
    except httpx2.HTTPError as error:
        raise _lost(visit, "before it answered", error) from error
    if answer is None or visit.scope.cancelled_caught:
        raise _lost(visit, "before it answered", None)
    visit.begun = True
    answer.failed = _is_failure(answer)
    if answer.failed and "retry-after" not in answer.headers:  # one that asks for patience is busy, not broken
        visit.failed()
    return answer


def _is_failure(answer: Answer) -> bool:
    """Whether the engine failed: by its status (501 says that it never will), or in the first event of a stream.

    vLLM sends the status line of a stream before it has begun to compute.
    """
    if answer.status_code >= 500:
        return answer.status_code != 501
    if answer.rest is None or not answer.first.startswith(_FIRST_ERROR):
        return False
    said = parse_json(answer.first[answer.first.index(b"data:") + 5 :].split(b"\n")[0]) if b"data:" in answer.first else None
    return is_engines_fault(told_error(said) if isinstance(said, dict) else None)


def _heed_limits(answer: Answer) -> None:
    """Learn what a hosted engine says of its limits. Raises EngineBusy if it has refused the call for them."""
    state = answer.visit.state
    if state.target.hosted is None:
        return
    state.limit.heard(answer.headers, time.monotonic())
    after_s = read_retry_after(answer.headers)
    over_quota = b'"insufficient_quota"' in answer.first  # OpenAI's 429 for an account without money: patience is no help
    if (answer.status_code == 429 and not over_quota) or (answer.status_code == 503 and after_s is not None):
        raise EngineBusy(state.target.engine_id, 1.0 if after_s is None else after_s)


def _lost(visit: Visit, when: str, error: Exception | None) -> EngineLost:
    engine_id = visit.state.target.engine_id
    if visit.is_cut:
        return EngineLost(f"engine {engine_id} was removed")
    return EngineLost(f"engine {engine_id} broke off {when} ({type(error).__name__})")
