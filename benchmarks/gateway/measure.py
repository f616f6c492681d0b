"""All measurements, in one run: arms in turns, round after round."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ParamSpec

from benchmarks.gateway.arms import Arm, Server
from benchmarks.gateway.load import Load
from benchmarks.gateway.mock_engine import BURST, SLOW
from benchmarks.gateway.process import BenchmarkError, memory_mb, read_line, started, suspended

Document = dict[str, Any]
P = ParamSpec("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured.

    latency_s, closed_s  seconds of each measurement of latency, and of calls or chunks per second; `warm_s` before each
    num_clients          that call without pause, for calls per second; `num_streams` the same for chunks
    num_held             streams open at once while memory is read, for `held_s`
    num_programs         live programs in the table
    """

    num_rounds: int = 3
    rate_per_s: float = 200.0
    latency_s: float = 6.0
    closed_s: float = 3.0
    warm_s: float = 1.0
    num_clients: int = 64
    num_streams: int = 100
    num_held: int = 2000
    held_s: float = 5.0
    num_programs: int = 100_000

    def loads(self) -> dict[str, Load]:
        """The loads of a round, by name; their address is still to be said."""
        common = Load(kind="closed", url="", warm_s=self.warm_s, duration_s=self.closed_s)
        return {
            "latency": replace(common, kind="rate", rate_per_s=self.rate_per_s, duration_s=self.latency_s),
            "calls": replace(common, num_connections=self.num_clients, num_chunks=1),
            "chunks": replace(common, pace=BURST, num_connections=self.num_streams, num_chunks=200, stream=True),
        }


QUICK = Plan(
    num_rounds=1,
    latency_s=0.5,
    closed_s=0.3,
    warm_s=0.2,
    num_clients=8,
    num_streams=4,
    num_held=20,
    held_s=0.2,
    num_programs=300,
)


class Measurement:
    """One run over the arms. An arm that fails is left out from there on, and its error stands in the document."""

    def __init__(self, plan: Plan, *, cpus: str | None, work: Path, on_progress: Callable[[str], None]) -> None:
        self._plan = plan
        self._cpus = cpus
        self._work = work
        self._tell = on_progress
        self._arms: Document = {}

    def run(self, arms: Sequence[Arm], errors: dict[str, str]) -> Document:
        """Measure everything; `errors`: arms that are not there, and why."""
        self._arms = {name: {"what": name, "rounds": [], "error": _last_line(error)} for name, error in errors.items()}
        self._arms |= {arm.name: {"what": arm.what, "rounds": [], "error": None} for arm in arms}
        log = self._work / "engine.log"
        began_s = time.monotonic()
        with started([sys.executable, "-m", "benchmarks.gateway.mock_engine"], cpus=self._cpus, log=log) as engine:
            engine_url = f"http://127.0.0.1:{read_line(engine, log)['port']}"
            self._play_rounds(arms, engine_url)
            for arm in arms:
                self._try(arm, self._measure_memory, arm, engine_url)
            for arm in arms:
                if arm.name == "agentix":
                    self._try(arm, self._fill_table, arm, engine_url)
        return {"plan": asdict(self._plan), "took_s": time.monotonic() - began_s, "arms": self._arms}

    def _play_rounds(self, arms: Sequence[Arm], engine_url: str) -> None:
        with ExitStack() as stack:
            servers: dict[str, Server] = {}

            def start(arm: Arm) -> None:
                servers[arm.name] = stack.enter_context(arm.start(engine_url, self._work))

            def play(arm: Arm, number: int, name: str, load: Load) -> None:
                self._tell(f"round {number + 1} of {self._plan.num_rounds}: {name}, {arm.name}")
                others = (s.pid for other, s in servers.items() if other != arm.name and s.pid is not None)
                with suspended(others):
                    self._arms[arm.name]["rounds"][-1][name] = self._send(replace(load, url=servers[arm.name].url))

            for arm in arms:
                self._tell(f"starting {arm.name}")
                self._try(arm, start, arm)
            for number in range(self._plan.num_rounds):
                for arm in arms:
                    self._arms[arm.name]["rounds"].append({})
                for name, load in self._plan.loads().items():
                    turn = number % len(arms)
                    for arm in [*arms[turn:], *arms[:turn]]:
                        self._try(arm, play, arm, number, name, load)

    def _measure_memory(self, arm: Arm, engine_url: str) -> None:
        """Of a new server: with nothing to do, and with many streams open."""
        with arm.start(engine_url, self._work) as server:
            if server.pid is None:
                return
            self._tell(f"memory with {self._plan.num_held:,} streams: {arm.name}")
            idle_mb = memory_mb(server.pid)
            load = Load(
                kind="hold",
                url=server.url,
                pace=SLOW,
                stream=True,
                num_connections=self._plan.num_held,
                num_chunks=10_000,
                duration_s=self._plan.held_s,
                patience_s=120.0,
            )
            log = self._work / "load.log"
            with started(_command(load), cpus=self._cpus, log=log) as process:
                opened = read_line(process, log)
                time.sleep(self._plan.held_s / 2)
                held_mb = memory_mb(server.pid)
                result = read_line(process, log)
            self._arms[arm.name]["memory"] = {"idle_mb": idle_mb, "held_mb": held_mb, **opened, **result}

    def _fill_table(self, arm: Arm, engine_url: str) -> None:
        """Latency and memory with few programs in the table, and with many, of which any may make the next call."""
        few, many = 200, self._plan.num_programs
        with arm.start(engine_url, self._work) as server:
            rows = []
            for num_programs in (few, many):
                self._tell(f"{num_programs:,} live programs: {arm.name}")
                num_connections = self._plan.num_clients
                load = Load(kind="programs", url=server.url, num_programs=num_programs, num_connections=num_connections)
                filled = self._send(replace(load, patience_s=600.0))
                latency = self._send(replace(self._plan.loads()["latency"], url=server.url, num_programs=num_programs))
                memory = memory_mb(server.pid or 0)
                rows.append({"num_programs": num_programs, "memory_mb": memory, "filled": filled, "latency": latency})
            self._arms[arm.name]["table"] = rows

    def _send(self, load: Load) -> Document:
        log = self._work / "load.log"
        with started(_command(load), cpus=self._cpus, log=log) as process:
            return read_line(process, log)

    def _try(self, arm: Arm, step: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        if self._arms[arm.name]["error"] is None:
            try:
                step(*args, **kwargs)
            except BenchmarkError as error:
                self._tell(f"{arm.name}: {error}")
                self._arms[arm.name]["error"] = _last_line(str(error))


def _last_line(error: str) -> str:
    """What went wrong, for the results; a traceback above it names files of this machine, and has been told to the user."""
    return error.strip().rpartition("\n")[2]


def _command(load: Load) -> list[str]:
    return [sys.executable, "-m", "benchmarks.gateway.load", json.dumps(asdict(load))]
