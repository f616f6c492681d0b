"""Mooncake: requests to a production chat service.

Format: JSON lines of `{"timestamp": milliseconds, "input_length", "output_length", "hash_ids": [block, …]}`, with blocks
of 512 tokens; equal ids mean equal prefixes, in other requests too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agentix.workload.errors import TraceError
from agentix.workload.originals.source import checked, fields, read_json_lines
from agentix.workload.trace import Call, Program

BLOCK_SIZE = 512


def load_mooncake(path: Path | str, *, workload: str = "mooncake") -> tuple[Program, ...]:
    """One program of one call per request: the file does not say which requests form a session. Raises TraceError.

    Block ids count per file, so files that are used together need different names of `workload`.
    """
    path = Path(path)
    return checked(_programs(path, workload), path)


def _programs(path: Path, workload: str) -> Iterator[Program]:
    for index, (line, raw) in enumerate(read_json_lines(path)):
        request = fields(raw, path, line=line)
        timestamp_ms = request.seconds("timestamp")  # checked as any finite number ≥ 0
        if timestamp_ms is None:
            raise TraceError("timestamp is missing", path=path, line=line)
        call = Call(
            call_id="c0",
            parents=(),
            prompt_tokens=request.count("input_length"),
            output_tokens=request.count("output_length"),
            prefix_hash_ids=request.counts("hash_ids"),
        )
        yield Program(
            program_id=f"{workload}-{index}",
            workload=workload,
            calls=(call,),
            arrival_s=timestamp_ms / 1000,
            block_size=BLOCK_SIZE,
        )
