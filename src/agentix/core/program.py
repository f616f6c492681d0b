"""Rows of the process table: one per live program, and in it one per active call (paper §4.2.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from agentix.core.errors import InvalidTransition
from agentix.core.events import Attained, ServedElsewhere
from agentix.core.history import ServiceHistory

MAX_PATHS = 1024
MIN_WEIGHT, MAX_WEIGHT = 0.001, 1000.0

# How tokens count towards `recent_tokens`: as in the router of llm-d (policy `las`).
OUTPUT_WEIGHT = 2
HALF_LIFE_S = 60.0

FADING_GAPS = 40  # see `ProgramRow.faded_s`


@dataclass(slots=True, kw_only=True)
class CallRow:
    """An active call: arrived, not yet over. Times in seconds.

    `scalar_s` is the program's critical-path scalar at arrival, `path_s` the longest path of service that leads to
    the call through its parents: the two readings of ATLAS's p(c). Changed by `ProcessTable.apply` alone.
    """

    call_id: str
    program_id: str
    arrived_s: float
    engine_id: str = ""
    thread_id: str = ""
    parents: tuple[str, ...] | None = None
    prompt_tokens: int | None = None
    priority: int = 0
    scalar_s: float = 0.0
    path_s: float = 0.0
    service_s: float = 0.0
    running: bool = False

    def waiting_s(self, now: float) -> float:
        """Time since arrival that was not service: queued, preempted, parked or swapped."""
        return max(0.0, now - self.arrived_s - self.service_s)


@dataclass(slots=True, kw_only=True)
class ProgramRow:
    """What the system knows of one live program. Times in seconds; changed by `ProcessTable.apply` alone.

    service_s        attained service T as PLAS defines it: sum of t over the program's calls that are over (eq. 1)
    critical_path_s  attained service T as ATLAS defines it: longest path of service seen so far, one scalar (alg. 1)
    waiting_s        W: time its calls that are over spent queued
    path_s           per call that is over (the last MAX_PATHS of them, since a program may go on for weeks), the longest
                     path of service that ends with it: lets a later call that names its parents start from the exact
                     maximum (eq. 2)
    engine_ids       engines it has used, in order of first use
    home_engine_id   engine that holds its long context, if the balancer has pinned it
    calls            its active calls by id
    context_tokens   KV it needs: the largest context of its calls since it was last idle, that is the prompt of a call, and
                     its answer too once that is finished. Parallel calls share most of their tokens, so the largest is
                     nearer the truth than the sum. 0: unknown
    recent_tokens    tokens of its finished calls, input + OUTPUT_WEIGHT x output, halved every HALF_LIFE_S seconds; as of
                     `last_completion_s`, see `recent_tokens_at`
    history          what programs of its class needed, for policies that learn
    told_s           the service that a wider table, which has learnt more, expects it to need yet; as of its latest call
    weight           service counts 1/weight towards its levels, on top of its class's weight (`ProgramWeighted`)
    gaps_s           sum of the `num_gaps` times for which the program was idle between two calls (tools, people)
    num_calls_elsewhere  its active calls that go through other gateways; they are not in `calls`

    A completion is the end of a call, finished or aborted: from `last_completion_s` on the program may be idle.
    """

    program_id: str
    started_s: float
    program_class: str = ""
    service_s: float = 0.0
    waiting_s: float = 0.0
    critical_path_s: float = 0.0
    total_work_s: float | None = None
    engine_ids: list[str] = field(default_factory=list)
    home_engine_id: str | None = None
    calls: dict[str, CallRow] = field(default_factory=dict)
    path_s: dict[str, float] = field(default_factory=dict)
    context_tokens: int = 0
    recent_tokens: float = 0.0
    gaps_s: float = 0.0
    num_gaps: int = 0
    last_arrival_s: float | None = None
    last_completion_s: float | None = None
    num_finished: int = 0
    num_aborted: int = 0
    ended: bool = False
    weight: float = 1.0
    num_calls_elsewhere: int = 0
    history: ServiceHistory | None = None
    told_s: float | None = None

    @property
    def num_active(self) -> int:
        """Its active calls, here and elsewhere."""
        return len(self.calls) + self.num_calls_elsewhere

    @property
    def threads(self) -> dict[str, list[CallRow]]:
        """Active calls by thread id, oldest first (paper: threads of the row)."""
        threads: dict[str, list[CallRow]] = {}
        for call in self.calls.values():
            threads.setdefault(call.thread_id, []).append(call)
        return threads

    @property
    def attained_s(self) -> float:
        """Service so far, that of its active calls here included."""
        return self.service_s + sum(call.service_s for call in self.calls.values())

    @property
    def faded_s(self) -> float:
        """Attained service, the less of it the more gaps between calls there have been: half of it after FADING_GAPS.

        In the limit it is what so many calls take in the mean; a program that stays for hours is as old as what it has had
        lately, and not served last for ever.
        """
        return self.attained_s * FADING_GAPS / (FADING_GAPS + self.num_gaps)

    @property
    def has_been_served(self) -> bool:
        """Whether a call of it has ever run here or is over."""
        return self.num_over > 0 or any(call.running or call.service_s > 0 for call in self.calls.values())

    @property
    def learnt_s(self) -> float | None:
        """The service that it is likely to need yet, as others of its class have shown; None: nothing is known."""
        return self.history.expected_s(self.faded_s) if self.history is not None and self.history.foretells else None

    @property
    def mean_gap_s(self) -> float:
        """How long it was idle between two calls, in the mean so far; 0 before the first gap is over."""
        return self.gaps_s / self.num_gaps if self.num_gaps else 0.0

    @property
    def num_over(self) -> int:
        """Calls that are over, finished or aborted."""
        return self.num_finished + self.num_aborted

    @property
    def num_arrived(self) -> int:
        """All its calls so far."""
        return self.num_over + len(self.calls)

    def recent_tokens_at(self, now: float) -> float:
        """`recent_tokens`, as of `now`."""
        if self.last_completion_s is None:
            return 0.0
        return self.recent_tokens * math.exp2(-max(0.0, now - self.last_completion_s) / HALF_LIFE_S)

    def catch_up(self, attained: Attained) -> float:
        """Take over what a wider table knows; returns by how much the critical path grew, seconds.

        A program of which nothing was known here began so much earlier at the least.
        """
        grown_s = max(0.0, attained.critical_path_s - self.critical_path_s)
        if not self.num_arrived:
            self.started_s -= grown_s
        self.service_s = max(self.service_s, attained.service_s)
        self.waiting_s = max(self.waiting_s, attained.waiting_s)
        self.critical_path_s = max(self.critical_path_s, attained.critical_path_s)
        self.told_s = attained.expected_s
        self.weight = attained.weight if MIN_WEIGHT <= attained.weight <= MAX_WEIGHT else 1.0
        return grown_s

    def add_elsewhere(self, event: ServedElsewhere) -> None:
        """What `ProcessTable.apply` does to the row for this event; `check_elsewhere` has passed it."""
        self.service_s += event.service_s
        self.waiting_s += event.waiting_s
        self.critical_path_s = max(self.critical_path_s, event.critical_path_s)
        self.num_finished += event.num_finished
        self.num_aborted += event.num_aborted
        if event.num_calls is not None:
            self.num_calls_elsewhere = event.num_calls
        if event.home_engine_id is not None:
            self.home_engine_id = event.home_engine_id
            if event.home_engine_id not in self.engine_ids:
                self.engine_ids.append(event.home_engine_id)
        self.weight = self.weight if event.weight is None else event.weight
        completion_s = event.last_completion_s
        if completion_s is None and event.num_finished + event.num_aborted:
            completion_s = event.now  # it was told soon after
        if completion_s is not None and completion_s > (self.last_completion_s or -math.inf):
            self.recent_tokens = self.recent_tokens_at(completion_s)
            self.last_completion_s = completion_s
        self._reckon_gaps()

    def _reckon_gaps(self) -> None:
        """Gaps between calls that went through elsewhere: what is left of the program's time, if it is idle.

        Less than there were where calls waited side by side, since their waiting is summed.
        """
        if not self.num_active and self.last_completion_s is not None:
            elapsed_s = self.last_completion_s - self.started_s
            self.gaps_s = max(self.gaps_s, elapsed_s - self.critical_path_s - self.waiting_s)
            self.num_gaps = max(self.num_gaps, self.num_over - 1)


def check_elsewhere(event: ServedElsewhere) -> None:
    """Raise InvalidTransition for figures that no program can have."""
    figures = (event.service_s, event.waiting_s, event.critical_path_s, event.num_finished, event.num_aborted)
    if not all(0 <= figure < math.inf for figure in (*figures, event.num_calls or 0)):
        raise InvalidTransition(f"service, waiting and calls cannot be negative or without end: {event}")
    if event.weight is not None and not MIN_WEIGHT <= event.weight <= MAX_WEIGHT:
        raise InvalidTransition(f"a weight must be from {MIN_WEIGHT:g} to {MAX_WEIGHT:g}: {event}")
    if event.home_engine_id == "":
        raise InvalidTransition(f"a home that is no engine: {event}")
