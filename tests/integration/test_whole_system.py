"""The command a user types, a real vLLM with the plug-in, a real small model: client to gateway to engine and back."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from openai import OpenAI

import agentix
from agentix.core import ProcessTable, Scheduler, SchedulerConfig
from agentix.core.events import ProgramEnded, ProgramStarted, from_record
from langgraph_programs import chat_model, map_reduce

pytestmark = pytest.mark.engine

QUANTA_S = (0.05, 0.1, 0.2)
OWN_POLICY = "from agentix.core.policies.plas import PLAS\n\nclass Mine(PLAS):\n    pass\n"
SLOTS = 2


@dataclass
class Running:
    """`agentix serve` in a process of its own, ready."""

    process: subprocess.Popen[str]
    url: str
    engine_url: str
    log: Path
    client: httpx2.Client

    def chat(self, program_id: str, text: str, **options: Any) -> httpx2.Response:
        body = {"model": "smollm2-135m", "messages": [{"role": "user", "content": text}], "temperature": 0, **options}
        return self.client.post("/chat/completions", json=body, headers={"X-Agentix-Program": program_id})

    def program(self, program_id: str) -> Any:
        return self.client.get(f"/programs/{program_id}").json()

    def metric(self, name: str, prefix: str = "vllm") -> float:
        """The sum of what the engine's own /metrics shows under the name. Fails if that is nothing."""
        text = httpx2.get(f"{self.engine_url}/metrics", trust_env=False).text
        return math.fsum(_values(text, f"{prefix}:{name}{{"))

    def decisions(self) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [(line["event"], line["decisions"]) for line in lines]


def _values(text: str, start: str) -> list[float]:
    lines = [line for line in text.splitlines() if line.startswith(start)]
    assert lines, f"no line begins with {start}"
    assert all('engine="0"' in line and 'model_name="smollm2-135m"' in line for line in lines)
    return [float(line.rsplit(" ", 1)[1]) for line in lines]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("serve")
    (directory / "my_policy.py").write_text(OWN_POLICY)
    command = [sys.executable, "-m", "agentix", "serve", "smollm2-135m", "--port", "0", "--json"]
    command += ["--policy", "my_policy:Mine"]
    command += ["--quanta", ",".join(map(str, QUANTA_S)), "--decision-log", str(directory), "--starvation-ratio", "0"]
    command += ["--", "--max-num-seqs", str(SLOTS)]
    environment = {**os.environ, "AGENTIX_STATE_DIR": str(directory)}
    with (directory / "stderr").open("w") as stderr:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment, cwd=directory, start_new_session=True
        )
    assert process.stdout is not None
    with process.stdout:
        line = process.stdout.readline()
        assert line, f"serve ended early: {(directory / 'stderr').read_text()}"
        ready = json.loads(line)
        with httpx2.Client(base_url=ready["url"], trust_env=False, timeout=120) as client:
            yield Running(process, ready["url"], ready["engines"][0]["url"], directory / "engine-0.jsonl", client)
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        process.wait(timeout=60)


def eventually(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    pytest.fail("the condition never came true")


def test_a_call_and_a_stream_come_back_and_the_program_s_row_tells_what_they_had(system: Running) -> None:
    answer = system.chat("capital", "What is the capital of France?", max_tokens=24)
    assert answer.status_code == 200, answer.text
    assert "Paris" in answer.json()["choices"][0]["message"]["content"]
    first = system.program("capital")
    assert first["service_s"] > 0
    assert first["waiting_s"] >= 0
    assert first["engine_ids"] == ["engine-0"]
    assert first["num_finished"] == 1

    stream = system.chat("capital", "What is the capital of France?", max_tokens=24, stream=True)
    events = [line.removeprefix("data: ") for line in stream.text.split("\n\n") if line]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    assert all(chunk["choices"] for chunk in chunks), "a usage chunk that was not asked for came through"
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
    assert "Paris" in text
    second = system.program("capital")
    assert second["num_finished"] == 2
    assert second["service_s"] > first["service_s"]
    assert second["critical_path_s"] == pytest.approx(second["service_s"])


def test_the_openai_sdk_works_as_the_readme_shows(system: Running) -> None:
    with OpenAI(base_url=system.url, api_key="none", default_headers={"X-Agentix-Program": "research-42"}) as client:
        question: Any = [{"role": "user", "content": "What is the capital of France?"}]
        answer = client.chat.completions.create(model="smollm2-135m", messages=question, max_tokens=24, temperature=0)
        assert "Paris" in (answer.choices[0].message.content or "")
        chunks = client.chat.completions.create(
            model="smollm2-135m", messages=question, max_tokens=24, temperature=0, stream=True
        )
        assert "Paris" in "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert system.program("research-42")["num_finished"] == 2


def test_completions_and_models_are_served(system: Running) -> None:
    body = {"model": "smollm2-135m", "prompt": "Once upon a time", "max_tokens": 4, "temperature": 0}
    completion = system.client.post("/completions", json=body, headers={"X-Session-ID": "story"})
    assert completion.status_code == 200, completion.text
    assert completion.json()["usage"]["completion_tokens"] == 4
    assert system.program("story")["num_finished"] == 1
    assert [m["id"] for m in system.client.get("/models").json()["data"]] == ["smollm2-135m"]
    assert httpx2.get(system.url.removesuffix("/v1") + "/health", trust_env=False).json()["status"] == "ok"


def test_the_engine_and_the_gateway_agree_on_what_a_call_cost(system: Running) -> None:
    call_id = system.chat("account", "Count to ten.", max_tokens=16).headers["x-agentix-call"]
    row = system.program("account")
    steps = [e for e, _ in system.decisions() if e["type"] == "StepCompleted" and any(call_id in c for c in e["call_ids"])]
    assert len(steps) >= 16
    # The engine's own figures begin when the first step was scheduled and end with the last token: the same steps.
    assert sum(e["duration_s"] for e in steps) == pytest.approx(row["service_s"], rel=0.2)


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_is_gone_from_the_engine(system: Running, stream: bool) -> None:
    options = {"stream": stream, "max_tokens": 4000, "ignore_eos": True}
    program_id = f"leaver-{stream}"
    leaver = Running(
        system.process, system.url, system.engine_url, system.log, httpx2.Client(base_url=system.url, trust_env=False)
    )
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(leaver.chat, program_id, "Tell me a long story.", **options)
        eventually(lambda: system.metric("num_requests_running") == 1)
        leaver.client.close()
        eventually(lambda: system.metric("num_requests_running") == 0)
        assert call.exception() is not None
    eventually(lambda: bool(system.program(program_id)["num_aborted"] == 1))
    call_ids = {e["call_id"] for e, _ in system.decisions() if e["type"] == "CallAborted"}
    arrivals = [e["call_id"] for e, _ in system.decisions() if e["type"] == "CallArrived" and e["program_id"] == program_id]
    assert call_ids >= set(arrivals)


def test_waiting_calls_are_admitted_in_program_order(system: Running) -> None:
    """Two calls hold both slots; of the two that wait, the one of the program with less service goes first."""
    system.chat("veteran", "Tell me about the sea.", max_tokens=24, ignore_eos=True)
    assert system.program("veteran")["service_s"] > QUANTA_S[0]
    with ThreadPoolExecutor(4) as pool:
        holders = [pool.submit(system.chat, f"holder-{i}", f"Story {i}", max_tokens=200, ignore_eos=True) for i in range(SLOTS)]
        eventually(lambda: system.metric("num_requests_running") == SLOTS)
        veteran = pool.submit(system.chat, "veteran", "Tell me about the sky.", max_tokens=4)
        eventually(lambda: system.metric("num_requests_waiting") == 1)
        newcomer = pool.submit(system.chat, "newcomer", "Hello!", max_tokens=4)  # it may be over before anybody sees it wait
        answers = [f.result() for f in (veteran, newcomer, *holders)]
    assert [a.status_code for a in answers] == [200] * 4
    waited = [a.headers["x-agentix-call"] for a in answers[:2]]
    started = [e["call_id"] for e, _ in system.decisions() if e["type"] == "CallStarted"]
    order = [next(c for c in waited if c in s) for s in started if any(c in s for c in waited)]
    assert order == [waited[1], waited[0]]


def test_the_engine_s_own_metrics_tell_what_program_scheduling_has_done(system: Running) -> None:
    levels: dict[str, int] = {}
    num_demotions = 0
    for _, decisions in system.decisions():
        for placed in decisions:
            num_demotions += placed["level"] > levels.get(placed["call_id"], placed["level"])
            levels[placed["call_id"]] = placed["level"]
    assert num_demotions > 0
    assert system.metric("num_demotions_total", "agentix") == num_demotions
    for name in ("num_promotions", "num_evictions", "recomputed_tokens"):
        assert system.metric(f"{name}_total", "agentix") == 0, "KV suffices, and nobody starves"
    assert system.metric("num_resumes_total", "agentix") == system.metric("num_parks_total", "agentix")
    assert system.metric("scheduling_seconds_total", "agentix") > 0
    assert system.metric("num_calls", "agentix") == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("example", "ended"),
    [("map_reduce.py", "program map-reduce: 9 calls"), ("react_tools.py", "program react: ")],
)
def test_an_example_runs_on_the_real_model(system: Running, example: str, ended: str) -> None:
    path = Path(__file__).parents[2] / "examples" / example
    command = [sys.executable, str(path), "--base-url", system.url]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stderr
    assert ended in run.stderr
    assert run.stdout


@pytest.mark.slow
async def test_langgraph_s_map_reduce_on_the_real_model(system: Running) -> None:
    graph = map_reduce(chat_model(system.url, "smollm2-135m", max_completion_tokens=8))
    agentix.instrument()
    try:
        async with agentix.program("map-reduce") as program:
            await graph.ainvoke({"facts": []})
            row = system.program(program.id)
    finally:
        agentix.uninstrument()
    assert (row["class"], row["num_finished"]) == ("map-reduce", 8)
    assert 0 < row["critical_path_s"] < row["service_s"], "three branches ran beside one another"


def test_the_core_replays_the_engine_s_log_to_the_same_decisions(system: Running) -> None:
    config = SchedulerConfig(policy="plas", quanta_s=QUANTA_S, starvation_ratio=None)
    scheduler = Scheduler(config, ProcessTable())
    log = system.decisions()
    assert {d["reason"] for _, decisions in log for d in decisions} >= {"arrival", "quantum"}
    for record, decisions in log:
        event = from_record(record)
        placed = scheduler.apply(event)
        assert placed == [from_record(d) for d in decisions], record
        scheduler.validate()
        scheduler.table.validate()
        assert not isinstance(event, ProgramStarted | ProgramEnded) or not placed


def test_ctrl_c_stops_every_process(system: Running) -> None:
    family = [psutil.Process(system.process.pid), *psutil.Process(system.process.pid).children(recursive=True)]
    assert len(family) >= 3, "serve, the API server and the engine core at least"
    system.process.send_signal(signal.SIGINT)
    assert system.process.wait(timeout=60) == 0
    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(system.engine_url, trust_env=False)
