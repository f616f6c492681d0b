"""Reaching an engine: the first in a ranking that takes the request, and its answer in pieces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, ExitStack

import anyio
import httpx2

from agentix.gateway.engines import EnginePool
from agentix.gateway.errors import HTTPError


class EngineLost(Exception):
    """The engine broke off in the middle of a call."""


async def send(
    pool: EnginePool, engine_ids: Iterable[str], make_request: Callable[[str], httpx2.Request], stack: AsyncExitStack
) -> httpx2.Response:
    """The start of the answer of the first engine that can be reached; it stays open as long as `stack`.

    An engine that cannot be reached is skipped. One that has taken the request is not: it may have computed it. Raises
    EngineLost if that one breaks off, HTTPError 503 if none can be reached.
    """
    for engine_id in engine_ids:
        with ExitStack() as attempt:
            request = make_request(engine_id)
            attempt.enter_context(pool.states[engine_id].call())
            try:
                response = await pool.client.send(request, stream=True)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                pool.report_unreachable(engine_id, error)
                continue
            except httpx2.HTTPError as error:
                raise EngineLost(f"engine {engine_id} broke off before it answered ({type(error).__name__})") from error
            stack.enter_context(attempt.pop_all())
        stack.push_async_callback(_close_response, response)
        return response
    raise HTTPError.no_engine()


async def chunks(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The body as it comes, undecoded. Raises EngineLost where it breaks off."""
    try:
        async for chunk in response.aiter_raw():
            yield chunk
    except httpx2.HTTPError as error:
        raise EngineLost(f"the engine broke off in the middle of its answer ({type(error).__name__})") from error


async def _close_response(response: httpx2.Response) -> None:
    """Close even while cancelled: closing the connection is what cancels the call in the engine."""
    with anyio.CancelScope(shield=True):
        await response.aclose()
