"""The gateway in this process's event loop, beside whatever else runs there."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from agentix.gateway.connections import MAX_HEAD_BYTES, PatientProtocol, allow_files

_DRAIN_S = 3
# Longer than clients keep an idle connection (the OpenAI and Anthropic SDKs 5 s, aiohttp 15 s): who closes second never sends a
# call into a connection that the other is just closing. uvicorn's own is 5 s.
KEPT_S = 75


def make_loop() -> asyncio.AbstractEventLoop:
    """An event loop: that of uvloop where it is installed (extra `gateway`), whose sockets cost less than those of asyncio."""
    try:
        import uvloop  # noqa: PLC0415 - optional: it is not made for every platform
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def relieve_collector() -> None:
    """Spare the collector of cycles, and calls its pauses, once everything is up: what is there now is there for good.

    By default it looks at all objects after every few hundred calls, which takes a tenth of a second for modules and their
    functions alone. They are left out from now on (`gc.freeze`), and it looks at new ones after ten thousand, not 700.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


@asynccontextmanager
async def serving(
    app: ASGIApp, listener: socket.socket, *, tls: tuple[Path, Path] | None = None
) -> AsyncIterator[asyncio.Task[None]]:
    """Serve `app` on a socket that listens, up when the block begins and down when it is left.

    `tls`: files of a certificate (with its chain) and its private key, to speak HTTPS.
    Gives the task that serves: done before the end of the block only if the server has stopped by itself. Calls still in
    flight at the end get three seconds. Signals are left to the caller.
    """
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        log_config=None,  # the process's own
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=_DRAIN_S,
        timeout_keep_alive=KEPT_S,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
    )
    allow_files()
    if tls is not None:
        config.ssl_certfile, config.ssl_keyfile = tls
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        up = asyncio.create_task(server.up.wait())
        await asyncio.wait({up, task}, return_when=asyncio.FIRST_COMPLETED)
        up.cancel()
        if task.done():
            task.result()
        yield task
    finally:
        server.should_exit = True
        with suppress(asyncio.CancelledError):
            await task


class _Server(uvicorn.Server):
    """uvicorn that tells when it is up and leaves signals alone: they end the caller, which ends it."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start as usual, then say so."""
        await super().startup(sockets)
        self.up.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down as usual, and let calls that were cut short tell their clients so."""
        await super().shutdown(sockets)
        if tasks := set(self.server_state.tasks):
            await asyncio.wait(tasks, timeout=1.0)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield
