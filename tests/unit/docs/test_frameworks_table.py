"""The table of frameworks in docs/client.md: its tests are there and compare what it says, at the versions that it names."""

from __future__ import annotations

import ast
import re

from doc_pages import DOCS, ROOT

PACKAGES = {
    "OpenAI": "openai",
    "Anthropic": "anthropic",
    "aiohttp": "aiohttp",
    "requests": "requests",
    "LangChain": "langchain",
    "LangGraph": "langgraph",
    "OpenAI Agents SDK": "openai-agents",
    "pydantic-ai": "pydantic-ai-slim",
    "LiteLLM": "litellm",
}


def rows() -> dict[str, str]:
    """First cell of each row → the others."""
    section = (DOCS / "client.md").read_text(encoding="utf-8").partition("\n## Frameworks\n")[2].partition("\n## ")[0]
    lines = [line.strip("| ") for line in section.splitlines() if line.startswith("| ") and not line.startswith("| |")]
    return {line.partition(" | ")[0]: line.partition(" | ")[2] for line in lines}


def compared(test: ast.AST) -> set[str]:
    """What of `seen` the test asserts to be equal to something."""
    asserts = [node.test for node in ast.walk(test) if isinstance(node, ast.Assert)]
    equal = [a.left for a in asserts if isinstance(a, ast.Compare) and isinstance(a.ops[0], ast.Eq)]
    return {ast.unparse(left) for left in equal}


def client_tests() -> dict[str, ast.AST]:
    found: dict[str, ast.AST] = {}
    for path in (ROOT / "tests" / "integration").glob("test_client_*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found[node.name] = node
    return found


def test_each_cell_names_a_test_that_compares_which_call_waits_for_which() -> None:
    tests = client_tests()
    named = [name for cells in rows().values() for name in re.findall(r"`(test_\w+)`", cells)]
    assert len(rows()) == 9
    assert len(named) >= 20
    assert [name for name in named if name not in tests] == []
    assert [name for name in named if "seen.shape" not in compared(tests[name])] == []


def test_versions_are_those_that_are_tested_with() -> None:
    pins = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "requirements").glob("*.txt"))
    pinned = dict(re.findall(r"^([\w.-]+)==(\d+\.\d+)", pins, re.MULTILINE))
    told = dict(re.findall(r"([A-Za-z][A-Za-z -]*) (\d+\.\d+)", ", ".join(rows())))
    assert told == {name: pinned[package] for name, package in PACKAGES.items()}
