"""Result files to a report: which command made each, what arms there are, and whether they can be told apart."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentix.ab.report import SCHEMA as AB
from agentix.ab.store import CASE
from agentix.bench.result import SCHEMA as BENCH
from agentix.report.ab_runs import read_ab
from agentix.report.bench_runs import read_bench
from agentix.report.model import Report, ReportError, Run, Source
from agentix.report.sim_runs import read_simulation
from agentix.sim.report import SCHEMA as SIMULATION


def read_report(arguments: Sequence[str]) -> Report:
    """The report of files, each named `FILE` or `LABEL=FILE`. Raises ReportError.

    A benchmark's arm is its label, or the name of its file; runs that were repeated under one label are one arm. In front of
    arms and policies, which have names of their own, a label is put if it is given.
    """
    if not arguments:
        raise ReportError("name at least one result file")
    sources = [_source(*_labelled(argument)) for argument in arguments]
    return Report(sources=tuple(_numbered(sources)))


def _labelled(argument: str) -> tuple[str | None, Path]:
    label, equals, file = argument.partition("=")
    if not equals or Path(argument).exists():
        return None, Path(argument)
    if not label.strip():
        raise ReportError(f"{argument!r}: a label must not be empty; write LABEL=FILE")
    return label.strip(), Path(file)


def _source(label: str | None, path: Path) -> Source:
    document = _read_file(path)
    schema = document.get("schema")
    try:
        if schema == BENCH:
            arm = document.get(CASE, {}).get("arm", {}).get("name") or path.name.split(".json")[0]
            return read_bench(document, name=path.name, label=label or arm)
        if schema == AB:
            return read_ab(document, path=path, label=label, read_file=_read_file)
        if schema == SIMULATION:
            return read_simulation(document, name=path.name, label=label)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ReportError(f"{path}: not a whole result of schema {schema!r}: {why}") from error
    raise ReportError(f"{path}: not a result of {BENCH}, {AB} or {SIMULATION}: its schema is {schema!r}")


def _read_file(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
        document = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except OSError as error:
        raise ReportError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, EOFError, zlib.error, RecursionError) as error:
        raise ReportError(f"{path} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise ReportError(f"{path} is not a result: a JSON object is expected")
    return document


def _numbered(sources: Iterable[Source]) -> Iterable[Source]:
    """Sources whose runs all differ: repeats of a benchmark with one seed get a number. Others with equal names are refused."""
    seen: set[tuple[str, str, str]] = set()
    for source in sources:
        runs: list[Run] = []
        for run in source.runs:
            again = run
            n = 1
            while again.key in seen:
                if source.kind != "agentix bench":
                    arm, point, repeat = run.key
                    problem = f"there are two results of {arm!r} at {point}, {repeat}"
                    raise ReportError(f"{source.name}: {problem}; tell them apart with LABEL=FILE")
                n += 1
                again = replace(run, repeat=f"{run.repeat} #{n}")
            seen.add(again.key)
            runs.append(again)
        yield replace(source, runs=tuple(runs))
