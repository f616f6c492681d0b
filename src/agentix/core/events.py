"""What happens to programs and calls, as data: the only language in which shells speak to the core.

Every event carries `now`, in seconds of any clock that never runs backwards (the shell owns it). A shell translates
its world into these, applies them, asks for a decision and carries it out. Because events and decisions are plain
data, a run can be written as JSON lines, replayed, and compared between the simulator and a real engine.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from agentix.core.errors import ConfigError, unknown_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Attained:
    """What a wider process table knows of a call's program when the call arrives (seconds).

    A gateway that sees every engine sends it with the call, so that one engine's own table, which sees only its
    share of the program, still decides on the program's total. `path_s` is the call's own critical path p(c) when
    its parents are known exactly (ATLAS, eq. 2), else None. `expected_s` is the service that the program is likely to need yet,
    by what the wider table has learnt (`ServiceHistory`), None where it has learnt nothing. `program_class` is as in
    ProgramStarted, `weight` as in ProgramWeighted; one that is out of bounds counts as 1.
    """

    service_s: float = 0.0
    waiting_s: float = 0.0
    critical_path_s: float = 0.0
    path_s: float | None = None
    expected_s: float | None = None
    program_class: str | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened at `now` (seconds)."""

    now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramStarted(Event):
    """A session was opened. Idempotent: starting a live program again changes nothing.

    But a class for a program that has none, or one that was worked out (WORKED_OUT), is its class from now on.
    `total_work_s`, the service the program will need in all, is known to a simulator alone (SRPT).
    """

    program_id: str
    program_class: str = ""
    total_work_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramEnded(Event):
    """The session was closed (or found stale). The row goes when the program's last active call is over."""

    program_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramWeighted(Event):
    """Somebody has given the program a weight (MIN_WEIGHT to MAX_WEIGHT): with 2 it gets twice the service at each level.

    Calls that have a place keep it; what arrives or re-enters from now on is placed by the new weight.
    """

    program_id: str
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedElsewhere(Event):
    """The program has had this where the table did not see it: through another gateway, or before a restart.

    Opens the program's row if it has none, as of `started_s` (None: now). Service, waiting and calls that are over are
    added to the row's; its critical path is at least `critical_path_s`, and its last completion not before
    `last_completion_s`. `num_calls` are active elsewhere now; home, class and weight are what they are there. None: no news.
    """

    program_id: str
    service_s: float = 0.0
    waiting_s: float = 0.0
    critical_path_s: float = 0.0
    num_finished: int = 0
    num_aborted: int = 0
    num_calls: int | None = None
    home_engine_id: str | None = None
    program_class: str | None = None
    weight: float | None = None
    started_s: float | None = None
    last_completion_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalsLearnt(Event):
    """What programs of a class have needed in all (s), and their last contexts (tokens), as learnt elsewhere or earlier.

    Oldest first, at most MAX_TOTALS. It takes the place of what the table itself knows of the class if it is of more
    programs. The class None: of all programs.
    """

    program_class: str | None = None
    totals_s: tuple[float, ...]
    contexts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallArrived(Event):
    """A call of a program entered the system and waits. Opens the program's row if it has none.

    `parents` are the calls it depends on: None when unknown, () for a root call. `pin` makes `engine_id` the
    program's home engine (see `LoadBalancer`). `priority` is the client's wish: so many levels later (or, negative,
    earlier) than the policy says. `route` says to people why the balancer chose the engine. `program_class` is as in
    ProgramStarted.
    """

    call_id: str
    program_id: str
    engine_id: str = ""
    thread_id: str = ""
    parents: tuple[str, ...] | None = None
    prompt_tokens: int | None = None
    pin: bool = False
    priority: int | None = None
    attained: Attained | None = None
    route: str | None = None
    program_class: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMoved(Event):
    """The call goes to another engine than it arrived for, say because that one cannot be reached; it waits there.

    If the old engine was the program's home, the new one is its home now; unless `pin` says whether it is.
    """

    call_id: str
    engine_id: str
    pin: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStarted(Event):
    """The call entered (or came back to) the running batch."""

    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPreempted(Event):
    """The call left the running batch unfinished; it waits at its level again."""

    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCompleted(Event):
    """The model executor ran one batch for `duration_s`; each of `call_ids` was served for all of it (paper: t)."""

    duration_s: float
    call_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFinished(Event):
    """The call is complete.

    `service_s` and `waiting_s` are given by shells that learn them from outside (a gateway reading the engine's own
    figures); None means: what the steps charged to it, and the rest of its time since arrival.
    """

    call_id: str
    service_s: float | None = None
    waiting_s: float | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAborted(Event):
    """The call will never complete (client gone, engine failed). The service it received still counts."""

    call_id: str
    reason: str = ""
    service_s: float | None = None
    waiting_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Decision: `call_id` now stands at `level` (0 = served first), because of `reason`.

    `reason` is "arrival", "quantum" (used up: demoted, or back to the tail) or "starving" (promoted).
    """

    call_id: str
    level: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Decision: the calls that shall run, best first, and what that changes.

    `run` = the calls already running that stay, and `admit`; `preempt` are running calls outside the new batch.
    """

    run: tuple[str, ...]
    admit: tuple[str, ...]
    preempt: tuple[str, ...]


_RECORDS: dict[str, type[Any]] = {
    t.__name__: t
    for t in (
        ProgramStarted,
        ProgramEnded,
        ProgramWeighted,
        ServedElsewhere,
        TotalsLearnt,
        CallArrived,
        CallMoved,
        CallStarted,
        CallPreempted,
        StepCompleted,
        CallFinished,
        CallAborted,
        Placed,
        Batch,
    )
}


def to_record(item: Event | Placed | Batch) -> dict[str, Any]:
    """The item as a JSON-ready mapping; fields left at None are omitted."""
    fields = {key: value for key, value in asdict(item).items() if value is not None}
    return {"type": type(item).__name__, **fields}


def from_record(record: dict[str, Any]) -> Any:
    """The inverse of `to_record`, also after a trip through JSON.

    Raises ConfigError for an unknown type or field.
    """
    fields = dict(record)
    name = str(fields.pop("type", ""))
    if name not in _RECORDS:
        raise unknown_name("record type", name, _RECORDS)
    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
    try:
        if isinstance(fields.get("attained"), dict):
            fields["attained"] = Attained(**fields["attained"])
        return _RECORDS[name](**fields)
    except TypeError as error:
        raise ConfigError(f"bad {name} record: {error}") from None


def log_line(event: Event, decisions: list[Placed] | list[Batch]) -> str:
    """One line of a decision log: the event and what the core decided on it."""
    return json.dumps({"event": to_record(event), "decisions": [to_record(d) for d in decisions]})
