"""kill -9 under load: of one of the two engines, and of the gateway."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx2

from agentix.bench import run_bench
from agentix.engine.launcher import LocalEngine
from benchmarks.gateway.process import BenchmarkError
from benchmarks.two_engines.play import Document, Load, count
from benchmarks.two_engines.system import MODEL, empty_caches, gateway, get, num_calls, tell, wait_until


def kill_engine(engines: Sequence[LocalEngine], load: Load, work: Path, *, after_s: float) -> Document:
    """Kill the first engine while programs run on both, and see what becomes of the calls. Moments since the kill, seconds.

    Clocks are the machine's monotonic one, the gateway's too.
    """
    victim, survivor = engines
    empty_caches(engines)
    with gateway(engines, work, "--port", "0") as (url, _), _running(url, load, work) as bench:
        _wait_for_calls(victim, after_s)
        killed_s = time.monotonic()
        os.killpg(victim.pid, signal.SIGKILL)
        tell("killed an engine")
        wait_until(lambda: not _takes_calls(url, victim.engine_id), "the gateway does not see that an engine is dead")
        noticed_s = time.monotonic() - killed_s
        bench.join()
        calls = (get(f"{url}/v1/calls") or {"data": []})["data"]
        num_retries = count(url, "retries_total")
    return {"noticed_s": noticed_s, "num_retries": num_retries, **_after(calls, killed_s, survivor.engine_id)}


def kill_gateway(engines: Sequence[LocalEngine], load: Load, work: Path, *, after_s: float) -> Document:
    """Kill the gateway while programs run, start another on its port, and see when it answers and what it still knows.

    It keeps the process table in a file (`--table`).
    """
    empty_caches(engines)
    port = _free_port()
    arguments = ("--port", str(port), "--table", str(work / "table"))
    with gateway(engines, work, *arguments) as (url, group), _running(url, load, work):
        _wait_for_calls(engines[0], after_s)
        before_s = _service_s(url)
        killed_s = time.monotonic()
        os.killpg(group, signal.SIGKILL)
        tell("killed the gateway")
        wait_until(lambda: all(num_calls(engine) == 0 for engine in engines), "calls of a dead gateway go on in an engine")
        idle_s = time.monotonic() - killed_s
        with gateway(engines, work, *arguments) as (again, _):
            _call(again)
            answered_s = time.monotonic() - killed_s
            after_restart_s = _service_s(again)
    return {
        "engines_idle_s": idle_s,
        "answered_s": answered_s,
        "service_before_s": before_s,
        "service_after_s": after_restart_s,
    }


def _after(calls: Sequence[Document], killed_s: float, survivor_id: str) -> Document:
    """Calls that were under way at the kill, by what became of them; and when the next one ended."""
    under_way = [c for c in calls if c["arrived_s"] < killed_s <= c["over_s"]]
    moved = [c for c in under_way if c["sent_s"] is not None and c["sent_s"] >= killed_s and c["engine_id"] == survivor_id]
    lost = [c for c in calls if c["outcome"] not in {"finished", "disconnected"}]
    later = [c for c in calls if c["outcome"] == "finished" and c["over_s"] >= killed_s]
    return {
        "num_calls": len(calls),
        "num_under_way": len(under_way),
        "num_moved": len(moved),
        "num_moved_and_finished": sum(c["outcome"] == "finished" for c in moved),
        "num_broken_streams": sum(c["first_token_s"] is not None for c in lost),
        "num_lost_without_a_token": sum(c["first_token_s"] is None for c in lost),
        "last_moved_s": max((c["sent_s"] - killed_s for c in moved), default=None),
        "next_finished_s": min((c["over_s"] - killed_s for c in later), default=None),
        "num_finished_later": len(later),
    }


@contextmanager
def _running(url: str, load: Load, work: Path) -> Iterator[threading.Thread]:
    """The load, in a thread of its own; calls that fail are in its file, not raised."""
    config = load.bench(url, work / "killed.json", seed=0)
    thread = threading.Thread(target=run_bench, args=(config,))
    thread.start()
    try:
        yield thread
    finally:
        thread.join()


def _wait_for_calls(engine: LocalEngine, after_s: float) -> None:
    time.sleep(after_s)
    wait_until(lambda: num_calls(engine) >= 2, f"{engine.engine_id} has no calls to be killed with", every_s=0.01)


def _takes_calls(url: str, engine_id: str) -> bool:
    state = get(f"{url}/v1/engines/{engine_id}")
    return bool(state is None or state["takes_calls"])


def _service_s(url: str) -> float:
    """Service of all programs that the gateway knows."""
    rows = get(f"{url}/v1/programs?limit=1000") or {"data": []}
    return sum(float(row["service_s"]) for row in rows["data"])


def _call(url: str) -> None:
    """One short call. Raises BenchmarkError if it is not answered."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    response = httpx2.post(f"{url}/v1/chat/completions", json=body, trust_env=False, timeout=60.0)
    if response.status_code != 200:
        raise BenchmarkError(f"the new gateway does not answer: HTTP {response.status_code}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
