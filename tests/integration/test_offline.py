"""Batches through a real gateway: programs with their headers, cancelled groups, Ctrl-C, traces, the command line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

import agentix
from agentix.cli import app
from agentix.offline import Job, OfflineConfig, OfflineError, Report, Session, run_jobs
from agentix.offline.config import PROGRAMS_PER_ENGINE
from client_sessions import settle
from fake_engine import FakeEngine, served
from gateway_system import CHAT, System, eventually, gateway


@pytest.fixture(autouse=True)
def instrumented() -> Iterator[None]:
    agentix.instrument()
    yield
    agentix.uninstrument()


@pytest.fixture
async def system() -> AsyncIterator[System]:
    async with gateway(FakeEngine(), FakeEngine()) as running:
        await running.models_known()
        yield running


def config(system: System, tmp_path: Path, **settings: Any) -> OfflineConfig:
    return OfflineConfig(gateway=system.url, out=tmp_path / "out.jsonl", **{"retry_s": 0.0, **settings})


def chats(num_calls: int = 1) -> Callable[[Session], Awaitable[str]]:
    """A program of so many calls, one after another."""

    async def run(session: Session) -> str:
        async with httpx2.AsyncClient(base_url=session.base_url, trust_env=False, timeout=None) as client:
            for _ in range(num_calls):
                response = await client.post("/chat/completions", json=CHAT)
                response.raise_for_status()
        content = response.json()["choices"][0]["message"]["content"]
        assert isinstance(content, str)
        return content

    return run


async def nothing_is_left(system: System) -> None:
    """No call in an engine, no program at the gateway."""
    await asyncio.to_thread(settle)
    await eventually(lambda: not system.table.rows and all(engine.num_active == 0 for engine in system.engines))


async def test_every_job_is_a_program_of_its_own(system: System, tmp_path: Path) -> None:
    jobs = [Job(job_id=f"j{i}", run=chats(2)) for i in range(5)]
    report = await run_jobs(jobs, config(system, tmp_path))
    assert (report.num_ok, report.num_failed, report.num_left, report.exit_code) == (5, 0, 0, 0)
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {line["job_id"] for line in lines} == {f"j{i}" for i in range(5)}
    assert {line["value"] for line in lines} == {"héllo"}
    sent = [headers["x-session-id"] for engine in system.engines for headers, _ in engine.requests]
    assert sorted(sent) == sorted(2 * [line["program_id"] for line in lines])
    await nothing_is_left(system)


async def test_the_rest_of_a_group_is_cancelled_in_the_engines(tmp_path: Path) -> None:
    async with gateway(FakeEngine(mode="hang"), extra=()) as system:
        await system.models_known()

        async def well(session: Session) -> str:
            await eventually(lambda: system.engines[0].num_active == 3)
            return "enough"

        jobs = [Job(job_id=f"slow{i}", run=chats(), group="g") for i in range(3)]
        report = await run_jobs([*jobs, Job(job_id="well", run=well, group="g")], config(system, tmp_path))
        assert (report.num_ok, report.num_not_needed) == (1, 3)
        await nothing_is_left(system)
        assert system.engines[0].num_cancelled == 3


async def test_an_interruption_leaves_nothing_behind_and_the_batch_can_be_resumed(tmp_path: Path) -> None:
    async with gateway(FakeEngine(mode="hang")) as system:
        await system.models_known()
        (engine,) = system.engines

        async def well(session: Session) -> str:
            return "well"

        jobs = [Job(job_id="well", run=well), *(Job(job_id=f"j{i}", run=chats()) for i in range(4))]
        settings = config(system, tmp_path, concurrency=3)
        batch = asyncio.create_task(_report(run_jobs(jobs, settings, report_when_cancelled=True)))
        await eventually(lambda: engine.num_active == 3)
        batch.cancel()
        report = await batch
        assert (report.num_ok, report.num_left, report.exit_code) == (1, 4, 130)
        await nothing_is_left(system)
        engine.mode = "ok"
        report = await run_jobs(jobs, config(system, tmp_path, resume=True))
        assert (report.num_ok, report.num_skipped, report.exit_code) == (4, 1, 0)


async def _report(batch: Awaitable[Report]) -> Report:
    return await batch


async def test_the_default_concurrency_grows_with_the_healthy_engines(system: System, tmp_path: Path) -> None:
    """The third engine is down."""
    num_running, most = 0, 0

    async def run(session: Session) -> None:
        nonlocal num_running, most
        num_running += 1
        most = max(most, num_running)
        await asyncio.sleep(0)
        num_running -= 1

    async with gateway(*system.engines, extra=("http://127.0.0.1:9",)) as three:
        await eventually(lambda: not three.app.state.pool.states["e0"].healthy)
        jobs = [Job(job_id=str(i), run=run) for i in range(3 * PROGRAMS_PER_ENGINE)]
        await run_jobs(jobs, config(three, tmp_path))
    assert most == 2 * PROGRAMS_PER_ENGINE


async def test_a_server_that_is_no_gateway_will_do(tmp_path: Path) -> None:
    engine = FakeEngine()
    async with served(engine.app) as url:
        report = await run_jobs([Job(job_id="a", run=chats())], OfflineConfig(gateway=f"{url}/v1", out=tmp_path / "out.jsonl"))
    assert report.num_ok == 1
    assert len(engine.requests) == 1


async def test_a_gateway_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    settings = OfflineConfig(gateway="http://127.0.0.1:9", out=tmp_path / "out.jsonl")
    with pytest.raises(OfflineError, match=r"cannot reach http://127\.0\.0\.1:9"):
        await run_jobs([Job(job_id="a", run=chats())], settings)


async def test_a_batch_within_a_program_is_refused(system: System, tmp_path: Path) -> None:
    with agentix.program("outer"), pytest.raises(OfflineError, match="cannot run within a program"):
        await run_jobs([Job(job_id="a", run=chats())], config(system, tmp_path))


def write_trace(path: Path, num_programs: int) -> None:
    """Programs of two calls, the later ones longer."""
    first = {"call_id": "c0", "parents": [], "prompt_tokens": 8, "messages": [{"role": "user", "content": "hi"}]}
    second = first | {"call_id": "c1", "parents": ["c0"], "inherits": True, "output_tokens": 3}
    programs = [
        {"program_id": f"p{i}", "workload": "chat", "calls": [first | {"output_tokens": 2 + i}, second]}
        for i in range(num_programs)
    ]
    path.write_text("".join(json.dumps(program) + "\n" for program in programs))


async def test_the_command_replays_a_trace_longest_first_and_resumes(system: System, tmp_path: Path) -> None:
    trace, out = tmp_path / "trace.jsonl", tmp_path / "out.jsonl"
    write_trace(trace, 3)
    arguments = ["offline", str(trace), "--gateway", system.url, "--out", str(out), "--concurrency", "1", "--json"]
    done = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["num_ok"] == 3
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["job_id"] for line in lines] == ["p2", "p1", "p0"]
    assert lines[0]["value"]["num_calls"] == 2
    assert (lines[0]["value"]["prompt_tokens"], lines[0]["value"]["output_tokens"]) == (14, 6)  # twice the fake's usage
    await nothing_is_left(system)
    again = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    assert "say that the batch is to resume it" in str(again.exception)
    resumed = await asyncio.to_thread(CliRunner().invoke, app, [*arguments, "--resume"])
    assert (resumed.exit_code, json.loads(resumed.stdout)["num_skipped"]) == (0, 3)


async def test_a_program_whose_calls_are_refused_has_failed(tmp_path: Path) -> None:
    trace, out = tmp_path / "trace.jsonl", tmp_path / "out.jsonl"
    write_trace(trace, 1)
    async with gateway(FakeEngine(mode="refuse")) as system:
        await system.models_known()
        arguments = ["offline", str(trace), "--gateway", system.url, "--out", str(out)]
        done = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    assert done.exit_code == 1
    assert "1 failed" in done.stdout
    (line,) = (json.loads(line) for line in out.read_text().splitlines())
    assert (line["status"], line["attempts"]) == ("failed", 1)  # it would be refused again
    assert line["error"] == "GiveUp: call c0: HTTP 400: max_tokens is too large"


async def test_the_example_in_the_documentation_runs(system: System, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "offline.md").read_text()
    example = page.split("```python\n")[1].split("```")[0]
    code = example.replace("http://127.0.0.1:8080", system.url).replace("smollm2-135m", "fake")
    await asyncio.to_thread(exec, code.replace("results.jsonl", str(tmp_path / "out.jsonl")), {})
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert sorted(line["job_id"] for line in lines) == ["12 times 7?", "3 times 4?"]
    assert {line["value"] for line in lines} == {"héllo"}
