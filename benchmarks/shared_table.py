"""What a shared process table costs, and how stale it is: with a real server (Valkey or Redis) that this starts itself.

    python -m benchmarks.shared_table [--json FILE] [--quick]

updates    calls that are told of and heard of by another gateway, as fast as it goes: by seconds of each one's own CPU time
staleness  from the end of a call at one gateway until another's row has it
added      latency and CPU time of a call by `agentix serve` with a shared table, beside one without; mock engine, arms in
           turns
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil

from agentix.cluster.table_ledger import Ledger
from agentix.cluster.table_server import TableServer
from agentix.cluster.table_shared import SharedTable, SharedTableSettings
from agentix.core import ProcessTable
from agentix.core.errors import AgentixError
from agentix.core.events import CallArrived, CallFinished
from agentix.gateway import EngineTarget, GatewayConfig, create_app
from agentix.metrics.summary import percentile
from benchmarks.gateway.arms import agentix
from benchmarks.gateway.load import Load, make_schedule
from benchmarks.gateway.process import BenchmarkError, cpus, read_line, started
from benchmarks.simulator_speed.timing import machine
from benchmarks.table_server import NAMES, TableServerProcess, find_server

MARK_UPDATES_PER_S, MARK_ADDED_MS, MARK_STALE_S = 5000.0, 1.0, 0.5
_BATCH = 200
_NUM_PROGRAMS = 2000


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shared_table", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds, to see that it works; the numbers mean nothing")
    parser.add_argument("--json", type=Path, help="file for all numbers")
    args = parser.parse_args()
    try:
        document = measure(quick=args.quick)
    except AgentixError as error:
        sys.exit(str(error))
    if args.json is not None:
        args.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(report(document))


def measure(*, quick: bool) -> dict[str, Any]:
    """All three, one after the other. Raises BenchmarkError."""
    program = find_server()
    if program is None:
        raise BenchmarkError(f"no server: set AGENTIX_TABLE_SERVER, or install {' or '.join(NAMES)}")
    with tempfile.TemporaryDirectory(prefix="agentix-") as work:
        server = TableServerProcess(program, Path(work))
        server.start()
        try:
            return {
                "machine": {**machine(), "num_cores": os.cpu_count(), "load_average": os.getloadavg()[0]},
                "server": Path(program).name,
                "updates": asyncio.run(measure_updates(server, 0.5 if quick else 5.0)),
                "staleness": asyncio.run(measure_staleness(server, 5 if quick else 100)),
                "added": measure_added(server, Path(work), quick=quick),
            }
        finally:
            server.kill()


async def measure_updates(server: TableServerProcess, duration_s: float) -> dict[str, float]:
    """One gateway tells of calls that are over, another hears of them; nothing else is done."""
    teller, hearer = _Side(server.url), _Side(server.url)
    num_calls, number = 0, 0
    before_s, began_s = _cpu_s(server), time.monotonic()
    while time.monotonic() - began_s < duration_s:
        for _ in range(_BATCH):
            number = (number + 1) % _NUM_PROGRAMS
            teller.call(f"program-{number}")
        num_calls += _BATCH
        await teller.exchange()
        await hearer.exchange()
    took_s, server_s = time.monotonic() - began_s, _cpu_s(server) - before_s
    await hearer.exchange()
    heard = sum(row.num_finished for row in hearer.table.rows.values())
    if heard != num_calls:
        raise BenchmarkError(f"{num_calls} calls were told of, {heard} were heard of")
    for side in (teller, hearer):
        await side.server.close()
    return {
        "num_calls": num_calls,
        "together_per_s": num_calls / took_s,
        "teller_per_cpu_s": num_calls / teller.cpu_s,
        "hearer_per_cpu_s": num_calls / hearer.cpu_s,
        "server_per_cpu_s": num_calls / server_s,
    }


class _Side:
    """A gateway's table and ledger, and what they have cost; `cpu_s` without the calls themselves."""

    def __init__(self, url: str) -> None:
        self.table = ProcessTable()
        self.server = TableServer(url, keep_s=3600.0, silent_s=3600.0)
        self.cpu_s = 0.0
        self._num_calls = 0
        self._ledger = Ledger(
            self.table,
            f"g{id(self)}",
            address_of=str,
            engine_at=str,
            on_served=lambda *_: None,
            on_end=lambda *_: None,
        )

    def call(self, program_id: str) -> None:
        """A call, and what the ledger does about it."""
        self._num_calls += 1
        now, call_id = float(self._num_calls), f"{program_id}/{self._num_calls}"
        self.table.apply(CallArrived(now=now, call_id=call_id, program_id=program_id, engine_id="e0", pin=True))
        self._timed(lambda: self._ledger.changed(program_id, now))
        self.table.apply(CallFinished(now=now, call_id=call_id, service_s=1.5, waiting_s=0.25))
        self._timed(lambda: self._ledger.changed(program_id, now))

    async def exchange(self) -> None:
        """All there is to tell and to hear. Waiting for the server costs no CPU time."""
        has_more = True
        while has_more:
            began_s = time.process_time()
            told = self._ledger.take(_BATCH, 0.0)
            news = await self.server.exchange(self._ledger.gateway, {}, told, since=self._ledger.number, most=_BATCH)
            self._ledger.heard(news, 0.0)
            self.cpu_s += time.process_time() - began_s
            has_more = news.has_more or self._ledger.num_untold > 0

    def _timed(self, do: Callable[[], None]) -> None:
        began_s = time.process_time()
        do()
        self.cpu_s += time.process_time() - began_s


def _cpu_s(server: TableServerProcess) -> float:
    """What the server has used so far, as it says."""
    with server.client as client:
        used: Any = client.info("cpu")
    return float(used["used_cpu_user"] + used["used_cpu_sys"])


async def measure_staleness(server: TableServerProcess, num_calls: int) -> dict[str, float]:
    """Two gateways with default settings; calls end at random moments."""
    config = GatewayConfig(engines=(EngineTarget(engine_id="e0", url="http://127.0.0.1:9"),), health_period_s=60.0)
    sides = []
    for _ in range(2):
        shared = SharedTable(server.url)
        sides.append((shared, create_app(config, observers=shared.observers, companions=(shared.beside,))))
    (teller, first), (_, second) = sides
    stale_s, draw = [], random.Random(1)  # noqa: S311 - not for secrets
    async with first.router.lifespan_context(first), second.router.lifespan_context(second):
        here, there = first.state.table, second.state.table
        for n in range(1, num_calls + 1):
            await asyncio.sleep(draw.random() * 0.2)
            now = time.monotonic()
            here.apply(CallArrived(now=now, call_id=f"stale/{n}", program_id="stale"))
            here.apply(CallFinished(now=now, call_id=f"stale/{n}", service_s=1.0, waiting_s=0.0))
            teller.program_changed(here.row("stale"), now)
            while "stale" not in there.rows or there.row("stale").num_finished < n:  # noqa: ASYNC110 - this is what is measured
                await asyncio.sleep(0.001)
            stale_s.append(time.monotonic() - now)
    return {
        "mean_s": statistics.fmean(stale_s),
        "p50_s": percentile(stale_s, 50) or 0.0,
        "p99_s": percentile(stale_s, 99) or 0.0,
        "max_s": max(stale_s),
        "bound_s": 2 * SharedTableSettings().period_s,
    }


def measure_added(server: TableServerProcess, work: Path, *, quick: bool) -> dict[str, Any]:
    """Two gateways as processes on one core, calls of the same programs at the same moments, round after round."""
    gateway_cpus, other_cpus = cpus()
    tables = {"alone": "", "shared": server.url}
    load = Load(kind="rate", url="", rate_per_s=100.0, warm_s=0.2 if quick else 1.0, duration_s=0.5 if quick else 5.0)
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in tables}
    with ExitStack() as stack:
        log = work / "engine.log"
        engine = stack.enter_context(
            started([sys.executable, "-m", "benchmarks.gateway.mock_engine"], cpus=other_cpus, log=log)
        )
        engine_url = f"http://127.0.0.1:{read_line(engine, log)['port']}"
        gateways = {}
        for name, table in tables.items():
            os.environ["AGENTIX_TABLE"] = table  # as a gateway inherits it
            (work / name).mkdir()
            gateways[name] = stack.enter_context(agentix(gateway_cpus).start(engine_url, work / name))
        del os.environ["AGENTIX_TABLE"]
        for number in range(1 if quick else 5):
            for name in list(tables)[:: 1 if number % 2 else -1]:
                rounds[name].append(_send(replace(load, url=gateways[name].url), gateways[name].pid or 0, other_cpus, work))
    pairs = list(zip(rounds["alone"], rounds["shared"], strict=True))
    added = {f"added_{p}_ms": statistics.median(b[p] - a[p] for a, b in pairs) for p in ("p50", "p99", "cpu")}
    return {"rate_per_s": load.rate_per_s, "rounds": rounds, **added}


def _send(load: Load, pid: int, load_cpus: str | None, work: Path) -> dict[str, float]:
    """Latencies of the calls, and the CPU time that the gateway has used for each, in ms; for the first ones as well."""
    process, command = psutil.Process(pid), [sys.executable, "-m", "benchmarks.gateway.load", json.dumps(asdict(load))]
    before = process.cpu_times()
    with started(command, cpus=load_cpus, log=work / "load.log") as sender:
        said = read_line(sender, work / "load.log")
    after = process.cpu_times()
    if said["num_failed"]:
        raise BenchmarkError(f"{said['num_failed']} calls failed: {said['fault']}")
    cpu_s = after.user + after.system - before.user - before.system
    return {**said["latency_ms"], "cpu": 1000 * cpu_s / len(make_schedule(load))}


def report(document: dict[str, Any]) -> str:
    """The numbers as a table in Markdown."""
    updates, stale, added = document["updates"], document["staleness"], document["added"]
    alone, cpu = (statistics.median(r[name] for r in added["rounds"]["alone"]) for name in ("p50", "cpu"))
    rows = [
        ("updates/s of CPU time: who tells", f"{updates['teller_per_cpu_s']:,.0f}", f"≥ {MARK_UPDATES_PER_S:,.0f}"),
        ("updates/s of CPU time: who hears", f"{updates['hearer_per_cpu_s']:,.0f}", f"≥ {MARK_UPDATES_PER_S:,.0f}"),
        ("updates/s of CPU time: the server", f"{updates['server_per_cpu_s']:,.0f}", f"≥ {MARK_UPDATES_PER_S:,.0f}"),
        ("updates/s, one after the other", f"{updates['together_per_s']:,.0f}", ""),
        ("staleness, p50", f"{stale['p50_s']:.3f} s", ""),
        ("staleness, p99", f"{stale['p99_s']:.3f} s", ""),
        ("staleness, greatest", f"{stale['max_s']:.3f} s", f"≤ {MARK_STALE_S} s"),
        (f"added latency, p50 (alone {alone:.2f} ms)", f"{added['added_p50_ms']:+.2f} ms", f"≤ {MARK_ADDED_MS:g} ms"),
        ("added latency, p99", f"{added['added_p99_ms']:+.2f} ms", ""),
        (f"added CPU time a call (alone {cpu:.2f} ms)", f"{added['added_cpu_ms']:+.2f} ms", ""),
    ]
    return "\n".join(["| what | measured | mark |", "|---|---|---|", *(f"| {a} | {b} | {c} |" for a, b, c in rows)])


if __name__ == "__main__":
    main()
