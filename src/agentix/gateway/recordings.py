"""Recordings of the gateway's traffic, for `agentix record`: every call that is over, and what its prompt shares with others.

No text leaves the gateway unless a recording asks for it: prompts are digests under a key that is made for one recording and
forgotten with it.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentix.core.process_table import ProcessTable
from agentix.gateway.body import is_json, read_object
from agentix.gateway.errors import HTTPError
from agentix.gateway.identity import Turn
from agentix.gateway.observer import Observer
from agentix.gateway.open_gate import is_here
from agentix.gateway.outcome import Outcome
from agentix.gateway.prompt_digests import digest_answer, digest_prompt
from agentix.gateway.prompt_texts import prompt_messages
from agentix.gateway.tenants import is_admin, tenant_of

if TYPE_CHECKING:
    from agentix.gateway.exchange import Call

logger = logging.getLogger(__name__)

MAX_RECORDINGS = 4
MAX_BYTES = 32 * 2**20  # of calls that wait for one reader: some 50,000 short ones, some 3,000 of 100,000 tokens
PAGE_BYTES = 4 * 2**20
UNREAD_S = 120.0  # after so long without a reader a recording is over
_MAX_BODY_BYTES = 1024


@dataclass(slots=True, eq=False)
class Recording:
    """Calls that wait to be read, as JSON, numbered from 1 on. What does not fit any more is lost, oldest first, and counted.

    `tenant`: whose calls; None: everybody's. `with_text`: with what their prompts say.
    """

    recording_id: str
    tenant: str | None
    began_s: float
    read_s: float
    with_text: bool = False
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    max_bytes: int = MAX_BYTES
    num_calls: int = 0
    num_lost: int = 0
    _waiting: deque[tuple[int, bytes]] = field(default_factory=deque)
    _num_bytes: int = 0

    def add(self, line: bytes) -> None:
        """One call more."""
        self.num_calls += 1
        self._waiting.append((self.num_calls, line))
        self._num_bytes += len(line)
        while self._num_bytes > self.max_bytes:
            self._drop()
            self.num_lost += 1

    def page(self, after: int, max_bytes: int) -> list[tuple[int, bytes]]:
        """What comes behind number `after`, at least one if there is any. The reader has all up to there: it is let go."""
        while self._waiting and self._waiting[0][0] <= after:
            self._drop()
        found: list[tuple[int, bytes]] = []
        num_bytes = 0
        for number, line in self._waiting:
            num_bytes += len(line)
            if found and num_bytes > max_bytes:
                break
            found.append((number, line))
        return found

    def key_of(self, tenant: str) -> bytes:
        """The key of a tenant's digests: equal words of two tenants have nothing in common, as in the engines' caches."""
        return blake2b(tenant.encode("utf-8", "surrogatepass"), key=self.key, digest_size=32).digest()

    def _drop(self) -> None:
        self._num_bytes -= len(self._waiting.popleft()[1])


class Recordings(Observer):
    """All recordings under way, and where they are begun, read and ended. While there is none, calls cost nothing more."""

    def __init__(self, table: ProcessTable, *, page_bytes: int = PAGE_BYTES) -> None:
        self._table = table
        self._page_bytes = page_bytes
        self._recordings: dict[str, Recording] = {}
        self._answers: dict[str, tuple[Turn, ...]] = {}  # of calls that have one and are not over, by their id in the table

    def routes(self) -> list[Route]:
        """Where they are reached."""
        return [
            Route("/v1/recordings", self.begin, methods=["POST"]),
            Route("/v1/recordings/{recording_id}", self.read, methods=["GET"]),
            Route("/v1/recordings/{recording_id}", self.end, methods=["DELETE"]),
        ]

    def answered(self, call: Call, answers: Sequence[tuple[Turn, ...]]) -> None:
        """Remember what it said until it is over; of several choices the first, as that is what clients go on with."""
        if self._recordings and answers:
            self._answers[call.key] = answers[0]

    def over(self, call: Call, now: float) -> None:
        """Add it to the recordings that are to have it."""
        answer = self._answers.pop(call.key, ())
        for recording in list(self._recordings.values()):
            if now - recording.read_s > UNREAD_S:
                del self._recordings[recording.recording_id]
            elif recording.tenant in {None, call.tenant}:
                recording.add(self._line(recording, call, answer, now))

    async def begin(self, request: Request) -> Response:
        """POST /v1/recordings: 201 and the recording; 409 if there are as many as may be.

        Of a tenant's own calls; an admin's has everybody's. One that nobody reads for two minutes is over. With
        `{"with_text": true}` it has what prompts say; where nobody needs a key, only for who is on the gateway's machine.
        """
        if "origin" in request.headers and not is_json(request):
            raise HTTPError(415, "the content-type must be application/json")
        options = await read_object(request, _MAX_BODY_BYTES, default=b"{}")
        with_text = options.pop("with_text", False)
        if options:
            raise HTTPError(400, f"unknown field {min(options)[:100]!r}; known: with_text")
        if not isinstance(with_text, bool):
            raise HTTPError(400, f"with_text must be true or false, not {str(with_text)[:100]!r}", param="with_text")
        tenant = None if is_admin(request) else tenant_of(request)
        if with_text and not (tenant_of(request) or is_here(request)):
            message = "without keys, text is recorded from the gateway's own machine alone"
            raise HTTPError(403, message, "permission_error", code="not_local")
        now = time.monotonic()
        for recording in list(self._recordings.values()):
            if now - recording.read_s > UNREAD_S:
                del self._recordings[recording.recording_id]
        if len(self._recordings) >= MAX_RECORDINGS:
            raise HTTPError(409, f"{MAX_RECORDINGS} recordings are under way already", code="too_many_recordings")
        recording = Recording(f"rec-{secrets.token_hex(8)}", tenant, began_s=now, read_s=now, with_text=with_text)
        if with_text:
            logger.warning(
                "recording %s, begun by %s, is told what prompts say", recording.recording_id, tenant_of(request) or "nobody"
            )
        self._recordings[recording.recording_id] = recording
        return JSONResponse(_shown(recording), status_code=201)

    async def read(self, request: Request) -> Response:
        """GET /v1/recordings/{id}: calls that are over and were not yet read, oldest first; 404 if there is no such recording.

        `after`, the `next` of the answer before, says how far the reader has come; what it has is let go, what it asks for
        again it gets again. `has_more`: ask again at once.
        """
        recording = self._named(request)
        text = request.query_params.get("after", "0")
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise HTTPError(400, f"after must be the next of an earlier answer, not {text[:100]!r}", param="after")
        recording.read_s = time.monotonic()
        page = recording.page(int(text), self._page_bytes)
        last = page[-1][0] if page else int(text)
        facts = {**_shown(recording), "next": last, "has_more": last < recording.num_calls, "now_s": recording.read_s}
        data = b'{"data": [' + b", ".join(line for _, line in page) + b"], " + json.dumps(facts)[1:].encode()
        return Response(data, media_type="application/json")

    async def end(self, request: Request) -> Response:
        """DELETE /v1/recordings/{id}: nothing more is recorded, what was not read is gone; 404 if there is none."""
        recording = self._named(request)
        del self._recordings[recording.recording_id]
        if not self._recordings:
            self._answers.clear()
        return JSONResponse(_shown(recording))

    def _named(self, request: Request) -> Recording:
        recording_id = request.path_params["recording_id"]
        recording = self._recordings.get(recording_id)
        if recording is None or (recording.tenant != tenant_of(request) and not is_admin(request)):
            raise HTTPError(404, f"no recording {recording_id[:100]!r}", code="recording_not_found")
        return recording

    def _line(self, recording: Recording, call: Call, answer: tuple[Turn, ...], now: float) -> bytes:
        """The call as JSON, with its text where that is asked for and can be had."""
        line = json.dumps(self._describe(recording, call, answer, now)).encode()
        if not recording.with_text or call.outcome is not Outcome.FINISHED:
            return line
        try:
            text = json.dumps(prompt_messages(call.body)).encode()
        except RecursionError:  # nested too deeply
            text = b"null"
        return line[:-1] + b', "messages": ' + text + b"}"

    def _describe(self, recording: Recording, call: Call, answer: tuple[Turn, ...], now: float) -> dict[str, Any]:
        """The call for the wire, see docs/wire.md. One that did not end well has no prompt: nothing will be made of it."""
        key, row = recording.key_of(call.tenant), self._table.row(call.identity.program_id)
        finished = call.outcome is Outcome.FINISHED
        return {
            "tenant": call.tenant,
            "program_id": call.identity.shown_id,
            "program_class": row.program_class,
            "begun_before": row.started_s < recording.began_s,
            "thread_id": call.identity.thread_id,
            "call_id": call.call_id,
            "parents": call.identity.parents,
            "outcome": call.outcome.value,
            "arrived_s": call.arrived_s,
            "over_s": now,
            "prompt_tokens": call.account.prompt_tokens,
            "output_tokens": call.account.output_tokens,
            "prompt": digest_prompt(call.body, key) if finished else [],
            "answer": digest_answer(answer, key) if finished else [],
        }


def _shown(recording: Recording) -> dict[str, Any]:
    return {
        "object": "recording",
        "id": recording.recording_id,
        "began_s": recording.began_s,
        "num_calls": recording.num_calls,
        "num_lost": recording.num_lost,
    }
