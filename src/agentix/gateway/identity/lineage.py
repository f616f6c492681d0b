"""Whose call is it, by what it says? Message-prefix lineage, for clients that send no id. Pure: no HTTP, no clock.

A call whose messages begin with an earlier call's messages and its answer continues that call's program. That survives
a changed preamble, because the preamble is no part of what is compared. Where a harness has cut or summarised the history,
the prefix is gone; then text decides that one program's engine alone has written: tool-call ids, or long lines of answers.

Identical programs cannot be told apart by what they say. They are kept apart by giving each call to the one that nobody
has continued yet.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from agentix.gateway.identity.turns import Prompt, Turn, append_raw, long_lines

MIN_LINE_CHARS = 32
MIN_EVIDENCE_CHARS = 160
_ID_WEIGHT = MIN_EVIDENCE_CHARS  # a tool call's id is evidence enough
_MIN_ID_CHARS = 9  # `functions.f:0` may be anybody's; that shows as soon as a second program has it
_MIN_SHARE = 0.25  # of a turn that is no answer
_MARKS_PER_CALL = 32
_CALLS_PER_TIP = 32
_LINES_SEARCHED = 2048


@dataclass(slots=True, eq=False)
class _Call:
    """An earlier call: where it belongs, and what leads to it."""

    program_id: str
    thread_id: str
    call_id: str
    preamble: bytes
    num_continued: int = 0
    tips: list[bytes] = field(default_factory=list)
    marks: list[bytes] = field(default_factory=list)

    @property
    def size(self) -> int:
        return 1 + len(self.tips) + len(self.marks)


@dataclass(frozen=True, slots=True)
class Match:
    """The earlier call that a call goes on from. `forked`: another call went on from it before, so this is a thread beside."""

    program_id: str
    thread_id: str
    call_id: str
    forked: bool


@dataclass(frozen=True, slots=True)
class Trail:
    """A prompt, prepared for being looked up and remembered: a digest after each of its turns, of all up to there."""

    tenant: str
    prompt: Prompt
    preamble: bytes
    digests: tuple[bytes, ...]


def make_trail(tenant: str, prompt: Prompt) -> Trail:
    """The trail of a prompt. A digest has the tenant as its key: equal words of two tenants have nothing in common."""
    return Trail(tenant, prompt, _digest(tenant, prompt.preamble), tuple(_chain(tenant, prompt.turns)))


class Lineage:
    """What was said in each program, as digests; bounded.

    Tenants never meet (see `make_trail`). `max_entries` bounds the memory (about 250 bytes an
    entry; a call takes 2 to 35): the calls that were added or continued longest ago are forgotten first. Finding costs
    time in proportion to the prompt's length, whatever is remembered.
    """

    def __init__(self, *, max_entries: int = 200_000) -> None:
        self._max_entries = max_entries
        self._num_entries = 0
        # By program and call id, the one to forget next first; a dict would look for it among all that were forgotten.
        self._calls: OrderedDict[tuple[str, str], _Call] = OrderedDict()
        self._programs: dict[str, set[str]] = {}
        self._tips: dict[bytes, list[_Call]] = {}
        self._marks: dict[bytes, list[_Call]] = {}

    def __len__(self) -> int:
        """The number of calls remembered."""
        return len(self._calls)

    @property
    def num_entries(self) -> int:
        """What the memory holds, in entries."""
        return self._num_entries

    def find(self, trail: Trail, *, program_id: str | None = None) -> Match | None:
        """The call that a prompt goes on from; within `program_id` alone, if that is known. None: a new beginning."""
        call = self._by_prefix(trail, program_id) or self._by_marks(trail, program_id)
        if call is None:
            return None
        return Match(call.program_id, call.thread_id, call.call_id, forked=call.num_continued > 0)

    def add(
        self,
        trail: Trail,
        answers: Iterable[tuple[Turn, ...]],
        *,
        program_id: str,
        thread_id: str,
        call_id: str,
    ) -> None:
        """Remember what a call asked and what the engine answered, once for each of its choices."""
        if (program_id, call_id) in self._calls:
            self._forget((program_id, call_id))
        call = _Call(program_id, thread_id, call_id, trail.preamble)
        for answer in answers:
            if any(turn.text.strip() for turn in answer):
                call.tips.append(_tip(trail, answer))
                marks = sorted(_marks(trail.tenant, answer), key=lambda mark: -mark[1])
                call.marks += [digest for digest, _ in marks[:_MARKS_PER_CALL]]
        if not call.tips:
            return
        for digest in call.tips:
            self._tips[digest] = [*self._tips.get(digest, ()), call][-_CALLS_PER_TIP:]
        for digest in call.marks:  # two programs with the same mark are as good as many: it tells nothing
            others = [c for c in self._marks.get(digest, ()) if c.program_id != program_id]
            self._marks[digest] = [*others[-1:], call]
        self._calls[program_id, call_id] = call
        self._programs.setdefault(program_id, set()).add(call_id)
        self._num_entries += call.size
        while self._num_entries > self._max_entries:
            self._forget(next(iter(self._calls)))

    def continued(self, program_id: str, call_id: str) -> None:
        """A call has gone on from this one: the next to do so runs beside it. Calls in use are forgotten last."""
        call = self._calls.pop((program_id, call_id), None)
        if call is not None:
            call.num_continued += 1
            self._calls[program_id, call_id] = call

    def is_continued(self, program_id: str, call_id: str) -> bool:
        """Whether a call has gone on from this one."""
        call = self._calls.get((program_id, call_id))
        return call is not None and call.num_continued > 0

    def forget(self, program_id: str) -> None:
        """The program has ended: nothing goes on from it any more."""
        for call_id in list(self._programs.get(program_id, ())):
            self._forget((program_id, call_id))

    def _by_prefix(self, trail: Trail, program_id: str | None) -> _Call | None:
        """The longest earlier conversation that the prompt begins with.

        Of equal ones that with the same preamble, then one that fewest calls have gone on from, then the newest.
        """
        for digest in reversed(trail.digests):
            calls = [c for c in self._tips.get(digest, ()) if program_id in {None, c.program_id}]
            if calls:
                return min(reversed(calls), key=lambda c: (c.preamble != trail.preamble, c.num_continued))
        return None

    def _by_marks(self, trail: Trail, program_id: str | None) -> _Call | None:
        """The newest call of the program whose engine wrote enough of this, if there is just one such program.

        In an answer that the client sends back, some of it is enough. In other text (a summary, a task handed to another
        agent) it must be a good part of the turn: prompts quote, and a demonstration may show what an engine wrote elsewhere.
        """
        evidence: dict[str, int] = {}
        newest: dict[str, _Call] = {}
        budget = _LINES_SEARCHED
        for turn in reversed(trail.prompt.turns):
            found: dict[str, int] = {}
            for digest, weight in islice(_marks(trail.tenant, (turn,)), budget):
                budget -= 1
                calls = self._marks.get(digest, ())
                if len(calls) == 1:
                    found[calls[0].program_id] = found.get(calls[0].program_id, 0) + weight
                    newest.setdefault(calls[0].program_id, calls[0])
            for program, weight in found.items():
                if turn.written or weight >= _MIN_SHARE * len(turn.text):
                    evidence[program] = evidence.get(program, 0) + weight
        programs = [p for p, weight in evidence.items() if weight >= MIN_EVIDENCE_CHARS and program_id in {None, p}]
        return newest[programs[0]] if len(programs) == 1 else None

    def _forget(self, key: tuple[str, str]) -> None:
        call = self._calls.pop(key)
        self._num_entries -= call.size
        for index, digests in ((self._tips, call.tips), (self._marks, call.marks)):
            for digest in digests:
                kept = [c for c in index.get(digest, ()) if c is not call]
                if kept:
                    index[digest] = kept
                else:
                    index.pop(digest, None)
        program_id, call_id = key
        self._programs[program_id].discard(call_id)
        if not self._programs[program_id]:
            del self._programs[program_id]


def _digest(tenant: str, text: str, before: bytes = b"") -> bytes:
    """128 bits of what stands in `text`, after what has the digest `before`."""
    digest = _keyed(tenant).copy()
    digest.update(before)
    digest.update(text.encode("utf-8", "surrogatepass"))
    return digest.digest()


@lru_cache(maxsize=1024)
def _keyed(tenant: str) -> hashlib.blake2b:
    key = hashlib.blake2b(tenant.encode("utf-8", "surrogatepass"), digest_size=32).digest()
    return hashlib.blake2b(key=key, digest_size=16)


def _chain(tenant: str, turns: Iterable[Turn], digest: bytes = b"") -> Iterator[bytes]:
    for turn in turns:
        digest = _digest(tenant, f"{turn.role}\0{turn.text}", digest)
        yield digest


def _tip(trail: Trail, answer: tuple[Turn, ...]) -> bytes:
    """The digest of the whole conversation, the answer included."""
    if trail.prompt.raw is not None:
        turns, before = append_raw(trail.prompt.raw, answer), b""
    else:
        turns, before = answer, trail.digests[-1] if trail.digests else b""
    return list(_chain(trail.tenant, turns, before))[-1]


def _marks(tenant: str, turns: tuple[Turn, ...]) -> Iterator[tuple[bytes, int]]:
    """What is recognised again wherever it turns up: tool-call ids and long lines, each with its weight in characters."""
    for name in (n for t in turns for n in t.ids if len(n) >= _MIN_ID_CHARS):
        yield _digest(tenant, f"id\0{name}"), _ID_WEIGHT
    for line in dict.fromkeys(long_lines(turns, MIN_LINE_CHARS)):
        yield _digest(tenant, f"line\0{line}"), len(line)
