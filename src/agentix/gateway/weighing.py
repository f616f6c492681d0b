"""What the balancer weighs, and which programs have moved: queues and costs of engines as they are measured here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from agentix.core.balancers import EngineView, Route
from agentix.core.program import ProgramRow
from agentix.gateway.admission import Admission
from agentix.gateway.concurrency import EngineLoad
from agentix.gateway.engines import EnginePool
from agentix.gateway.gauge import read_prompts
from agentix.gateway.metrics import GatewayMetrics
from agentix.gateway.observer import Observer
from agentix.gateway.outcome import Outcome
from agentix.gateway.place import Tier

if TYPE_CHECKING:
    from agentix.gateway.exchange import Call

logger = logging.getLogger(__name__)

OnChoice = Callable[[ProgramRow, int | None, Sequence[EngineView], Route, float], None]
"""Told of every answer of the balancer that holds, with what it was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A program's home was `left` and is `engine_id` since `moved_s`, a moment on the monotonic clock; `why`, in words."""

    left: str
    engine_id: str
    why: str
    moved_s: float


class Weighing(Observer):
    """Fills in what balancers may know of engines, and keeps account of the programs that left their homes for it.

    Which engine a call goes to is the balancer's to say, here only what it says it by. An engine's queue is what the gateway
    holds for it and what waits in it; the latter the engine tells twice a second, and the calls that came and went since are
    counted here. What calls and prompts take is learnt from answers (`Gauge`). An engine that has not computed any yet is
    taken to be like the others.
    """

    def __init__(
        self, pool: EnginePool, admission: Admission, metrics: GatewayMetrics, *, on_choice: OnChoice | None = None
    ) -> None:
        self._pool = pool
        self._admission = admission
        self._metrics = metrics
        self._on_choice = on_choice
        self._moves: dict[str, Move] = {}  # the last one of each live program that has moved

    def views(self, engines: Sequence[EngineView]) -> list[EngineView]:
        """The same engines with their queues and costs; calls that are held for one (not asleep) are its own. O(engines)."""
        states = self._pool.states
        gauges = [states[e.engine_id].gauge for e in engines]
        call_s = _typical(g.call_s for g in gauges)
        prefill_s = _typical(g.prefill_s_per_token for g in gauges)
        views = []
        for engine, gauge in zip(engines, gauges, strict=True):
            queue = self._admission.turns.queue(engine.engine_id)
            num_more = engine.num_calls - states[engine.engine_id].num_calls  # other gateways'; for looks, if it has just come
            views.append(
                EngineView(
                    engine_id=engine.engine_id,
                    num_calls=num_more + queue.num_running + queue.num_held - queue.num_asleep,
                    num_routed=engine.num_routed,
                    cached_tokens=engine.cached_tokens,
                    num_waiting=self.num_waiting(engine.engine_id),
                    call_s=call_s if gauge.call_s is None else gauge.call_s,
                    prefill_s_per_token=prefill_s if gauge.prefill_s_per_token is None else gauge.prefill_s_per_token,
                )
            )
        return views

    def num_waiting(self, engine_id: str) -> int | None:
        """Calls for the engine that it does not compute now, held ones too; None: it does not tell.

        An engine that orders nothing by itself, and whose limit somebody has set, is taken to run what it is sent.
        """
        queue = self._admission.turns.queue(engine_id)
        inside = self._pool.states[engine_id].gauge.num_waiting(queue.num_running)
        if inside is None and queue.limit.is_fixed and queue.tier is not Tier.PLUGIN:
            inside = 0
        return None if inside is None else inside + queue.num_held - queue.num_asleep

    def loaded(self, engine_id: str, load: EngineLoad, metrics: bytes) -> None:
        """The engine has told its load, and all its `metrics`."""
        state = self._pool.states.get(engine_id)
        if state is not None:
            state.gauge.loaded(load, self._admission.turns.queue(engine_id).num_running)
            prompts = read_prompts(metrics)
            if prompts is not None:
                state.gauge.prompts_computed(prompts)

    def routed(
        self,
        row: ProgramRow,
        route: Route,
        engines: Sequence[EngineView],
        now: float,
        *,
        prompt_tokens: int | None = None,
    ) -> None:
        """A call of the program goes to the first engine of the route, of these that could have had it."""
        if self._on_choice is not None:
            self._on_choice(row, prompt_tokens, engines, route, now)
        home, first = row.home_engine_id, route.engine_ids[0]
        if home is None or first == home:
            return
        is_gone = all(e.engine_id != home for e in engines)
        self._metrics.engines.of(home).moves["away" if not route.pin else "gone" if is_gone else "queue"] += 1
        if route.pin:
            why = f"{home} takes none of its calls" if is_gone else route.reason
            self._moves[row.program_id] = Move(left=home, engine_id=first, why=why, moved_s=now)
            logger.info("a program has moved from %s to %s: %s", home, first, why)

    def moved(self, program_id: str, now: float) -> dict[str, Any] | None:
        """The program's last move, for people; None: it has always been at home where it is now."""
        move = self._moves.get(program_id)
        if move is None:
            return None
        return {"from": move.left, "to": move.engine_id, "because": move.why, "age_s": now - move.moved_s}

    def over(self, call: Call, now: float) -> None:
        """Learn from a call what calls and prompts take in its engine."""
        state, account = self._pool.states.get(call.engine_id), call.account
        if state is None or call.sent_s is None or call.outcome is not Outcome.FINISHED:
            return
        service_s, prefill_s, num_computed = account.service_s, account.prefill_s, None
        if service_s is None and not state.target.plugin:  # with the plug-in most of that may be waiting
            service_s = now - call.sent_s
        if prefill_s is None and call.first_token_s is not None:
            prefill_s = call.first_token_s - call.sent_s
        if account.prompt_tokens is not None and account.cached_tokens is not None:
            num_computed = account.prompt_tokens - account.cached_tokens
        state.gauge.finished(service_s, prefill_s, num_computed)

    def program_over(self, row: ProgramRow) -> None:
        """Forget the program."""
        self._moves.pop(row.program_id, None)


def _typical(values: Iterable[float | None]) -> float | None:
    """The median of those that are known."""
    known = [value for value in values if value is not None]
    return median(known) if known else None
