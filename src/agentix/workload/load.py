"""Trace files: `*.jsonl.gz`, or plain `.jsonl`."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from agentix.workload.errors import TraceError
from agentix.workload.parse import Place, parse_program
from agentix.workload.trace import Program


def load_programs(path: Path | str) -> tuple[Program, ...]:
    """Every program of a trace file, in file order; blank lines are skipped.

    All or nothing: the first thing that is wrong raises a TraceError with file, line and program.
    """
    path = Path(path)
    programs: list[Program] = []
    first_line: dict[str, int] = {}
    for number, text in _lines(path):
        place = Place(path, number)
        program = parse_program(text, place)
        if program.program_id in first_line:
            place.fail(f"program id was used in line {first_line[program.program_id]}", program_id=program.program_id)
        first_line[program.program_id] = number
        programs.append(program)
    return tuple(programs)


def line_of(path: Path | str, program_id: str) -> int | None:
    """The line where a program of a readable trace file stands, for errors that are found later; None if it is not there."""
    for number, text in _lines(Path(path)):
        if parse_program(text, Place(Path(path), number)).program_id == program_id:
            return number
    return None


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Non-blank lines with their numbers, from 1. Raises TraceError for what is not readable text."""
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line.decode("utf-8")
    except gzip.BadGzipFile as error:
        raise TraceError(f"not a gzip file: {error}", path=path) from error
    except (EOFError, zlib.error) as error:
        raise TraceError(f"gzip data is broken or cut short: {error}", path=path, line=number + 1) from error
    except UnicodeDecodeError as error:
        raise TraceError(f"not UTF-8 text: {error}", path=path, line=number) from error
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror or error}", path=path) from error
