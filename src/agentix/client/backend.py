"""Which servers are told about programs, and how: best effort, in the background, in bounded time."""

from __future__ import annotations

import contextvars
import functools
import http.client
import ipaddress
import json
import logging
import os
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from urllib.parse import quote, urlsplit

from agentix.wire import server_root

TIMEOUT_S = 1.0  # of one request about a session: it must never be what a program waits for
SILENCE_S = 30.0  # a server that did not answer is left alone for so long
_NO_SUCH_ROUTE = frozenset({404, 405, 501})  # how servers answer that are no gateway
ROUTES = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings")  # calls of programs

KEY_HEADERS = ("authorization", "x-api-key")  # where clients put the key that a gateway with tenants asks for

_PRIVATE_SUFFIXES = (".localhost", ".local", ".internal", ".lan", ".home.arpa")
_log = logging.getLogger("agentix.client")
_silent_until_s: dict[str, float] = {}


@functools.lru_cache(maxsize=1024)
def root_of(url: str, only: tuple[str, ...]) -> str | None:
    """The gateway's address for a call to this URL; None if the call is not to be annotated.

    Not annotated: what is no call of a program, and servers outside `only`, or, where that is empty, on the public Internet.
    What runs within a program is nobody else's business.
    """
    where = urlsplit(url)
    route = next((r for r in ROUTES if where.path.endswith(r)), None)
    if route is None or where.scheme not in {"http", "https"}:
        return None
    root = f"{where.scheme}://{where.netloc.rpartition('@')[2]}{where.path.removesuffix(route)}"
    return root if (root in only if only else is_private(where.hostname or "")) else None


def configured() -> tuple[str, ...]:
    """The base URLs in AGENTIX_URL (separated by commas)."""
    return normalised(os.environ.get("AGENTIX_URL", "").split(","))


def normalised(urls: Iterable[str]) -> tuple[str, ...]:
    """Base URLs as `root_of` gives them: without /v1 and without a slash at the end."""
    return tuple(server_root(u.strip()) for u in urls if u.strip())


def is_private(host: str) -> bool:
    """Whether a host is on this machine or in a private network, by its name or address alone (nothing is looked up)."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith(_PRIVATE_SUFFIXES)
    return address.is_private or address.is_loopback or address.is_link_local


def start(root: str, program_id: str, program_class: str, keys: Mapping[str, str]) -> Future[bool | None]:
    """Open the program's session; it seldom takes longer than `TIMEOUT_S`.

    The result is whether it is open; False: the server is no gateway; None: it did not answer, or would not open it now.
    `keys` are the call's own `KEY_HEADERS`: they go where the call goes, and nowhere else.
    """
    return _in_background(_start, root, program_id, program_class, keys)


def end(root: str, program_id: str, session: Future[bool | None] | None, keys: Mapping[str, str]) -> None:
    """End the program, unless `session` says that the server never opened it. Nobody learns of a failure."""
    _in_background(_end, root, program_id, session, keys)


def _in_background(function: Any, *args: Any) -> Future[Any]:
    """One thread for all: what is told arrives in order. The interpreter waits for what is under way when it exits.

    Once it has begun to exit no thread takes work any more: then it is done here, at once.
    """
    try:
        return contextvars.Context().run(_pool(os.getpid()).submit, function, *args)
    except RuntimeError:
        done: Future[Any] = Future()
        done.set_result(function(*args))
        return done


@functools.lru_cache(maxsize=1)
def _pool(pid: int) -> ThreadPoolExecutor:  # of this process: a fork has no threads
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="agentix-client")


def _start(root: str, program_id: str, program_class: str, keys: Mapping[str, str]) -> bool | None:
    status = _ask("POST", root, "/v1/programs", keys, {"program_id": program_id, "class": program_class})
    if status in {200, 201}:
        return True
    return False if status in _NO_SUCH_ROUTE else None


def _end(root: str, program_id: str, session: Future[bool | None] | None, keys: Mapping[str, str]) -> None:
    if session is None or (session.done() and not session.cancelled() and session.result()):
        _ask("DELETE", root, f"/v1/programs/{quote(program_id, safe='')}", keys)


def _ask(method: str, root: str, path: str, keys: Mapping[str, str], body: Any = None) -> int | None:
    """The answer's status; None if there was none."""
    if time.monotonic() < _silent_until_s.get(root, 0.0):
        return None
    where = urlsplit(root)
    kind = http.client.HTTPSConnection if where.scheme == "https" else http.client.HTTPConnection
    try:
        connection = kind(where.hostname or "", where.port, timeout=TIMEOUT_S)
        try:
            payload = None if body is None else json.dumps(body).encode()
            connection.request(method, where.path + path, payload, {"Content-Type": "application/json", **keys})
            return connection.getresponse().status
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        _silent_until_s[root] = time.monotonic() + SILENCE_S
        _log.debug("no answer from %s to %s %s: %s", root, method, path, error)
        return None
