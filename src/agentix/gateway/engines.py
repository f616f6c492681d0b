"""The engines behind the gateway: health, calls in flight, and the one HTTP client that reaches them."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2

from agentix.core.balancers import EngineView
from agentix.core.errors import ConfigError
from agentix.gateway.accounting import parse_json
from agentix.gateway.breaker import Breaker
from agentix.gateway.config import EngineTarget
from agentix.gateway.gauge import Gauge
from agentix.gateway.rate_limit import EngineLimit
from agentix.gateway.rounds import keep_asking

logger = logging.getLogger(__name__)

MAX_SILENT = 3
SLOW_START_S = 10.0
_MODELS_PERIOD_S = 30.0
# Servers that list the model they have loaded, but answer whatever name a call has.
_ANY_NAME = frozenset({"llamacpp", "sglang"})


@dataclass(slots=True, eq=False)
class EngineState:
    """One engine as the gateway sees it now.

    models      the names it serves; None: it may be any. `any_name`: that is because it answers to any name, not because it
                has not said
    contexts    the longest context in tokens of each model that has told one
    num_routed  calls ever sent to it; an engine that is new, or back, starts level with the others, or a balancer that takes
                turns would give it every call until it had caught up
    num_calls_elsewhere  calls that other gateways have in it, as far as they have told
    is_known    it has been asked for its models; one that is added while the gateway runs gets no call before that, because it
                could be one that it cannot serve
    draining    it gets no more calls; `leaving`: and is forgotten when the last one is over
    since_s     when it came, or came back: its load grows to that of the others within SLOW_START_S
    told        what `takes_calls` was when the listeners were last told
    """

    target: EngineTarget
    healthy: bool = True
    num_calls: int = 0
    num_calls_elsewhere: int = 0
    num_routed: int = 0
    num_silent: int = 0
    models: frozenset[str] | None = None
    any_name: bool = False
    models_asked_s: float = -math.inf
    contexts: dict[str, int] = field(default_factory=dict)
    is_known: bool = True
    draining: bool = False
    leaving: bool = False
    since_s: float = -math.inf
    told: bool = True
    breaker: Breaker = field(default_factory=Breaker)
    limit: EngineLimit = field(default_factory=EngineLimit)
    gauge: Gauge = field(default_factory=Gauge)
    cuts: set[Callable[[], None]] = field(default_factory=set)

    @property
    def takes_calls(self) -> bool:
        """Whether it may get a call now: it is known, and healthy, its breaker allows one, and it does not drain."""
        return self.is_known and self.healthy and not self.draining and self.breaker.allows(time.monotonic())

    @property
    def on_trial(self) -> bool:
        """Whether its breaker is not closed, so that the next call shows whether it is well again."""
        return self.breaker.state(time.monotonic()) != "closed"

    def serves(self, model: str | None) -> bool:
        """Whether a call for `model` may go there; one that names no model may go anywhere."""
        return model is None or self.models is None or model in self.models

    def max_tokens(self, model: Any) -> int | None:
        """The longest context of a model, or of its only one if that has no name; None: not known."""
        if isinstance(model, str) and model:
            return self.contexts.get(model)
        return next(iter(self.contexts.values())) if len(self.contexts) == 1 else None

    def view(self, num_more: int = 0) -> EngineView:
        """What a balancer may know; it is made to look as if it had `num_more` calls more."""
        num_calls = self.num_calls + self.num_calls_elsewhere + num_more
        return EngineView(engine_id=self.target.engine_id, num_calls=num_calls, num_routed=self.num_routed)


class EnginePool:
    """All engines by id, those of the configuration and those that are added later.

    An engine that cannot be reached, or leaves MAX_SILENT questions for its health unanswered, gets no calls until its
    /health answers again. One that fails the calls of several programs gets none while its breaker is open.
    """

    def __init__(self, targets: tuple[EngineTarget, ...], client: httpx2.AsyncClient, period_s: float) -> None:
        self.states = {t.engine_id: _state(t) for t in targets}
        self.client = client
        self._period_s = period_s
        self._listeners: list[Callable[[EngineState], None]] = []

    def on_change(self, listener: Callable[[EngineState], None]) -> None:
        """Have `listener` called with an engine whenever its `takes_calls` has changed, and when it is added or removed."""
        self._listeners.append(listener)

    def healthy(self, model: str | None = None) -> list[EngineView]:
        """Views of the engines that can take a call, for `model` if one is named.

        One that has just come (back) looks as busy as the busiest at first, and less so by and by: or every new program would
        go there at once.
        """
        now = time.monotonic()
        taking = [s for s in self.states.values() if s.takes_calls and s.serves(model)]
        most = max((s.num_calls for s in taking), default=0)
        return [s.view(int(most * max(0.0, 1 - (now - s.since_s) / SLOW_START_S))) for s in taking]

    def add(self, target: EngineTarget) -> EngineState:
        """One more engine, which gets calls once its models have been read. Raises ConfigError if its id is taken."""
        if target.engine_id in self.states:
            raise ConfigError(f"there is an engine {target.engine_id!r} already; remove it first")
        state = self.states[target.engine_id] = _state(target)
        state.is_known = state.told = False
        self._welcome(state)
        self._call_listeners(state)
        logger.info("engine %s is added (%s)", target.engine_id, target.url)
        return state

    def drain(self, state: EngineState, *, draining: bool = True) -> None:
        """Send it no more calls, or again. What it has goes on."""
        if state.draining and not draining:
            self._welcome(state)
        state.draining, state.leaving = draining, state.leaving and draining
        self.tell(state)

    def remove(self, state: EngineState, *, now: bool = False) -> None:
        """Drain it, and forget it when its last call is over. `now`: break its calls off; those not yet answering move."""
        state.leaving = True
        self.drain(state)
        if now:
            for cut in tuple(state.cuts):
                cut()
        self.left(state)

    def left(self, state: EngineState) -> None:
        """A call has left the engine, or none was there: if it was the last one, an engine that is to go is gone."""
        if state.leaving and state.num_calls == 0 and self.states.get(state.target.engine_id) is state:
            del self.states[state.target.engine_id]
            self._call_listeners(state)
            logger.info("engine %s is removed", state.target.engine_id)

    def report(self, state: EngineState, program_id: str, ticket: int, *, failed: bool) -> None:
        """A call has come out, as far as that is the engine's doing: told to its breaker."""
        now = time.monotonic()
        if not failed:
            if state.breaker.succeeded(now, ticket):
                self._welcome(state)
        elif state.breaker.failed(now, program_id, ticket, jitter=random.random()):  # noqa: S311 - not for secrets
            wait_s = state.breaker.opens_for_s(now)
            logger.warning("engine %s fails its calls: it gets none for %.1f s", state.target.engine_id, wait_s)
            asyncio.get_running_loop().call_later(wait_s, self.tell, state)
        self.tell(state)

    async def read_models(self, state: EngineState, headers: Mapping[str, str] | None = None) -> httpx2.Response | None:
        """Ask the engine for its models and remember them; gives its answer, None if there was none.

        A list read with a client's key adds to what is known: another client's key may show more. If the engine has a key
        of its own, that is used.
        """
        own = state.target.question_headers()
        state.models_asked_s = time.monotonic()
        try:
            response = await self.client.get(f"{state.target.url}/v1/models", headers=own or headers, timeout=10.0)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            return None
        except httpx2.HTTPError:
            self._note_models(state, [], adds=True)
            return None
        self._note_models(state, listed(response), adds=bool(headers) and not own)
        return response

    def _note_models(self, state: EngineState, models: list[dict[str, Any]], *, adds: bool) -> None:
        """These are the engine's models; `adds`: among others."""
        names = frozenset(m["id"] for m in models)
        for model in models:
            max_tokens = model.get("max_model_len")
            if type(max_tokens) is int and max_tokens > 0:
                state.contexts[model["id"]] = max_tokens
        if any(isinstance(owner := m.get("owned_by"), str) and owner in _ANY_NAME for m in models):
            state.models, state.any_name = None, True
        elif names:
            state.models = names | (state.models or frozenset()) if adds else names
        state.is_known = True
        self.tell(state)

    def report_unreachable(self, engine_id: str, error: Exception) -> None:
        """A call could not reach the engine: send nothing more there until its health says otherwise."""
        if engine_id in self.states:
            self._set(self.states[engine_id], healthy=False, why=repr(error))

    async def watch(self) -> None:
        """Ask every engine's /health for ever, each in its own time."""
        await keep_asking(self.states.values, self._check, self._period_s)

    async def _check(self, state: EngineState) -> None:
        self.tell(state)
        if state.target.hosted is not None:
            await self._check_hosted(state)
            return
        try:
            response = await self.client.get(f"{state.target.url}/health", timeout=max(5.0, self._period_s))
            # A foreign server may have no /health; that it answers is enough.
            self._heard(state, response.status_code, "/health")
            if state.healthy and (not state.is_known or time.monotonic() - state.models_asked_s >= _MODELS_PERIOD_S):
                await self.read_models(state)
        except httpx2.HTTPError as error:
            self._silent(state, error)

    async def _check_hosted(self, state: EngineState) -> None:
        """Somebody else's API is asked for its models alone, which costs nothing, and seldom while it is well."""
        if state.healthy and state.num_silent == 0 and time.monotonic() - state.models_asked_s < _MODELS_PERIOD_S:
            return
        response = await self.read_models(state)
        if response is None:
            self._silent(state, None)
        else:
            self._heard(state, response.status_code, "/v1/models")

    def _heard(self, state: EngineState, status: int, path: str) -> None:
        state.num_silent = 0
        self._set(state, healthy=status < 500, why=f"{path} said {status}")

    def _silent(self, state: EngineState, error: Exception | None) -> None:
        """A busy engine may be slow to answer; it is not given up at the first silence. One that is gone refuses."""
        state.num_silent += 1
        if isinstance(error, httpx2.ConnectError) or state.num_silent >= MAX_SILENT:
            self._set(state, healthy=False, why=repr(error) if error else "it does not answer")

    def _set(self, state: EngineState, *, healthy: bool, why: str) -> None:
        if healthy != state.healthy:
            logger.warning("engine %s is %s (%s)", state.target.engine_id, "back" if healthy else "unhealthy", why)
            state.healthy = healthy
            if healthy:
                self._welcome(state)
            else:
                state.models_asked_s = -math.inf  # it may come back with another one
        self.tell(state)

    def _welcome(self, state: EngineState) -> None:
        """It takes calls from now on: slowly at first, and in turn with the others."""
        state.since_s = time.monotonic()
        state.num_routed = max((s.num_routed for s in self.states.values()), default=state.num_routed)

    def tell(self, state: EngineState) -> None:
        """Tell the listeners, if it has begun or ceased to take calls."""
        if state.takes_calls != state.told:
            state.told = not state.told
            self._call_listeners(state)

    def _call_listeners(self, state: EngineState) -> None:
        for listener in self._listeners:
            listener(state)


def _state(target: EngineTarget) -> EngineState:
    return EngineState(target, limit=EngineLimit(target.hosted))


def listed(response: httpx2.Response) -> list[dict[str, Any]]:
    """The models in an engine's answer; [] if it lists none, whatever else it says."""
    answer = parse_json(response.content) if response.status_code == 200 else None
    data = answer.get("data") if isinstance(answer, dict) else None
    return [m for m in data if isinstance(m, dict) and isinstance(m.get("id"), str)] if isinstance(data, list) else []
