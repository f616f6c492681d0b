"""A gateway as a process of its own, in front of an engine that runs."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def gateway_process(
    engine_url: str, *options: str, table: str = ""
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """`agentix serve` with these options, killed with the block; gives its address too. `table`: its AGENTIX_TABLE."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "agentix", "serve", "--json", "--port", "0", "--engine-url", engine_url, *options),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "AGENTIX_TABLE": table},
    )
    assert process.stdout is not None
    try:
        yield process, json.loads(await process.stdout.readline())["url"].removesuffix("/v1")
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
