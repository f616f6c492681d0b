"""The page of configuration names every setting and every environment variable that the code reads."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

from agentix.core import SchedulerConfig
from doc_pages import DOCS, ROOT

PAGE = (DOCS / "config.md").read_text()


def variables(places: Iterable[Path]) -> set[str]:
    """Names of ours that stand in code as variables do."""
    return {name for path in places for name in re.findall(r"[\"'$(]\{?(AGENTIX_[A-Z_]+)", path.read_text())}


def test_every_environment_variable_of_ours_is_there() -> None:
    read = variables([*(ROOT / "src").rglob("*.py"), *(ROOT / "scripts").iterdir()])
    assert {name for name in read if name not in PAGE and "AGENTIX_ENGINE_KEY" not in name} == set()
    assert set(re.findall(r"`(AGENTIX_[A-Z_]+)`", PAGE)) <= read | variables((ROOT / "tests").rglob("*.py"))


def test_every_setting_of_the_scheduler_is_there() -> None:
    rows = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    assert {field.name for field in fields(SchedulerConfig)} <= rows
