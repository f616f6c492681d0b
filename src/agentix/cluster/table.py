"""Where the process table is kept, beside the gateway's memory: in a file, or shared with other gateways at a server."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from agentix.cluster.table_file import TableFile
from agentix.cluster.table_shared import SharedTable, SharedTableSettings
from agentix.gateway.config import PROGRAM_IDLE_S
from agentix.gateway.exchange import Exchange
from agentix.gateway.observer import Observer


class TableKeeper(Protocol):
    """What `create_app` needs of either: who listens to calls, and what goes on beside the gateway."""

    @property
    def observers(self) -> tuple[Observer, ...]:
        """Who is to be told how calls fare."""

    def beside(self, exchange: Exchange) -> AbstractAsyncContextManager[None]:
        """Keep the table as long as the gateway serves."""


def keep_table(where: str, *, idle_s: float = PROGRAM_IDLE_S) -> TableKeeper:
    """Keep the table at `where`: the address of a server, if it has a `://` in it, or else a file.

    `idle_s`: programs without a call for so long are over. Raises ConfigError if it cannot be kept there. Whether a server
    is there shows later: a gateway serves without it.
    """
    if "://" in where:
        return SharedTable(where, SharedTableSettings(keep_s=idle_s))
    return TableFile(Path(where), keep_s=idle_s)
