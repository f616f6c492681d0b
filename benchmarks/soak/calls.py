"""Calls of all sorts, and how each must end."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from agentix.bench.sse import event_data

MODEL = "model"
MAX_MODEL_LEN = 512
CALL_TIMEOUT_S = 600.0  # far beyond what a call waits for here, even on a busy machine: one that takes longer hangs
_NUM_PROGRAMS = 40
_VOCABULARY = range(1000, 40_000)  # ids of ordinary tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One call. `leaves_after_s`: its client goes away then, whatever has come; None: it stays to the end."""

    kind: str
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    leaves_after_s: float | None

    @property
    def is_too_long(self) -> bool:
        """Whether the engine has to refuse it."""
        return len(self.body["prompt"]) >= MAX_MODEL_LEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a call ended: `finished`, `refused`, `left` (by its client), or `wrong` with the reason in `problem`."""

    how: str
    problem: str = ""


def plan_call(rng: random.Random, *, leaving_share: float) -> Plan:
    """A call at random. Prompts of one program begin alike, and grow."""
    program = rng.randrange(_NUM_PROGRAMS)
    beginning = random.Random(program).choices(_VOCABULARY, k=200)  # noqa: S311 - not for secrets
    prompt = beginning[: rng.randint(8, 200)] + rng.choices(_VOCABULARY, k=rng.randint(1, 30))
    body: dict[str, Any] = {"model": MODEL, "temperature": 0, "ignore_eos": True, "max_tokens": rng.randint(1, 120)}
    kind = rng.choices(("plain", "several", "full", "logprobs", "choice", "too long"), (10, 2, 1, 1, 1, 1))[0]
    match kind:
        case "several":
            body |= {"n": rng.randint(2, 4), "temperature": 1.0}
        case "full":  # the whole context
            prompt = (prompt + rng.choices(_VOCABULARY, k=MAX_MODEL_LEN))[: MAX_MODEL_LEN - body["max_tokens"]]
        case "logprobs":
            body["logprobs"] = 3
        case "choice":
            body |= {"structured_outputs": {"choice": ["yes", "no", "perhaps"]}, "ignore_eos": False}
        case "too long":
            prompt = prompt + rng.choices(_VOCABULARY, k=MAX_MODEL_LEN)
    if rng.random() < 0.5:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    session = {"X-Session-ID": f"program-{program}"} if rng.random() < 0.8 else {}
    leaves_after_s = rng.expovariate(1.0) if rng.random() < leaving_share else None
    return Plan(kind=kind, body={**body, "prompt": prompt}, headers=session, leaves_after_s=leaves_after_s)


async def make_call(client: httpx2.AsyncClient, plan: Plan) -> Ending:
    """Send the call and see how it ends; never raises but when cancelled."""
    limit_s = CALL_TIMEOUT_S if plan.leaves_after_s is None else plan.leaves_after_s
    try:
        async with asyncio.timeout(limit_s):
            return await (_read_stream(client, plan) if plan.body.get("stream") else _read_whole(client, plan))
    except TimeoutError:
        if plan.leaves_after_s is not None:
            return Ending(how="left")
        return Ending(how="wrong", problem=f"{plan.kind}: no end after {limit_s:g} s")
    except (httpx2.HTTPError, ValueError, KeyError, IndexError, TypeError) as error:
        return Ending(how="wrong", problem=f"{plan.kind}: {type(error).__name__}: {error}")


async def _read_whole(client: httpx2.AsyncClient, plan: Plan) -> Ending:
    response = await client.post("/v1/completions", json=plan.body, headers=plan.headers)
    if refusal := _refusal(plan, response.status_code, response.text):
        return refusal
    answer = response.json()
    return _judge(plan, [choice["finish_reason"] for choice in answer["choices"]], answer["usage"])


async def _read_stream(client: httpx2.AsyncClient, plan: Plan) -> Ending:
    async with client.stream("POST", "/v1/completions", json=plan.body, headers=plan.headers) as response:
        if response.status_code != httpx2.codes.OK:
            text = (await response.aread()).decode()
            return _refusal(plan, response.status_code, text) or Ending(how="wrong", problem=text)
        events = [data async for data in event_data(response.aiter_bytes())]
    if not events or events[-1] != "[DONE]":
        return Ending(how="wrong", problem=f"{plan.kind}: the stream broke off")
    chunks = [json.loads(data) for data in events[:-1]]
    reasons = [choice["finish_reason"] for chunk in chunks for choice in chunk.get("choices", ()) if choice["finish_reason"]]
    return _judge(plan, reasons, chunks[-1].get("usage"))


def _refusal(plan: Plan, status: int, text: str) -> Ending | None:
    """The ending of a call that was not answered; None if it was, and rightly so."""
    if status == httpx2.codes.BAD_REQUEST and plan.is_too_long:
        return Ending(how="refused")
    if status != httpx2.codes.OK or plan.is_too_long:
        return Ending(how="wrong", problem=f"{plan.kind}: HTTP {status}: {text[:200]}")
    return None


def _judge(plan: Plan, reasons: list[str], usage: Mapping[str, int] | None) -> Ending:
    """Whether there are all answers that were asked for, each ended once, in full length."""
    num_answers = plan.body.get("n", 1)
    num_tokens = (usage or {}).get("completion_tokens", -1)
    if plan.kind == "choice":
        is_right = len(reasons) == 1 and reasons[0] in {"stop", "length"}
    else:
        is_right = reasons == ["length"] * num_answers and num_tokens == num_answers * plan.body["max_tokens"]
    if is_right:
        return Ending(how="finished")
    return Ending(how="wrong", problem=f"{plan.kind}: ended as {reasons} with usage {usage}")
