"""Records what a real engine decides: its decision log over some programs under overload, small enough to keep with the tests.

    python -m benchmarks.record_decisions tests/recorded/decisions-plas.jsonl.gz [--policy plas] [--engine-cpus 0]

The programs come faster than the engine serves them, so that their calls wait, overtake each other and are parked; their KV
fits. The first line holds the engine and the plug-in's settings. Every other is a line of the decision log, with short call ids
and times from the first event on; with an event that ends a step comes the step's `work`, as in a step log.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx2

from agentix.engine.command import ENGINE_COMMAND, EngineOptions, pinned
from agentix.engine.launcher import start_engines, stop
from agentix.engine.model import TINY, resolve_model
from agentix.engine.step_log import read_step_log

MODEL = "model"
SETTINGS = {"preemption": "park", "quanta_s": [0.1, 0.2, 0.4, 0.8], "starvation_ratio": 20.0}
VLLM_ARGS = ("--max-num-seqs", "4", "--max-model-len", "1024", "--block-size", "32")
NUM_PROGRAMS = 40
PROGRAMS_PER_S = 8.0
_VOCABULARY = range(1000, 40_000)  # ids of ordinary tokens


async def send_programs(url: str, rng: random.Random) -> None:
    """All programs at their times; a program's calls one after the other, with its tools in between."""
    client = httpx2.AsyncClient(base_url=url, trust_env=False, timeout=120, limits=httpx2.Limits(max_connections=None))
    async with client, asyncio.TaskGroup() as group:
        for number in range(NUM_PROGRAMS):
            group.create_task(_send_program(client, f"p{number}", random.Random(rng.random())))  # noqa: S311 - not for secrets
            await asyncio.sleep(rng.expovariate(PROGRAMS_PER_S))


async def _send_program(client: httpx2.AsyncClient, program_id: str, rng: random.Random) -> None:
    """Some programs are short, some long; no two prompts are alike."""
    for _ in range(rng.choice((1, 2, 3, 8))):
        body = {
            "model": MODEL,
            "prompt": rng.choices(_VOCABULARY, k=rng.randint(8, 200)),
            "max_tokens": rng.choice((5, 15, 40, 120)),
            "temperature": 0,
            "ignore_eos": True,
        }
        (await client.post("/v1/completions", json=body, headers={"X-Session-ID": program_id})).raise_for_status()
        await asyncio.sleep(rng.expovariate(10.0))


def merged(decisions: Path, steps: Path, settings: dict[str, Any]) -> Iterator[str]:
    """The lines of the recording."""
    facts, records = read_step_log(steps)
    yield json.dumps({"engine": asdict(facts), "settings": settings})
    works = iter(records)
    names: dict[str, str] = {}
    lines = [json.loads(line) for line in decisions.read_text(encoding="utf-8").splitlines()]
    began_s = lines[0]["event"]["now"]
    for line in lines:
        event = line["event"]
        event["now"] = round(event["now"] - began_s, 6)
        for item in (event, *line["decisions"]):
            if "call_id" in item:
                item["call_id"] = names.setdefault(item["call_id"], f"c{len(names)}")
        if event["type"] == "StepCompleted":
            event["call_ids"] = [names[call_id] for call_id in event["call_ids"]]
            event["duration_s"] = round(event["duration_s"], 6)
            line["work"] = asdict(next(works).step)
        yield json.dumps(line)


async def run_engine(settings: dict[str, Any], work: Path, engine_cpus: str | None) -> None:
    """Start the engine, send the programs, stop it."""
    options = EngineOptions(
        model=resolve_model(TINY),
        served_model_name=MODEL,
        vllm_args=VLLM_ARGS,
        scheduler=settings,
        command=pinned(ENGINE_COMMAND, engine_cpus),
    )
    [engine] = await start_engines([options], log_dir=work, on_progress=lambda line: print(line, flush=True))
    try:
        await send_programs(engine.url, random.Random(3))  # noqa: S311 - not for secrets
    finally:
        await stop([engine])


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--policy", default="plas")
    parser.add_argument("--engine-cpus", help="CPUs of the engine, as taskset -c takes them")
    args = parser.parse_args()
    settings = {**SETTINGS, "policy": args.policy}
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        decisions, steps = work / "decisions.jsonl", work / "steps.jsonl"
        logs = {"decision_log": str(decisions), "step_log": str(steps)}
        asyncio.run(run_engine(settings | logs, work, args.engine_cpus))
        lines = list(merged(decisions, steps, settings))
    args.out.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))
    print(f"{args.out}: {len(lines)} lines, {args.out.stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    main()
