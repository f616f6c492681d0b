"""What of the process table outlives the gateway, as text: between a first and a last line, lines of JSON.

One for each program, then those of what was learnt of programs that are over (`table_totals`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from agentix.cluster.table_totals import read_totals
from agentix.core.errors import AgentixError, InvalidTransition
from agentix.core.events import ServedElsewhere, TotalsLearnt
from agentix.core.program import ProgramRow, check_elsewhere

FORMAT = "agentix process table"
VERSION = 2
_READ = (1, VERSION)  # version 1 had programs alone


class SnapshotError(AgentixError):
    """The text is not a snapshot that this version can read; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A program of a snapshot: the event that gives it a row again, and since when it was idle then (monotonic clock)."""

    event: ServedElsewhere
    idle_since_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a text held: programs, and what is known of those that are over."""

    programs: list[Kept]
    learnt: list[TotalsLearnt]


def to_line(row: ProgramRow, *, home: str, now: float, wall_s: float) -> str:
    """The program's line. `home`: its home engine's address; `now` and `wall_s` are the same moment on both clocks.

    Moments are whole seconds of the wall clock, so that a program to which nothing happens keeps its line.
    """
    moments_s = (row.started_s, row.last_arrival_s, row.last_completion_s, now if row.calls else None)
    last_s = max(moment_s for moment_s in moments_s if moment_s is not None)
    kept = {
        "id": row.program_id,
        "class": row.program_class,
        "weight": row.weight,
        "service_s": row.service_s,
        "waiting_s": row.waiting_s,
        "critical_path_s": row.critical_path_s,
        "num_finished": row.num_finished,
        "num_aborted": row.num_aborted,
        "home": home,
        "started_at_s": round(wall_s - (now - row.started_s)),
        "last_at_s": round(wall_s - (now - last_s)),
    }
    return json.dumps(kept, separators=(",", ":"))


def to_text(programs: Iterable[str], totals: Iterable[str] = ()) -> str:
    """The snapshot of these programs, and of these lines of totals."""
    kept, learnt = list(programs), list(totals)
    first, last = {"format": FORMAT, "version": VERSION}, {"num_programs": len(kept), "num_totals": len(learnt)}
    return "\n".join([json.dumps(first), *kept, *learnt, json.dumps(last), ""])


def from_text(text: str, *, engine_at: Callable[[str], str], now: float, wall_s: float, keep_s: float) -> Snapshot:
    """What a snapshot holds, without programs that have been idle for longer than `keep_s`.

    `engine_at`: an engine's id by its address; "": it is not there any more. Raises SnapshotError, which names the line.
    """
    lines = text.splitlines()
    if len(lines) < 2:
        raise SnapshotError("it has no first and last line")
    first, last = _read(lines[0], 1), _read(lines[-1], len(lines))
    if first.get("format") != FORMAT:
        raise SnapshotError(f"its first line does not say {FORMAT!r}")
    if first.get("version") not in _READ:
        raise SnapshotError(f"its version is {first.get('version')!r}, and this Agentix reads {_READ[0]} and {_READ[1]}")
    num_programs, num_totals = last.get("num_programs"), last.get("num_totals", 0)
    if not isinstance(num_programs, int) or not isinstance(num_totals, int) or num_programs + num_totals != len(lines) - 2:
        raise SnapshotError(f"it is cut short: its last line, {len(lines)}, is not the number of its programs and totals")
    kept, learnt = [], []
    for number, line in enumerate(lines[1:-1], start=2):
        said, is_program = _read(line, number), number < 2 + num_programs
        try:
            if not is_program:
                learnt.append(read_totals(said, now))
                continue
            idle_s = max(0.0, wall_s - said["last_at_s"])
            if idle_s <= keep_s:
                event = _event(said, engine_at, now, idle_s=idle_s, age_s=max(idle_s, wall_s - said["started_at_s"]))
                kept.append(Kept(event=event, idle_since_s=now - idle_s))
        except (KeyError, TypeError, ValueError, OverflowError, InvalidTransition) as error:
            what = "program" if is_program else "line of totals"
            raise SnapshotError(f"line {number} is no {what} ({type(error).__name__}: {error})") from None
    return Snapshot(programs=kept, learnt=learnt)


def _event(
    program: dict[str, Any], engine_at: Callable[[str], str], now: float, *, idle_s: float, age_s: float
) -> ServedElsewhere:
    texts, counts = [program[name] for name in ("id", "class", "home")], [program["num_finished"], program["num_aborted"]]
    if not all(isinstance(text, str) for text in texts) or not all(type(count) is int for count in counts):
        raise TypeError("id, class and home are text, num_finished and num_aborted whole numbers")
    event = ServedElsewhere(
        now=now,
        program_id=program["id"],
        service_s=float(program["service_s"]),
        waiting_s=float(program["waiting_s"]),
        critical_path_s=float(program["critical_path_s"]),
        num_finished=program["num_finished"],
        num_aborted=program["num_aborted"],
        home_engine_id=engine_at(program["home"]) or None,
        program_class=program["class"],
        weight=float(program["weight"]),
        started_s=now - age_s,
        last_completion_s=now - idle_s,
    )
    check_elsewhere(event)
    return event


def _read(line: str, number: int) -> dict[str, Any]:
    try:
        said = json.loads(line)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise SnapshotError(f"line {number} is not a JSON object")
    return said
