"""Requests that no engine computes for long: tokens counted, stored responses looked up. They pass without a row."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from agentix.gateway.apis import Dialect
from agentix.gateway.body import read_bytes, read_object
from agentix.gateway.dispatch import Answer, EngineLost, chunks, send
from agentix.gateway.engine_transport import EngineAnswer, EngineTransport
from agentix.gateway.engines import EnginePool
from agentix.gateway.errors import HTTPError
from agentix.gateway.identity import Sessions
from agentix.gateway.models import Models
from agentix.gateway.tenants import tenant_of
from agentix.gateway.upstream import answer_headers, engine_url, forwarded_headers

# A response's id and what one can ask of it; anything else below the path might lead elsewhere in the engine.
_STORED = re.compile(r"[\w-]+(/(cancel|input_items))?", re.ASCII)


class Forward:
    """Handlers that hand a request to one engine and its answer back. Errors are HTTPError; the app turns them into answers."""

    def __init__(
        self, pool: EnginePool, transport: EngineTransport, models: Models, sessions: Sessions, *, max_body_bytes: int
    ) -> None:
        self._pool = pool
        self._transport = transport
        self._models = models
        self._sessions = sessions
        self._max_body_bytes = max_body_bytes

    async def tokens(self, request: Request) -> Response:
        """POST /tokenize, /detokenize, /v1/messages/count_tokens: to the least busy engine that has the model."""
        body = await read_object(request, self._max_body_bytes)
        engines = sorted(await self._models.engines_for(body.get("model"), request.headers), key=lambda e: e.num_calls)
        return await self._pass_on(request, [e.engine_id for e in engines], json.dumps(body).encode())

    async def stored(self, request: Request) -> Response:
        """GET, POST and DELETE below /v1/responses/{id}: to the engine that has the response.

        If the gateway does not remember which one that is, every engine is asked until one knows it; but not for a tenant,
        because an engine would also give it what is another's.
        """
        rest = request.path_params["rest"]
        if not _STORED.fullmatch(rest):
            raise HTTPError(404, f"nothing at {request.scope['path']}")
        content = await read_bytes(request, self._max_body_bytes)
        healthy = [engine_id for engine_id, state in self._pool.states.items() if state.healthy]  # even if it drains
        home = self._sessions.engine_of(tenant_of(request), rest.split("/")[0])
        if home is None and tenant_of(request):
            raise HTTPError(404, f"no response {rest.split('/')[0]!r} is known here", code="response_not_found")
        answer: Response | None = None
        for engine_id in [home] if home in healthy else healthy:
            with suppress(HTTPError):  # lost or gone: another may know it
                answer = await self._pass_on(request, [engine_id], content, bound=True)
                if answer.status_code != 404:
                    break
        if answer is None:
            raise HTTPError.no_engine()
        return answer

    async def _pass_on(self, request: Request, engine_ids: Sequence[str], content: bytes, *, bound: bool = False) -> Response:
        def open_call(engine_id: str) -> Awaitable[EngineAnswer]:
            target = self._pool.states[engine_id].target
            url, headers = engine_url(target, request.scope), forwarded_headers(request.headers.raw, target)
            return self._transport.open(request.method, url, headers, content)

        try:
            response = await send(self._pool, engine_ids, open_call, bound=bound)
            if response.rest is not None:
                answer: Response = StreamingResponse(_events(response), response.status_code)
            else:
                with response:
                    answer = Response(b"".join([chunk async for chunk in chunks(response)]), response.status_code)
        except EngineLost as lost:
            raise HTTPError(502, str(lost), "server_error") from lost
        answer.raw_headers = [h for h in answer.raw_headers if h[0] == b"content-length"] + answer_headers(response.raw_headers)
        return answer


async def _events(response: Answer) -> AsyncIterator[bytes]:
    with response:
        try:
            async for chunk in chunks(response):
                yield chunk
        except EngineLost as lost:
            yield HTTPError(502, str(lost), "server_error").sse_event(Dialect.RESPONSES)
