"""The server that the demonstration's calls go to: one that runs, or an engine that is started for it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec

import httpx2

from agentix.core.errors import AgentixError
from agentix.engine.launcher import EngineOptions, start_engines, stop
from agentix.engine.model import BUILT_IN, resolve_model
from agentix.gateway import EngineTarget
from agentix.wire import KEY_VARIABLE, key_headers, server_root

HERE = "http://127.0.0.1:8080"
_TIMEOUT_S = 5.0


class DemoError(AgentixError):
    """The demonstration cannot start or go on; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Where calls go: an OpenAI-compatible server, a gateway of ours among them, and the model that it serves."""

    target: EngineTarget
    model: str


@asynccontextmanager
async def open_server(url: str | None, on_progress: Callable[[str], None]) -> AsyncIterator[Server]:
    """The server at `url`; None: the one at `HERE`, or else an engine of the small built-in model, for as long as the block.

    Raises DemoError if there is none.
    """
    try:
        server = await _find(url or HERE)
    except DemoError as error:
        if url is not None:
            raise
        if find_spec("vllm") is None:
            raise DemoError(
                f"{error}; vLLM is not installed here either, so no engine can be started. Run `make serve` in a checkout, or "
                "give --url of any OpenAI-compatible server"
            ) from None
        async with _started(on_progress) as server:
            yield server
    else:
        yield server


async def _find(url: str) -> Server:
    """The server at that URL and the first of its models. Raises DemoError."""
    root = server_root(url)
    target = EngineTarget(engine_id="server", url=root, api_key_env=KEY_VARIABLE if os.environ.get(KEY_VARIABLE) else "")
    try:
        async with httpx2.AsyncClient(trust_env=False, timeout=_TIMEOUT_S, headers=key_headers(os.environ)) as client:
            response = await client.get(f"{root}/v1/models")
            if response.status_code == httpx2.codes.UNAUTHORIZED:
                raise DemoError(f"{root} asks for a key: put it into {KEY_VARIABLE}")
            model = response.json()["data"][0]["id"]
    except httpx2.HTTPError as error:
        raise DemoError(f"nothing answers at {root} ({error or type(error).__name__})") from None
    except (ValueError, LookupError, TypeError):
        raise DemoError(f"{root} is no OpenAI-compatible server with a model: /v1/models names none") from None
    return Server(target=target, model=str(model))


@asynccontextmanager
async def _started(on_progress: Callable[[str], None]) -> AsyncIterator[Server]:
    """A plain engine of the built-in model: the order of calls is the demonstration's own."""
    on_progress(f"nothing answers at {HERE}: starting an engine of {BUILT_IN}")
    model = await asyncio.to_thread(resolve_model, BUILT_IN, on_progress=on_progress)
    [engine] = await start_engines([EngineOptions(model=model, served_model_name=BUILT_IN)], on_progress=on_progress)
    try:
        yield Server(target=EngineTarget(engine_id=engine.engine_id, url=engine.url), model=BUILT_IN)
    finally:
        on_progress("stopping the engine")
        await stop([engine])
