"""What all gateways have learnt of programs that are over, kept at the shared table's server: read at start, and now and then.

Programs that somebody has named have a row at every gateway, so each learns of them by itself. What this adds is a memory
that outlives gateways, and the programs that nobody has named, of which only the gateway that served them knows.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from dataclasses import dataclass, field

from agentix.cluster.table_server import TableServer
from agentix.cluster.table_totals import TotalsLines, read_totals
from agentix.core.errors import InvalidTransition
from agentix.core.process_table import ProcessTable

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class TotalsMemory:
    """One gateway's side of it.

    The text at the server is whole: every gateway takes over the classes of which it says more than the gateway knows, and
    writes down the union. Whoever writes last wins, and loses nothing for good: what another has written meanwhile and is
    missing, that one writes again. Writing it twice counts nothing twice.
    """

    table: ProcessTable
    server: TableServer
    _lines: TotalsLines = field(default_factory=TotalsLines)
    _heard: str = ""
    _is_bad: bool = False

    async def exchange(self) -> None:
        """Take over what is known there, and write what is known now, if that is more. Raises TableServerError."""
        text = await self.server.totals()
        if text != self._heard:
            await self._take_over(text)
            self._heard = text
        ours = "\n".join(await self._lines.of(self.table.histories))
        if ours not in {"", text}:
            await self.server.keep_totals(ours)
            self._heard = ours

    async def _take_over(self, text: str) -> None:
        """Line by line, so that calls get their turn. A line that cannot be read must not keep the others from us."""
        bad = 0
        for line in text.splitlines():
            try:
                self.table.apply(read_totals(json.loads(line), time.monotonic()))
            except (KeyError, TypeError, ValueError, OverflowError, InvalidTransition):
                bad += 1
            await asyncio.sleep(0)
        if bad and not self._is_bad:
            logger.warning("%d classes of programs at the shared table cannot be read: they are learnt anew", bad)
        self._is_bad = bad > 0
