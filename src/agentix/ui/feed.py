"""What a gateway tells of its programs and engines, kept up to date from what has changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx2

from agentix.core.errors import AgentixError

_EVERY_GATEWAY_HAS = frozenset({"/v1/changes", "/health"})
_STATES = ("answering", "sent", "held", "paused", "idle", "ended")


class GatewayFault(AgentixError):
    """The gateway cannot be reached, or refuses; the message says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A row of the process table, as people read it. Moments in seconds on the gateway's clock.

    `state` is that of the call that is furthest: answering, sent, held; or paused, idle, ended. `held_since_s`: when each
    call that the gateway holds has come. `level`: the best of its calls' levels, None if nobody knows. `why`: what it waits
    for.
    """

    id: str
    tenant: str
    program_class: str
    state: str
    level: int | None
    num_calls: int
    engine: str
    started_s: float
    service_s: float
    waited_s: float
    held_since_s: tuple[float, ...]
    num_finished: int
    why: str

    def age_s(self, now_s: float) -> float:
        """Since it began."""
        return max(0.0, now_s - self.started_s)

    def waiting_s(self, now_s: float) -> float:
        """What its calls that are over have waited, and those that are held so far."""
        return self.waited_s + sum(max(0.0, now_s - since_s) for since_s in self.held_since_s)

    @property
    def rank(self) -> int:
        """Place of its state, busiest first."""
        return _STATES.index(self.state)

    @property
    def path(self) -> str:
        """Where the gateway has it; ids may hold anything."""
        return f"/v1/programs/{quote(self.id, safe='')}"


def read_program(row: Mapping[str, Any], now_s: float) -> Program:
    """A row of GET /v1/programs, told at `now_s`. What older gateways do not tell is left open."""
    calls = [call for thread in row["threads"].values() for call in thread]
    states = sorted((_call_state(call) for call in calls), key=_STATES.index)
    held = [call for call in calls if _call_state(call) == "held"]
    levels = [call["level"] for call in calls if call.get("level") is not None]
    engines = list(dict.fromkeys(call["engine_id"] for call in calls)) or [row["home_engine_id"] or "", *row["engine_ids"]]
    reasons = [call.get("waits_for") for call in held]
    return Program(
        id=row["id"],
        tenant=row.get("tenant", ""),
        program_class=row["class"],
        state="paused" if row.get("paused") else states[0] if states else "ended" if row["ended"] else "idle",
        level=min(levels, default=None),
        num_calls=len(calls),
        engine=next(filter(None, engines), ""),
        started_s=now_s - row["age_s"],
        service_s=row["service_s"],
        waited_s=row["waiting_s"],
        held_since_s=tuple(now_s - call["age_s"] for call in held),
        num_finished=row["num_finished"],
        why=next(filter(None, reasons), ""),
    )


def _call_state(call: Mapping[str, Any]) -> str:
    return str(call.get("state") or ("answering" if call["answering"] else "sent"))


class Feed:
    """A gateway's programs and engines. `poll` brings what has changed; between two polls ages are added up here."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.programs: dict[tuple[str, str], Program] = {}
        self.rows: dict[tuple[str, str], dict[str, Any]] = {}
        self.engines: list[dict[str, Any]] = []
        self._client = client
        self._since = ""
        self._clock_s = 0.0
        self._heard_s = 0.0

    def now_s(self) -> float:
        """The gateway's time."""
        return self._clock_s + time.monotonic() - self._heard_s

    async def poll(self) -> None:
        """Bring what has changed. Raises GatewayFault."""
        more = True
        while more:
            changes = await self._ask("GET", "/v1/changes", params={"since": self._since})
            self._take(changes)
            more = changes["has_more"]
        self.engines = (await self._ask("GET", "/health")).get("engines", [])  # which a tenant may not see

    async def act(self, name: str, program: Program) -> None:
        """`pause`, `resume` or `cancel` the program. Raises GatewayFault."""
        params = {"tenant": program.tenant} if program.tenant else {}
        await self._ask("POST", f"{program.path}/{name}", json={}, params=params)

    def shown(self, words: str, *, sort: str) -> Iterator[Program]:
        """Programs in whose id, class, engine, tenant or state all the words stand, sorted by one of SORTS."""
        wanted, now_s = words.lower().split(), self.now_s()
        found = [p for p in self.programs.values() if all(word in _text(p) for word in wanted)]
        yield from sorted(found, key=lambda p: (SORTS[sort](p, now_s), p.started_s, p.id))

    def _take(self, changes: Mapping[str, Any]) -> None:
        self._since, self._clock_s, self._heard_s = changes["next"], changes["now_s"], time.monotonic()
        if changes["complete"]:
            self.programs.clear()
            self.rows.clear()
        for gone in changes["gone"]:
            key = gone.get("tenant", ""), gone["id"]
            self.programs.pop(key, None)
            self.rows.pop(key, None)
        for row in changes["data"]:
            program = read_program(row, changes["now_s"])
            self.programs[program.tenant, program.id] = program
            self.rows[program.tenant, program.id] = row

    async def _ask(self, method: str, path: str, **options: Any) -> Any:
        try:
            response = await self._client.request(method, path, **options)
        except httpx2.HTTPError as error:
            raise unreachable(self._client.base_url, error) from None
        return read_answer(response)


def unreachable(gateway: object, error: Exception) -> GatewayFault:
    """Nothing answers at this address."""
    return GatewayFault(f"{gateway} does not answer ({str(error) or type(error).__name__}): is a gateway running there?")


def read_answer(response: httpx2.Response) -> Any:
    """What a gateway answers. Raises GatewayFault for what it refuses, and for what no gateway would answer."""
    path = response.url.path
    try:
        answer = response.json()
        is_gateway = response.status_code != 404 or path not in _EVERY_GATEWAY_HAS
    except ValueError:
        is_gateway = False
    if not is_gateway:
        root = str(response.url).partition(path)[0] if path else response.url
        raise GatewayFault(f"{root} is no Agentix gateway: {path} gave {response.status_code}")
    if response.status_code == 401:
        raise GatewayFault("the gateway asks for a key, or this one is wrong: set AGENTIX_API_KEY")
    if response.is_error and path != "/health":  # which is 503 when no engine is left, and still tells
        problem = answer.get("error") if isinstance(answer, dict) else None
        message = problem.get("message") if isinstance(problem, dict) else None
        raise GatewayFault(message or f"the gateway answered {response.status_code} to {path}")
    return answer


def _text(program: Program) -> str:
    return f"{program.id} {program.program_class} {program.engine} {program.tenant} {program.state}".lower()


# What rows may be sorted by, largest first where that is the interesting end.
SORTS: dict[str, Callable[[Program, float], float | str]] = {
    "state": lambda p, _: p.rank,
    "service": lambda p, _: -p.service_s,
    "waiting": lambda p, now_s: -p.waiting_s(now_s),
    "age": lambda p, now_s: -p.age_s(now_s),
    "level": lambda p, _: 99 if p.level is None else p.level,
    "id": lambda p, _: p.id,
}
