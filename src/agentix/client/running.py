"""A running program: its id, its calls, and the gateways that have seen them."""

from __future__ import annotations

import atexit
import os
import uuid
import weakref
from collections.abc import Mapping
from concurrent.futures import Future
from threading import Lock

from agentix.client import backend
from agentix.client.dag import Dag
from agentix.wire import key_headers


class Program:
    """One run of an agent. `id` is fresh and names it everywhere: in headers, in the gateway's table, in engine logs.

    name  its class at the gateway
    """

    def __init__(self, name: str) -> None:
        self.id = str(uuid.uuid4())
        self.name = name
        self._ended = False
        self._pid = os.getpid()
        self.dag = Dag()
        self._lock = Lock()
        self._sessions: dict[str, tuple[Future[bool | None], Mapping[str, str]]] = {}  # each with the keys it was opened with
        self.answered: set[str] = set()  # servers that get its calls, and of which nothing is to be waited for any more
        self._has_bare_calls = False
        _unended.add(self)

    @property
    def is_elsewhere(self) -> bool:
        """Whether it has ended, or this process is a copy of the one that it runs in: two must not count its calls."""
        return self._ended or self._pid != os.getpid()

    def session(self, root: str) -> Future[bool | None] | None:
        """What `open_session` gave for this server; None before."""
        session = self._sessions.get(root)
        return session and session[0]

    def open_session(self, root: str, keys: Mapping[str, str]) -> Future[bool | None]:
        """Whether the server at `root` is a gateway that knows this program now; asked once, at the first call there.

        The first call has to wait for it: a program's class is told by opening it, and a call would open it without. `keys`
        are that call's: a gateway with tenants keeps their programs apart.
        """
        with self._lock:
            if root not in self._sessions:
                self._sessions[root] = backend.start(root, self.id, self.name, keys), keys
            return self._sessions[root][0]

    def note_bare_call(self) -> None:
        """A call was announced by headers alone: where it goes is not known, unless AGENTIX_URL says it."""
        self._has_bare_calls = True

    def end(self) -> None:
        """Tell every gateway that has seen a call; returns at once. Later calls of tasks left behind go unannotated."""
        if self.is_elsewhere:
            return
        self._ended = True
        _unended.discard(self)
        with self._lock:
            sessions = dict(self._sessions)
        for root, (session, keys) in sessions.items():
            backend.end(root, self.id, session, keys)
        if self._has_bare_calls:
            for root in set(backend.configured()) - sessions.keys():
                backend.end(root, self.id, None, key_headers(os.environ))


_unended: weakref.WeakSet[Program] = weakref.WeakSet()


@atexit.register
def _end_what_nobody_ended() -> None:
    """Blocks that are never left, as in a notebook: the gateways still learn that these programs are over."""
    for program in tuple(_unended):
        program.end()
