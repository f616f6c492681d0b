"""BFCL multi-turn: what a model answered, step by step, in the Berkeley function-calling leaderboard.

Format: JSON lines, `BFCL_v3_multi_turn_*_result.json`, of `{"id", "result", "input_token_count", "output_token_count"}`.
The last three hold one list per user turn, with one entry per model call in it; only the two counts are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agentix.workload.errors import TraceError
from agentix.workload.originals.source import checked, fields, read_json_lines
from agentix.workload.trace import Call, Program


def load_bfcl(path: Path | str) -> tuple[Program, ...]:
    """One length-only program per entry; a call reuses its predecessor's prompt and answer as far as its own is longer.

    A tool follows every call but a turn's last, which the user follows. Gaps are unknown. Raises TraceError.
    """
    path = Path(path)
    return checked(_programs(path), path)


def _programs(path: Path) -> Iterator[Program]:
    for line, raw in read_json_lines(path):
        program_id = fields(raw, path, line=line).text("id")
        entry = fields(raw, path, line=line, program_id=program_id)
        prompts, outputs = entry.count_lists("input_token_count"), entry.count_lists("output_token_count")
        if [len(turn) for turn in prompts] != [len(turn) for turn in outputs]:
            raise TraceError(
                "output_token_count and input_token_count have different shapes", path=path, line=line, program_id=program_id
            )
        calls = _calls(prompts, outputs)
        if calls:
            yield Program(program_id=program_id, workload="bfcl_multi_turn", calls=calls)


def _calls(prompts: list[tuple[int, ...]], outputs: list[tuple[int, ...]]) -> tuple[Call, ...]:
    calls: list[Call] = []
    for turn, (turn_prompts, turn_outputs) in enumerate(zip(prompts, outputs, strict=True)):
        for step, (prompt_tokens, output_tokens) in enumerate(zip(turn_prompts, turn_outputs, strict=True)):
            before = calls[-1] if calls else None
            reused = 0 if before is None else min(prompt_tokens, before.prompt_tokens + before.output_tokens)
            calls.append(
                Call(
                    call_id=f"c{len(calls)}",
                    parents=() if before is None else (before.call_id,),
                    prompt_tokens=prompt_tokens,
                    output_tokens=output_tokens,
                    reused_tokens=reused,
                    new_tokens=prompt_tokens - reused,
                    after="tool" if step < len(turn_prompts) - 1 else "human" if turn < len(prompts) - 1 else "end",
                    step=turn,
                )
            )
    return tuple(calls)
