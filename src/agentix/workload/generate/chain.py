"""A program that is one growing conversation: every prompt is the one before, its answer, and something new."""

from __future__ import annotations

from agentix.workload.parts import Part, answer_name
from agentix.workload.trace import Call, Program


class Chain:
    """Builds a single-threaded program call by call; ids are c0, c1, …"""

    def __init__(self, program_id: str, workload: str) -> None:
        self._program_id = program_id
        self._workload = workload
        self._calls: list[Call] = []
        self._history: list[Part] = []

    def append(self, *new: Part, output_tokens: int, after: str, gap_s: float | None, kind: str | None = None) -> None:
        """One more call, which adds the segments `new` to the conversation. `gap_s` passes before the next one."""
        index = len(self._calls)
        call_id = f"c{index}"
        self._history += new
        self._calls.append(
            Call(
                call_id=call_id,
                parents=(f"c{index - 1}",) if index else (),
                prompt_tokens=sum(tokens for _, tokens in self._history),
                output_tokens=output_tokens,
                prompt_parts=tuple(self._history),
                tool_gap_s=gap_s,
                after=after,
                kind=kind,
            )
        )
        self._history.append((answer_name(self._program_id, call_id), output_tokens))

    def part(self, name: str, tokens: int) -> Part:
        """A segment of this program alone; the number of the next call makes the name unique."""
        return f"{self._program_id}/c{len(self._calls)}:{name}", tokens

    def program(self) -> Program:
        """The program so far."""
        return Program(program_id=self._program_id, workload=self._workload, calls=tuple(self._calls))
