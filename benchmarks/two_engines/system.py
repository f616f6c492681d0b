"""The system under test: two engines, one core each, and a gateway of its own for each run."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from agentix.engine.command import ENGINE_COMMAND, EngineOptions, pinned
from agentix.engine.launcher import LocalEngine, start_engines, stop
from agentix.engine.model import TINY, resolve_model
from benchmarks.gateway.process import BenchmarkError, read_line, started

MODEL = "model"
BLOCK_SIZE = 32
_IDLE_S = 60.0
_GAUGES = ("vllm:num_requests_running{", "vllm:num_requests_waiting{")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSize:
    """One engine: a built-in model, and its room for calls at a time, blocks of KV, and tokens of one call."""

    model: str = TINY
    num_slots: int = 4
    num_blocks: int = 1024
    max_model_len: int = 8192

    def vllm_args(self) -> tuple[str, ...]:
        """The same in vLLM's words."""
        words = {
            "--max-num-seqs": self.num_slots,
            "--block-size": BLOCK_SIZE,
            "--num-gpu-blocks-override": self.num_blocks,
            "--max-model-len": self.max_model_len,
        }
        return tuple(str(word) for pair in words.items() for word in pair)


@contextmanager
def two_engines(size: EngineSize, work: Path) -> Iterator[list[LocalEngine]]:
    """Two engines with the plug-in, each on a core of its own as long as there are two; gone at the end, killed or not.

    They are in vLLM's development mode, in which their prefix caches can be emptied.
    """
    os.environ.setdefault("VLLM_SERVER_DEV_MODE", "1")
    cores = sorted(os.sched_getaffinity(0))
    model = resolve_model(size.model)
    options = [
        EngineOptions(
            model=model,
            served_model_name=MODEL,
            vllm_args=size.vllm_args(),
            scheduler={},
            command=pinned(ENGINE_COMMAND, str(cores[n % len(cores)])),
        )
        for n in range(2)
    ]
    engines = asyncio.run(start_engines(options, log_dir=work, on_progress=tell))
    try:
        yield engines
    finally:
        asyncio.run(stop(engines))


@contextmanager
def gateway(engines: Sequence[LocalEngine], work: Path, *options: str) -> Iterator[tuple[str, int]]:
    """`agentix serve` in front of the engines, as a process; gives its address and the id of its process group."""
    file, log = work / "engines.toml", work / "gateway.log"
    tables = (f'[engine.{engine.engine_id}]\nurl = "{engine.url}"\nplugin = true\n' for engine in engines)
    file.write_text("\n".join(tables), encoding="utf-8")
    command = [sys.executable, "-m", "agentix", "serve", "--engines-file", str(file), "--json", *options]
    with started(command, cpus=None, log=log) as process:
        url: str = read_line(process, log)["url"].removesuffix("/v1")
        wait_until(lambda: get(f"{url}/v1/models") is not None, "the gateway serves no model")
        yield url, process.pid


def empty_caches(engines: Sequence[LocalEngine]) -> None:
    """Wait until the engines have no call, and empty their prefix caches. Raises BenchmarkError."""
    for engine in engines:
        wait_until(lambda: num_calls(engine) == 0, f"{engine.engine_id} does not fall idle")  # noqa: B023 - called at once
        wait_until(lambda: _has_emptied(engine), f"{engine.engine_id} does not empty its prefix cache")  # noqa: B023


def _has_emptied(engine: LocalEngine) -> bool:
    """Ask the engine to; it does not while a block is still held. Raises BenchmarkError if it cannot be asked."""
    response = httpx2.post(f"{engine.url}/reset_prefix_cache", trust_env=False, timeout=30.0)
    if response.status_code != 200:
        raise BenchmarkError(f"{engine.engine_id} has no /reset_prefix_cache: HTTP {response.status_code}")
    return bool(response.json()["success"])


def num_calls(engine: LocalEngine) -> int:
    """Calls in an engine, running and waiting, as it tells them itself."""
    text = httpx2.get(f"{engine.url}/metrics", trust_env=False, timeout=30.0).text
    return sum(int(float(line.rpartition(" ")[2])) for line in text.splitlines() if line.startswith(_GAUGES))


def get(url: str) -> Any | None:
    """What the gateway answers, or None: it is not there, or does not like the question."""
    try:
        response = httpx2.get(url, trust_env=False, timeout=5.0)
    except httpx2.HTTPError:
        return None
    return response.json() if response.status_code == 200 else None


def wait_until(condition: Callable[[], bool], problem: str, *, every_s: float = 0.05) -> float:
    """Ask until the condition holds; gives how long that took, in seconds. Raises BenchmarkError after a minute."""
    began_s = time.monotonic()
    while not condition():
        if time.monotonic() - began_s > _IDLE_S:
            raise BenchmarkError(problem)
        time.sleep(every_s)
    return time.monotonic() - began_s


def tell(line: str) -> None:
    """What goes on, for whoever looks on."""
    print(line, file=sys.stderr, flush=True)
