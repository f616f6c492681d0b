"""An event that cannot happen now raises, and leaves table and scheduler as they were."""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings

from agentix.core import InvalidTransition, ProcessTable, Scheduler, SchedulerConfig, UnknownCall, UnknownProgram
from agentix.core.events import (
    CallAborted,
    CallArrived,
    CallFinished,
    CallMoved,
    CallPreempted,
    CallStarted,
    Event,
    ProgramEnded,
    StepCompleted,
)
from histories import History, configs, histories
from ledger import Ledger

Illegal = Iterator[tuple[Event, type[InvalidTransition]]]


def always_illegal(now: float) -> Illegal:
    """Events about programs and calls that nobody has heard of."""
    yield Event(now=now), InvalidTransition
    yield ProgramEnded(now=now, program_id="nobody"), UnknownProgram
    for about_a_call in (CallStarted, CallPreempted, CallFinished, CallAborted):
        yield about_a_call(now=now, call_id="nobody"), UnknownCall
    yield CallMoved(now=now, call_id="nobody", engine_id="e0"), UnknownCall
    yield CallArrived(now=now, call_id="new", program_id="new", pin=True), InvalidTransition


def illegal_while_active(now: float, call_id: str, program_id: str, running: bool) -> Illegal:
    """Events about an active call that its state rules out."""
    yield CallArrived(now=now, call_id=call_id, program_id=program_id), InvalidTransition
    yield CallArrived(now=now, call_id=call_id, program_id="new"), InvalidTransition
    yield (CallStarted if running else CallPreempted)(now=now, call_id=call_id), InvalidTransition
    yield StepCompleted(now=now, duration_s=1.0, call_ids=(call_id, "nobody")), UnknownCall
    yield StepCompleted(now=now, duration_s=1.0, call_ids=(call_id, call_id)), InvalidTransition
    for figure in (-1.0, math.nan):
        yield StepCompleted(now=now, duration_s=figure, call_ids=(call_id,)), InvalidTransition
        yield CallFinished(now=now, call_id=call_id, service_s=figure), InvalidTransition
        yield CallAborted(now=now, call_id=call_id, waiting_s=figure), InvalidTransition


def illegal(ledger: Ledger) -> Illegal:
    yield from always_illegal(ledger.now)
    for call_id, call in ledger.calls.items():
        yield from illegal_while_active(ledger.now, call_id, call.program_id, call.running)


def state(scheduler: Scheduler) -> dict[str, Any]:
    """Everything that table and scheduler hold, their fixed parts aside."""
    held = {k: v for k, v in vars(scheduler).items() if k not in {"table", "policy", "_starvation"}}
    held["watch"] = scheduler._starvation._watch
    return deepcopy({**held, "rows": dict(scheduler.table.rows), "calls": dict(scheduler.table.calls)})


@settings(max_examples=50, deadline=None)
@given(configs(), histories())
def test_an_illegal_event_raises_and_changes_nothing(config: SchedulerConfig, history: History) -> None:
    scheduler, ledger = Scheduler(config, ProcessTable()), Ledger()
    for event in history:
        ledger.take(event)
        scheduler.apply(event)
    before = state(scheduler)
    for event, error in illegal(ledger):
        with pytest.raises(error):
            scheduler.apply(event)
        assert state(scheduler) == before
