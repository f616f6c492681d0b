"""How many calls may be in an engine at once? Enough to keep it busy, few enough that those that wait do so in program order.

What an engine holds in a batch depends on the lengths of the calls, so nobody can type it in. Engines tell how many calls they
run and how many they let wait; where they do not, a refusal tells that it was too much.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakKeyDictionary

import httpx2

from agentix.gateway.place import Tier
from agentix.gateway.rounds import keep_asking

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
_SAMPLE = re.compile(rb"^(" + _NAMES + rb")(?:\{.*\})?[ \t]+(\S+)", re.MULTILINE)
_MOST_CALLS = 1e9  # more in one engine is no number of calls


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """Calls that an engine runs, and that it lets wait, whoever sent them."""

    num_running: int
    num_waiting: int


def read_load(metrics: bytes) -> EngineLoad | None:
    """The load in an engine's Prometheus text; None if it has none that makes sense. Several engines in one server add up.

    A whole parser takes milliseconds for what vLLM exposes, in which the gateway would do nothing else.
    """
    sums: dict[bytes, float] = {}
    for name, value in _SAMPLE.findall(metrics):
        try:
            sums[name] = sums.get(name, 0.0) + float(value)
        except ValueError:
            return None
    if not all(0 <= total <= _MOST_CALLS for total in sums.values()):  # NaN is not either
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


@dataclass(slots=True)
class _Asked:
    """What has come of asking an engine: it tells its load, its tier is known, it is not to be asked before `next_s`."""

    tells_load: bool = False
    knows_tier: bool = False
    next_s: float = -math.inf


class LoadWatch:
    """Asks engines for their load as long as calls are in them, and once whether they serve by priority.

    `engines` gives those that are to be asked, each with its URL; `forced`: the tiers are set, so nobody is asked for them.
    `on_load` is told each load, by the engine's id, with the whole text that it was read from. `on_change` is called after each
    answer: there may be room now.
    """

    def __init__(
        self,
        client: httpx2.AsyncClient,
        engines: Callable[[], Iterable[tuple[str, Watched]]],
        *,
        forced: bool,
        on_change: Callable[[], None],
        on_load: Callable[[str, EngineLoad, bytes], None] = lambda *_: None,
    ) -> None:
        self._client = client
        self._engines = engines
        self._forced = forced
        self._on_change = on_change
        self._on_load = on_load
        # By the limit: another engine that takes this one's id, or its address, has another limit, and is asked anew.
        self._asked: WeakKeyDictionary[Concurrency, _Asked] = WeakKeyDictionary()

    async def run(self) -> None:
        """Watch for ever."""
        await keep_asking(self._engines, self._ask, _PERIOD_S)

    async def _ask(self, asked: tuple[str, Watched]) -> None:
        await self._look(*asked)
        self._on_change()

    async def _look(self, url: str, engine: Watched) -> None:
        now, asked = time.monotonic(), self._asked.setdefault(engine.limit, _Asked())
        if now < asked.next_s:
            return
        if engine.tier is not Tier.PLUGIN and not self._forced and not asked.knows_tier:
            asked.knows_tier = await self._learn_tier(url, engine)
        if asked.tells_load and not (engine.num_running or engine.num_held):
            return
        response = await self._get(f"{url}/metrics")
        text = response.content if response is not None and response.status_code == 200 else b""
        load = read_load(text)
        if load is not None:
            asked.tells_load = True
            engine.limit.loaded(load, engine.num_running)
            self._on_load(engine.engine_id, load, text)
        elif response is not None and not asked.tells_load:
            asked.next_s = now + _ASK_AGAIN_S

    async def _learn_tier(self, url: str, engine: Watched) -> bool:
        """Ask vLLM for its settings, which it shows in its development mode alone; elsewhere somebody has to say it.

        Gives whether there was an answer.
        """
        response = await self._get(f"{url}/server_info?config_format=json")
        if response is not None and response.status_code == 200 and serves_by_priority(response.content):
            engine.tier = Tier.PRIORITY
        return response is not None

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
