"""What holds for programs that are held back on a crowded engine, after every event of every legal history."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given, settings

from agentix.core import ProcessTable, Scheduler, SchedulerConfig, Slots, holding
from agentix.core.capacity import EngineCapacity
from histories import History, configs, histories
from ledger import Ledger


@settings(max_examples=150, deadline=None)
@given(configs(["gittins", "pause_resume"]), histories())
def test_two_programs_are_a_crowd(config: SchedulerConfig, history: History) -> None:
    """The engine never stands still, the order is right, and whoever is told of is who was let go or held back."""
    told: set[str] = set()
    capacity = EngineCapacity(kv_tokens=400, num_slots=8, prefill_s_per_token=0.001)
    scheduler = Scheduler(config, ProcessTable(), capacity=capacity, on_refiled=told.add)
    ledger = Ledger()
    with patch.object(holding, "_CROWD", 1):
        for event in history:
            ledger.take(event)
            ledger.place(scheduler.apply(event))
            passing = {i for i in ledger.waiting if scheduler.holding.passes(scheduler.table.calls[i])}
            told.clear()
            batch = scheduler.choose(event.now, Slots(2))
            scheduler.validate()
            assert bool(batch.run) == bool(ledger.calls)
            now_passing = {i for i in ledger.waiting if scheduler.holding.passes(scheduler.table.calls[i])}
            assert told == passing ^ now_passing
            assert list(scheduler.contenders(None)) == [i for i in scheduler.order if i in now_passing]
            assert batch.run == tuple(i for i in scheduler.order if i in now_passing or i in ledger.running)[:2]
