"""Real traces, where they are at hand: their segments give the prefix reuse that was measured on their tokens."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentix.workload import load_programs, program_parts
from prefix_reuse import prefix_reuse

TRACE_DIR = os.environ.get("AGENTIX_TRACE_DIR")
pytestmark = pytest.mark.skipif(TRACE_DIR is None, reason="AGENTIX_TRACE_DIR is not set")

# share of prompt tokens that an earlier call of the same program begins with
REUSE = {
    "sharegpt_lengths": 0.98,
    "mtbench101_chat": 0.78,
    "tau_bench_airline": 0.92,
    "bfcl_multi_turn_oracle": 0.89,
    "react_hotpotqa_fireact": 0.77,
    "coding_swe_agent_text": 0.93,
    "coding_swe_agent_lengths": 0.73,
    "tot_game24": 0.93,
    "tot_game24_nocache": 0.96,
    "lats_real_logs": 0.92,
    "mooncake_conversation": 0.32,
}


@pytest.mark.parametrize("name", REUSE)
def test_prefix_reuse_within_programs_is_that_of_the_tokens(name: str) -> None:
    programs = load_programs(Path(TRACE_DIR or "") / f"{name}.jsonl.gz")
    assert prefix_reuse(programs) == pytest.approx(REUSE[name], abs=0.03)


@pytest.mark.parametrize("name", [*REUSE, "azure2023_arrivals"])
def test_parts_of_real_prompts_add_up(name: str) -> None:
    for program in load_programs(Path(TRACE_DIR or "") / f"{name}.jsonl.gz")[:100]:
        parts = program_parts(program)
        for call in program.calls:
            assert sum(tokens for _, tokens in parts[call.call_id].prompt) == call.prompt_tokens
