"""Listening to a gateway until somebody says stop, and writing what was heard: the door that the command line uses."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from agentix.core.errors import ConfigError
from agentix.record.calls import FINISHED, RecordedCall, RecordError, read_call
from agentix.record.programs import make_programs
from agentix.wire import key_headers, require_http, server_root
from agentix.workload import Program, save_programs

_PERIOD_S = 1.0  # between two questions
_PATIENCE_S = 60.0  # for a gateway that does not answer; it keeps calls for two minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordConfig:
    """From where, and where to: `url` of the gateway, with or without /v1; `out`, compressed if it ends in `.gz`.

    with_text  what prompts say is recorded too, for replays; the file is then its owner's alone to read
    """

    url: str
    out: Path
    with_text: bool = False

    def __post_init__(self) -> None:
        require_http(self.url, "the gateway's")
        if self.out.is_dir() or not os.access(self.out.parent, os.W_OK):
            raise ConfigError(f"cannot write to {self.out}: not a file in a writable folder")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What was heard. `num_lost` calls the gateway had to drop; `problem`: why it ended before it was told to, or None."""

    programs: tuple[Program, ...]
    num_calls: int
    num_left_out: int  # calls that did not end well
    num_lost: int
    problem: str | None

    @property
    def num_begun_before(self) -> int:
        """Programs whose first calls were made before the recording."""
        return sum("begun_before" in program.meta for program in self.programs)

    @property
    def num_without_text(self) -> int:
        """Calls that do not say what their prompts were: all, or in a recording with text those that are told in token ids."""
        return sum(call.messages is None for program in self.programs for call in program.calls)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing that was over while the recording went on."""
        return not self.num_lost and self.problem is None


async def record(
    config: RecordConfig,
    *,
    stop: asyncio.Event,
    environ: Mapping[str, str],
    on_progress: Callable[[int], None] = lambda _: None,
) -> Recorded:
    """Listen until `stop` is set, then write `config.out`, which is the old file or the whole new one.

    `environ` has the gateway's key (AGENTIX_API_KEY). A gateway that goes away ends the recording: what was heard is written.
    `on_progress` is told the number of calls so far. Raises RecordError if the recording cannot begin.
    """
    listener = _Listener(on_progress)
    async with httpx2.AsyncClient(
        base_url=server_root(config.url), headers=key_headers(environ), timeout=30.0, trust_env=False
    ) as client:
        await listener.begin(client, with_text=config.with_text)
        try:
            await listener.listen(client, stop)
        finally:
            recorded = await asyncio.to_thread(_write, config, listener)
            with suppress(httpx2.HTTPError):
                await client.delete(listener.path)
    return recorded


class _Listener:
    """One recording, and the calls of it that are here."""

    def __init__(self, on_progress: Callable[[int], None]) -> None:
        self.path = ""
        self.calls: list[RecordedCall] = []
        self.num_lost = 0
        self.problem: str | None = None
        self._on_progress = on_progress
        self._next = 0

    async def begin(self, client: httpx2.AsyncClient, *, with_text: bool) -> None:
        try:
            response = await client.post("/v1/recordings", json={"with_text": True} if with_text else {})
            answer = response.json()
        except (httpx2.HTTPError, ValueError) as error:
            raise RecordError(f"no gateway answers at {client.base_url} ({error or type(error).__name__})") from None
        if response.is_error:
            raise RecordError(f"{client.base_url} cannot be recorded ({response.status_code}): {_message_of(answer)}")
        self.path = f"/v1/recordings/{answer['id']}"

    async def listen(self, client: httpx2.AsyncClient, stop: asyncio.Event) -> None:
        """Ask again and again, and once more after `stop`. Ends early, with a problem, if the gateway has nothing to say."""
        heard_s = time.monotonic()
        while self.problem is None:
            is_last = stop.is_set()
            has_more = False
            try:
                has_more = await self._ask(client)
                heard_s = time.monotonic()
            except httpx2.HTTPError as error:
                if is_last or time.monotonic() - heard_s > _PATIENCE_S:
                    self.problem = f"the gateway does not answer any more ({error or type(error).__name__})"
            if not has_more:
                if is_last:
                    return
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), _PERIOD_S)

    async def _ask(self, client: httpx2.AsyncClient) -> bool:
        """Take in what is new; whether there is more at once."""
        response = await client.get(self.path, params={"after": self._next})
        if response.status_code == 404:
            self.problem = "the gateway knows the recording no more: it has started anew, or was not asked for two minutes"
            return False
        response.raise_for_status()
        answer = response.json()
        self.calls += [read_call(told) for told in answer["data"]]
        self._next, self.num_lost = answer["next"], answer["num_lost"]
        self._on_progress(len(self.calls))
        return bool(answer["has_more"])


def _write(config: RecordConfig, listener: _Listener) -> Recorded:
    programs = make_programs(listener.calls)
    partial = config.out.with_name(f"partial-{config.out.name}")  # it ends as `out` does, which says whether it is compressed
    if config.with_text:
        partial.unlink(missing_ok=True)
        partial.touch(mode=0o600, exist_ok=False)
    save_programs(partial, programs)
    partial.replace(config.out)
    num_calls = sum(len(program.calls) for program in programs)
    return Recorded(
        programs=programs,
        num_calls=num_calls,
        num_left_out=sum(call.outcome != FINISHED for call in listener.calls),
        num_lost=listener.num_lost,
        problem=listener.problem,
    )


def _message_of(answer: Any) -> str:
    error = answer.get("error") if isinstance(answer, dict) else None
    told = error.get("message") if isinstance(error, dict) else None
    return str(told or "it does not say why; is it a gateway?")
