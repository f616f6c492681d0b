"""Small traces."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def write_trace(tmp_path: Path) -> Callable[..., Path]:
    """Writes programs of one kind: a chain of calls with the given output lengths each."""

    def write(kind: str, *lengths: tuple[int, ...], prompt_tokens: int = 10, text: bool = True) -> Path:
        path = tmp_path / f"{kind}.jsonl"
        messages: dict[str, Any] = {"messages": [{"role": "user", "content": kind}]} if text else {}
        programs = [
            {
                "program_id": f"{kind}-{number}",
                "workload": kind,
                "calls": [
                    {
                        "call_id": f"c{index}",
                        "parents": [f"c{index - 1}"] if index else [],
                        "prompt_tokens": prompt_tokens,
                        "output_tokens": num_tokens,
                        **messages,
                    }
                    for index, num_tokens in enumerate(of_calls)
                ],
            }
            for number, of_calls in enumerate(lengths)
        ]
        path.write_text("".join(json.dumps(program) + "\n" for program in programs))
        return path

    return write
