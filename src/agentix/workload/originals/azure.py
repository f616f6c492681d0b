"""Azure: requests to two production LLM services, lengths and times only.

Format: CSV with the header `TIMESTAMP,ContextTokens,GeneratedTokens` and times such as `2023-11-16 18:15:46.6805900`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from agentix.workload.errors import TraceError
from agentix.workload.originals.source import checked, read_text
from agentix.workload.trace import Call, Program

_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def load_azure(path: Path | str, *, workload: str = "azure") -> tuple[Program, ...]:
    """One program of one call per row, in file order; the earliest arrives at 0. Raises TraceError."""
    path = Path(path)
    rows = list(_rows(path))
    first = min((time for time, _, _ in rows), default=None)
    return checked(
        (
            Program(
                program_id=f"{workload}-{index}",
                workload=workload,
                calls=(Call(call_id="c0", parents=(), prompt_tokens=prompt_tokens, output_tokens=output_tokens),),
                arrival_s=(time - first).total_seconds() if first is not None else None,
            )
            for index, (time, prompt_tokens, output_tokens) in enumerate(rows)
        ),
        path,
    )


def _rows(path: Path) -> Iterator[tuple[datetime, int, int]]:
    reader = csv.DictReader(read_text(path).splitlines())
    missing = [column for column in _COLUMNS if column not in (reader.fieldnames or ())]
    if missing:
        raise TraceError(f"no column {', '.join(missing)}", path=path, line=1)
    for line, row in _read(reader, path):
        yield (
            _time(row["TIMESTAMP"], path, line),
            _count(row, "ContextTokens", path, line),
            _count(row, "GeneratedTokens", path, line),
        )


def _read(reader: csv.DictReader[str], path: Path) -> Iterator[tuple[int, dict[str, str | None]]]:
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise TraceError(f"bad CSV: {error}", path=path, line=reader.line_num) from error


def _time(text: str | None, path: Path, line: int) -> datetime:
    """A time; one without a zone counts as UTC."""
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError as error:
        raise TraceError(f"TIMESTAMP: {error}", path=path, line=line) from error
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _count(row: dict[str, str | None], column: str, path: Path, line: int) -> int:
    text = (row[column] or "").strip()
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise TraceError(f"{column} must be a whole number ≥ 0, not {text!r}", path=path, line=line)
    return int(text)
