"""What happens in a simulation, and when: the events of its clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProgramArrives:
    """Event: a program is due."""

    index: int


@dataclass(frozen=True, slots=True)
class PlaceIsFree:
    """Event: a program is over, where only so many may be under way."""


@dataclass(frozen=True, slots=True)
class CallIsReady:
    """Event: all parents of a call are over, their gaps have passed, and it has come through client and server."""

    index: int
    call_id: str


@dataclass(frozen=True, slots=True)
class StepEnds:
    """Event: an engine's flight is over. `serial` counts its flights' ends; another end has been set if it is not the last."""

    engine_id: str
    serial: int


@dataclass(frozen=True, slots=True)
class StepsBegin:
    """Event: the engines that have been woken look for work."""


@dataclass(frozen=True, slots=True)
class EngineJoins:
    """Event: one more engine, empty, under an id that no engine has had."""

    engine_id: str


@dataclass(frozen=True, slots=True)
class EngineFails:
    """Event: an engine is gone with all its KV.

    Its calls go to other engines: those that have yielded nothing are moved, the others fail and their clients send them
    again.
    """

    engine_id: str


ControlEvent = EngineJoins | EngineFails
SimEvent = ProgramArrives | PlaceIsFree | CallIsReady | StepEnds | StepsBegin | ControlEvent
