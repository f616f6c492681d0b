"""Errors in the shape that the client's API has for them, as an answer or as the last event of a stream."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Self

from starlette.responses import JSONResponse

from agentix.core.errors import AgentixError
from agentix.gateway.apis import Dialect

# Anthropic's error types go with the status (docs.anthropic.com, "Errors"); 503 is what its clients know as 529.
_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


class HTTPError(AgentixError):
    """Something to tell the client: an HTTP status, a message, and the `type`, `param` and `code` of OpenAI's API."""

    def __init__(
        self,
        status: int,
        message: str,
        kind: str = "invalid_request_error",
        retry_after_s: int | None = None,
        *,
        param: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.retry_after_s = retry_after_s
        self.param = param
        self.code = code

    @staticmethod
    def no_engine() -> NoEngine:
        """503: there is nobody to send this to."""
        return NoEngine(503, "no engine is available; try again shortly", "overloaded_error", retry_after_s=5)

    @classmethod
    def queue_full(cls, retry_after_s: int) -> Self:
        """503: as many calls are held as may be."""
        message = "too many calls wait already; try again later"
        return cls(503, message, "overloaded_error", retry_after_s, code="queue_full")

    @classmethod
    def held_too_long(cls, held_s: float, why: str, retry_after_s: int) -> Self:
        """503: the call's turn has not come within the time for which calls are held."""
        message = f"the call was held for {held_s:.0f} s and its turn has not come ({why}); try again later"
        return cls(503, message, "overloaded_error", retry_after_s, code="held_too_long")

    @classmethod
    def too_long(cls, asked: str, max_tokens: int) -> Self:
        """400: no engine will ever have room for this."""
        message = f"this model's maximum context length is {max_tokens} tokens; the call asks for {asked}"
        return cls(400, message, code="context_length_exceeded")

    @classmethod
    def no_model(cls, model: str, known: list[str]) -> Self:
        """404: no engine serves this model."""
        listed = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
        return cls(
            404, f"the model {model[:100]!r} does not exist here; known: {listed}", param="model", code="model_not_found"
        )

    @classmethod
    def cancelled(cls, program_id: str) -> Self:
        """499, which no client tries again by itself: somebody cancelled the program's calls."""
        return cls(499, f"the call was cancelled with its program {program_id!r}", "cancelled_error", code="program_cancelled")

    def body(self, *, anthropic: bool = False) -> dict[str, Any]:
        """OpenAI's error object, or Anthropic's."""
        if anthropic:
            return {
                "type": "error",
                "error": {"type": _ANTHROPIC_TYPES.get(self.status, "api_error"), "message": str(self)},
            }
        code = self.status if self.code is None else self.code
        return {"error": {"message": str(self), "type": self.kind, "param": self.param, "code": code}}

    def response(self, *, anthropic: bool = False) -> JSONResponse:
        """The whole answer."""
        headers = {"retry-after": str(self.retry_after_s)} if self.retry_after_s is not None else None
        return JSONResponse(self.body(anthropic=anthropic), status_code=self.status, headers=headers)

    def sse_event(self, dialect: Dialect = Dialect.CHAT) -> bytes:
        """The error inside a stream whose status line is already out, as the event that the API has for it."""
        if dialect is Dialect.MESSAGES:
            return b"event: error\ndata: " + json.dumps(self.body(anthropic=True)).encode() + b"\n\n"
        if dialect is Dialect.RESPONSES:
            event = {"type": "error", "code": self.code or self.kind, "message": str(self), "param": self.param}
            return b"event: error\ndata: " + json.dumps(event).encode() + b"\n\n"
        return b"data: " + json.dumps(self.body()).encode() + b"\n\n"


class NoEngine(HTTPError):
    """503: no engine can be reached, or none takes calls."""


def wants_anthropic(path: str, headers: Mapping[str, str]) -> bool:
    """Whether errors to this client have Anthropic's shape: by its path, or by the header that every such client sends."""
    return path.startswith("/v1/messages") or "anthropic-version" in headers
