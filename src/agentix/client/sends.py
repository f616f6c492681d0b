"""Calls that are sent within a program get their headers: what wraps the sending methods of httpx, requests and aiohttp."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

from agentix.client import backend
from agentix.client.context import Place, headers_of, here, never_raising
from agentix.client.dag import Call
from agentix.wire import PROGRAM_HEADER

# Which base URLs are meant: () private hosts, None none.
Targets = Callable[[], tuple[str, ...] | None]
_MAX_WAIT_S = 2 * backend.TIMEOUT_S


class _Sending(NamedTuple):
    """A call of a program, about to be sent to the server at `root`; `headers` are those that it will be sent with.

    `session` is None once the server has answered and is known to get this program's calls.
    """

    place: Place
    root: str
    session: Future[bool | None] | None
    headers: Any


def annotating_send(original: Callable[..., Any], only: Targets) -> Callable[..., Any]:
    """For `send` of httpx's and httpx2's `Client`, and of requests' `Session`."""

    @functools.wraps(original)
    def send(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        sending = _begin(request, only)
        if sending is None:
            return original(self, request, *args, **kwargs)
        if sending.session is not None and not sending.session.done():
            _wait(sending.session)
        call = _announce(sending)
        response = original(self, request, *args, **kwargs)
        if call is not None:
            _finish(sending.place, call, response.status_code)
        return response

    return send


def annotating_async_send(original: Callable[..., Awaitable[Any]], only: Targets) -> Callable[..., Awaitable[Any]]:
    """For `send` of httpx's and httpx2's `AsyncClient`."""

    @functools.wraps(original)
    async def send(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        sending = _begin(request, only)
        if sending is None:
            return await original(self, request, *args, **kwargs)
        if sending.session is not None and not sending.session.done():
            await _wait_async(sending.session)
        call = _announce(sending)
        response = await original(self, request, *args, **kwargs)
        if call is not None:
            _finish(sending.place, call, response.status_code)
        return response

    return send


def annotating_request(original: Callable[..., Awaitable[Any]], only: Targets) -> Callable[..., Awaitable[Any]]:
    """For `_request` of aiohttp's `ClientSession`."""

    @functools.wraps(original)
    async def _request(self: Any, method: str, str_or_url: Any, **kwargs: Any) -> Any:
        sending = _begin_in_session(self, method, str_or_url, kwargs.get("headers"), only)
        if sending is None:
            return await original(self, method, str_or_url, **kwargs)
        if sending.session is not None and not sending.session.done():
            await _wait_async(sending.session)
        call = _announce(sending)
        response = await original(self, method, str_or_url, **{**kwargs, "headers": sending.headers})
        if call is not None:
            _finish(sending.place, call, response.status)
        return response

    return _request


@never_raising
def _begin(request: Any, only: Targets) -> _Sending | None:
    place = here()
    if place is None or request.method != "POST":
        return None
    return _to_gateway(place, request.url, request.headers, only)


@never_raising
def _begin_in_session(session: Any, method: str, url: Any, headers: Any, only: Targets) -> _Sending | None:
    place = here()
    if place is None or method.upper() != "POST":
        return None
    return _to_gateway(place, session._build_url(url), session._prepare_headers(headers), only)


def _to_gateway(place: Place, url: Any, headers: Any, only: Targets) -> _Sending | None:
    """None: the call is not to be annotated, by where it goes or because it names a program itself."""
    urls = only()
    root = None if urls is None else backend.root_of(str(url), urls)
    if root is None or PROGRAM_HEADER in headers:
        return None
    program = place.program
    answered = root in program.answered
    session = None if answered else program.session(root) or program.open_session(root, _keys(headers))
    return _Sending(place, root, session, headers)


def _keys(headers: Any) -> dict[str, str]:
    return {name: headers[name] for name in backend.KEY_HEADERS if name in headers}


@never_raising
def _announce(sending: _Sending) -> Call | None:
    """Nothing is said to a server that has answered and is no gateway; to one that has not answered, it is."""
    place, session = sending.place, sending.session
    if session is not None:
        if _is_no_gateway(session):
            return None
        if session.done():
            place.program.answered.add(sending.root)
    call = place.program.dag.begin(place.strand)
    for name, value in headers_of(place.program, call).items():  # `update` costs four times as much
        sending.headers[name] = value
    return call


@never_raising
def _finish(place: Place, call: Call, status: int) -> None:
    """A streamed answer counts from its head on: the program has it in hand. A refused call is followed by nothing."""
    if status < 400:
        place.program.dag.finish(place.strand, call)


def _is_no_gateway(session: Future[bool | None]) -> bool:
    try:
        return session.result(timeout=0) is False  # one lock, where `done`, `cancelled` and `result` take three
    except Exception:  # it has not answered, or was cancelled as the interpreter exits
        return False


def _wait(session: Future[bool | None]) -> None:
    try:
        session.exception(timeout=_MAX_WAIT_S)
    except Exception:  # too slow, or cancelled as the interpreter exits: the call goes on
        return


async def _wait_async(session: Future[bool | None]) -> None:
    try:  # shielded: a call that is cancelled must not cancel what other calls wait for
        await asyncio.wait([asyncio.shield(asyncio.wrap_future(session))], timeout=_MAX_WAIT_S)
    except Exception:  # another event loop than asyncio's: the call goes on
        return
