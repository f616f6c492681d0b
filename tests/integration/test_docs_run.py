"""Python in the docs that talks to a gateway runs as it stands, against the real gateway and a fake engine."""

from __future__ import annotations

import ast
import asyncio
import os
import sys
from pathlib import Path

import pytest

from doc_pages import Block, blocks
from fake_engine import FakeEngine
from gateway_system import gateway

GATEWAY = "http://127.0.0.1:8080"
PAGES = {"README.md", "client.md", "offline.md", "quick-start.md", "agent-developer.md"}


def whole(block: Block) -> bool:
    """Whether it begins with what it imports, so that it can be run by itself."""
    return isinstance(ast.parse(block.text).body[0], ast.Import | ast.ImportFrom)


BLOCKS = [block for block in blocks("python") if block.page.name in PAGES and GATEWAY in block.text and whole(block)]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
async def test_it_runs(block: Block, tmp_path: Path) -> None:
    engine = FakeEngine()
    async with gateway(engine) as system:
        await system.models_known()
        text = block.text.replace(GATEWAY, system.url).replace("smollm2-135m", "fake")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            text,
            cwd=tmp_path,
            env={**os.environ, "NO_PROXY": "127.0.0.1"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        assert process.returncode == 0, output.decode()
        assert bool(engine.requests) is (".create(" in text)


def test_the_pages_that_developers_copy_from_have_such_code() -> None:
    assert {block.page.name for block in BLOCKS} >= {"README.md", "client.md", "offline.md", "agent-developer.md"}
