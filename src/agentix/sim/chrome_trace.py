"""Timelines in the Trace Event Format, which https://ui.perfetto.dev and chrome://tracing open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentix.metrics import batch_size_series
from agentix.sim.timeline import CallSpans, Timeline, lanes


def chrome_trace(timelines: Mapping[str, Timeline]) -> dict[str, Any]:
    """Timelines by title, as one trace: a process per run and engine, threads per program, a counter of the batch size.

    A program has as many threads on an engine as it has calls there at once. Slices named after their call are service;
    those called "waiting" are not. Times are microseconds of simulated time.
    """
    events: list[dict[str, Any]] = []
    pid = 0
    for title, timeline in timelines.items():
        engine_ids = sorted({call.engine_id for call in timeline.calls.values()})
        for engine_id in engine_ids:
            pid += 1
            events.append(_name("process_name", pid, 0, f"{title} {engine_id}"))
            events.extend(_threads(timeline, engine_id, pid))
            events.extend(
                {"ph": "C", "name": "batch size", "pid": pid, "ts": _us(at_s), "args": {"calls": num_calls}}
                for at_s, num_calls in batch_size_series(timeline.batches.get(engine_id, []))
            )
    return {"displayTimeUnit": "ms", "traceEvents": events}


def _threads(timeline: Timeline, engine_id: str, pid: int) -> Iterator[dict[str, Any]]:
    programs: dict[str, list[CallSpans]] = {}
    for call in timeline.calls.values():
        if call.engine_id == engine_id:
            programs.setdefault(call.program_id, []).append(call)
    tid = 0
    for program_id, calls in programs.items():
        for lane in lanes(calls):
            tid += 1
            yield _name("thread_name", pid, tid, program_id)
            for call in lane:
                for begin_s, end_s in call.served:
                    yield _slice(call.call_id, "service", pid, tid, begin_s, end_s)
                for begin_s, end_s in call.waits():
                    yield _slice("waiting", "waiting", pid, tid, begin_s, end_s) | {"args": {"call": call.call_id}}


def _name(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def _slice(name: str, category: str, pid: int, tid: int, begin_s: float, end_s: float) -> dict[str, Any]:
    begin_us = _us(begin_s)
    duration_us = round(_us(end_s) - begin_us, 3)
    return {"ph": "X", "name": name, "cat": category, "pid": pid, "tid": tid, "ts": begin_us, "dur": duration_us}


def _us(seconds: float) -> float:
    """Microseconds in whole nanoseconds, so that slices which touch do not overlap by rounding."""
    return round(seconds * 1e6, 3)
