"""Programs first come, first served, with KV kept across tool calls: the discipline of Continuum."""

from __future__ import annotations

import math

from agentix.core.policies.base import SchedulingPolicy
from agentix.core.program import CallRow, ProgramRow

COLD_START_S = 2.0


class ProgramFCFS(SchedulingPolicy):
    """Calls of the program that came first go first; running calls stay. A call's KV outlives it by a learned time.

    Keeping KV for τ seconds is worth P(gap <= τ) x B - τ, where B is what the program saves if its next call finds it and
    the gap is the time its tool takes. For exponential gaps of mean m that is largest at τ = m ln(B / m), and 0 for B <= m.
    Here m is the mean gap of the program so far and B the mean wait of its calls; before the first gap τ is 2 s.

    Source: Li et al., *Continuum: Efficient and Robust Multi-Turn LLM Agent Scheduling with KV Cache Time-to-Live*, arXiv
    2511.02230. Not modelled: the empirical distribution of gaps by name of tool (calls do not name it here), the seconds of
    prefill in B (the core has no model of costs, and where calls wait their wait is the larger part), and the precedence of
    calls whose KV was kept. The published code keeps KV for 2 s where tools have taken no longer on average, else not.
    """

    preempts = False

    def rank(self, call: CallRow, row: ProgramRow, now: float) -> float:
        """When the program started."""
        return row.started_s

    def retention_s(self, row: ProgramRow, now: float) -> float:
        """τ as above."""
        if row.ended:
            return 0.0
        if row.num_gaps == 0:
            return COLD_START_S
        gap_s, saved_s = row.mean_gap_s, row.waiting_s / row.num_over
        return gap_s * math.log(saved_s / gap_s) if 0 < gap_s < saved_s else 0.0
