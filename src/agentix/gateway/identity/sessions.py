"""Program, thread and parents of a call: what the client says of it, beside the calls that came before."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any

from agentix.gateway.identity.conventions import Claim
from agentix.gateway.identity.lineage import Lineage, Match, Trail
from agentix.gateway.identity.recent import Recent
from agentix.gateway.identity.scoped import ANONYMOUS, scoped, split_scoped
from agentix.gateway.identity.turns import Turn

_MAX_PARENTS = 64
_MAX_THREADS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a call belongs to.

    program_id  as the gateway knows it, unique over tenants
    parents    None when nobody knows them, () when the client says that the call has none
    anonymous  nothing names a program for certain and nothing leads to one, so the call begins its own
    final      the program ends with this call
    continues  the call that this one goes on from, if its messages tell
    launched_by  the thread that has started the call's thread, if that is known
    """

    program_id: str
    call_id: str
    thread_id: str = ""
    parents: tuple[str, ...] | None = None
    anonymous: bool = False
    final: bool = False
    continues: str | None = None
    launched_by: str | None = None

    @property
    def shown_id(self) -> str:
        """The program's id as its client knows it."""
        return split_scoped(self.program_id)[1]

    def key(self, call_id: str) -> str:
        """What a call of this program is called in the table, where all programs' calls are."""
        return f"{self.program_id}/{call_id}"


@dataclass(frozen=True, slots=True)
class _Response:
    """A response that an engine may have stored, and the call that it answered."""

    program_id: str
    thread_id: str
    call_id: str
    engine_id: str


@dataclass(slots=True)
class _Thread:
    """The latest call of a thread, the moment of it (a count), and the thread that started this one."""

    call_id: str
    moment: int
    launched_by: str | None


class Sessions:
    """Remembers what it takes to tell whose the next call is. Every memory is bounded: what was used longest ago goes first.

    The client's word goes before what the messages say, except where its id is weak (see `Source`). Nothing remembered
    of one tenant is found for another.
    """

    def __init__(self, *, max_remembered: int = 50_000, lineage: Lineage | None = None) -> None:
        self._lineage = lineage or Lineage()
        self._parent_programs: Recent[tuple[str, str], str] = Recent(max_remembered)  # of sessions that another started
        self._responses: Recent[tuple[str, str], _Response] = Recent(max_remembered)
        self._threads: Recent[str, dict[str, _Thread]] = Recent(max_remembered)
        self._moments = count()

    def identify(self, claim: Claim, trail: Trail) -> Identity:
        """Who a call belongs to. The answer depends on the calls that `arrived` and `answered` have told of before."""
        call_id = claim.call_id or f"call-{secrets.token_hex(16)}"
        match: Match | None = None
        thread_id, launched_by = claim.thread_id, claim.parent_thread_id
        if claim.session_id and not claim.weak:
            program_id, child = self._program_of(trail.tenant, claim)
            if child and thread_id in {None, claim.session_id}:
                thread_id, launched_by = claim.session_id, self._thread_of(trail.tenant, claim.parent_session_id)
            match = self._continued(trail, claim, program_id)
        else:
            match = self._continued(trail, claim, None)
            program_id = match.program_id if match else scoped(trail.tenant, claim.session_id or f"{ANONYMOUS}{call_id}")
        named = thread_id is not None
        if thread_id is None:
            thread_id = match.thread_id if match else ""
        continues, launched_by = match.call_id if match else None, launched_by or "" if named else None
        parents = claim.parents
        if parents is None:
            parents = self._parents(program_id, thread_id, continues, launched_by)
        if match and match.forked and not named:
            thread_id = call_id  # another call has gone on from there before: this one runs beside it
        return Identity(
            program_id=program_id,
            call_id=call_id,
            thread_id=thread_id,
            parents=parents,
            anonymous=match is None and (claim.session_id is None or (claim.weak and program_id not in self._threads)),
            final=claim.final,
            continues=continues,
            launched_by=launched_by,
        )

    def arrived(self, identity: Identity, call_id: str) -> None:
        """The call is under way, as `call_id`: it is now the latest of its thread."""
        if identity.continues is not None:
            self._lineage.continued(identity.program_id, identity.continues)
        threads = self._threads.setdefault(identity.program_id, dict)
        known = threads.pop(identity.thread_id, None)
        launched_by = known.launched_by if known else identity.launched_by
        threads[identity.thread_id] = _Thread(call_id, next(self._moments), launched_by)
        if len(threads) > _MAX_THREADS:
            del threads[next(iter(threads))]

    def answered(
        self,
        identity: Identity,
        call_id: str,
        trail: Trail,
        answers: Iterable[tuple[Turn, ...]],
        *,
        engine_id: str,
        response_id: str | None = None,
    ) -> None:
        """What the engine answered, so that the next call can be seen to go on from it."""
        if response_id:
            response = _Response(identity.program_id, identity.thread_id, call_id, engine_id)
            self._responses[trail.tenant, response_id] = response
        self._lineage.add(trail, answers, program_id=identity.program_id, thread_id=identity.thread_id, call_id=call_id)

    def ended(self, program_id: str) -> None:
        """Somebody said that the program is over: nothing leads to it any more."""
        self._lineage.forget(program_id)
        self._threads.pop(program_id)

    def subtree(self, program_id: str, thread_id: str) -> set[str]:
        """The thread, and those that it has launched, at any depth, as far as that is remembered."""
        threads, found, news = self._threads.get(program_id) or {}, {thread_id}, [thread_id]
        while news:
            launcher = news.pop()
            launched = [t for t, thread in threads.items() if thread.launched_by == launcher and t not in found]
            found.update(launched)
            news += launched
        return found

    def engine_of(self, tenant: str, response_id: Any) -> str | None:
        """The engine that has stored a response, as far as it is remembered; None also for what is no id."""
        response = self._responses.get((tenant, response_id)) if isinstance(response_id, str) else None
        return response.engine_id if response else None

    def _program_of(self, tenant: str, claim: Claim) -> tuple[str, bool]:
        """The program of a named session, and whether another session has started it."""
        session = claim.session_id or ""
        if claim.parent_session_id is not None:
            parent = claim.parent_session_id
            self._parent_programs[tenant, session] = self._parent_programs.get((tenant, parent)) or parent
        program_id = self._parent_programs.get((tenant, session))
        return scoped(tenant, program_id or session), program_id is not None

    def _thread_of(self, tenant: str, session_id: str | None) -> str | None:
        """The thread that a session is: the main one, unless another session started it."""
        return session_id if session_id and self._parent_programs.get((tenant, session_id)) else ""

    def _continued(self, trail: Trail, claim: Claim, program_id: str | None) -> Match | None:
        """The call that this one goes on from: by the id of its response, else by what the messages say."""
        previous = claim.previous_response_id
        response = self._responses.get((trail.tenant, previous)) if previous else None
        if response is not None and program_id in {None, response.program_id}:
            forked = self._lineage.is_continued(response.program_id, response.call_id)
            return Match(response.program_id, response.thread_id, response.call_id, forked)
        return self._lineage.find(trail, program_id=program_id)

    def _parents(
        self, program_id: str, thread_id: str, continues: str | None, launched_by: str | None
    ) -> tuple[str, ...] | None:
        """The calls that this one depends on, as far as messages and named threads tell; None if they tell nothing.

        A thread goes on from its latest call, its first call from the thread that launched it (None: the thread is not
        named). Threads that it has launched since then are taken to have told it what they found.
        """
        threads = self._threads.get(program_id) or {}
        latest = threads.get(thread_id)
        first = continues
        if first is None and launched_by is not None:
            before = latest or threads.get(launched_by)
            first = before.call_id if before else None
        if first is None:
            return None
        launched = (t for t in threads.values() if latest and t.launched_by == thread_id and t.moment > latest.moment)
        joined = [t.call_id for t in launched]
        return (first, *(c for c in joined if c != first))[:_MAX_PARENTS]
