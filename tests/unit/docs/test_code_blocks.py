"""Code in the docs: commands exist and take what they are given, Python compiles and its imports exist, data parses."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from typer.testing import CliRunner

from agentix.cli import app
from agentix.core.balancers import BALANCERS
from agentix.core.policies import POLICIES
from agentix.core.registry import Registry
from doc_commands import command_line, commands, options, parse, subcommands
from doc_pages import ROOT, Block, blocks, code_spans, pages, shown

SHELL = ("sh", "bash", "shell")
DATA: dict[str, Callable[[str], Any]] = {
    "json": json.loads,
    "jsonl": lambda text: [json.loads(line) for line in text.splitlines()],
    "toml": tomllib.loads,
    "yaml": lambda text: list(yaml.safe_load_all(text)),
}
NAMED: dict[str, Registry[Any]] = {"policy": POLICIES, "balancer": BALANCERS}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def unknown_names(values: dict[str, Any]) -> Iterable[str]:
    """Policies and balancers that do not exist; those by dotted path are the reader's own."""
    for option, registry in NAMED.items():
        for name in str(values.get(option) or "").split(","):
            if name and ":" not in name and name.partition("+")[0] not in registry.names:
                yield name


def wrong(words: list[str]) -> str | None:
    """What is wrong with a command, as far as it is one of ours."""
    match words:
        case ["agentix", *rest]:
            parsed = parse(rest)
            return parsed.problem or next((f"unknown: {name}" for name in unknown_names(parsed.values)), None)
        case ["make", *rest]:
            goals = [word for word in rest if "=" not in word and not word.startswith("-")]
            return next((f"make has no {goal}" for goal in goals if goal not in TARGETS), None)
        case ["pip", "install", *rest]:
            named = [extra for word in rest if (found := re.search(r"agentix\[(.+)\]", word)) for extra in found[1].split(",")]
            return next((f"no extra {extra}" for extra in named if extra not in EXTRAS), None)
        case ["python" | ".venv/bin/python", "-m", module, *_] if module.partition(".")[0] in {"agentix", "benchmarks"}:
            return None if importlib.util.find_spec(module) else f"no module {module}"
    return None


@pytest.mark.parametrize("block", blocks(*SHELL), ids=str)
def test_commands_are_as_the_command_line_takes_them(block: Block) -> None:
    assert [(words, why) for words in commands(block.text) if (why := wrong(words))] == []


@pytest.mark.parametrize("page", pages(), ids=shown)
def test_commands_within_text_have_the_options_that_they_are_given(page: Path) -> None:
    """In backticks they are often cut short, so only their names are checked."""
    known = subcommands_of_all()
    for span in code_spans(page):
        words = span.split()
        if words[0] == "agentix" and len(words) > 1 and words[1][0] not in "…[-":
            name = " ".join(words[1:3]) if " ".join(words[1:3]) in known else words[1]
            assert name in known or any(other.startswith(f"{name} ") for other in known), span
            ours = words[: words.index("--")] if "--" in words else words
            given = {word.partition("=")[0] for word in ours if word.startswith("--")}
            assert given <= known.get(name, given), span
        elif words[0] == "make" and len(words) == 2:
            assert words[1] in TARGETS, span


def subcommands_of_all() -> dict[str, set[str]]:
    """The options of each command, by its words."""
    return {name: options(command) for name, command in subcommands(command_line()).items()}


@pytest.mark.parametrize("block", blocks(*DATA), ids=str)
def test_data_parses(block: Block) -> None:
    assert DATA[block.language](block.text)


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_compiles_and_what_it_imports_exists(block: Block) -> None:
    for node in ast.walk(ast.parse(block.text)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else names
        for module in modules:
            package = module.partition(".")[0]
            assert importlib.util.find_spec(package), f"{package} is not installed"
            if isinstance(node, ast.ImportFrom) and (package == "agentix" or package in sys.stdlib_module_names):
                missing = [name for name in names if not hasattr(importlib.import_module(module), name)]
                assert missing == []


def runnable() -> list[tuple[str, list[str]]]:
    """Simulations that need no file of the reader's: where they stand, and their words after `agentix`."""
    found = [(str(block), words[1:]) for block in blocks(*SHELL) for words in commands(block.text) if words[0] == "agentix"]
    files = [(place, words) for place, words in found if words[0] == "simulate"]
    return [(place, words) for place, words in files if not any(re.search(r"\.jsonl|\.json\b.*--cost|card", w) for w in words)]


@pytest.mark.parametrize(("place", "words"), runnable(), ids=lambda value: value if isinstance(value, str) else "")
def test_simulations_run(place: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they stand, beside the files that their page shows, with fewer programs."""
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, ROOT / place.partition(":")[0])
    monkeypatch.syspath_prepend(tmp_path)
    fewer = [] if "--scenario" in words else ["--programs", "2", "--seed", "0"]
    done = CliRunner().invoke(app, [*words, *fewer, "--jobs", "1"])
    assert done.exit_code == 0, done.output
    files = [word for word in words if word.endswith((".svg", ".json"))]
    assert all((tmp_path / name).stat().st_size for name in files)


def write_files(folder: Path, page: Path) -> None:
    """What the page shows as a file: Python whose first line is its name."""
    for block in blocks("python"):
        if block.page == page and (name := re.match(r"# (\w+\.py)\n", block.text)):
            (folder / name[1]).write_text(block.text)


def test_the_policy_of_the_docs_can_be_simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path, ROOT / "docs" / "policies.md")
    monkeypatch.syspath_prepend(tmp_path)
    options = ["--workload", "chat", "--programs", "2", "--jobs", "1", "--policy", "my_policy:FewestCallsFirst"]
    done = CliRunner().invoke(app, ["simulate", *options])
    assert done.exit_code == 0, done.output


def test_a_shell_block_falls_into_its_commands() -> None:
    text = (
        "A=1 B='x y' agentix serve MODEL -- --max-num-seqs 4  # it's a comment\n"
        "agentix key acme >> tenants.toml && taskset -c 1 agentix top --once --json | jq '.a | .b'\n"
        "KEY=$(openssl rand -hex 32) agentix bench --workload a.jsonl \\\n    --rate 1\n\n# alone\n"
        "curl -d '{\n}' http://127.0.0.1:8080/v1/programs?limit=1\n"
    )
    assert list(commands(text)) == [
        ["agentix", "serve", "MODEL", "--", "--max-num-seqs", "4"],
        ["agentix", "key", "acme"],
        ["agentix", "top", "--once", "--json"],
        ["jq", ".a | .b"],
        ["agentix", "bench", "--workload", "a.jsonl", "--rate", "1"],
        ["curl", "-d", "{\n}", "http://127.0.0.1:8080/v1/programs?limit=1"],
    ]
    with pytest.raises(ValueError, match="not closed"):
        list(commands("echo 'a\n"))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("agentix simulate --polcy fcfs", "--polcy"),
        ("agentix simulte", "simulte"),
        ("agentix serve --port x", "--port"),
        ("agentix engines add gpu-4", "URL"),
        ("agentix simulate --policy fcfs,palas", "unknown: palas"),
        ("agentix simulate --balancer nearest", "unknown: nearest"),
        ("make sere", "make has no sere"),
        ("pip install agentix[gatway]", "no extra gatway"),
        ("python -m benchmarks.nothing", "no module"),
    ],
)
def test_what_is_wrong_is_found(words: str, why: str) -> None:
    assert why in (wrong(words.split()) or "")


@pytest.mark.parametrize(
    "words", ["agentix engines list", "agentix simulate --policy my:Own,fcfs", "make serve PORT=1", "ls -l"]
)
def test_what_is_right_is_let_through(words: str) -> None:
    assert wrong(words.split()) is None
