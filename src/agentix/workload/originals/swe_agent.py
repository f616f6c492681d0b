"""SWE-agent: one coding agent's run at one issue.

Format: a `.traj` file, one JSON object with `history` (messages with role and content, maybe `tool_calls`, `agent`,
`is_demo`) and `trajectory` (one entry per step, in newer versions with `execution_time` in seconds).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentix.workload.errors import TraceError
from agentix.workload.originals.conversation import conversation_calls
from agentix.workload.originals.source import checked, fields, read_json
from agentix.workload.trace import Program


def load_swe_agent(path: Path | str) -> tuple[Program, ...]:
    """The one program of a `.traj` file, named after it. Raises TraceError.

    The tool gap after a call is its step's `execution_time`, if there are as many steps as answers. The history is taken
    as it stands: where the agent shortened old observations before a call, the file does not say what was sent.
    """
    path = Path(path)
    raw = read_json(path)
    program_id = path.stem
    run = fields(raw, path, program_id=program_id)
    calls = conversation_calls(run.messages("history") or ())
    if not calls:
        raise TraceError("history has no answer of the model", path=path, program_id=program_id)
    steps = run.optional_items("trajectory")
    if len(steps) == len(calls):
        gaps = [_execution_time(step, path, program_id) for step in steps]
        calls = conversation_calls(run.messages("history") or (), gaps_s=[*gaps[:-1], None])
    return checked([Program(program_id=program_id, workload="swe_agent", calls=calls)], path)


def _execution_time(step: Any, path: Path, program_id: str) -> float | None:
    return fields(step, path, program_id=program_id).seconds("execution_time")
