"""The collection of real traces, where it is at hand: every file loads, with the counts its table gives."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentix.workload import full_messages, load_programs, thread_ids

TRACE_DIR = os.environ.get("AGENTIX_TRACE_DIR")
pytestmark = pytest.mark.skipif(TRACE_DIR is None, reason="AGENTIX_TRACE_DIR is not set")

# name: programs, mean and maximum of calls per program, maximum of prompt tokens, has text
TABLE = {
    "sharegpt_lengths": (3000, 6.71, 219, 162_000, False),
    "mtbench101_chat": (1388, 3.03, 7, 783, True),
    "tau_bench_airline": (200, 12.3, 30, 12_400, True),
    "bfcl_multi_turn_oracle": (800, 9.95, 37, 50_000, True),
    "react_hotpotqa_fireact": (500, 3.56, 10, 1219, True),
    "coding_swe_agent_text": (37, 13.3, 44, 53_000, True),
    "coding_swe_agent_lengths": (350, 17.0, 59, 129_000, False),
    "tot_game24": (100, 104, 277, 496, True),
    "tot_game24_nocache": (100, 227, 340, 496, True),
    "lats_real_logs": (3, 38.7, 44, 2009, True),
    "mooncake_conversation": (8056, 1.49, 43, 126_000, False),
    "azure2023_arrivals": (28185, 1, 1, 14_000, False),
}


@pytest.mark.parametrize("name", TABLE)
def test_file_loads_with_the_counts_of_its_table(name: str) -> None:
    num_programs, mean_calls, max_calls, max_prompt, has_text = TABLE[name]
    programs = load_programs(Path(TRACE_DIR or "") / f"{name}.jsonl.gz")
    num_calls = [len(program.calls) for program in programs]
    assert len(programs) == num_programs
    assert sum(num_calls) / num_programs == pytest.approx(mean_calls, rel=0.005)
    assert max(num_calls) == max_calls
    assert max(call.prompt_tokens for program in programs for call in program.calls) == pytest.approx(max_prompt, rel=0.01)
    assert all(program.has_text is has_text for program in programs)


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row[-1]])
def test_every_call_of_a_text_trace_has_a_conversation(name: str) -> None:
    for program in load_programs(Path(TRACE_DIR or "") / f"{name}.jsonl.gz"):
        assert set(thread_ids(program)) == {call.call_id for call in program.calls}
        for call in program.calls:
            assert full_messages(program, call)[0]["role"] in {"system", "user"}
