"""Sends a plan to an engine, burst by burst, and notes when each call went out and came back."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx2

from agentix.calibrate.plan import Burst, Probe, make_round
from agentix.core.errors import AgentixError


class ProbeFailed(AgentixError):
    """The engine refused a call of the plan; the message has its words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A call that is over. Times are seconds on this machine's monotonic clock, which is the engine's too."""

    sent_s: float
    ended_s: float
    was_alone: bool  # the only one of its burst


async def drive(
    client: httpx2.AsyncClient,
    *,
    model: str,
    num_slots: int,
    max_prompt_tokens: int,
    duration_s: float,
    seed: int,
    on_progress: Callable[[str], None],
) -> list[Sent]:
    """Send whole rounds until `duration_s` has passed, at least one; a first burst warms the engine up and does not count.

    Raises ProbeFailed at the first call that does not succeed.
    """
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    warm_up, *_ = make_round(rng, num_slots=num_slots, max_prompt_tokens=max_prompt_tokens)
    await _send_together(client, model, warm_up)
    began_s = time.monotonic()
    sent: list[Sent] = []
    num_rounds = 0
    while num_rounds == 0 or time.monotonic() - began_s < duration_s:
        num_rounds += 1
        bursts = make_round(rng, num_slots=num_slots, max_prompt_tokens=max_prompt_tokens)
        for number, burst in enumerate(bursts, start=1):
            on_progress(f"measuring: round {num_rounds}, {number}/{len(bursts)}, {time.monotonic() - began_s:.0f} s")
            sent += await _send_together(client, model, burst)
    return sent


async def _send_together(client: httpx2.AsyncClient, model: str, burst: Burst) -> list[Sent]:
    return await asyncio.gather(*(_send(client, model, probe, was_alone=len(burst) == 1) for probe in burst))


async def _send(client: httpx2.AsyncClient, model: str, probe: Probe, *, was_alone: bool) -> Sent:
    """Stream as agents do: on a small machine the server's work for each token takes time from the steps."""
    body: dict[str, Any] = {
        "model": model,
        "prompt": list(probe.prompt),
        "max_tokens": probe.output_tokens,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
    }
    sent_s = time.monotonic()
    try:
        async with client.stream("POST", "/v1/completions", json=body) as response:
            text = "".join([piece async for piece in response.aiter_text()])
            if not response.is_success:
                raise ProbeFailed(f"the engine answers HTTP {response.status_code}: {text.strip()[:300]}")
    except httpx2.HTTPError as error:
        raise ProbeFailed(f"a call of {len(probe.prompt)} tokens failed: {type(error).__name__}: {error}") from error
    return Sent(sent_s=sent_s, ended_s=time.monotonic(), was_alone=was_alone)
