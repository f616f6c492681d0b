"""Recorded calls to programs: who waited for whom, for how long nobody called, and what prompts share. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agentix.record.calls import FINISHED, RecordedCall
from agentix.record.prompts import prompt_parts_of
from agentix.record.texts import WARNING, text_fields
from agentix.workload import Call, Program

_CHARS_PER_TOKEN = 4  # where an engine counts no tokens
_DIGITS = 6  # of seconds: a microsecond


@dataclass(frozen=True, slots=True)
class _Named:
    """A call under the id that it has in the trace, with the calls that it waited for."""

    call: RecordedCall
    program_id: str
    call_id: str
    parents: tuple[str, ...]


def make_programs(calls: Iterable[RecordedCall]) -> tuple[Program, ...]:
    """The programs of a recording, by arrival; calls that did not end well are left out.

    Times count from the first arrival. Where nobody knows a call's parents it is taken to have waited for the call of its
    program that was over last when it arrived, of its own thread if there is one. A gap is the time from the moment at which
    all parents of a child were over until the child came; of several children the shortest counts. Tenants whose programs
    have the same id are told apart as `TENANT/ID`.
    """
    finished = sorted((c for c in calls if c.outcome == FINISHED), key=lambda c: (c.arrived_s, c.over_s))
    if not finished:
        return ()
    began_s = finished[0].arrived_s
    by_program: dict[str, list[RecordedCall]] = {}
    for call in finished:
        by_program.setdefault(f"{call.tenant}/{call.program_id}" if call.tenant else call.program_id, []).append(call)
    named = {program_id: _name(program_id, own) for program_id, own in by_program.items()}
    in_order = sorted((n for own in named.values() for n in own), key=lambda n: (n.call.arrived_s, n.call.over_s))
    tokens = {id(n): (_prompt_tokens(n.call), _output_tokens(n.call)) for n in in_order}
    parts = prompt_parts_of((n.program_id, n.call_id, n.call.prompt, n.call.answer, *tokens[id(n)]) for n in in_order)
    return tuple(_program(program_id, own, began_s, parts) for program_id, own in named.items())


def _name(program_id: str, calls: Sequence[RecordedCall]) -> list[_Named]:
    """The calls of a program, by arrival, under ids of their own: a client may use one id again."""
    latest: dict[str, str] = {}  # what an id means to calls that come now
    taken: set[str] = set()
    named: list[_Named] = []
    for call in calls:
        parents = tuple(dict.fromkeys(latest[parent] for parent in call.parents or () if parent in latest))
        if not parents and call.parents != ():
            parents = _likely_parent(call, named)
        call_id, n = call.call_id, 1
        while call_id in taken:
            n += 1
            call_id = f"{call.call_id}#{n}"
        taken.add(call_id)
        latest[call.call_id] = call_id
        named.append(_Named(call, program_id, call_id, parents))
    return named


def _likely_parent(call: RecordedCall, earlier: Sequence[_Named]) -> tuple[str, ...]:
    over = [n for n in earlier if n.call.over_s <= call.arrived_s]
    latest = max(over, key=lambda n: (n.call.thread_id == call.thread_id, n.call.over_s), default=None)
    return () if latest is None else (latest.call_id,)


def _program(
    program_id: str, calls: Sequence[_Named], began_s: float, parts: Mapping[tuple[str, str], tuple[tuple[str, int], ...]]
) -> Program:
    gaps_s = _gaps_s(calls)
    texts = text_fields((named.call_id, named.parents, named.call.messages) for named in calls)
    traced = []
    for named in calls:
        call = named.call
        traced.append(
            Call(
                call_id=named.call_id,
                parents=named.parents,
                prompt_tokens=_prompt_tokens(call),
                output_tokens=_output_tokens(call),
                output_estimated=call.output_tokens is None,
                tool_gap_s=gaps_s.get(named.call_id),
                prompt_parts=parts[program_id, named.call_id],
                arrival_s=round(call.arrived_s - began_s, _DIGITS),
                **texts.get(named.call_id, {}),
            )
        )
    first = calls[0].call
    return Program(
        program_id=program_id,
        workload=first.program_class or "recorded",
        calls=tuple(traced),
        arrival_s=round(first.arrived_s - began_s, _DIGITS),
        meta=({"begun_before": True} if first.begun_before else {}) | ({"text": WARNING} if texts else {}),
    )


def _gaps_s(calls: Sequence[_Named]) -> dict[str, float]:
    """Call id → gap after it, of those that have children."""
    over_s = {named.call_id: named.call.over_s for named in calls}
    gaps_s: dict[str, float] = {}
    for named in calls:
        if named.parents:
            ready_s = max(over_s[parent] for parent in named.parents)
            gap_s = round(max(0.0, named.call.arrived_s - ready_s), _DIGITS)
            for parent in named.parents:
                gaps_s[parent] = min(gap_s, gaps_s.get(parent, gap_s))
    return gaps_s


def _prompt_tokens(call: RecordedCall) -> int:
    return max(1, _num_tokens(call.prompt) if call.prompt_tokens is None else call.prompt_tokens)


def _output_tokens(call: RecordedCall) -> int:
    return _num_tokens(call.answer) if call.output_tokens is None else call.output_tokens


def _num_tokens(messages: Iterable[Sequence[tuple[str, int, bool]]]) -> int:
    return sum(length for pieces in messages for _, length, _ in pieces) // _CHARS_PER_TOKEN
