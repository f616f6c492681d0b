"""The engine's own account, read while it runs: its decision log, and its metrics."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path

import httpx2

from agentix.core.config import SchedulerConfig
from agentix.core.errors import AgentixError
from agentix.core.events import from_record
from agentix.core.process_table import ProcessTable
from agentix.core.scheduler import Scheduler

_GAUGES = ("vllm:kv_cache_usage_perc", "vllm:num_requests_running", "vllm:num_requests_waiting")


class Replayed:
    """A second core that is told everything the engine's was told, by the engine's decision log.

    It refuses what cannot happen, a call that ends twice above all, and must decide as the engine's did.
    """

    def __init__(self, log: Path, config: SchedulerConfig) -> None:
        self.core = Scheduler(config, ProcessTable())
        self.counts: Counter[str] = Counter()  # of events by type, and of placements by reason
        self.problems: list[str] = []
        self._log = log
        self._pending = ""

    def read_on(self) -> None:
        """Take in what has been written since; then cut it off, so that the file stays small. Only while the engine is idle."""
        with self._log.open(encoding="utf-8") as file:
            *lines, self._pending = (self._pending + file.read()).split("\n")
        os.truncate(self._log, 0)  # the engine appends
        for line in lines:
            self._take(line)
        try:
            self.core.validate()
            self.core.table.validate()
        except AgentixError as error:
            self.problems.append(str(error))

    @property
    def num_active(self) -> int:
        """Calls that have come and not ended."""
        return len(self.core.table.calls)

    def _take(self, line: str) -> None:
        record = json.loads(line)
        self.counts[record["event"]["type"]] += 1
        decided = [from_record(decision) for decision in record["decisions"]]
        self.counts.update(placed.reason for placed in decided)
        try:
            again = self.core.apply(from_record(record["event"]))
        except AgentixError as error:
            self.problems.append(f"{error}: {line[:200]}")
            return
        if again != decided:
            self.problems.append(f"the core decides {again}, the engine {decided}")


async def ask_gauges(client: httpx2.AsyncClient) -> dict[str, float]:
    """Share of KV blocks in use, and requests that run and wait; all are 0 when an engine is idle and has lost nothing."""
    text = (await client.get("/metrics")).text
    return {
        gauge.removeprefix("vllm:"): sum(map(float, re.findall(rf"^{gauge}{{[^}}]*}} (\S+)$", text, re.MULTILINE)))
        for gauge in _GAUGES
    }
