"""One engine's calls at the gateway: those that it holds, in program order by tenant, and those that are in the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agentix.core.config import SchedulerConfig
from agentix.core.events import CallMoved, CallPreempted, CallStarted, Event, Placed, StepCompleted
from agentix.core.fair_share import FairShare
from agentix.core.process_table import ProcessTable
from agentix.core.scheduler import Scheduler
from agentix.gateway.concurrency import Concurrency
from agentix.gateway.engines import EngineState
from agentix.gateway.held import Held
from agentix.gateway.place import Place, Tier

OnDecision = Callable[[str | None, Event, list[Placed]], None]
"""Told of every event of a queue, by its name, and of the placements that followed. None: the table alone was told."""

_NEWS = 0.1  # how much each release counts in the mean interval between them


class EngineQueue:
    """The calls of one engine: one scheduler for each tenant, all over the gateway's table.

    A running call is one that is in the engine: no other takes it out again. A call that is asleep is in the table but in no
    scheduler, so that nobody has to pass it by. Every method is O(log calls), see `SortedKeys`, but `charge`, and what
    `Scheduler` says of policies that rerank.

    state               the engine; None: there was none when the queue was made
    limit               how many calls may be in the engine
    num_held            calls that are held, `num_asleep` among them
    probe               the call that was sent last while the engine was on trial (its breaker half open)
    blocked             why the first of those that are held was not sent, in words
    release_interval_s  between calls that were held and then sent, the last ones counting most; 0: not known
    """

    def __init__(
        self,
        engine_id: str,
        table: ProcessTable,
        config: SchedulerConfig,
        shares: FairShare,
        held: Held,
        *,
        state: EngineState | None,
        limit: Concurrency,
        tier: Tier,
        weight_of: Callable[[str], float],
        on_decision: OnDecision | None = None,
    ) -> None:
        self.engine_id = engine_id
        self.state = state
        self.limit = limit
        self.tier = tier
        self.num_running = 0
        self.num_held = 0
        self.num_asleep = 0
        self.probe: Place | None = None
        self.blocked = ""
        self.release_interval_s = 0.0
        self._table = table
        self._config = config
        self._shares = shares
        self._held = held
        self._weight_of = weight_of
        self._on_decision = on_decision
        self._schedulers: dict[str, Scheduler] = {}
        self._charged_s = 0.0
        self._released_s: float | None = None

    def enter(self, place: Place, event: Event) -> None:
        """The call arrives, or comes over from another engine: it is held here, in the order."""
        place.engine_id, place.sent_s = self.engine_id, None
        self._stand(place, event)
        self._hold(place)

    def sleep(self, place: Place, why: str, wake_s: float, now: float) -> None:
        """A call that is held leaves the order until it is woken."""
        self._apply(place.tenant, CallMoved(now=now, call_id=place.key, engine_id=self.engine_id))
        self._shares.left(place.tenant)
        self._let_go(place)
        place.asleep, place.wake_s = why, wake_s
        self._hold(place)

    def wake(self, place: Place, now: float) -> None:
        """A call that was asleep is placed anew."""
        self._let_go(place)
        place.asleep = ""
        self._hold(place)
        self._stand(place, CallMoved(now=now, call_id=place.key, engine_id=self.engine_id))

    def leave(self, place: Place, event: Event) -> None:
        """The call is over, or goes to another engine."""
        if place.sent_s is None:
            self._let_go(place)
        else:
            self.num_running -= 1
            self._shares.stopped(place.tenant, event.now)
        if place.asleep:
            place.asleep = ""
            self._table.apply(event)
            self._tell(None, event, [])
            return
        place.level = self._schedulers[place.tenant].level(place.key)
        self._apply(place.tenant, event)
        self._shares.left(place.tenant)

    def start(self, place: Place, now: float) -> None:
        """A call that is held goes into the engine."""
        place.level = self._schedulers[place.tenant].level(place.key)
        self._apply(place.tenant, CallStarted(now=now, call_id=place.key))
        self._shares.started(place.tenant, now)
        self._let_go(place)
        place.sent_s = now
        self.num_running += 1
        if place.turn is not None:
            self._learn_interval(now)
            place.turn.set()

    def put_back(self, place: Place, now: float) -> None:
        """The engine has not taken the call: it is held again, where it stood before."""
        self._apply(place.tenant, CallPreempted(now=now, call_id=place.key))
        self._shares.stopped(place.tenant, now)
        place.sent_s = None
        self._hold(place)
        self.num_running -= 1

    def waiting_tenants(self) -> list[str]:
        """Tenants with a call in the order that is held."""
        return [tenant for tenant, scheduler in self._schedulers.items() if scheduler.num_waiting]

    def first(self, tenant: str, now: float) -> str:
        """The one of the tenant's calls whose turn it is; there is one."""
        key = self._schedulers[tenant].first_waiting(now)
        assert key is not None  # noqa: S101 - see `waiting_tenants`
        return key

    def waiting(self, tenant: str, now: float) -> Iterator[str]:
        """All of the tenant's calls that are held in the order, best first."""
        return self._schedulers[tenant].contenders(now)

    def level(self, place: Place) -> int:
        """The level at which the call stands now, or stood last."""
        return place.level if place.asleep else self._schedulers[place.tenant].level(place.key)

    def position(self, place: Place) -> int | None:
        """1: the next of its tenant's calls to be sent; None: it has no place among those that are held."""
        if place.asleep or place.sent_s is not None:
            return None
        scheduler = self._schedulers[place.tenant]
        return scheduler.position(place.key) - len(scheduler.running) + 1

    def charge(self, now: float, sent_s: Callable[[str], float]) -> None:
        """Charge the calls in the engine for the time since the last charge: each all of it, since a batch shares the engine.

        Where some of them wait in the engine, and it does not tell which, each is charged the share of the time for which
        it ran if they take turns: else whoever waits would count as served.
        `sent_s`: since when a call is in the engine; one that came since the last charge is charged from this one on.
        O(calls). What a call really took is known when it is over; this is for its level meanwhile.
        """
        since_s, self._charged_s = self._charged_s, now
        duration_s = (now - since_s) * self._running_share()
        for tenant, scheduler in self._schedulers.items():
            if scheduler.num_waiting or scheduler.running:
                call_ids = tuple(sorted(c for c in scheduler.running if sent_s(c) <= since_s))
                self._apply(tenant, StepCompleted(now=now, duration_s=duration_s if call_ids else 0.0, call_ids=call_ids))

    def _running_share(self) -> float:
        """How many of the calls in the engine it computes, as a share; all of them, if it does not tell."""
        num_waiting = None if self.state is None else self.state.gauge.num_waiting(self.num_running)
        return 1.0 if not num_waiting else max(0.0, 1.0 - num_waiting / max(1, self.num_running))

    def _hold(self, place: Place) -> None:
        self.num_held += 1
        self.num_asleep += bool(place.asleep)
        self._held.add(place)

    def _let_go(self, place: Place) -> None:
        self.num_held -= 1
        self.num_asleep -= bool(place.asleep)
        self._held.remove(place)

    def _stand(self, place: Place, event: Event) -> None:
        self._apply(place.tenant, event)
        self._shares.arrived(place.tenant, self._weight_of(place.tenant), event.now)
        place.level = self._schedulers[place.tenant].level(place.key)

    def _apply(self, tenant: str, event: Event) -> None:
        scheduler = self._schedulers.get(tenant)
        if scheduler is None:
            scheduler = self._schedulers[tenant] = Scheduler(self._config, self._table, keeps_running=True)
        self._tell(f"{self.engine_id}/{tenant}", event, scheduler.apply(event))

    def _tell(self, queue: str | None, event: Event, placed: list[Placed]) -> None:
        if self._on_decision is not None:
            self._on_decision(queue, event, placed)

    def _learn_interval(self, now: float) -> None:
        before_s, self._released_s = self._released_s, now
        if before_s is not None:
            news_s = now - before_s
            self.release_interval_s += (_NEWS if self.release_interval_s else 1.0) * (news_s - self.release_interval_s)

    def validate(self) -> None:
        """Check every invariant of its schedulers; raises InvalidTransition with the first that is broken."""
        for scheduler in self._schedulers.values():
            scheduler.validate()
