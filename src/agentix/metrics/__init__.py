"""Metrics: what is recorded of each call, what each number means, and how numbers are summed up."""

from __future__ import annotations

from agentix.metrics.definitions import (
    call_latency_s,
    jct_s,
    makespan_s,
    output_token_throughput_per_s,
    program_throughput_per_s,
    program_token_latency_s,
    start_lag_s,
    tpot_s,
    ttft_s,
)
from agentix.metrics.records import CallRecord, ProgramRecord, Status
from agentix.metrics.summary import Distribution, Summary, distribution, percentile, summarise

__all__ = [
    "CallRecord",
    "Distribution",
    "ProgramRecord",
    "Status",
    "Summary",
    "call_latency_s",
    "distribution",
    "jct_s",
    "makespan_s",
    "output_token_throughput_per_s",
    "percentile",
    "program_throughput_per_s",
    "program_token_latency_s",
    "start_lag_s",
    "summarise",
    "tpot_s",
    "ttft_s",
]
