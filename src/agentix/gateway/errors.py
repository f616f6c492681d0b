"""Errors as OpenAI clients expect them: a JSON body with message, type, param and code, and a fitting status."""

from __future__ import annotations

import json
from typing import Any, Self

from starlette.responses import JSONResponse

from agentix.core.errors import AgentixError


class HTTPError(AgentixError):
    """Something to tell the client: an HTTP status, a message, and the `type` that OpenAI's API would give it."""

    def __init__(
        self, status: int, message: str, kind: str = "invalid_request_error", retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.retry_after_s = retry_after_s

    @classmethod
    def no_engine(cls) -> Self:
        """503: there is nobody to send this to."""
        return cls(503, "no engine is available; try again shortly", "overloaded_error", retry_after_s=5)

    def body(self) -> dict[str, Any]:
        """The OpenAI error object."""
        return {"error": {"message": str(self), "type": self.kind, "param": None, "code": self.status}}

    def response(self) -> JSONResponse:
        """The whole answer."""
        headers = {"retry-after": str(self.retry_after_s)} if self.retry_after_s is not None else None
        return JSONResponse(self.body(), status_code=self.status, headers=headers)

    def sse_event(self) -> bytes:
        """The error inside a stream whose status line is already out."""
        return b"data: " + json.dumps(self.body()).encode() + b"\n\n"
