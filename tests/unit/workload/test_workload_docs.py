"""The example in the documentation is a trace."""

from __future__ import annotations

import json
import re
from pathlib import Path

from agentix.workload import full_messages, load_programs, thread_ids

DOCS = Path(__file__).parents[3] / "docs" / "workloads.md"


def test_the_example_loads_and_means_what_it_says(tmp_path: Path) -> None:
    example = re.search(r"```json\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert example is not None
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps(json.loads(example[1])) + "\n")
    (program,) = load_programs(path)
    assert [m["content"] for m in full_messages(program, program.call("answer"))] == [
        "Who wrote Dune, and when?",
        "I will look up the author and the year.",
        "Search: Dune author",
        "Frank Herbert.",
        "Year: 1965. Answer.",
    ]
    assert thread_ids(program) == {"plan": "t0", "who": "t0", "when": "t1", "answer": "t0"}
