"""The core decides and does nothing else: standard library only, no clock, no chance, no I/O."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import agentix.core

CORE = Path(agentix.core.__file__).parent
FILES = sorted(CORE.rglob("*.py"))
FORBIDDEN = {
    *("time", "datetime", "random", "secrets", "uuid"),  # clock and chance are handed in
    *("os", "io", "pathlib", "socket", "http", "urllib", "subprocess", "logging"),  # no I/O
    *("asyncio", "threading", "multiprocessing", "concurrent"),  # the shell owns concurrency
}


def imports(source: str) -> Iterator[str]:
    """Every module that the source imports, anywhere in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def builtin_calls(source: str) -> set[str]:
    calls = (node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return {func.id for func in calls if isinstance(func, ast.Name)}


def allowed(module: str) -> bool:
    root = module.partition(".")[0]
    return f"{module}.".startswith("agentix.core.") or (root in sys.stdlib_module_names and root not in FORBIDDEN)


def test_the_walk_sees_the_core_and_every_form_of_import() -> None:
    assert {"scheduler.py", "plas.py", "least_used.py"} <= {path.name for path in FILES}
    source = "import a.b\nfrom c import d\ndef f():\n    from . import e\n    import time"
    assert sorted(imports(source)) == [".", "a.b", "c", "time"]
    assert not any(allowed(module) for module in (".", "numpy", "time", "os.path", "agentix.gateway", "agentix.corex"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CORE)))
def test_a_core_module_imports_the_core_and_the_pure_part_of_the_standard_library(path: Path) -> None:
    assert [module for module in imports(path.read_text(encoding="utf-8")) if not allowed(module)] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CORE)))
def test_a_core_module_neither_reads_nor_prints(path: Path) -> None:
    calls = builtin_calls(path.read_text(encoding="utf-8"))
    assert calls & {"open", "print", "input", "exec", "eval", "__import__"} == set()
