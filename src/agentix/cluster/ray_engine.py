"""One engine on the machine that Ray has found for it: the body of an actor.

The actor starts the engine as our launcher does anywhere, so that the engine ends however the actor does: killed, its
machine's Ray stopped, or the gateway that owns it gone.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, replace

from agentix.core.errors import AgentixError
from agentix.engine.launcher import EngineOptions, LocalEngine, start_engines, stop
from agentix.engine.model import resolve_model

_POLL_S = 0.25
_NUM_LINES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """How a start came out: `url` and `log_path` (on that machine), or what went wrong; errors do not travel well."""

    url: str = ""
    log_path: str = ""
    error: str = ""


class RayEngine:
    """Starts one engine, tells when it has died, stops it. Its methods run beside one another in the actor's event loop."""

    def __init__(self) -> None:
        self._engine: LocalEngine | None = None

    async def start(self, options: EngineOptions, *, number: int, key: str, timeout_s: float) -> Started:
        """Start engine-`number`; it is healthy when this returns. If it has no host, that is this machine's in the cluster.

        `key` is asked of whoever calls it. It goes by the environment: everybody on a machine can read command lines.
        """
        from ray.util import get_node_ip_address  # noqa: PLC0415 - an extra, there on a cluster's machines

        os.environ["VLLM_API_KEY"] = key
        try:
            model = await asyncio.to_thread(resolve_model, options.model)
            here = replace(options, model=model, host=options.host or get_node_ip_address())
            [self._engine] = await start_engines([here], timeout_s=timeout_s, first_number=number)
        except AgentixError as error:
            return Started(error=str(error))
        return Started(url=self._engine.url, log_path=str(self._engine.log_path))

    async def died(self) -> str:
        """Why the engine is dead, as soon as it is."""
        engine = self._engine
        if engine is None:
            return "it was never started"
        while (status := engine.poll()) is None:  # noqa: ASYNC110 - a process that ends sets no event
            await asyncio.sleep(_POLL_S)
        said = "\n".join(f"    {line}" for line in engine.log_tail(_NUM_LINES))
        return f"its process ended with status {status}; the last lines of {engine.log_path}:\n{said}"

    async def stop(self) -> None:
        """End the engine and all its processes."""
        if self._engine is not None:
            await stop([self._engine])
