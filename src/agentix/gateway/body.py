"""Request bodies: a JSON object of bounded size, or a 4xx that says why not."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.requests import Request

from agentix.gateway.errors import HTTPError

BODY_TIMEOUT_S = 60.0


def is_json(request: Request) -> bool:
    """Whether the body says that it is JSON: no page of another site can send that unasked (Fetch standard, §2.2.2)."""
    return request.headers.get("content-type", "").split(";")[0].strip() == "application/json"


async def read_bytes(request: Request, max_bytes: int) -> bytes:
    """The body. Raises HTTPError 413 as soon as more than `max_bytes` have come, 408 if it takes BODY_TIMEOUT_S."""
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for chunk in request.stream():
                data += chunk
                if len(data) > max_bytes:
                    raise HTTPError(413, f"the request body is larger than {max_bytes} bytes")
    except TimeoutError:
        raise HTTPError(408, f"the request body did not arrive within {BODY_TIMEOUT_S:g} seconds") from None
    return bytes(data)


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
