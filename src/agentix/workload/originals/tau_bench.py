"""tau-bench: agents that serve a simulated customer with tools.

Format: one JSON array of `{"task_id", "trial", "reward", "traj": [message, …]}`, with messages as OpenAI's API has them,
as in the `historical_trajectories` of the project.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from agentix.workload.originals.conversation import conversation_calls
from agentix.workload.originals.source import checked, fields, read_json_list
from agentix.workload.trace import Program


def load_tau_bench(path: Path | str) -> tuple[Program, ...]:
    """One text program per task and trial; runs without an answer are left out. Raises TraceError."""
    path = Path(path)
    return checked(_programs(path), path)


def _programs(path: Path) -> Iterator[Program]:
    for index, raw in enumerate(read_json_list(path)):
        run = fields(raw, path, program_id=f"run {index}")
        program_id = f"tau-{run.count('task_id')}-{run.optional_count('trial') or 0}"
        calls = conversation_calls(fields(raw, path, program_id=program_id).messages("traj") or ())
        if calls:
            reward = raw.get("reward")
            meta = {"reward": reward} if isinstance(reward, int | float) and math.isfinite(reward) else {}
            yield Program(program_id=program_id, workload="tau_bench", calls=calls, meta=meta)
