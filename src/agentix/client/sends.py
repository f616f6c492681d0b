"""Calls that httpx sends within a program get their headers: what wraps `Client.send` and `AsyncClient.send`."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from agentix.client import backend
from agentix.client.context import Place, current, headers_of, never_raising
from agentix.client.dag import Call
from agentix.wire import PROGRAM_HEADER

# Which base URLs are meant: () private hosts, None none.
Targets = Callable[[], tuple[str, ...] | None]
_PROGRAM = PROGRAM_HEADER.encode()
_MAX_WAIT_S = 2 * backend.TIMEOUT_S


@dataclass(frozen=True, slots=True)
class _Sent:
    place: Place
    call: Call
    session: Future[bool]


def annotating_send(original: Callable[..., Any], only: Targets) -> Callable[..., Any]:
    """For `Client.send`."""

    @functools.wraps(original)
    def send(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        sent = _begin(request, only)
        if sent is not None and not sent.session.done():
            _wait(sent.session)
        response = original(self, request, *args, **kwargs)
        if sent is not None:
            _finish(sent, response)
        return response

    return send


def annotating_async_send(original: Callable[..., Awaitable[Any]], only: Targets) -> Callable[..., Awaitable[Any]]:
    """For `AsyncClient.send`."""

    @functools.wraps(original)
    async def send(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        sent = _begin(request, only)
        if sent is not None and not sent.session.done():
            await _wait_async(sent.session)
        response = await original(self, request, *args, **kwargs)
        if sent is not None:
            _finish(sent, response)
        return response

    return send


@never_raising
def _begin(request: Any, only: Targets) -> _Sent | None:
    place = current()
    if place is None or request.method != "POST" or _names_its_program(request.headers):
        return None
    urls = only()
    root = None if urls is None else backend.root_of(request.url, urls)
    if root is None:
        return None
    session = place.program.session(root, _keys(request.headers))
    call = place.program.dag.begin(place.strand)
    for name, value in headers_of(place.program, call).items():  # `update` costs four times as much
        request.headers[name] = value
    return _Sent(place, call, session)


def _names_its_program(headers: Any) -> bool:
    return any(name.lower() == _PROGRAM for name, _ in headers.raw)  # `in` would first find out in what they are encoded


def _keys(headers: Any) -> dict[str, str]:
    return {name: headers[name] for name in backend.KEY_HEADERS if name in headers}


@never_raising
def _finish(sent: _Sent, response: Any) -> None:
    """A streamed answer counts from its head on: the program has it in hand. A refused call is followed by nothing."""
    if response.status_code < 400:
        sent.place.program.dag.finish(sent.place.strand, sent.call)


def _wait(session: Future[bool]) -> None:
    try:
        session.exception(timeout=_MAX_WAIT_S)
    except Exception:  # too slow, or cancelled as the interpreter exits: the call goes on
        return


async def _wait_async(session: Future[bool]) -> None:
    try:  # shielded: a call that is cancelled must not cancel what other calls wait for
        await asyncio.wait([asyncio.shield(asyncio.wrap_future(session))], timeout=_MAX_WAIT_S)
    except Exception:  # another event loop than asyncio's: the call goes on
        return
