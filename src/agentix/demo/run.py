"""The same programs twice: a gateway of each policy, one after the other, in front of the same server."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2

from agentix.core.config import SchedulerConfig
from agentix.core.errors import ConfigError
from agentix.core.policies import make_policy, refuse_clairvoyant
from agentix.demo.programs import PROGRAMS, Answer, DemoProgram
from agentix.demo.server import DemoError, Server, open_server
from agentix.demo.watch import Watch
from agentix.gateway import GatewayConfig, create_app
from agentix.gateway.admission_settings import AdmissionSettings
from agentix.gateway.server import serving
from agentix.wire import CALL_HEADER, PARENT_HEADER, PROGRAM_HEADER, require_http

BY_CALLS = "fcfs"  # what servers do by themselves
_NUM_LEVELS = 6
_WARM_UP_TOKENS = 16
_POLL_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoConfig:
    """What is shown.

    url        an OpenAI-compatible server; None: the one that `make serve` starts, or an engine of our own
    policy     by which programs are scheduled in the second arm
    num_slots  calls that are with the server at a time; the others wait at the demonstration's gateway, where policies differ
    """

    url: str | None = None
    policy: str = SchedulerConfig().policy
    num_slots: int = 2

    def __post_init__(self) -> None:
        if self.url is not None:
            require_http(self.url, "the server's")
        if self.num_slots < 1:
            raise ConfigError(f"the number of slots must be at least 1, not {self.num_slots}")
        refuse_clairvoyant(make_policy(SchedulerConfig(policy=self.policy)))


@dataclass(slots=True, kw_only=True)
class Arm:
    """One policy, and how its programs fare: `done_s` has those that are done, in seconds since the arm began."""

    policy: str
    watch: Watch
    run_id: str
    done_s: dict[str, float] = field(default_factory=dict)
    began: bool = False

    def now_s(self) -> float:
        """Seconds since it began; once all are done, when the last was."""
        return self.makespan_s if self.is_over else time.monotonic() - self.watch.began_s

    @property
    def is_over(self) -> bool:
        """Whether all programs are done."""
        return len(self.done_s) == len(PROGRAMS)

    @property
    def makespan_s(self) -> float:
        """When the last program that is done was."""
        return max(self.done_s.values(), default=0.0)

    @property
    def mean_jct_s(self) -> float:
        """Mean over programs: all begin at 0. Of an arm that is over."""
        return sum(self.done_s.values()) / len(self.done_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """What was run, and how: `quantum_s` is what one call of the warm-up took, the service that the first level grants."""

    server: Server
    num_slots: int
    quantum_s: float
    arms: tuple[Arm, ...]


OnChange = Callable[[Sequence[Arm]], None]


async def run_demo(config: DemoConfig, *, on_progress: Callable[[str], None], on_change: OnChange) -> Demo:
    """Run both arms. `on_change` is told their state a few times a second, `on_progress` what goes on before.

    Raises DemoError if there is no server or a call fails. Nothing is left running, however it ends.
    """
    async with open_server(config.url, on_progress) as server:
        on_progress(f"warming up {server.model}")
        quantum_s = await _warm_up(server)
        arms = tuple(_new_arm(policy) for policy in (BY_CALLS, config.policy))
        for arm in arms:
            await _run_arm(arm, server, config.num_slots, quantum_s, lambda: on_change(arms))
    return Demo(server=server, num_slots=config.num_slots, quantum_s=quantum_s, arms=arms)


def _new_arm(policy: str) -> Arm:
    run_id = secrets.token_hex(4)  # programs of two arms are not the same to a gateway that the server may be
    return Arm(policy=policy, watch=Watch(f"-{run_id}"), run_id=run_id)


async def _warm_up(server: Server) -> float:
    """Two calls of the usual size by themselves; how long the second took, in seconds."""
    async with _client(server.target.url) as client:
        for _ in range(2):
            began_s = time.monotonic()
            prompt, salt = "Count from one to ten.", secrets.token_hex(8)
            await _complete(client, server, "warm-up", prompt, server.target.credentials(), _WARM_UP_TOKENS, salt)
    return time.monotonic() - began_s


async def _run_arm(arm: Arm, server: Server, num_slots: int, quantum_s: float, on_change: Callable[[], None]) -> None:
    """All programs at once, through a gateway of the arm's policy that lasts as long."""
    scheduler = SchedulerConfig(policy=arm.policy, quanta_s=tuple(quantum_s * 2**level for level in range(_NUM_LEVELS)))
    admission = AdmissionSettings(scheduler=scheduler, tier="0", max_concurrency=num_slots)
    app = create_app(GatewayConfig(engines=(server.target,), admission=admission), observers=(arm.watch,))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with serving(app, listener), _client(f"http://127.0.0.1:{listener.getsockname()[1]}") as client:
            arm.watch.began_s = time.monotonic()
            arm.began = True
            showing = asyncio.create_task(_show(on_change))
            try:
                async with asyncio.TaskGroup() as group:
                    for program in PROGRAMS:
                        group.create_task(_run_program(program, arm, server, client))
            except BaseExceptionGroup as errors:  # one failed call ends the others too
                raise _first(errors) from None
            finally:
                showing.cancel()
                on_change()


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _show(on_change: Callable[[], None]) -> None:
    while True:
        on_change()
        await asyncio.sleep(_POLL_S)


async def _run_program(program: DemoProgram, arm: Arm, server: Server, client: httpx2.AsyncClient) -> None:
    async def ask(call_id: str, prompt: str, *parents: Answer, num_tokens: int) -> Answer:
        headers = {
            PROGRAM_HEADER: f"{program.name}-{arm.run_id}",
            CALL_HEADER: call_id,
            PARENT_HEADER: ",".join(parent.call_id for parent in parents),
        }
        what = f"{program.name}/{call_id}"
        text = await _complete(client, server, what, prompt, headers, num_tokens, salt=arm.run_id)
        return Answer(call_id=call_id, text=text)

    await program.run(ask)
    arm.done_s[program.name] = time.monotonic() - arm.watch.began_s


def _client(url: str) -> httpx2.AsyncClient:
    """No time limit: a call waits for its turn, and that may be long."""
    return httpx2.AsyncClient(
        base_url=url, trust_env=False, timeout=None, limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    )


async def _complete(
    client: httpx2.AsyncClient, server: Server, what: str, prompt: str, headers: dict[str, str], num_tokens: int, salt: str
) -> str:
    """The answer's text. Raises DemoError if there is none."""
    body: dict[str, Any] = {
        "model": server.model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": num_tokens,
        "ignore_eos": True,  # vLLM's: every arm generates as many tokens
        "cache_salt": salt,  # vLLM's: no arm finds the prefixes that another has left in the cache
    }
    try:
        response = await client.post("/v1/chat/completions", json=body, headers=headers)
        if response.is_error:
            raise DemoError(f"{server.target.url} refuses the call {what} ({response.status_code}): {_reason(response)}")
        return str(response.json()["choices"][0]["message"]["content"] or "")
    except httpx2.HTTPError as error:
        raise DemoError(f"the call {what} to {server.target.url} has failed: {error or type(error).__name__}") from None
    except (ValueError, LookupError, TypeError):
        raise DemoError(f"{server.target.url} answers the call {what} with no message") from None


def _reason(response: httpx2.Response) -> str:
    """What the server says in its error, in a line."""
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return response.text[:200]
