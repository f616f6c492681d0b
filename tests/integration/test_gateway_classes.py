"""Classes of programs through the gateway: where nobody names one, where somebody does, and what engines are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentix.cluster.table_file import TableFile
from fake_engine import FakeEngine
from gateway_system import System, eventually, gateway

CODER = "You are a coding agent. Today is {}. You work in {}."


def prompt(system: str, user: str = "hi") -> dict[str, Any]:
    return {"messages": [{"role": "system", "content": system}, {"role": "user", "content": user}]}


def program(name: str) -> dict[str, str]:
    return {"X-Agentix-Program": name}


def class_of(system: System, name: str) -> str:
    return system.table.row(name).program_class


async def test_agents_that_nobody_names_are_told_apart_by_what_they_say() -> None:
    async with gateway(FakeEngine()) as system:
        await system.chat(program("a"), **prompt(CODER.format("Monday, November 30", "/home/ann")))
        await system.chat(program("b"), **prompt(CODER.format("Tuesday, December 1", "/srv/x")))
        await system.chat(program("c"), **prompt("You are a support agent."))
        await system.chat(program("d"))
        coder = class_of(system, "a")
        assert coder.startswith("auto-")
        assert class_of(system, "b") == coder
        assert class_of(system, "c") not in {coder, ""}
        assert class_of(system, "d") == ""
        assert (await system.program("a"))["class"] == coder
        listed = (await system.client.get("/v1/programs", params={"class": coder})).json()["data"]
        assert [row["id"] for row in listed] == ["a", "b"]
        assert f'agentix_gateway_active_programs{{class="{coder}"}} 0.0' in (await system.client.get("/metrics")).text


async def test_programs_that_nobody_names_at_all_have_a_class_too() -> None:
    async with gateway(FakeEngine()) as system:
        await system.chat(**prompt("You are a support agent."))
        await system.chat(**prompt("You are a support agent.", "another question"))
        (one, two) = system.table.rows.values()
        assert one.program_class == two.program_class != ""
        assert one.history is two.history is system.table.histories.by_class[one.program_class]


async def test_the_first_call_that_tells_something_decides() -> None:
    async with gateway(FakeEngine()) as system:
        await system.post("/v1/embeddings", {"model": "fake", "input": "a question"}, program("p"))
        assert class_of(system, "p") == ""
        await system.chat(program("p"), **prompt("You are a support agent."))
        support = class_of(system, "p")
        assert support != ""
        await system.chat(program("p"), **prompt("You write a title."))
        assert class_of(system, "p") == support


async def test_a_class_that_a_client_names_wins_whenever_it_does() -> None:
    async with gateway(FakeEngine()) as system:
        await system.post("/v1/programs", {"program_id": "before", "class": "coder"})
        await system.chat(program("before"), **prompt("You are a coding agent."))
        await system.chat(program("after"), **prompt("You are a coding agent."))
        assert class_of(system, "after").startswith("auto-")
        await system.post("/v1/programs", {"program_id": "after", "class": "coder"})
        await system.chat(program("after"), **prompt("You are a coding agent."))
        await system.chat(program("with"), **prompt("You are a coding agent."), vllm_xargs={"agentix_class": "coder"})
        assert [class_of(system, name) for name in ("before", "after", "with")] == ["coder"] * 3
        history = system.table.histories.by_class["coder"]
        assert all(system.table.row(name).history is history for name in ("before", "after", "with"))


async def test_engines_with_the_plug_in_are_told_the_class() -> None:
    engine = FakeEngine()
    async with gateway(engine, plugin=True) as system:
        await system.chat(program("p"), **prompt("You are a coding agent."))
        assert engine.last_body["vllm_xargs"]["agentix_class"] == class_of(system, "p")
        await system.chat(program("q"))
        assert "agentix_class" not in engine.last_body["vllm_xargs"]


async def run_programs(system: System, num: int) -> str:
    """Programs of one call, 2 s of service, that nobody names; gives their class."""
    program_class = ""
    for _ in range(num):
        program_id = (await system.chat(**prompt("You are a coding agent."))).headers["x-agentix-program"]
        program_class = class_of(system, program_id)
        await system.client.delete(f"/v1/programs/{program_id}")
    return program_class


async def test_what_was_learnt_of_a_class_outlives_the_gateway(tmp_path: Path) -> None:
    """Programs that nobody has named are not kept, what they needed is; also by a gateway that is killed."""
    path, killed = tmp_path / "table", tmp_path / "killed"
    async with gateway(FakeEngine(), table=TableFile(path, keep_s=3600.0, period_s=0.02)) as system:
        coder = await run_programs(system, 8)
        await eventually(lambda: f'"{coder}","totals_s":[{",".join(["2.0"] * 8)}]' in path.read_text())
        killed.write_bytes(path.read_bytes())  # as it is in the middle of everything
    for kept in (path, killed):
        async with gateway(FakeEngine(), table=TableFile(kept, keep_s=3600.0)) as system:
            assert not system.table.rows
            histories = system.table.histories
            assert histories.of(coder).expected_s(0.0) == histories.of("new").expected_s(0.0) == 2.0
            await run_programs(system, 1)
            assert list(histories.of(coder).totals_s) == [2.0] * 9
