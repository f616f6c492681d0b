"""Recorded conversations with their ids stripped: whose calls are whose? Skipped without AGENTIX_TRACE_DIR."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentix.workload import load_programs
from benchmarks.lineage import CONVERSATIONS, TREE_SEARCH, play

TRACE_DIR = os.environ.get("AGENTIX_TRACE_DIR")
pytestmark = pytest.mark.skipif(TRACE_DIR is None, reason="AGENTIX_TRACE_DIR is not set")


@pytest.mark.parametrize("name", CONVERSATIONS.values())
def test_calls_of_interleaved_conversations_land_in_their_programs(name: str) -> None:
    programs = load_programs(Path(TRACE_DIR or "") / f"{name}.jsonl.gz")[:150]
    outcome = play(programs, num_live=64)
    assert outcome.right_share >= 0.95
    assert outcome.crossed == 0


@pytest.mark.parametrize("name", TREE_SEARCH.values())
def test_tree_search_shares_no_history_and_so_stays_apart(name: str) -> None:
    programs = load_programs(Path(TRACE_DIR or "") / f"{name}.jsonl.gz")[:5]
    outcome = play(programs, num_live=64)
    assert outcome.joined == outcome.crossed == 0, "what cannot be told is not guessed"
