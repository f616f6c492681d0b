"""The command line.

    python -m benchmarks.soak --minutes 30 [--work DIR] [--engine-cpus 1] [--policy plas] [--preemption park] [--seed 1]

Waves of calls of all sorts (see `calls`) go to one real engine with 8 slots and 40 KV blocks: in a trickle and in bursts, from
clients of which some leave, in some waves all of them at once. After each wave the engine must fall idle and hold nothing.
Prints a line every 30 s and a verdict as JSON; exit status 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import psutil

from agentix.ab.counters import read_parking
from agentix.core.errors import AgentixError
from agentix.engine.command import ENGINE_COMMAND, EngineOptions, pinned
from agentix.engine.launcher import LocalEngine, start_engines, stop
from agentix.engine.model import TINY, resolve_model
from agentix.engine.settings import PluginSettings
from benchmarks.soak.account import Replayed, ask_gauges
from benchmarks.soak.calls import MAX_MODEL_LEN, MODEL, make_call, plan_call

VLLM_ARGS = (
    "--max-num-seqs",
    "8",
    "--block-size",
    "32",
    "--num-gpu-blocks-override",
    "41",
    "--max-model-len",
    str(MAX_MODEL_LEN),
)
SCHEDULER = {"quanta_s": [0.2, 0.4, 0.8, 1.6], "starvation_ratio": 20.0}  # so that calls of this model change levels often
_WAVE_S = 12.0
_MAX_WAITING = 80  # no more come while so many are under way
_IDLE_TIMEOUT_S = 120.0
_PROGRESS_S = 30.0
_NUM_PROBLEMS = 20  # that are kept in words


class Soak:
    """One run: what has come of its calls so far, and what was wrong."""

    def __init__(self, engine: LocalEngine, client: httpx2.AsyncClient, replayed: Replayed, rng: random.Random) -> None:
        self.endings: Counter[str] = Counter()  # by how, and by kind of call
        self.problems: list[str] = []
        self.num_waves = 0
        self._engine, self._client, self._replayed, self._rng = engine, client, replayed, rng
        self._began_s = self._told_s = time.monotonic()

    async def run(self, minutes: float) -> None:
        """Wave after wave; the first that leaves the engine in disorder is the last."""
        while time.monotonic() < self._began_s + 60 * minutes and not self.problems:
            await self._wave()
            await self._check_idle()
            self.num_waves += 1

    async def _wave(self) -> None:
        """Calls for some seconds, and until the last has ended."""
        rng = self._rng
        leaving_share = rng.choice((0.0, 0.2, 0.2, 0.6))
        storm = rng.random() < 0.2  # all clients leave at once
        until_s = time.monotonic() + rng.uniform(0.3, 1.0) * _WAVE_S
        async with asyncio.TaskGroup() as group:
            calls: list[asyncio.Task[None]] = []
            while time.monotonic() < until_s:
                burst = rng.choice((1, 1, 1, 1, 1, 1, 1, 1, 12, 40))
                if sum(not call.done() for call in calls) < _MAX_WAITING:
                    calls += [group.create_task(self._call(leaving_share)) for _ in range(burst)]
                await asyncio.sleep(rng.expovariate(8.0))
                self._tell()
            for call in calls if storm else ():
                if not call.done():
                    call.cancel()
            while not all(call.done() for call in calls):
                await asyncio.sleep(0.1)
                self._tell()

    async def _call(self, leaving_share: float) -> None:
        plan = plan_call(self._rng, leaving_share=leaving_share)
        try:
            ending = await make_call(self._client, plan)
        except asyncio.CancelledError:
            self.endings["left"] += 1
            raise
        self.endings[ending.how] += 1
        self.endings[f"{plan.kind}, {ending.how}"] += 1
        if ending.problem:
            self._fail(ending.problem)

    async def _check_idle(self) -> None:
        """Wait until the engine holds no call and no block, and see that its account agrees."""
        limit_s = time.monotonic() + _IDLE_TIMEOUT_S
        while any((gauges := await ask_gauges(self._client)).values()):
            if time.monotonic() > limit_s or self._engine.poll() is not None:
                self._fail(f"the engine does not fall idle: {gauges}, exit status {self._engine.poll()}")
                return
            await asyncio.sleep(0.5)
        self._replayed.read_on()
        if self._replayed.num_active:
            self._fail(
                f"{self._replayed.num_active} calls of the decision log have no end: {list(self._replayed.core.table.calls)}"
            )
        for problem in self._replayed.problems:
            self._fail(f"decision log: {problem}")

    def _fail(self, problem: str) -> None:
        if len(self.problems) < _NUM_PROBLEMS:
            self.problems.append(problem)
            print(f"WRONG: {problem}", flush=True)

    def _tell(self) -> None:
        now_s = time.monotonic()
        if now_s - self._told_s >= _PROGRESS_S:
            self._told_s = now_s
            ended = {how: self.endings[how] for how in ("finished", "refused", "left", "wrong")}
            print(f"{now_s - self._began_s:5.0f} s, {self.num_waves} waves, {ended}, {self.memory_mib():.0f} MiB", flush=True)

    def memory_mib(self) -> float:
        """Resident memory of the engine's processes."""
        leader = psutil.Process(self._engine.pid)
        return float(sum(process.memory_info().rss for process in (leader, *leader.children(recursive=True))) / 2**20)

    def verdict(self, settings: PluginSettings, memory_before_mib: float) -> dict[str, Any]:
        """The outcome in full."""
        return {
            "passed": not self.problems,
            "minutes": round((time.monotonic() - self._began_s) / 60, 1),
            "settings": settings.to_mapping() | {"decision_log": None},
            "vllm_args": VLLM_ARGS,
            "waves": self.num_waves,
            "calls": dict(sorted(self.endings.items())),
            "engine_log": dict(self._replayed.counts),
            "parking": read_parking(self._engine.log_tail(200)),
            "memory_mib": [round(memory_before_mib), round(self.memory_mib())],
            "problems": self.problems,
        }


async def soak(args: argparse.Namespace, work: Path) -> bool:
    """Start the engine, run, print the verdict, stop the engine. Returns whether all was well."""
    log = work / "decisions.jsonl"
    given = {**SCHEDULER, "policy": args.policy, "preemption": args.preemption, "decision_log": str(log)}
    settings = PluginSettings.from_mapping(given)
    options = EngineOptions(
        model=resolve_model(TINY),
        served_model_name=MODEL,
        vllm_args=VLLM_ARGS,
        scheduler=given,
        command=pinned(ENGINE_COMMAND, args.engine_cpus),
    )
    [engine] = await start_engines([options], log_dir=work, on_progress=lambda line: print(line, flush=True))
    try:
        limits = httpx2.Limits(max_connections=None)
        async with httpx2.AsyncClient(base_url=engine.url, trust_env=False, timeout=None, limits=limits) as client:
            run = Soak(engine, client, Replayed(log, settings.scheduler), random.Random(args.seed))  # noqa: S311 - not for secrets
            before_mib = run.memory_mib()
            await run.run(args.minutes)
            print(json.dumps(run.verdict(settings, before_mib), indent=1), flush=True)
            return not run.problems
    finally:
        await stop([engine])


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--work", type=Path, help="folder for the engine's log; default: a temporary one")
    parser.add_argument("--engine-cpus", help="CPUs of the engine, as taskset -c takes them")
    parser.add_argument("--policy", default="plas")
    parser.add_argument("--preemption", default="park")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as temporary:
            work = args.work or Path(temporary)
            work.mkdir(parents=True, exist_ok=True)
            sys.exit(not asyncio.run(soak(args, work)))
    except AgentixError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
