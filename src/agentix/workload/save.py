"""Writing trace files: what `load` reads back as equal programs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from agentix.workload.trace import Call, Program

_ALWAYS = frozenset({"call_id", "parents", "prompt_tokens", "output_tokens"})


def save_programs(path: Path | str, programs: Iterable[Program]) -> None:
    """Write one JSON object per program per line; a name that ends in `.gz` is compressed.

    Fields at their default are left out. Equal programs give equal bytes (no time stamp in the gzip header).
    """
    text = "".join(program_json(program) + "\n" for program in programs).encode("utf-8")
    path = Path(path)
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def program_json(program: Program) -> str:
    """The program as one line of a trace file, without the line break."""
    raw: dict[str, Any] = {"program_id": program.program_id, "workload": program.workload}
    optional = {"meta": program.meta, "arrival_s": program.arrival_s, "block_size": program.block_size}
    raw |= {key: value for key, value in optional.items() if value is not None and value != {}}
    raw["calls"] = [_call(call) for call in program.calls]
    return json.dumps(raw, allow_nan=False)


def _call(call: Call) -> dict[str, Any]:
    values = {field.name: (getattr(call, field.name), field.default) for field in fields(call)}
    return {name: value for name, (value, default) in values.items() if name in _ALWAYS or value != default}
