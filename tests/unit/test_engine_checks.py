"""What the checks on a real engine (`benchmarks.greedy_equality`, `benchmarks.soak`) would notice."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agentix.core.config import SchedulerConfig
from agentix.core.events import CallAborted, CallArrived, CallFinished, CallStarted, Event, StepCompleted, log_line
from agentix.core.process_table import ProcessTable
from agentix.core.scheduler import Scheduler
from benchmarks.greedy_equality.calls import make_calls
from benchmarks.greedy_equality.compare import Difference, differences, table
from benchmarks.greedy_equality.measure import Served
from benchmarks.greedy_equality.shuffled import Shuffled
from benchmarks.private_contexts import make_program
from benchmarks.soak.account import Replayed, ask_gauges
from benchmarks.soak.calls import MAX_MODEL_LEN, Ending, Plan, make_call, plan_call

CONFIG = SchedulerConfig(quanta_s=(1.0,))
HISTORY: Sequence[Event] = (
    CallArrived(now=0.0, call_id="a", program_id="p", prompt_tokens=1),
    CallArrived(now=0.0, call_id="b", program_id="p", prompt_tokens=1),
    CallStarted(now=0.0, call_id="a"),
    StepCompleted(now=1.0, duration_s=1.0, call_ids=("a",)),  # its quantum: demoted
    CallFinished(now=1.0, call_id="a", output_tokens=1),
    CallAborted(now=1.5, call_id="b", reason="left", service_s=0.0),
)


def served(*answers: list[int], margins: list[list[float]] | None = None) -> Served:
    return Served(answers=list(answers), margins=margins or [], counts={"num_parks": 7}, duration_s=1.0)


def test_answers_are_compared_token_for_token() -> None:
    reference = served([1, 2, 3], [4, 5, 6], [7, 8, 9], margins=[[1.0] * 3, [0.5, 0.25, 0.125], [2.0] * 3])
    found = differences([[1, 2, 3], [4, 5, 0], [0, 8, 0]], reference)
    assert found == [Difference(call=1, position=2, margin=0.125), Difference(call=2, position=0, margin=2.0)]
    with pytest.raises(ValueError, match="longer"):
        differences([[1, 2], [4, 5, 6], [7, 8, 9]], reference)
    lines = table({"one at a time": reference, "stock": served([1, 2, 3], [4, 5, 6], [7, 8, 0])}).splitlines()
    assert lines[-1].startswith("| stock | 3 | 9 | 2 | 3 | 7 | 0 | 0 |")


def test_calls_to_compare_are_the_same_each_time_and_share_beginnings() -> None:
    calls = make_calls(24, spread_s=2.0)
    assert calls == make_calls(24, spread_s=2.0)
    assert {call.program_id for call in calls[:12]} == {call.program_id for call in calls[12:]}
    assert all(
        call.prompt.split("\n")[0] == again.prompt.split("\n")[0] for call, again in zip(calls, calls[12:], strict=False)
    )
    assert len({call.prompt for call in calls}) == 24


def test_the_shuffling_policy_changes_its_order_every_quantum() -> None:
    scheduler = Scheduler(
        SchedulerConfig(policy="benchmarks.greedy_equality.shuffled:Shuffled", quanta_s=(0.5,)), ProcessTable()
    )
    assert isinstance(scheduler.policy, Shuffled)
    for number in range(6):
        scheduler.apply(CallArrived(now=0.0, call_id=f"c{number}", program_id=f"p{number}", prompt_tokens=1))

    def order(now: float) -> list[str]:
        scheduler.rerank(now)
        return sorted(scheduler.table.calls, key=scheduler.key)

    assert order(0.0) == order(0.4) != order(0.5) == order(0.9)
    assert len({tuple(order(half / 2)) for half in range(20)}) > 10


def write_history(path: Path, events: Sequence[Event]) -> None:
    core = Scheduler(CONFIG, ProcessTable())
    path.write_text("".join(log_line(event, core.apply(event)) + "\n" for event in events))


def test_a_decision_log_is_replayed_piece_by_piece(tmp_path: Path) -> None:
    log = tmp_path / "log"
    write_history(log, HISTORY[:-1])
    replayed = Replayed(log, CONFIG)
    replayed.read_on()
    assert (replayed.num_active, log.read_text()) == (1, "")
    log.write_text(log_line(HISTORY[-1], []) + "\n")
    replayed.read_on()
    assert (replayed.num_active, replayed.problems) == (0, [])
    assert replayed.counts["CallArrived"] == replayed.counts["CallFinished"] + replayed.counts["CallAborted"] == 2
    assert replayed.counts["quantum"] == 1


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (log_line(CallFinished(now=2.0, call_id="a", output_tokens=1), []), "'a'"),
        (log_line(CallArrived(now=2.0, call_id="c", program_id="q", prompt_tokens=1), []), "the core decides"),
    ],
)
def test_a_call_that_ends_twice_and_another_decision_are_noticed(tmp_path: Path, line: str, problem: str) -> None:
    log = tmp_path / "log"
    write_history(log, HISTORY)
    with log.open("a") as file:
        file.write(line + "\n")
    replayed = Replayed(log, CONFIG)
    replayed.read_on()
    assert len(replayed.problems) == 1
    assert problem in replayed.problems[0]


def plan(**body: Any) -> Plan:
    return Plan(kind="plain", body={"prompt": [1], "max_tokens": 4, **body}, headers={}, leaves_after_s=None)


def whole(*reasons: str, num_tokens: int = 4) -> str:
    return json.dumps({"choices": [{"finish_reason": r} for r in reasons], "usage": {"completion_tokens": num_tokens}})


def stream(*reasons: str | None, done: bool = True) -> str:
    chunks = [{"choices": [{"finish_reason": reason}]} for reason in reasons]
    lines = [json.dumps(chunk) for chunk in (*chunks, {"choices": [], "usage": {"completion_tokens": 4}})]
    return "".join(f"data: {line}\n\n" for line in (*lines, *(["[DONE]"] if done else [])))


@pytest.mark.parametrize(
    ("asked", "status", "text", "ending"),
    [
        (plan(), 200, whole("length"), "finished"),
        (plan(), 200, whole("abort"), "wrong"),
        (plan(), 200, whole("length", num_tokens=3), "wrong"),
        (plan(n=2), 200, whole("length", "length", num_tokens=8), "finished"),
        (plan(n=2), 200, whole("length", num_tokens=8), "wrong"),
        (plan(), 500, "oops", "wrong"),
        (plan(), 400, "oops", "wrong"),
        (plan(prompt=[1] * MAX_MODEL_LEN), 400, "too long", "refused"),
        (plan(prompt=[1] * MAX_MODEL_LEN), 200, whole("length"), "wrong"),
        (plan(stream=True), 200, stream(None, "length"), "finished"),
        (plan(stream=True), 200, stream(None, "length", done=False), "wrong"),
        (plan(stream=True), 200, stream("length", "length"), "wrong"),
        (plan(stream=True), 400, "oops", "wrong"),
    ],
)
async def test_a_call_must_end_as_it_should(asked: Plan, status: int, text: str, ending: str) -> None:
    transport = httpx2.MockTransport(lambda _: httpx2.Response(status, text=text))
    async with httpx2.AsyncClient(transport=transport, base_url="http://engine") as client:
        assert (await make_call(client, asked)).how == ending


async def test_a_client_that_leaves_is_no_error() -> None:
    async def never(_: httpx2.Request) -> httpx2.Response:
        await asyncio.sleep(60)
        raise AssertionError

    leaving = Plan(kind="plain", body={"prompt": [1]}, headers={}, leaves_after_s=0.01)
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(never), base_url="http://engine") as client:
        assert await make_call(client, leaving) == Ending(how="left")


def test_planned_calls_fit_the_context_unless_they_are_meant_not_to() -> None:
    rng = random.Random(3)
    plans = [plan_call(rng, leaving_share=0.5) for _ in range(500)]
    for each in plans:
        assert each.is_too_long == (each.kind == "too long")
        assert each.is_too_long or len(each.body["prompt"]) + each.body["max_tokens"] <= MAX_MODEL_LEN
    assert {each.kind for each in plans} == {"plain", "several", "full", "logprobs", "choice", "too long"}
    assert {each.leaves_after_s is None for each in plans} == {True, False}


async def test_gauges_of_all_engines_are_summed() -> None:
    text = (
        '# HELP vllm:kv_cache_usage_perc KV\nvllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25\n'
        'vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.5\nvllm:num_requests_running{engine="0"} 3.0\n'
        'vllm:num_requests_waiting_by_reason{engine="0"} 9.0\n'
    )
    async with httpx2.AsyncClient(
        transport=httpx2.MockTransport(lambda _: httpx2.Response(200, text=text)), base_url="http://engine"
    ) as client:
        assert await ask_gauges(client) == {
            "kv_cache_usage_perc": 0.75,
            "num_requests_running": 3.0,
            "num_requests_waiting": 0.0,
        }


def test_private_contexts_share_nothing_and_grow() -> None:
    rng = random.Random(1)
    programs = [make_program(number, rng) for number in range(48)]
    first_words = [program.calls[0].messages[0]["content"][:40] for program in programs if program.calls[0].messages]
    assert len(set(first_words)) == 48
    for program in programs:
        assert 600 <= program.calls[0].prompt_tokens - 8 <= 1100
        lengths = [call.prompt_tokens for call in program.calls]
        assert lengths == sorted(set(lengths))
        assert 2 <= len(lengths) <= 5
