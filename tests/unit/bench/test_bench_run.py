"""Whole runs: result file, exit codes, interruption, and the command line."""

from __future__ import annotations

import asyncio
import json
import math
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

import agentix
from agentix.bench import BenchConfig, BenchError, BenchResult, run_bench
from agentix.bench.display import progress_display
from agentix.bench.recorder import Progress
from agentix.cli import main
from agentix.cli.bench import bench
from agentix.core.errors import ConfigError
from agentix.workload import TraceError
from fake_openai import FakeOpenAI

KEY = "sk-very-secret"


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    """Four programs: a call of two tokens, then one of three."""
    path = tmp_path / "chat.jsonl"
    message = {"role": "user", "content": "hi"}
    first = {"call_id": "c0", "parents": [], "prompt_tokens": 10, "output_tokens": 2, "messages": [message]}
    second = first | {"call_id": "c1", "parents": ["c0"], "inherits": True, "output_tokens": 3, "tool_gap_s": None}
    programs = [{"program_id": f"x{i}", "workload": "chat", "calls": [first, second]} for i in range(4)]
    path.write_text("".join(json.dumps(program) + "\n" for program in programs))
    return path


@pytest.fixture
def config(workload: Path, tmp_path: Path) -> BenchConfig:
    return BenchConfig(
        target="http://fake:8000/v1",
        workload=workload,
        out=tmp_path / "out.json",
        num_programs=3,
        rate_per_s=0.5,
        seed=7,
        api_key=KEY,
    )


def run(config: BenchConfig, fake: FakeOpenAI, **options: Any) -> tuple[BenchResult, dict[str, Any]]:
    result = run_bench(config, clock=fake.clock, transport=fake.transport, **options)
    return result, json.loads(config.out.read_text())


def test_the_result_file_tells_everything_but_secrets(config: BenchConfig, fake: FakeOpenAI) -> None:
    argv = ["agentix", "bench", "--target", config.target, "--api-key", KEY, f"--api-key={KEY}"]
    result, written = run(config, fake, argv=argv)
    assert written == json.loads(json.dumps(result.document))
    assert written["schema"] == "agentix-bench/1"
    assert written["complete"] is True
    assert written["command"] == ["agentix", "bench", "--target", config.target, "--api-key", "***", "--api-key=***"]
    assert KEY not in config.out.read_text()
    assert (written["agentix_version"], written["model"]) == (agentix.__version__, "tiny")
    assert (written["seed"], written["rate_per_s"], written["workload"]) == (7, 0.5, "chat.jsonl")
    assert written["target"] == "http://fake:8000"
    assert set(written["machine"]) == {"num_cpus", "platform", "python"}
    assert [p["program_token_latency_s"] for p in written["programs"]] == pytest.approx([1.0] * 3)  # 5 s for 5 tokens
    assert len(written["calls"]) == 6
    assert written["calls"][0]["ttft_s"] == pytest.approx(1.0)
    assert written["summary"]["num_programs"] == {"ok": 3, "failed": 0, "cancelled": 0, "not_run": 0}
    assert written["summary"]["distributions"]["jct_s"]["p95"] == pytest.approx(5.0)
    assert result.exit_code == 0
    assert not list(config.out.parent.glob("*.partial"))


def test_two_runs_on_one_server_do_not_mix(config: BenchConfig, fake: FakeOpenAI) -> None:
    _, one = run(config, fake)
    _, other = run(config, fake)
    assert [p["trace_program_id"] for p in one["programs"]] == [p["trace_program_id"] for p in other["programs"]]
    assert [p["arrival_s"] for p in one["programs"]] == [p["arrival_s"] for p in other["programs"]]
    assert not {p["program_id"] for p in one["programs"]} & {p["program_id"] for p in other["programs"]}


def test_the_context_that_the_server_names_limits_the_choice(config: BenchConfig, fake: FakeOpenAI) -> None:
    fake.max_model_len = 15  # each program needs 1.3 x 10 + 3
    with pytest.raises(BenchError, match="none of the 4 programs fits the model's context of 15 tokens"):
        run(config, fake)
    assert not config.out.exists()
    assert run(replace(config, max_model_len=16), fake)[0].exit_code == 0
    assert run(replace(config, context_margin=1.0), fake)[1]["max_model_len"] == 15


def test_an_infinite_rate_is_null_in_the_file(config: BenchConfig, fake: FakeOpenAI) -> None:
    _, written = run(replace(config, rate_per_s=math.inf), fake)
    assert written["rate_per_s"] is None
    assert [p["arrival_s"] for p in written["programs"]] == [0, 0, 0]


def test_ctrl_c_writes_what_was_measured(config: BenchConfig, fake: FakeOpenAI) -> None:
    def interrupt() -> httpx2.Response:
        signal.raise_signal(signal.SIGINT)
        return httpx2.Response(200, content=fake.words(3))

    fake.faults["c1"] = interrupt
    result, written = run(config, fake)
    assert result.exit_code == 130
    assert written["complete"] is False
    assert [c["status"] for c in written["calls"][:2]] == ["ok", "cancelled"]
    assert written["summary"]["num_programs"]["ok"] == 0


def test_ctrl_c_before_the_first_program_leaves_no_file(config: BenchConfig, fake: FakeOpenAI) -> None:
    async def handle(request: httpx2.Request) -> httpx2.Response:
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(60)
        return httpx2.Response(200)

    with pytest.raises(KeyboardInterrupt):
        run_bench(config, clock=fake.clock, transport=httpx2.MockTransport(handle))
    assert not config.out.exists()


@pytest.mark.parametrize(
    ("models", "wanted", "problem"),
    [
        (["a", "b"], None, "http://fake:8000 serves a, b: name one with --model"),
        ([], None, "lists no models: name one with --model"),
        (["a"], "z", "does not serve 'z'; it serves a"),
    ],
)
def test_the_model_must_be_served(
    config: BenchConfig, fake: FakeOpenAI, models: list[str], wanted: str | None, problem: str
) -> None:
    fake.models = models
    with pytest.raises(BenchError, match=problem):
        run(replace(config, model=wanted), fake)


def answering(response: httpx2.Response) -> httpx2.MockTransport:
    return httpx2.MockTransport(lambda _: response)


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        (httpx2.Response(401, json={"error": {"message": f"bad key {KEY}"}}), r"refuses the API key: bad key \*\*\*"),
        (httpx2.Response(200, text="hello"), "/v1/models is not a list of models"),
        (httpx2.Response(200, json={"data": [{}]}), "/v1/models is not a list of models"),
        (httpx2.Response(404), "lists no models"),
    ],
)
def test_a_target_that_cannot_be_used(config: BenchConfig, response: httpx2.Response, problem: str) -> None:
    with pytest.raises(BenchError, match=problem):
        run_bench(config, transport=answering(response))


def test_a_target_out_of_reach(config: BenchConfig) -> None:
    with pytest.raises(BenchError, match=r"cannot reach http://127\.0\.0\.1:9: "):
        run_bench(replace(config, target="http://127.0.0.1:9"))


@pytest.mark.parametrize(
    "change",
    [
        {"target": "localhost:8000"},
        {"target": "http://"},
        {"target": "http://h/?key=1"},
        {"target": "http://user:secret@h"},
        {"num_programs": 0},
        {"rate_per_s": 0.0},
        {"rate_per_s": math.nan},
        {"timeout_s": math.inf},
        {"context_margin": 0.0},
        {"max_model_len": 0},
        {"api_key": "line\nbreak"},
        {"out": Path("/nowhere/out.json")},
        {"out": Path()},
    ],
)
def test_settings_that_cannot_be_honoured(config: BenchConfig, change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        replace(config, **change)


@pytest.mark.parametrize("target", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"])
def test_target_with_or_without_v1(config: BenchConfig, target: str) -> None:
    assert replace(config, target=target).base_url == "http://h:1"


def test_the_key_is_not_in_the_repr(config: BenchConfig) -> None:
    assert KEY not in repr(config)


def test_a_broken_workload_stops_the_run(config: BenchConfig, fake: FakeOpenAI) -> None:
    config.workload.write_text("{")
    with pytest.raises(TraceError):
        run(config, fake)


def test_a_missing_http_library_is_one_clear_line(config: BenchConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "agentix.bench.target", raising=False)
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(BenchError, match=r"^httpx2 is missing: pip install 'agentix\[bench\]'$"):
        run_bench(config)


def test_importing_the_command_does_not_import_the_http_library() -> None:
    code = "import sys, agentix.cli.bench; sys.exit('httpx2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture
def cli(config: BenchConfig, fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the command with extra arguments; the network leads to the fake server."""
    monkeypatch.setattr(httpx2.AsyncHTTPTransport, "handle_async_request", lambda _, request: fake.handle(request))
    monkeypatch.setattr("agentix.bench.run.MonotonicClock", lambda: fake.clock)
    app = typer.Typer()
    app.command("bench")(bench)
    arguments = f"--target {config.target} --workload {config.workload} --programs 3 --rate 1 --out {config.out}".split()

    def invoke(*more: str) -> Any:
        return CliRunner(env={"OPENAI_API_KEY": KEY, "COLUMNS": "200"}).invoke(app, [*arguments, *more])

    return invoke


def test_command_prints_table_and_progress(cli: Any, config: BenchConfig, fake: FakeOpenAI) -> None:
    done = cli()
    assert done.exit_code == 0
    assert "3 of 3 programs ended well" in done.stdout
    assert "program_token_latency_s" in done.stdout
    assert "3/3 programs, 0 calls in flight, 0 failed" in done.stderr
    assert fake.requests[0][1].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in config.out.read_text() + done.output


def test_command_prints_json(cli: Any, config: BenchConfig) -> None:
    done = cli("--json", "--programs", "6")
    assert json.loads(done.stdout) == json.loads(config.out.read_text())["summary"]
    assert "the workload is too short: 2 programs are repeats" in done.stderr


def test_command_says_how_many_calls_failed_and_why_first(cli: Any, fake: FakeOpenAI) -> None:
    fake.faults["c1"] = lambda: httpx2.Response(503, json={"error": {"message": "[bold]full"}})
    done = cli()
    assert done.exit_code == 1
    assert "3 of 6 calls failed; the first:" in done.stderr
    assert "call c1: HTTP 503: [bold]full" in done.stderr


def test_command_names_what_stops_it(
    config: BenchConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "none.jsonl"
    arguments = f"agentix bench --target {config.target} --workload {missing} --programs 3 --rate 1 --out {config.out}"
    monkeypatch.setattr(sys, "argv", arguments.split())
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert capsys.readouterr().err == f"agentix: {missing}: cannot be read: No such file or directory\n"


def test_progress_on_a_terminal_is_one_live_line() -> None:
    console = Console(force_terminal=True, width=120, record=True)
    with progress_display(console) as update:
        update(Progress(num_programs=4, num_programs_done=1, num_calls_in_flight=2, num_failed_calls=3))
    assert "1/4 2 calls in flight, 3 failed" in console.export_text()
