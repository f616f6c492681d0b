"""How many calls may be in an engine at once? Enough to keep it busy, few enough that those that wait do so in program order.

What an engine holds in a batch depends on the lengths of the calls, so nobody can type it in. Engines tell how many calls they
run and how many they let wait; where they do not, a refusal tells that it was too much.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import httpx2

from agentix.gateway.place import Tier

_FIRST_LIMIT = 16
_PERIOD_S = 0.5
_ASK_AGAIN_S = 30.0  # an engine that has told nothing
_CUT_S = 1.0  # refusals within so long of the last cut are of calls that were sent before it
_CUT = 0.7

# Gauges of calls that run and that wait, by server: vLLM, SGLang, llama.cpp, Text Generation Inference.
_GAUGES = (
    (b"vllm:num_requests_running", b"vllm:num_requests_waiting"),
    (b"sglang:num_running_reqs", b"sglang:num_queue_reqs"),
    (b"llamacpp:requests_processing", b"llamacpp:requests_deferred"),
    (b"tgi_batch_current_size", b"tgi_queue_size"),
)
_NAMES = b"|".join(re.escape(name) for pair in _GAUGES for name in pair)
_SAMPLE = re.compile(rb"^(" + _NAMES + rb")(?:\{.*\})?[ \t]+([0-9.eE+]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """Calls that an engine runs, and that it lets wait, whoever sent them."""

    num_running: int
    num_waiting: int


def read_load(metrics: bytes) -> EngineLoad | None:
    """The load in an engine's Prometheus text; None if it has none that we know. Several engines in one server add up.

    A whole parser takes milliseconds for what vLLM exposes, in which the gateway would do nothing else.
    """
    sums: dict[bytes, float] = {}
    for name, value in _SAMPLE.findall(metrics):
        try:
            sums[name] = sums.get(name, 0.0) + float(value)
        except ValueError:
            return None
    for running, waiting in _GAUGES:
        if running in sums:
            return EngineLoad(int(sums[running]), int(sums.get(waiting, 0.0)))
    return None


class Concurrency:
    """The limit of one engine, found by its load or by its refusals. Pure: decides from what it is told.

    An engine that tells its load is to have one call, and one more for each sixteen that it runs, waiting by itself, so that
    it finds the next one without asking. With more than that twice in a row the limit goes down by what is too much; with
    none, while the limit is reached, it goes up: twofold until the engine has had a queue once, by an eighth after that.

    One that does not tell has no limit until it refuses a call; then seven tenths of what was in it, and one more for each
    time that so many calls have finished (additive increase, multiplicative decrease).

    `fixed`: the limit that somebody has set; nothing changes it.
    """

    def __init__(self, fixed: float | None = None) -> None:
        self.limit = math.inf if fixed is None else float(fixed)
        self.tells_load = False
        self._is_fixed = fixed is not None
        self._has_queued = False
        self._excess = 0  # calls that waited in the engine beyond what is wanted, when it was asked last
        self._cut_s = -math.inf

    @property
    def is_fixed(self) -> bool:
        """Whether nothing changes it."""
        return self._is_fixed

    def has_room(self, num_sent: int) -> bool:
        """Whether one more call may go to an engine that has so many of ours."""
        return num_sent + 1 <= self.limit

    def loaded(self, load: EngineLoad, num_sent: int) -> None:
        """The engine tells its load, while it has `num_sent` calls of ours."""
        if self._is_fixed:
            return
        if not self.tells_load:
            self.tells_load = True
            self.limit = max(float(_FIRST_LIMIT), float(num_sent))
        excess_before, self._excess = self._excess, max(0, load.num_waiting - 1 - load.num_running // 16)
        self._has_queued = self._has_queued or self._excess > 0
        too_much = min(excess_before, self._excess)  # a call that has just come waits for the next step, whatever the limit
        if too_much:
            self.limit = max(1.0, min(self.limit, num_sent) - too_much)
            self._excess = 0  # those that are gone from here are still counted there
        elif load.num_waiting == 0 and not self.has_room(num_sent):
            self.limit += max(1.0, self.limit // 8 if self._has_queued else self.limit)

    def refused(self, num_sent: int, now: float) -> None:
        """The engine has not taken a call; `num_sent` others are in it."""
        if not self._is_fixed and now - self._cut_s >= _CUT_S:
            self._cut_s = now
            self.limit = max(1.0, math.floor(_CUT * num_sent))

    def finished(self) -> None:
        """A call of the engine has come to a good end."""
        if not self._is_fixed and not self.tells_load and self.limit < math.inf:
            self.limit += 1 / self.limit


class Watched(Protocol):
    """What is to be known of an engine to ask it for its load."""

    engine_id: str
    limit: Concurrency
    tier: Tier
    num_running: int
    num_held: int


class LoadWatch:
    """Asks engines for their load as long as calls are in them, and once whether they serve by priority.

    `engines` gives those that are to be asked, each with its URL; `forced`: the tiers are set, so nobody is asked for them.
    `on_change` is called after each answer: there may be room now.
    """

    def __init__(
        self,
        client: httpx2.AsyncClient,
        engines: Callable[[], Iterable[tuple[str, Watched]]],
        *,
        forced: bool,
        on_change: Callable[[], None],
    ) -> None:
        self._client = client
        self._engines = engines
        self._forced = forced
        self._on_change = on_change
        self._next_s: dict[str, float] = {}
        self._asking: set[str] = set()
        self._knows_tier: set[str] = set()

    async def run(self) -> None:
        """Watch for ever."""
        async with asyncio.TaskGroup() as group:  # one that answers late must not keep the others waiting
            while True:
                for url, engine in self._engines():
                    if url not in self._asking:
                        self._asking.add(url)
                        group.create_task(self._ask(url, engine))
                await asyncio.sleep(_PERIOD_S)

    async def _ask(self, url: str, engine: Watched) -> None:
        try:
            await self._look(url, engine)
        finally:
            self._asking.discard(url)
        self._on_change()

    async def _look(self, url: str, engine: Watched) -> None:
        now = time.monotonic()
        if engine.tier is Tier.PLUGIN or now < self._next_s.get(url, 0.0):
            return
        if not self._forced and url not in self._knows_tier:
            await self._learn_tier(url, engine)
        idle = engine.limit.tells_load and not (engine.num_running or engine.num_held)
        if engine.limit.is_fixed or idle:
            return
        response = await self._get(f"{url}/metrics")
        load = read_load(response.content) if response is not None and response.status_code == 200 else None
        if load is not None:
            engine.limit.loaded(load, engine.num_running)
        elif response is not None and not engine.limit.tells_load:
            self._next_s[url] = now + _ASK_AGAIN_S

    async def _learn_tier(self, url: str, engine: Watched) -> None:
        """Ask vLLM for its settings, which it shows in its development mode alone; elsewhere somebody has to say it."""
        response = await self._get(f"{url}/server_info?config_format=json")
        if response is None:
            return
        self._knows_tier.add(url)
        if response.status_code == 200 and serves_by_priority(response.content):
            engine.tier = Tier.PRIORITY

    async def _get(self, url: str) -> httpx2.Response | None:
        try:
            return await self._client.get(url, timeout=5.0)
        except httpx2.HTTPError:
            return None


def serves_by_priority(server_info: bytes) -> bool:
    """Whether vLLM's /server_info says that it was started with `--scheduling-policy priority`."""
    try:
        return json.loads(server_info)["vllm_config"]["scheduler_config"]["policy"] == "priority"  # type: ignore[no-any-return]
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
