"""Serve the calls on a real engine."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2

from agentix.ab.counters import ask_num_preemptions, read_parking
from agentix.engine.command import ENGINE_COMMAND, EngineOptions, pinned
from agentix.engine.launcher import LocalEngine, start_engines, stop
from benchmarks.greedy_equality.arms import ALONE, EqualityEngine
from benchmarks.greedy_equality.calls import Asked

_MODEL = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What came of an arm.

    answers      the tokens of each call, in the order of the calls
    margins      for each token how far its logit stands above the next best one's, in nats; empty unless asked for
    counts       of the engine, over all its arms: parks, resumes, evictions and their tokens, vLLM's preemptions, promotions,
                 demotions, as far as they are told
    duration_s   from the first call to the last answer
    """

    answers: list[list[int]]
    margins: list[list[float]]
    counts: dict[str, int]
    duration_s: float


async def serve(
    which: EqualityEngine, calls: Sequence[Asked], model: str, work: Path, *, engine_cpus: str | None
) -> dict[str, Served]:
    """Start the engine, ask it everything once for each of its arms, stop it. Logs go to `work`."""
    decisions = work / "decisions.jsonl"
    decisions.unlink(missing_ok=True)
    options = EngineOptions(
        model=model,
        served_model_name=_MODEL,
        vllm_args=which.vllm_args,
        scheduler=None if which.settings is None else {**which.settings, "decision_log": str(decisions)},
        command=pinned(ENGINE_COMMAND, engine_cpus),
    )
    [engine] = await start_engines([options], log_dir=work)
    try:
        async with httpx2.AsyncClient(base_url=engine.url, trust_env=False, timeout=None) as client:
            served = {arm: await _serve_arm(arm, calls, client) for arm in which.arms}
            counts = await _counts(client, engine)
    finally:
        await stop([engine])
    counts |= _reasons(decisions)
    return {arm: replace(each, counts=counts) for arm, each in served.items()}


async def _serve_arm(arm: str, calls: Sequence[Asked], client: httpx2.AsyncClient) -> Served:
    """Calls as they arrive; or, alone, each when the one before it is over. A salt parts what the prefix cache may share."""
    began_s = time.monotonic()
    if arm == ALONE:
        choices = [await _ask(client, call, salt=f"{arm} {n}", logprobs=2) for n, call in enumerate(calls)]
    else:
        choices = await asyncio.gather(*(_ask(client, call, salt=arm, at_s=began_s + call.arrival_s) for call in calls))
    return Served(
        answers=[choice["token_ids"] for choice in choices],
        margins=[_margins(choice) for choice in choices] if arm == ALONE else [],
        counts={},
        duration_s=time.monotonic() - began_s,
    )


async def _ask(
    client: httpx2.AsyncClient, call: Asked, *, salt: str, at_s: float = 0.0, logprobs: int | None = None
) -> dict[str, Any]:
    await asyncio.sleep(at_s - time.monotonic())
    body = {
        "model": _MODEL,
        "prompt": call.prompt,
        "max_tokens": call.max_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "return_token_ids": True,
        "cache_salt": salt,
        "logprobs": logprobs,
    }
    response = await client.post("/v1/completions", json=body, headers={"X-Session-ID": call.program_id})
    response.raise_for_status()
    choice: dict[str, Any] = response.json()["choices"][0]
    if len(choice["token_ids"]) != call.max_tokens:
        raise SystemExit(f"{len(choice['token_ids'])} tokens instead of {call.max_tokens}: {choice}")
    return choice


def _margins(choice: dict[str, Any]) -> list[float]:
    """Tokens of one text share an entry of the list; then the margin is not known, and 0 says so."""
    ordered = [sorted(best.values(), reverse=True) for best in choice["logprobs"]["top_logprobs"]]
    return [best[0] - best[1] if len(best) > 1 else 0.0 for best in ordered]


async def _counts(client: httpx2.AsyncClient, engine: LocalEngine) -> dict[str, int]:
    await asyncio.sleep(1.0)  # the plug-in tells its counts after the last answer
    return {**read_parking(engine.log_tail(200)), "num_preemptions": await ask_num_preemptions(client, engine.url) or 0}


def _reasons(decisions: Path) -> dict[str, int]:
    """Promotions and demotions by the decision log."""
    lines = decisions.read_text(encoding="utf-8").splitlines() if decisions.exists() else []
    reasons = Counter(decision["reason"] for line in lines for decision in json.loads(line)["decisions"])
    return {"num_promotions": reasons["starving"], "num_demotions": reasons["quantum"]}
