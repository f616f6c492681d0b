"""A log of JSON lines that the engine outlives."""

from __future__ import annotations

import logging
from pathlib import Path


class LineLog:
    """Appends lines to a file, each on disk at once; without a path every call does nothing.

    The engine goes on without a log that cannot be written (disk full): the first failure is reported and ends the log.
    """

    def __init__(self, path: str | None, what: str, logger: logging.Logger) -> None:
        self._what = what
        self._logger = logger
        self._file = Path(path).open("a", buffering=1, encoding="utf-8") if path else None  # noqa: SIM115  (engine's lifetime)

    @property
    def is_open(self) -> bool:
        """Whether a line would be written: ask before making an expensive one."""
        return self._file is not None

    def write(self, line: str) -> None:
        """One line more."""
        if self._file is None:
            return
        try:
            self._file.write(line + "\n")
        except OSError as error:
            self._logger.error("agentix: the %s ends here: %s", self._what, error)
            self._file = None

    def close(self) -> None:
        """Write no more."""
        if self._file is not None:
            self._file.close()
            self._file = None
