"""Accounts of a history of events, kept without the core and in plain sums: what its answers are checked against."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agentix.core.events import (
    CallAborted,
    CallArrived,
    CallFinished,
    CallPreempted,
    CallStarted,
    Event,
    Placed,
    ProgramEnded,
    ProgramStarted,
    StepCompleted,
)


@dataclass
class CallAccount:
    """An active call. `at_level_s` is its service since it entered its level, `reset_*_s` its W and T when last promoted."""

    program_id: str
    arrived_s: float
    running: bool = False
    service_s: float = 0.0
    level: int = -1
    at_level_s: float = 0.0
    reset_waiting_s: float = 0.0
    reset_service_s: float = 0.0


@dataclass
class ProgramAccount:
    """A live program: service and waiting of its calls that are over, or what a wider table said they were."""

    service_s: float = 0.0
    waiting_s: float = 0.0
    ended: bool = False


class Ledger:
    """Active calls and live programs after the events taken so far."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: dict[str, CallAccount] = {}
        self.programs: dict[str, ProgramAccount] = {}

    @property
    def waiting(self) -> list[str]:
        return [call_id for call_id, call in self.calls.items() if not call.running]

    @property
    def running(self) -> list[str]:
        return [call_id for call_id, call in self.calls.items() if call.running]

    def take(self, event: Event) -> None:
        """Book one event."""
        self.now = event.now
        match event:
            case ProgramStarted():
                self.programs.setdefault(event.program_id, ProgramAccount()).ended = False
            case ProgramEnded():
                self.programs[event.program_id].ended = True
            case CallArrived():
                self._arrived(event)
            case CallStarted() | CallPreempted():
                self.calls[event.call_id].running = isinstance(event, CallStarted)
            case StepCompleted():
                for call_id in event.call_ids:
                    self.calls[call_id].service_s += event.duration_s
                    self.calls[call_id].at_level_s += event.duration_s
            case CallFinished() | CallAborted():
                self._over(event)
        active = {call.program_id for call in self.calls.values()}
        self.programs = {i: p for i, p in self.programs.items() if i in active or not p.ended}

    def _arrived(self, event: CallArrived) -> None:
        program = self.programs.setdefault(event.program_id, ProgramAccount())
        program.ended = False
        if event.attained:
            program.service_s = max(program.service_s, event.attained.service_s)
            program.waiting_s = max(program.waiting_s, event.attained.waiting_s)
        self.calls[event.call_id] = CallAccount(event.program_id, event.now)

    def _over(self, event: CallFinished | CallAborted) -> None:
        waiting_s = self.waiting_s(event.call_id)
        call = self.calls.pop(event.call_id)
        program = self.programs[call.program_id]
        service_s = call.service_s if event.service_s is None else event.service_s
        if event.waiting_s is not None:
            waiting_s = event.waiting_s
        elif event.service_s is not None:
            waiting_s = max(0.0, event.now - call.arrived_s - event.service_s)
        program.service_s += service_s
        program.waiting_s += waiting_s

    def place(self, placements: Iterable[Placed]) -> None:
        """Book where calls were placed."""
        for placed in placements:
            call = self.calls[placed.call_id]
            call.level, call.at_level_s = placed.level, 0.0
            if placed.reason == "starving":
                call.reset_waiting_s, call.reset_service_s = self.waiting_s(placed.call_id), call.service_s

    def waiting_s(self, call_id: str) -> float:
        """Time since arrival that was not service."""
        call = self.calls[call_id]
        return self.now - call.arrived_s - call.service_s

    def starves(self, call_id: str, beta: float, *, by_program: bool) -> bool:
        """(W_p + W_c) / (T_p + T_c) >= beta, the call's own W and T counted from its last promotion."""
        call = self.calls[call_id]
        program = self.programs[call.program_id] if by_program else ProgramAccount()
        waiting_s = program.waiting_s + self.waiting_s(call_id) - call.reset_waiting_s
        service_s = program.service_s + call.service_s - call.reset_service_s
        return waiting_s >= beta * service_s
