"""The gateway's decision log: what its schedulers were told and what they decided, which engines were chosen and why."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from agentix import __version__
from agentix.core.balancers import EngineView, Route
from agentix.core.errors import ConfigError
from agentix.core.events import (
    CallAborted,
    CallArrived,
    CallFinished,
    CallMoved,
    CallPreempted,
    CallStarted,
    Event,
    Placed,
    StepCompleted,
    to_record,
)
from agentix.core.process_table import ProcessTable
from agentix.core.program import ProgramRow
from agentix.gateway.config import GatewayConfig

logger = logging.getLogger(__name__)

MAX_BYTES = 2**30


class DecisionLog:
    """JSON lines, each on its way to the disk at once, in the order in which things happened (docs/gateway.md):

    gateway                  first of each start: the settings that decisions follow from
    queue, event, decisions  what one engine's scheduler for a tenant was told, and where calls were placed for it; queue null:
                             what the table alone was told
    choice                   the balancer's answer for a call, with all that it was told; the call's own event follows

    Given to the core, everything between two starts leads to the same decisions. Ids of programs and calls and names of
    tenants are in it, words of prompts and answers are not. A start adds `max_bytes` at the most; then, or when the disk is
    full, the log ends with a warning and the gateway goes on. Raises ConfigError if the file cannot be opened.
    """

    def __init__(self, path: Path, config: GatewayConfig, *, max_bytes: int = MAX_BYTES) -> None:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise ConfigError(f"cannot write the decision log {path}: {error.strerror}") from None
        self._file: TextIO | None = os.fdopen(descriptor, "a", buffering=1, encoding="ascii")
        self._num_left = max_bytes
        scheduler = config.admission.scheduler.to_mapping()
        settings = {"version": __version__, "now": time.monotonic(), "scheduler": scheduler, "balancer": config.balancer}
        self._write({"gateway": settings})

    def decided(self, queue: str | None, event: Event, placed: Sequence[Placed]) -> None:
        """A scheduler was told this, and placed calls for it. `queue` None: the table alone was told."""
        self._write({"queue": queue, "event": to_record(event), "decisions": [to_record(p) for p in placed]})

    def chose(
        self, row: ProgramRow, prompt_tokens: int | None, engines: Sequence[EngineView], route: Route, now: float
    ) -> None:
        """The balancer was asked for a call of the program, and this is its answer."""
        choice = {
            "now": now,
            "program_id": row.program_id,
            "home_engine_id": row.home_engine_id,
            "context_tokens": row.context_tokens,
            "num_active": row.num_active,
            "prompt_tokens": prompt_tokens,
            "engines": [asdict(engine) for engine in engines],
            "engine_ids": route.engine_ids,
            "pin": route.pin,
            "reason": route.reason,
        }
        self._write({"choice": choice})

    def close(self) -> None:
        """Write no more."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, line: dict[str, Any]) -> None:
        if self._file is None:
            return
        text = json.dumps(line) + "\n"
        self._num_left -= len(text)
        try:
            if self._num_left < 0:
                raise OSError("it is as long as it may be")
            self._file.write(text)
        except OSError as error:
            logger.warning("the decision log ends here: %s", error)
            with suppress(OSError):
                self._file.close()
            self._file = None


def log_in(directory: Path | None, name: str) -> Path | None:
    """Where the decisions of an engine, or of the gateway, go: into a directory that is there then. None: nowhere."""
    if directory is None:
        return None
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot create the directory {directory}: {error.strerror}") from None
    return directory.resolve() / f"{name}.jsonl"


_OF_CALLS = (CallArrived, CallMoved, CallStarted, CallPreempted, StepCompleted, CallFinished, CallAborted)


class LoggedTable(ProcessTable):
    """A process table that logs what happens to programs. What happens to calls comes by way of queues, which log it."""

    def __init__(self, log: DecisionLog) -> None:
        super().__init__()
        self._log = log

    def apply(self, event: Event) -> None:
        """As in the table."""
        super().apply(event)
        if not isinstance(event, _OF_CALLS):
            self._log.decided(None, event, ())
