"""The folder of results: a file per run, which the benchmark's readers understand, and a summary of all."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentix.core.errors import ConfigError

SUMMARY = "summary.json"
CASE = "ab"
"""Key of a run's file under which its configuration stands, beside what `agentix bench` writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Results in `folder`. With `resume` those that are there count as done, else there must be none. Raises ConfigError."""

    folder: Path
    resume: bool

    def __post_init__(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot create the folder {self.folder}: {error.strerror}") from None
        if not os.access(self.folder, os.W_OK):
            raise ConfigError(f"cannot write to {self.folder}")
        if not self.resume and (any(self.folder.glob("*.json.gz")) or (self.folder / SUMMARY).exists()):
            raise ConfigError(f"{self.folder} holds results: go on with --resume, or choose another folder")

    def path(self, name: str) -> Path:
        """The file of a run."""
        return self.folder / f"{name}.json.gz"

    def load(self, name: str, configuration: dict[str, Any]) -> dict[str, Any] | None:
        """The finished run of that name, None if there is none. Raises ConfigError if it was configured in another way."""
        path = self.path(name)
        if not path.exists():
            return None
        try:
            document: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
            found = document[CASE]
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path} is not the result of a run: {error}; remove it") from error
        wanted = json.loads(json.dumps(configuration))
        if differing := sorted(key for key in {*found, *wanted} if found.get(key) != wanted.get(key)):
            raise ConfigError(f"{path} was measured with other {', '.join(differing)}: choose another folder")
        return document

    def save(self, name: str, document: dict[str, Any]) -> None:
        """Write a run's file; it is there whole or not at all."""
        _write(self.path(name), gzip.compress(_to_json(document).encode(), mtime=0))

    def save_summary(self, document: dict[str, Any]) -> None:
        """Write the summary anew."""
        _write(self.folder / SUMMARY, _to_json(document).encode())


def _to_json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _write(path: Path, data: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(data)
    partial.replace(path)
