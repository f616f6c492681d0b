"""Where the time of calls and programs goes: waiting, executing, swapping. One pure function per metric, as in `definitions`.

All need what only an engine knows (t_c, x_c, n_c, q_c); without it, and for what did not end well, there is no value. Time
in which an engine decides what to run is not a share of its own: for a call it is waiting like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from agentix.metrics.definitions import call_latency_s, jct_s
from agentix.metrics.records import CallRecord, ProgramRecord, Status


def execute_s(call: CallRecord) -> float | None:
    """Execution, s: t_c."""
    return call.service_s if call.status is Status.OK else None


def swap_s(call: CallRecord) -> float | None:
    """Swapping, s: x_c."""
    return call.swap_s if call.status is Status.OK else None


def wait_s(call: CallRecord) -> float | None:
    """Waiting, s: (e_c - s_c) - t_c - x_c: queued, preempted or parked. Less than 0 by rounding alone counts as 0."""
    latency_s, executed_s, swapped_s = call_latency_s(call), execute_s(call), swap_s(call)
    if latency_s is None or executed_s is None or swapped_s is None:
        return None
    return max(0.0, latency_s - executed_s - swapped_s)


def wait_to_execution(call: CallRecord) -> float | None:
    """Wait-to-execution ratio of a call: w_c / t_c (paper, figure 6). None if it was never executed."""
    return _ratio(wait_s(call), execute_s(call))


def starvation_age_s(call: CallRecord) -> float | None:
    """The longest time, s, that the call stood outside the running batch in one stretch: q_c."""
    return call.longest_wait_s if call.status is Status.OK else None


def program_wait_s(program: ProgramRecord) -> float | None:
    """Waiting of a program, s: sum over calls w_c. Calls that wait at the same time count each."""
    return _sum(wait_s, program.calls)


def program_wait_to_execution(program: ProgramRecord) -> float | None:
    """Wait-to-execution ratio of a program: sum over calls w_c / sum over calls t_c (paper, figure 6)."""
    return _ratio(program_wait_s(program), _sum(execute_s, program.calls))


def wait_share(program: ProgramRecord) -> float | None:
    """Share of a program's time in engines, sum over calls (e_c - s_c), that is waiting (paper, figures 5 and 17).

    The three shares add up to 1. In a program of one thread without tool gaps that time is its response time; tool gaps
    are nobody's share, and each of several parallel calls counts.
    """
    return _ratio(program_wait_s(program), _sum(call_latency_s, program.calls))


def execute_share(program: ProgramRecord) -> float | None:
    """Share of a program's time in engines that is execution: sum t_c / sum (e_c - s_c)."""
    return _ratio(_sum(execute_s, program.calls), _sum(call_latency_s, program.calls))


def swap_share(program: ProgramRecord) -> float | None:
    """Share of a program's time in engines that is swapping: sum x_c / sum (e_c - s_c)."""
    return _ratio(_sum(swap_s, program.calls), _sum(call_latency_s, program.calls))


def alone_s(program: ProgramRecord) -> float | None:
    """Response time, s, had no call of the program ever waited or been swapped: its longest path of service and gaps.

    F(c) = t_c for a root, else t_c + g_c + max over parents k F(k), with the gap g_c = r_c - max over parents k e_k; the
    value is max over calls F(c). Service is that of this run, so steps shared with other programs count in full, and
    so does what was computed again after a preemption.
    """
    if program.status is not Status.OK:
        return None
    finish_s: dict[str, float] = {}
    end_s: dict[str, float] = {}
    for call in program.calls:
        if call.service_s is None or call.ready_s is None or call.end_s is None:
            return None
        gap_s = call.ready_s - max(end_s[parent] for parent in call.parents) if call.parents else 0.0
        finish_s[call.call_id] = max((finish_s[p] for p in call.parents), default=0.0) + gap_s + call.service_s
        end_s[call.call_id] = call.end_s
    return max(finish_s.values(), default=None)


def slowdown(program: ProgramRecord) -> float | None:
    """How many times longer the program took than without waiting: jct / alone. At least 1, but for rounding."""
    return _ratio(jct_s(program), alone_s(program))


def total_wait_s(programs: Iterable[ProgramRecord]) -> float | None:
    """Waiting of a run, s: sum over all calls that ended well w_c. None if it is unknown for one of them."""
    return _sum(wait_s, _ended_well(programs))


def prefix_hit_rate(programs: Iterable[ProgramRecord]) -> float | None:
    """Prompt tokens found in the prefix cache per prompt token: sum h_c / sum i_c over the calls that ended well."""
    calls = _ended_well(programs)
    return _ratio(_sum(lambda call: call.cached_tokens, calls), _sum(lambda call: call.prompt_tokens, calls))


def num_preemptions(programs: Iterable[ProgramRecord]) -> int | None:
    """Preemptions of a run: sum n_c over the calls that ended well. None if it is unknown for one of them."""
    total = _sum(lambda call: call.num_preemptions, _ended_well(programs))
    return None if total is None else int(total)


def mean_batch_size(programs: Iterable[ProgramRecord], *, busy_s: float) -> float | None:
    """Calls per step, weighted by the steps' time: sum t_c / busy seconds of all engines (cf. the paper's figure 4).

    A step serves each of its calls for all of its duration, so sum t_c is the sum over steps of duration times size.
    """
    return _ratio(_sum(execute_s, _ended_well(programs)), busy_s)


def jain_index(values: Iterable[float | None]) -> float | None:
    """Jain's fairness index of the values there are: (sum x)² / (n · sum x²). None if there are none but zeros.

    1 if all are equal, k/n if k of n are equal and the others 0. Over slowdowns, 1 says that waiting stretched every
    program by the same factor; that it is small it does not say.
    """
    present = [value for value in values if value is not None]
    squares = sum(value * value for value in present)
    return sum(present) ** 2 / (len(present) * squares) if squares else None


def _ended_well(programs: Iterable[ProgramRecord]) -> list[CallRecord]:
    return [call for program in programs for call in program.calls if call.status is Status.OK]


def _sum(metric: Callable[[CallRecord], float | None], calls: Sequence[CallRecord]) -> float | None:
    """The sum over the calls; None if there are none, or one has no value: a part of it would look like less."""
    total = 0.0
    for call in calls:
        value = metric(call)
        if value is None:
            return None
        total += value
    return total if calls else None


def _ratio(numerator: float | None, denominator: float | None) -> float | None:
    return numerator / denominator if numerator is not None and denominator else None
