"""The examples, run as they are against an engine that follows a script: what they print, and what the gateway saw."""

from __future__ import annotations

import asyncio
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from scripted_engine import ScriptedEngine
from seen_program import Seen, seen_program

EXAMPLES = Path(__file__).parents[2] / "examples"
MULTIPLY, SUBTRACT = {"do": "multiply", "a": 12, "b": 7}, {"do": "subtract", "a": 84, "b": 4}


@pytest.fixture(autouse=True)
def beside_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))


async def run(name: str, base_url: str, *arguments: str) -> None:
    """The example as a user runs it, in a thread of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [name, "--base-url", base_url, *arguments])
        await asyncio.to_thread(runpy.run_path, str(EXAMPLES / name), run_name="__main__")


async def seen_run(engine: ScriptedEngine, name: str, *arguments: str) -> Seen:
    async with seen_program(engine) as seen:
        await run(name, seen.base_url, *arguments)
        await seen.ended()
    return seen


async def test_chat(capsys: pytest.CaptureFixture[str]) -> None:
    seen = await seen_run(ScriptedEngine(say=str.upper), "chat.py", "How far?", "How old?")
    assert capsys.readouterr().out == "> How far?\nHOW FAR?\n> How old?\nHOW OLD?\n"
    assert seen.shape == [(0, 0), (1, 1)]
    assert seen.totals[0][0] == "chat"


async def test_react_tools(capsys: pytest.CaptureFixture[str]) -> None:
    script: Any = ([("step", MULTIPLY)], [("step", SUBTRACT)], [("step", {"do": "answer", "a": 80, "b": 0})])
    seen = await seen_run(ScriptedEngine(script=script), "react_tools.py")
    out, err = capsys.readouterr()
    assert [line.rpartition(" -> ")[2] for line in out.splitlines()] == ["84", "80", "80"]
    assert "program react: 3 calls, service 6.0 s, critical_path 6.0 s" in err
    assert seen.shape == [(0, 0), (1, 1), (2, 1)]
    assert seen.total == ("react", 6.0, 6.0)


async def test_react_tools_tells_a_model_what_was_wrong_and_gives_up_in_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    engine = ScriptedEngine(script=([("step", {"do": "divide", "a": 1, "b": 1})], *[[("step", MULTIPLY)]] * 9))
    await seen_run(engine, "react_tools.py")
    out = capsys.readouterr().out
    assert "-> error: KeyError('divide')" in out
    assert out.endswith("no answer after 6 turns\n")
    assert len(engine.bodies) == 6


async def test_map_reduce(capsys: pytest.CaptureFixture[str]) -> None:
    seen = await seen_run(ScriptedEngine(say=str.upper), "map_reduce.py", "ice", "fire")
    out = capsys.readouterr().out
    assert "ice: SHORTEN THIS TO ONE SENTENCE: WRITE TWO SENTENCES ABOUT ICE.\n" in out
    assert seen.shape == [(0, 0), (0, 0), (1, 1), (1, 1), (2, 2)]
    assert seen.total == ("map-reduce", 10.0, 6.0)


async def test_tree_search(capsys: pytest.CaptureFixture[str]) -> None:
    engine = ScriptedEngine(say=lambda text: "7, I think" if text.startswith("Rate") else "It rains.")
    seen = await seen_run(engine, "tree_search.py", "--depth", "2")
    assert capsys.readouterr().out == "level 0: 7, 7, 7\nlevel 1: 7, 7, 7, 7, 7, 7\n\nIt rains. It rains.\n"
    assert seen.shape == [(0, 0)] * 3 + [(1, 1)] * 3 + [(2, 3)] * 6 + [(3, 1)] * 6
    assert seen.total == ("tree-search", 36.0, 8.0)


@pytest.mark.parametrize("name", ["chat.py", "react_tools.py", "map_reduce.py", "tree_search.py"])
async def test_an_example_says_what_to_do_when_nothing_serves(name: str) -> None:
    with pytest.raises(SystemExit, match=r"nothing serves at http://127.0.0.1:1/v1 .* start it with `make serve`"):
        await run(name, "http://127.0.0.1:1/v1")


def test_examples_are_short_and_import_no_tests() -> None:
    tests = {path.stem for path in (EXAMPLES.parent / "tests").glob("*.py")}
    for path in EXAMPLES.glob("*.py"):
        text = path.read_text()
        assert text.count("\n") < 80, path
        assert not [name for name in tests if f"import {name}" in text or f"from {name}" in text], path
