"""What an engine has counted in a run, as far as it tells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import httpx2

_PREEMPTIONS = "vllm:num_preemptions_total"
# The line in which the plug-in tells what its parking has done so far; see `agentix.engine.parking`.
_PARKING = re.compile(r"ParkingCounts\(((?:\w+=\d+(?:, )?)+)\)")


async def ask_num_preemptions(client: httpx2.AsyncClient, url: str) -> int | None:
    """How many times a call has lost its KV since the engine started, parked or running; None if the engine does not say."""
    text = await _ask(client, f"{url}/metrics")
    values = [line.rpartition(" ")[2] for line in text.splitlines() if line.partition("{")[0].split(" ")[0] == _PREEMPTIONS]
    try:
        return int(sum(map(float, values))) if values else None
    except ValueError:
        return None


async def ask_version(client: httpx2.AsyncClient, url: str) -> str | None:
    """The engine's release of vLLM; None if it does not say."""
    found = re.search(r'"version":\s*"([^"]+)"', await _ask(client, f"{url}/version"))
    return found and found[1]


def read_parking(log_lines: Iterable[str]) -> Mapping[str, int]:
    """The plug-in's own counts (`num_parks`, `num_resumes`, `num_evictions`, `evicted_tokens`); none if it told none."""
    told = [found[1] for line in log_lines if (found := _PARKING.search(line))]
    if not told:
        return {}
    pairs = (item.split("=") for item in told[-1].split(", "))
    return {name: int(value) for name, value in pairs}


async def _ask(client: httpx2.AsyncClient, url: str) -> str:
    try:
        response = await client.get(url)
    except httpx2.HTTPError:
        return ""
    return response.text if response.is_success else ""
