"""`agentix demo` against a fake engine: the same calls under both policies, and what is said of them."""

from __future__ import annotations

import asyncio
import json
import socket
from collections import Counter
from io import StringIO
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from typer.testing import CliRunner

from agentix.cli import app
from agentix.core import SchedulerConfig, SchedulingPolicy
from agentix.core.program import CallRow, ProgramRow
from agentix.demo import server as demo_server
from agentix.demo.display import board
from agentix.demo.programs import PROGRAMS, Answer, DemoProgram
from agentix.demo.result import note, result_lines
from agentix.demo.run import Arm, Demo, DemoConfig, run_demo
from agentix.demo.server import DemoError, Server
from agentix.demo.watch import Standing, Watch
from agentix.gateway import EngineTarget
from fake_engine import FakeEngine, served
from gateway_system import gateway

NUM_CALLS = 13 + 13 + 2 * 3 + 3 * 3
NUM_WARM_UP = 2


class LatestFirst(SchedulingPolicy):
    """The call that came last goes first: an order that no other policy has."""

    def rank(self, call: CallRow, row: ProgramRow, now: float) -> float:
        return -call.arrived_s


async def run(url: str | None, **settings: Any) -> Demo:
    return await run_demo(DemoConfig(url=url, **settings), on_progress=lambda _: None, on_change=lambda _: None)


def sent(arm: Arm) -> list[tuple[float, float]]:
    """(when it came, when it was sent) of every call, in the order of sending."""
    return sorted(((call.arrived_s, call.served[0][0]) for call in arm.watch.calls.values()), key=lambda pair: pair[1])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
async def test_a_program_makes_the_calls_that_it_says_and_names_their_parents(program: DemoProgram) -> None:
    made: dict[str, list[str]] = {}

    async def ask(call_id: str, prompt: str, *parents: Answer, num_tokens: int) -> Answer:
        assert call_id not in made
        assert all(parent.text in prompt for parent in parents)
        made[call_id] = [parent.call_id for parent in parents]
        return Answer(call_id=call_id, text=f"<{call_id}>")

    await program.run(ask)
    assert len(made) == program.num_calls
    assert sum(not parents for parents in made.values()) >= 1
    children = Counter(parent for parents in made.values() for parent in parents)
    assert sum(call_id not in children for call_id in made) == 1  # one call is the end of it all


async def test_both_arms_make_the_same_calls_as_programs_of_their_own() -> None:
    engine = FakeEngine()
    async with served(engine.app) as url:
        demo = await run(url)
    assert [arm.policy for arm in demo.arms] == ["fcfs", SchedulerConfig().policy]
    assert demo.server.model == "fake"
    assert len(engine.requests) == NUM_WARM_UP + 2 * NUM_CALLS
    of_arms = [engine.requests[NUM_WARM_UP:][:NUM_CALLS], engine.requests[NUM_WARM_UP:][NUM_CALLS:]]
    for arm, requests in zip(demo.arms, of_arms, strict=True):
        calls = Counter(headers["x-session-id"].removesuffix(f"-{arm.run_id}") for headers, _ in requests)
        assert calls == {program.name: program.num_calls for program in PROGRAMS}
        assert {body["cache_salt"] for _, body in requests} == {arm.run_id}
        assert arm.done_s.keys() == calls.keys()
        assert all(call.ended_s is not None and len(call.served) == 1 for call in arm.watch.calls.values())
    assert demo.arms[0].run_id != demo.arms[1].run_id


async def test_the_first_arm_serves_calls_as_they_come_and_the_second_by_its_policy() -> None:
    async with served(FakeEngine().app) as url:
        demo = await run(url, policy=f"{__name__}:LatestFirst", num_slots=1)
    first, second = demo.arms
    assert all(a[0] <= b[0] for a, b in pairwise(sent(first)))
    assert any(a[0] > b[0] for a, b in pairwise(sent(second)))


class Crowd(FakeEngine):
    """Counts how many calls it has at once; each takes a moment."""

    num_now = most = 0

    async def complete(self, request: Request) -> Response:
        self.num_now += 1
        self.most = max(self.most, self.num_now)
        await asyncio.sleep(0.002)
        self.num_now -= 1
        return await super().complete(request)


async def test_no_more_calls_are_with_the_server_than_there_are_slots() -> None:
    engine = Crowd()
    async with served(engine.app) as url:
        await run(url, num_slots=3)
    assert engine.most == 3


async def test_a_gateway_serves_as_well_and_has_the_programs_of_both_arms() -> None:
    async with gateway(FakeEngine()) as system:
        await system.models_known()
        demo = await run(f"{system.url}/v1/")
        names = {f"{program.name}-{arm.run_id}" for arm in demo.arms for program in PROGRAMS}
        assert names <= system.table.rows.keys()
        assert sum(row.num_finished for row in system.table.rows.values()) == NUM_WARM_UP + 2 * NUM_CALLS


async def test_a_call_that_fails_ends_it_with_the_servers_words() -> None:
    async with served(FakeEngine(mode="refuse").app) as url:
        with pytest.raises(DemoError, match=r"refuses the call warm-up \(400\): max_tokens is too large"):
            await run(url)

    class RefusesLater(FakeEngine):
        async def complete(self, request: Request) -> Response:
            if len(self.requests) > 10:
                return JSONResponse({"error": {"message": "no more"}}, 400)
            return await super().complete(request)

    async with served(RefusesLater().app) as url:
        with pytest.raises(DemoError, match=r"refuses the call \S+/\S+ \(400\): no more"):
            await run(url)


async def test_cancelled_it_takes_its_calls_along() -> None:
    class HangsLater(FakeEngine):
        async def complete(self, request: Request) -> Response:
            self.mode = "hang" if len(self.requests) >= NUM_WARM_UP else "ok"
            return await super().complete(request)

    engine = HangsLater()
    async with served(engine.app) as url:
        task = asyncio.create_task(run(url))
        while engine.num_active < 2:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while engine.num_active:
            await asyncio.sleep(0.01)
    assert engine.num_cancelled == 2


async def test_without_a_server_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(DemoError, match=f"nothing answers at {nobody}"):
        await run(nobody)
    monkeypatch.setattr(demo_server, "HERE", nobody)
    monkeypatch.setattr(demo_server, "find_spec", lambda _: None)
    with pytest.raises(DemoError, match=r"nothing answers .*vLLM is not installed here either.*`make serve`.*--url"):
        await run(None)


async def test_a_server_that_is_none_or_wants_a_key_is_told_apart() -> None:
    class Locked(FakeEngine):
        async def models(self, request: Request) -> Response:
            return JSONResponse({"error": {"message": "no"}}, 401)

    class Empty(FakeEngine):
        async def models(self, request: Request) -> Response:
            return JSONResponse({"data": []})

    for engine, words in ((Locked(), "asks for a key: put it into AGENTIX_API_KEY"), (Empty(), "names none")):
        async with served(engine.app) as url:
            with pytest.raises(DemoError, match=words):
                await run(url)


async def invoke(*options: str) -> Any:
    return await asyncio.to_thread(CliRunner().invoke, app, ["demo", *options])


async def test_the_command_shows_ends_with_two_lines_and_draws(tmp_path: Path) -> None:
    picture = tmp_path / "demo.svg"
    async with served(FakeEngine().app) as url:
        done = await invoke("--url", url, "--out", str(picture))
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    told = [line.split()[0] for line in lines if not line.startswith("The server was not")][-3:]
    assert told == ["fcfs", SchedulerConfig().policy, "picture:"]
    assert str(picture) in lines[-1]
    assert any(line.startswith("map-reduce") and "■" * 13 in line for line in lines)
    titles = [text.text for text in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")]
    assert {"fcfs", SchedulerConfig().policy, *(program.name for program in PROGRAMS)} <= set(titles)


async def test_json_is_all_that_is_printed(tmp_path: Path) -> None:
    async with served(FakeEngine().app) as url:
        done = await invoke("--url", url, "--json", "--slots", "1", "--out", str(tmp_path / "demo.svg"))
    told = json.loads(done.stdout)
    assert (told["schema"], told["num_slots"], told["model"], told["server"]) == ("agentix-demo/1", 1, "fake", url)
    for arm in told["arms"]:
        assert [(p["program"], len(p["calls"])) for p in arm["programs"]] == [(p.name, p.num_calls) for p in PROGRAMS]
        assert arm["mean_jct_s"] == pytest.approx(sum(p["jct_s"] for p in arm["programs"]) / len(PROGRAMS))
        for program in arm["programs"]:
            waits = [call["sent_s"] - call["arrived_s"] for call in program["calls"]]
            assert program["waiting_s"] == pytest.approx(sum(waits))
            assert min(waits) >= 0


async def test_a_place_that_cannot_be_written_to_is_refused_before_anything_runs(tmp_path: Path) -> None:
    done = await invoke("--url", "http://127.0.0.1:1", "--out", str(tmp_path / "no" / "demo.svg"))
    assert "cannot write to" in str(done.exception)


def server() -> Server:
    return Server(target=EngineTarget(engine_id="server", url="http://127.0.0.1:1"), model="m")


def call(call_id: str) -> Any:
    """As much of a gateway's call as an observer looks at."""
    return SimpleNamespace(key=f"chat-rain-x/{call_id}", call_id=call_id, identity=SimpleNamespace(shown_id="chat-rain-x"))


def arm_of(policy: str, done_s: float) -> Arm:
    """All programs done after so long; only chat-rain, done after 4 s, has made a call: 2 s of waiting, 1 s of service."""
    watch = Watch("-x")
    watch.arrived(call("a"), 1.0)
    watch.sent(call("a"), "server", 3.0)
    watch.over(call("a"), 4.0)
    done = {program.name: done_s for program in PROGRAMS} | {"chat-rain": 4.0}
    return Arm(policy=policy, watch=watch, run_id="x", done_s=done, began=True)


def test_the_two_lines_compare() -> None:
    first, second = arm_of("fcfs", 8.0), arm_of("plas", 6.0)  # means: (6 x 8 + 4) / 7 = 7.43, (6 x 6 + 4) / 7 = 5.71

    def lines(*arms: Arm) -> list[str]:
        return result_lines(Demo(server=server(), num_slots=2, quantum_s=0.5, arms=arms))

    assert lines(first, second) == [  # waiting: 2 s of one program in seven
        "fcfs  mean JCT 7.4 s, waiting 0.3 s, all done after 8.0 s",
        "plas  mean JCT 5.7 s, waiting 0.3 s, all done after 6.0 s: 23% sooner in the mean, 6 of 7 programs sooner",
    ]
    assert lines(second, first)[1].endswith(": 30% later in the mean, 0 of 7 programs sooner")
    assert lines(first, first)[1].endswith(": no difference, 0 of 7 programs sooner")


@pytest.mark.parametrize(("last_s", "is_told"), [(8.0, False), (9.5, False), (9.7, True), (6.0, True)])
def test_a_server_that_was_slower_in_one_arm_is_told(last_s: float, is_told: bool) -> None:
    demo = Demo(server=server(), num_slots=2, quantum_s=0.5, arms=(arm_of("fcfs", 8.0), arm_of("plas", last_s)))
    assert (note(demo) is not None) is is_told


def test_a_call_that_waits_and_one_that_runs_count_up_to_now() -> None:
    arm = arm_of("fcfs", 8.0)
    arm.watch.arrived(call("b"), 5.0)
    arm.watch.sent(call("b"), "server", 5.5)
    arm.watch.arrived(call("c"), 6.0)
    assert arm.watch.standing("chat-rain", 7.0) == Standing(num_done=1, num_running=1, num_held=1, waited_s=2.0 + 0.5 + 1.0)
    arm.watch.over(call("c"), 9.0)  # it was never sent
    assert arm.watch.standing("chat-rain", 9.0) == Standing(num_done=2, num_running=1, num_held=0, waited_s=2.0 + 0.5 + 3.0)
    assert arm.watch.end_s == 9.0


def test_the_board_has_a_sign_for_every_call() -> None:
    arm, blank = arm_of("fcfs", 8.0), Arm(policy="plas", watch=Watch("-y"), run_id="y")
    arm.watch.arrived(call("b"), 3.5)
    arm.watch.sent(call("b"), "server", 3.5)
    console = Console(width=120, file=StringIO())
    console.print(board([arm, blank]))
    assert isinstance(console.file, StringIO)
    rows = [line.split() for line in console.file.getvalue().splitlines()]
    assert ["chat-rain", "■▶·", "2.0s", "4.0s"] in rows
    assert ["map-reduce", "·" * 13, "0.0s", "8.0s"] in rows
