"""Reading the files in which others published their traces. Whatever is wrong is a TraceError with file and place."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from agentix.workload.check import check_program
from agentix.workload.errors import TraceError
from agentix.workload.fields import Fields
from agentix.workload.trace import Program


def read_text(path: Path) -> str:
    """The file's text. Raises TraceError if it cannot be read or is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror or error}", path=path) from error
    except UnicodeDecodeError as error:
        raise TraceError(f"not UTF-8 text: {error}", path=path) from error


def read_json(path: Path) -> Any:
    """The one JSON value that the file holds."""
    return _parsed(read_text(path), path, line=None)


def read_json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Line numbers, from 1, and the JSON values on them; blank lines are skipped."""
    for number, text in enumerate(read_text(path).split("\n"), start=1):
        if text.strip():
            yield number, _parsed(text, path, number)


def read_json_list(path: Path) -> list[Any]:
    """The items of a file that is one JSON array."""
    raw = read_json(path)
    if not isinstance(raw, list):
        raise TraceError("a JSON array is expected", path=path)
    return raw


def fields(raw: Any, path: Path, *, line: int | None = None, program_id: str | None = None) -> Fields:
    """Typed access to a JSON object; a problem names file, line and program."""

    def fail(problem: str) -> NoReturn:
        raise TraceError(problem, path=path, line=line, program_id=program_id)

    return Fields(raw, fail=fail)


def checked(programs: Iterable[Program], path: Path) -> tuple[Program, ...]:
    """All programs, after the checks that every loaded program passes. Raises TraceError."""
    kept = tuple(programs)
    seen: set[str] = set()
    for program in kept:
        if program.program_id in seen:
            raise TraceError("program id is used twice", path=path, program_id=program.program_id)
        seen.add(program.program_id)
        check_program(program, path=path)
    return kept


def _parsed(text: str, path: Path, line: int | None) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"bad JSON: {error}", path=path, line=line) from error
