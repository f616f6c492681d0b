"""One pure function per metric: unit, formula in the symbols of `records`, and None where there is no value.

A call or program that did not end well has no value in any latency metric: it is counted as failed instead, so that
a server cannot look fast by dropping work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentix.metrics.records import CallRecord, ProgramRecord, Status


def ttft_s(call: CallRecord) -> float | None:
    """Time to first token, s: f_c - s_c. None if the answer had no visible text."""
    return _difference(call, call.first_token_s, call.sent_s)


def tpot_s(call: CallRecord) -> float | None:
    """Time per output token after the first, s/token: (l_c - f_c) / (o_c - 1). None below two tokens."""
    decode_s = _difference(call, call.last_token_s, call.first_token_s)
    if decode_s is None or call.output_tokens is None or call.output_tokens < 2:
        return None
    return decode_s / (call.output_tokens - 1)


def call_latency_s(call: CallRecord) -> float | None:
    """Call latency, s: e_c - s_c."""
    return _difference(call, call.end_s, call.sent_s)


def start_lag_s(call: CallRecord) -> float | None:
    """How late the load generator itself was, s: s_c - r_c. Large values mean the client is the bottleneck."""
    return _difference(call, call.sent_s, call.ready_s)


def jct_s(program: ProgramRecord) -> float | None:
    """Program response time, s: max over calls e_c - a_p. Tool gaps are part of it (paper §2, §8)."""
    end_s = _last_end_s(program.calls)
    if program.status is not Status.OK or end_s is None:
        return None
    return end_s - program.arrival_s


def program_token_latency_s(program: ProgramRecord) -> float | None:
    """Program-level token latency, s/token: jct / sum over calls o_c. The paper's headline metric (§8).

    For a program with parallel threads the numerator is still its response time, which is that of its critical path,
    and the denominator counts the tokens of all threads. None if the server did not count tokens.
    """
    response_s = jct_s(program)
    num_tokens = _output_tokens(program.calls)
    return None if response_s is None or not num_tokens else response_s / num_tokens


def makespan_s(programs: Sequence[ProgramRecord]) -> float | None:
    """Makespan, s: max e_c over calls that ended well - min a_p over programs. None if no call did."""
    end_s = _last_end_s(call for program in programs for call in program.calls)
    return None if end_s is None else end_s - min(program.arrival_s for program in programs)


def program_throughput_per_s(programs: Sequence[ProgramRecord]) -> float | None:
    """Programs that ended well per second of makespan, 1/s."""
    return _per_second(sum(program.status is Status.OK for program in programs), makespan_s(programs))


def output_token_throughput_per_s(programs: Sequence[ProgramRecord]) -> float | None:
    """Output tokens of calls that ended well per second of makespan, tokens/s. None if a count is missing."""
    num_tokens = _output_tokens(call for program in programs for call in program.calls if call.status is Status.OK)
    return None if num_tokens is None else _per_second(num_tokens, makespan_s(programs))


def _difference(call: CallRecord, later_s: float | None, earlier_s: float | None) -> float | None:
    if call.status is not Status.OK or later_s is None or earlier_s is None:
        return None
    return later_s - earlier_s


def _last_end_s(calls: Iterable[CallRecord]) -> float | None:
    ends = [call.end_s for call in calls if call.status is Status.OK and call.end_s is not None]
    return max(ends, default=None)


def _output_tokens(calls: Iterable[CallRecord]) -> int | None:
    """Sum of o_c, or None as soon as one is unknown: a part of the tokens would make latency look worse."""
    total = 0
    for call in calls:
        if call.output_tokens is None:
            return None
        total += call.output_tokens
    return total


def _per_second(amount: int, duration_s: float | None) -> float | None:
    return amount / duration_s if duration_s else None
