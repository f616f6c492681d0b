"""A gateway's decision log given to the core again: it must decide what the gateway decided, line for line."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from agentix.core import ProcessTable, Scheduler, SchedulerConfig, make_balancer
from agentix.core.balancers import EngineView, LoadBalancer, Route
from agentix.core.events import CallMoved, CallStarted, Event, from_record
from agentix.core.program import ProgramRow


class GatewayCore:
    """The core as it stands in a gateway: one table, a scheduler for each queue, one balancer."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.config = SchedulerConfig.from_mapping(settings["scheduler"])
        self.balancer: LoadBalancer = make_balancer(settings["balancer"])
        self.table = ProcessTable()
        self.queues: dict[str, Scheduler] = {}
        self._on_the_way: set[str] = set()  # calls that were sent and go on to another engine: they have had their turn

    def decide(self, line: dict[str, Any]) -> None:
        """Take in a line, and check what is decided on it."""
        if "choice" in line:
            self._choose(line["choice"])
            return
        event, decisions = from_record(line["event"]), [from_record(decision) for decision in line["decisions"]]
        if line["queue"] is None:
            self.table.apply(event)
            return
        queue = self.queues.setdefault(line["queue"], Scheduler(self.config, self.table, keeps_running=True))
        self._check_turn(queue, event)
        assert queue.apply(event) == decisions, line
        self.table.validate()

    def _check_turn(self, queue: Scheduler, event: Event) -> None:
        """The call that is sent is the one whose turn it is, unless it comes from another engine that did not take it."""
        if isinstance(event, CallMoved) and self.table.call(event.call_id).running:
            self._on_the_way.add(event.call_id)
        if isinstance(event, CallStarted):
            if event.call_id not in self._on_the_way:
                assert queue.first_waiting(event.now) == event.call_id
            self._on_the_way.discard(event.call_id)

    def _choose(self, said: dict[str, Any]) -> None:
        row = ProgramRow(
            program_id=said["program_id"],
            started_s=said["now"],
            home_engine_id=said["home_engine_id"],
            context_tokens=said["context_tokens"],
            num_calls_elsewhere=said["num_active"],
        )
        route = self.balancer.route(said["prompt_tokens"], row, [EngineView(**view) for view in said["engines"]])
        assert route == Route(engine_ids=tuple(said["engine_ids"]), pin=said["pin"])
        assert route.reason == said["reason"]


def replay(path: Path) -> Counter[str]:
    """Check every line of a log; returns how many there were of each kind: gateway, choice, types of events."""
    counts: Counter[str] = Counter()
    core: GatewayCore | None = None
    for line in map(json.loads, path.read_text().splitlines()):
        kind = next((k for k in ("gateway", "choice") if k in line), None) or line["event"]["type"]
        counts[kind] += 1
        if kind == "gateway":
            core = GatewayCore(line["gateway"])
        else:
            assert core is not None, "the settings come first"
            core.decide(line)
    return counts
