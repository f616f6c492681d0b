"""Round trip: programs are benchmarked through the gateway, recorded there, and come out as they went in."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentix.bench import BenchConfig, run_bench
from agentix.core.errors import ConfigError
from agentix.gateway.tenants import Tenant, Tenants, key_digest
from agentix.recommend.config import Arm, RecommendConfig
from agentix.recommend.run import recommend
from agentix.record.calls import RecordError
from agentix.record.run import RecordConfig, Recorded, record
from agentix.sim.plan import SimulationConfig
from agentix.sim.run import run_case
from agentix.workload import Call, Program, load_programs, program_parts, save_programs
from fake_engine import FakeEngine, sse
from gateway_system import System, eventually, gateway

SAID = "I will look it up."
KEYS = {name: f"agx-{name}-" + "0123456789" * 4 for name in ("acme", "blue")}


class CountingEngine(FakeEngine):
    """Says SAID, and counts: a token for four characters of the messages, and as many in the answer as are asked for.

    `prompts`: what it was sent.
    """

    def __init__(self) -> None:
        super().__init__()
        self.prompts: list[Any] = []

    async def events(self, body: Any) -> AsyncIterator[bytes]:
        self.prompts.append(body["messages"])
        yield sse({"choices": [{"index": 0, "delta": {"content": SAID}}]})
        num_prompt = len(json.dumps(body["messages"])) // 4
        yield sse({"choices": [], "usage": {"prompt_tokens": num_prompt, "completion_tokens": body["max_tokens"]}})
        yield b"data: [DONE]\n\n"


def call(call_id: str, *parents: str, text: str, output_tokens: int, answer: str = SAID) -> Call:
    message = {"role": "user", "content": text}
    return Call(
        call_id=call_id,
        parents=parents,
        prompt_tokens=1,
        output_tokens=output_tokens,
        inherits=bool(parents),
        messages=(message,) if parents else ({"role": "system", "content": "You are a careful agent. " * 8}, message),
        output_text=answer,
        tool_gap_s=0.01,
    )


def programs() -> list[Program]:
    """Two programs: a chain whose second call goes on from what the engine says, and one that forks and joins."""
    chain = (
        call("a", text="Who wrote Dune? " * 20, output_tokens=5),
        call("b", "a", text="And when? " * 20, output_tokens=6),
        call("c", "b", text="Thanks.", output_tokens=7),
    )
    fork = (
        call("plan", text="Compare the two. " * 20, output_tokens=8, answer="Nobody said this."),
        call("left", "plan", text="The left one?", output_tokens=9),
        call("right", "plan", text="The right one?", output_tokens=10),
        call("join", "left", "right", text="So?", output_tokens=11),
    )
    return [Program(program_id=name, workload="test", calls=calls) for name, calls in (("chain", chain), ("fork", fork))]


class Heard:
    """How many calls were heard so far (-1: the recording has not begun), and in the end what came of them."""

    num_calls = -1
    result: Recorded

    def progress(self, num_calls: int) -> None:
        self.num_calls = num_calls


@asynccontextmanager
async def recording(
    system: System, out: Path, environ: dict[str, str] | None = None, *, with_text: bool = False
) -> AsyncIterator[Heard]:
    """While the block runs, the system is recorded."""
    stop, heard = asyncio.Event(), Heard()

    async def run() -> None:
        config = RecordConfig(url=f"{system.url}/v1", out=out, with_text=with_text)
        heard.result = await record(config, stop=stop, environ=environ or {}, on_progress=heard.progress)

    task = asyncio.create_task(run())
    await eventually(lambda: heard.num_calls == 0)
    yield heard
    stop.set()
    await task


async def bench(system: System, folder: Path, workload: Path | None = None) -> dict[str, Any]:
    """Both programs, or two of another workload, once each; the result."""
    save_programs(folder / "workload.jsonl", programs())
    config = BenchConfig(
        target=system.url,
        workload=workload or folder / "workload.jsonl",
        out=folder / "result.json",
        num_programs=2,
        rate_per_s=float("inf"),
        seed=0,
    )
    return (await asyncio.to_thread(run_bench, config)).document


async def test_what_is_recorded_is_what_was_served(tmp_path: Path) -> None:
    out = tmp_path / "trace.jsonl.gz"
    async with gateway(CountingEngine()) as system, recording(system, out) as heard:
        result = await bench(system, tmp_path)
    recorded = heard.result
    assert recorded.is_whole
    assert (recorded.num_calls, recorded.num_left_out, recorded.num_begun_before) == (7, 0, 0)
    traced = {program.program_id: program for program in load_programs(out)}
    sources = {program.program_id: program for program in programs()}
    assert len(traced) == 2
    for program in result["programs"]:
        source, copy = sources[program["trace_program_id"]], traced[program["program_id"]]
        served = {c["call_id"]: c for c in result["calls"] if c["program_id"] == program["program_id"]}
        assert {c.call_id: c.parents for c in copy.calls} == {c.call_id: c.parents for c in source.calls}
        assert {c.call_id: c.output_tokens for c in copy.calls} == {c.call_id: c.output_tokens for c in source.calls}
        assert {c.call_id: c.prompt_tokens for c in copy.calls} == {name: c["prompt_tokens"] for name, c in served.items()}
        assert all((c.tool_gap_s or 0.0) >= 0.01 for c in copy.calls if any(c.call_id in d.parents for d in copy.calls))
    assert "Dune" not in str(traced)


async def test_with_text_a_recording_is_replayed_with_the_same_prompts(tmp_path: Path) -> None:
    out = tmp_path / "trace.jsonl"
    first, second = CountingEngine(), CountingEngine()
    async with gateway(first) as system, recording(system, out, with_text=True) as heard:
        await bench(system, tmp_path)
    assert (heard.result.is_whole, heard.result.num_without_text) == (True, 0)
    assert out.stat().st_mode & 0o777 == 0o600
    assert out.read_text().count("Who wrote Dune?") == 20  # the chain's first question, once
    async with gateway(second) as system:
        await bench(system, tmp_path, out)
    assert len(first.prompts) == 7
    assert sorted(map(json.dumps, second.prompts)) == sorted(map(json.dumps, first.prompts))


async def test_prompts_share_in_the_trace_what_they_share_in_truth(tmp_path: Path) -> None:
    out = tmp_path / "trace.jsonl"
    async with gateway(CountingEngine()) as system, recording(system, out):
        result = await bench(system, tmp_path)
    ids = {program["trace_program_id"]: program["program_id"] for program in result["programs"]}
    traced = {program.program_id: program_parts(program) for program in load_programs(out)}
    chain, fork = traced[ids["chain"]], traced[ids["fork"]]
    first, second = chain["a"], chain["b"]
    assert second.prompt[: len(first.prompt) + 1] == (*first.prompt, first.answer)
    assert first.answer == (f"{ids['chain']}/a:answer", 5)
    assert chain["a"].prompt[0] == fork["plan"].prompt[0]  # the system prompt is that of both programs
    plan, left, right = fork["plan"], fork["left"], fork["right"]
    assert left.prompt[: len(plan.prompt)] == plan.prompt
    assert plan.answer[0] not in [name for name, _ in left.prompt]  # the benchmark sends its own answer, not the engine's
    assert left.prompt[: len(plan.prompt) + 1] == right.prompt[: len(plan.prompt) + 1]


async def test_a_recording_is_simulated_and_recommended_on(tmp_path: Path) -> None:
    out = tmp_path / "trace.jsonl"
    async with gateway(CountingEngine()) as system, recording(system, out):
        await bench(system, tmp_path)
    simulation = SimulationConfig(workload=str(out), arrivals="trace", rates_per_s=(), policies=("fcfs",))
    (case,) = simulation.cases()
    played = run_case(simulation, case)
    assert played.num_failed == 0
    assert played.counts.cached_tokens > 0
    config = RecommendConfig(trace=out, now=Arm(policy="fcfs", balancer="program_affinity", num_engines=1), num_repeats=2)
    answer = recommend(replace(config, policies=("plas",)), num_processes=1)
    assert (answer.num_programs, answer.num_calls, answer.proposal) == (2, 7, None)  # whether it waits is the machine's doing


async def test_a_tenant_records_with_its_key(tmp_path: Path) -> None:
    tenants = Tenants(tuple(Tenant(name=name, key_digests=(key_digest(key),)) for name, key in KEYS.items()))
    out = tmp_path / "trace.jsonl"
    async with gateway(CountingEngine(), tenants=tenants) as system:
        with pytest.raises(RecordError, match="cannot be recorded \\(401\\)"):
            await record(RecordConfig(url=system.url, out=out), stop=asyncio.Event(), environ={})
        assert not out.exists()
        async with recording(system, out, {"AGENTIX_API_KEY": KEYS["acme"]}):
            for name, key in KEYS.items():
                headers = {"Authorization": f"Bearer {key}", "X-Agentix-Program": f"of-{name}"}
                await system.chat(headers, stream=True, max_tokens=3)
    assert [program.program_id for program in load_programs(out)] == ["acme/of-acme"]


async def test_calls_that_are_refused_are_counted_and_left_out(tmp_path: Path) -> None:
    engine, out = FakeEngine(), tmp_path / "trace.jsonl"
    async with gateway(engine) as system:
        await system.post("/v1/programs", {"program_id": "p"})
        async with recording(system, out) as heard:
            await system.chat({"X-Agentix-Program": "p"})
            engine.mode = "refuse"
            await system.chat({"X-Agentix-Program": "p"})
    assert (heard.result.num_calls, heard.result.num_left_out, heard.result.num_begun_before) == (1, 1, 1)


async def test_a_gateway_that_starts_anew_ends_the_recording_with_what_there_was(tmp_path: Path) -> None:
    out = tmp_path / "trace.jsonl"
    async with gateway(FakeEngine()) as system, recording(system, out) as heard:
        await system.chat({"X-Agentix-Program": "p"})
        await eventually(lambda: heard.num_calls == 1)
        read = next(route for route in system.app.routes if getattr(route, "path", "").startswith("/v1/recordings/"))
        read.endpoint.__self__._recordings.clear()  # type: ignore[attr-defined]
    assert not heard.result.is_whole
    assert "has started anew" in str(heard.result.problem)
    assert len(load_programs(out)) == 1


async def test_ctrl_c_ends_it_with_a_whole_file(tmp_path: Path) -> None:
    out = tmp_path / "trace.jsonl.gz"
    async with gateway(FakeEngine()) as system:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "agentix", "record", "--url", system.url, "--out", str(out)),
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "AGENTIX_API_KEY": ""},
        )
        assert process.stderr is not None
        assert b"Ctrl-C ends it" in await process.stderr.readline()
        for call_id in ("first", "last"):
            await system.chat({"X-Agentix-Program": "p", "X-Agentix-Call": call_id})
        process.send_signal(signal.SIGINT)
        said = (await process.stderr.read()).decode()
        assert await process.wait() == 0
    assert f"{out}: 1 programs, 2 calls" in said
    assert [call.call_id for call in load_programs(out)[0].calls] == ["first", "last"]


def test_what_cannot_be_done_is_refused_before_it_begins(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="starts with http"):
        RecordConfig(url="localhost:8080", out=tmp_path / "t.jsonl")
    with pytest.raises(ConfigError, match="cannot write to"):
        RecordConfig(url="http://localhost:8080", out=tmp_path)
    with pytest.raises(RecordError, match="no gateway answers"):
        asyncio.run(record(RecordConfig(url="http://127.0.0.1:9", out=tmp_path / "t.jsonl"), stop=asyncio.Event(), environ={}))
