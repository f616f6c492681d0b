"""The results file: a JSON object a line, written as jobs end; what a batch goes on from after an interruption."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any

from agentix.offline.errors import OfflineError


class Status(StrEnum):
    """How a job came out. `not_needed`: enough others of its group had ended well."""

    OK = "ok"
    FAILED = "failed"
    NOT_NEEDED = "not_needed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A line of the file. `value` is what the job returned, `duration_s` all its attempts together, waits between them too.

    `program_id` is that of its last attempt, "" if it never started.
    """

    job_id: str
    status: Status
    group: str | None = None
    program_id: str = ""
    attempts: int = 0
    duration_s: float = 0.0
    value: Any = None
    error: str | None = None

    def line(self) -> str:
        """As it stands in the file. Raises TypeError or ValueError if the value is not JSON."""
        return json.dumps(asdict(self), allow_nan=False)


class ResultsFile:
    """Open for appending. `done` holds the jobs that need not run again: they ended well, or were not needed.

    A line that an interruption cut short is cut off. Of several lines about one job the last counts. Raises OfflineError
    for a file that is no results file; it is not touched then.
    """

    def __init__(self, path: Path) -> None:
        self.done: dict[str, Result] = {}
        try:
            self._file = path.open("a+b")
        except OSError as error:
            raise OfflineError(f"{path}: {error.strerror}") from error
        try:
            self._read(path)
        except BaseException:
            self._file.close()
            raise

    def _read(self, path: Path) -> None:
        self._file.seek(0)
        whole = 0  # bytes
        for number, line in enumerate(self._file, start=1):
            if not line.endswith(b"\n"):
                break
            result = _parse(line, path, number)
            self.done.pop(result.job_id, None)
            if result.status is not Status.FAILED:
                self.done[result.job_id] = result
            whole += len(line)
        self._file.truncate(whole)

    def write(self, result: Result) -> None:
        """Append a line; it is on the disk when this returns. Raises as `Result.line` does, and writes nothing then."""
        self._file.write(result.line().encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> ResultsFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()


def _parse(line: bytes, path: Path, number: int) -> Result:
    try:
        fields = json.loads(line)
        return Result(**{**fields, "status": Status(fields["status"])})
    except (ValueError, TypeError, KeyError) as error:
        raise OfflineError(f"{path}, line {number}: not a line of a results file ({error})") from error
