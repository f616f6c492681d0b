"""The dashboard's files, which come with the package, as they are; they hold no data, so they need no key."""

from __future__ import annotations

from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

# Scripts, styles and requests of this gateway alone, nothing inline, in nobody's frame.
_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),  # asked again each time, and answered with 304: never a page of an older gateway
]


def ui_routes() -> list[Mount]:
    """Serves the page at /ui/."""
    files = StaticFiles(packages=[("agentix.ui", "static")], html=True)

    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        await files(scope, receive, with_headers)

    return [Mount("/ui", page)]
