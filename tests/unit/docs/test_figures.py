"""The figures of the concepts page are what the simulator draws now."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentix.cli import app
from doc_commands import commands
from doc_pages import DOCS, Block, blocks

FIGURES = [block for block in blocks("sh") if block.page == DOCS / "concepts.md"]


@pytest.mark.parametrize("block", FIGURES, ids=str)
def test_a_figure_is_what_its_command_draws(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw them anew with `make docs`."""
    monkeypatch.chdir(tmp_path)
    [words] = commands(block.text)
    assert CliRunner().invoke(app, [*words[1:], "--jobs", "1"]).exit_code == 0
    name = words[-1]
    assert (tmp_path / name).read_text() == (DOCS / "images" / name).read_text()
    assert f"(images/{name})" in block.page.read_text()


def test_there_are_both() -> None:
    assert len(FIGURES) == 2
