"""Request bodies: a JSON object of bounded size, or a 4xx that says why not."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from agentix.gateway.cancel_scope import CancelScope
from agentix.gateway.errors import HTTPError

BODY_TIMEOUT_S = 60.0


def is_json(request: Request) -> bool:
    """Whether the body says that it is JSON: no page of another site can send that unasked (Fetch standard, §2.2.2)."""
    return request.headers.get("content-type", "").split(";")[0].strip() == "application/json"


async def read_bytes(request: Request, max_bytes: int) -> bytes:
    """The body. Raises HTTPError 413 as soon as more than `max_bytes` have come, 408 if it takes BODY_TIMEOUT_S.

    Raises ClientDisconnect if the client leaves before its end.
    """
    data = b""
    with CancelScope() as reading:
        timer = asyncio.get_running_loop().call_later(BODY_TIMEOUT_S, reading.cancel)
        try:
            data = await _read_all(request.receive, max_bytes)
        finally:
            timer.cancel()
    if reading.cancelled_caught:
        raise HTTPError(408, f"the request body did not arrive within {BODY_TIMEOUT_S:g} seconds")
    return data


async def _read_all(receive: Receive, max_bytes: int) -> bytes:
    pieces: list[bytes] = []
    num_left, more = max_bytes, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        pieces.append(message.get("body", b""))
        num_left -= len(pieces[-1])
        if num_left < 0:
            raise HTTPError(413, f"the request body is larger than {max_bytes} bytes")
        more = message.get("more_body", False)
    return b"".join(pieces)


async def read_object(request: Request, max_bytes: int, *, default: bytes = b"") -> dict[str, Any]:
    """The body as a JSON object; `default` stands in for an empty one.

    Raises HTTPError 413 as soon as more than `max_bytes` have come, 400 for what is no JSON object.
    """
    return parse_object(await read_bytes(request, max_bytes), default=default)


def parse_object(data: bytes, *, default: bytes = b"") -> dict[str, Any]:
    """A body as a JSON object; `default` stands in for an empty one. Raises HTTPError 400 for what is none."""
    try:
        body = json.loads(data if data.strip() else default)
    except ValueError as error:
        raise HTTPError(400, f"the request body is not valid JSON: {error}") from None
    except RecursionError:
        raise HTTPError(400, "the request body is nested too deeply") from None
    if not isinstance(body, dict):
        raise HTTPError(400, "the request body must be a JSON object")
    return body
