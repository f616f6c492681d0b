"""Random but legal histories of events, for property tests.

All times are multiples of a quarter second, so that sums are exact and limits are met exactly.
"""

from __future__ import annotations

from hypothesis import strategies as st

from agentix.core import POLICIES, SchedulerConfig
from agentix.core.events import (
    Attained,
    CallAborted,
    CallArrived,
    CallFinished,
    CallPreempted,
    CallStarted,
    Event,
    ProgramEnded,
    ProgramStarted,
    StepCompleted,
)
from ledger import Ledger

History = list[Event]

_DELAYS_S = (0.0, 0.0, 0.25, 0.5, 0.5, 1.0, 2.0, 5.0)
_OUTSIDE_FIGURES_S = ((None, None), (0.5, None), (None, 3.0), (1.25, 0.25))


class RandomShell:
    """A shell that obeys no policy but never does the impossible: numbers in, events out.

    Each program is announced, with its total work, before each of its calls, so that every policy can rank them.
    """

    def __init__(self) -> None:
        self.history: History = []
        self._ledger = Ledger()
        self._now = 0.0
        self._num_calls = 0
        self._actions = (
            *(self._nothing, self._arrive, self._arrive, self._arrive, self._start, self._start, self._start, self._preempt),
            *(self._step, self._step, self._step, self._finish, self._abort, self._end_program),
        )

    def act(self, action: int, pick: int, delay: int) -> None:
        """One action on the thing picked, if it is possible now. A step takes the delay; other actions come after it."""
        delay_s = _DELAYS_S[delay % len(_DELAYS_S)]
        self._now += delay_s
        self._actions[action % len(self._actions)](pick, delay_s)

    def _tell(self, event: Event) -> None:
        self._ledger.take(event)
        self.history.append(event)

    def _nothing(self, pick: int, delay_s: float) -> None:
        """Time passes. Comes first, so that what fails shrinks to a few events."""

    def _arrive(self, pick: int, delay_s: float) -> None:
        program_id, call_id = f"p{pick % 3}", f"c{self._num_calls}"
        engine_id = ("", "e0", "e1")[pick // 3 % 3]
        self._tell(ProgramStarted(now=self._now, program_id=program_id, total_work_s=100.0))
        self._tell(
            CallArrived(
                now=self._now,
                call_id=call_id,
                program_id=program_id,
                engine_id=engine_id,
                parents=(None, (), (f"c{self._num_calls - 1}", f"c{pick // 4}"))[pick // 2 % 3],
                prompt_tokens=pick % 7 * 20 or None,
                pin=bool(engine_id) and pick % 2 == 0,
                attained=self._attained(pick) if pick % 5 == 0 else None,
            )
        )
        self._num_calls += 1

    @staticmethod
    def _attained(pick: int) -> Attained:
        """What a wider table knows of the program."""
        path_s = pick % 16 / 8 if pick % 2 else None
        return Attained(service_s=pick % 16 / 2, waiting_s=pick / 4, critical_path_s=pick % 16 / 4, path_s=path_s)

    def _start(self, pick: int, delay_s: float) -> None:
        if call_id := self._pick(self._ledger.waiting, pick):
            self._tell(CallStarted(now=self._now, call_id=call_id))

    def _preempt(self, pick: int, delay_s: float) -> None:
        if call_id := self._pick(self._ledger.running, pick):
            self._tell(CallPreempted(now=self._now, call_id=call_id))

    def _step(self, pick: int, delay_s: float) -> None:
        self._tell(StepCompleted(now=self._now, duration_s=delay_s, call_ids=tuple(self._ledger.running)))

    def _finish(self, pick: int, delay_s: float) -> None:
        if call_id := self._pick(list(self._ledger.calls), pick):
            service_s, waiting_s = _OUTSIDE_FIGURES_S[pick % len(_OUTSIDE_FIGURES_S)]
            tokens = pick % 5 * 20 or None
            self._tell(
                CallFinished(now=self._now, call_id=call_id, service_s=service_s, waiting_s=waiting_s, output_tokens=tokens)
            )

    def _abort(self, pick: int, delay_s: float) -> None:
        if call_id := self._pick(list(self._ledger.calls), pick):
            self._tell(CallAborted(now=self._now, call_id=call_id, reason="client gone"))

    def _end_program(self, pick: int, delay_s: float) -> None:
        if program_id := self._pick(list(self._ledger.programs), pick):
            self._tell(ProgramEnded(now=self._now, program_id=program_id))

    @staticmethod
    def _pick(ids: list[str], pick: int) -> str | None:
        return ids[pick % len(ids)] if ids else None


def _history(numbers: bytes) -> History:
    shell = RandomShell()
    for action, pick, delay in zip(numbers[::3], numbers[1::3], numbers[2::3], strict=False):
        shell.act(action, pick, delay)
    return shell.history


def histories() -> st.SearchStrategy[History]:
    """Legal histories for any policy, long enough for demotions and promotions to be common: three bytes an action."""
    return st.binary(min_size=150, max_size=240).map(_history)


def configs(policies: list[str] | None = None) -> st.SearchStrategy[SchedulerConfig]:
    """Settings with short quanta and impatient promotion, so that short histories meet them."""
    return st.builds(
        SchedulerConfig,
        policy=st.sampled_from(policies or POLICIES.names),
        quanta_s=st.lists(st.sampled_from((0.5, 1.0, 2.0)), min_size=1, max_size=3).map(tuple),
        starvation_ratio=st.sampled_from((None, 0.5, 1.0, 3.0)),
    )
