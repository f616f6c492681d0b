"""Where a call stands at the gateway: which engine, whether it is held or sent, and why."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentix.gateway.fit import Needs


class Tier(IntEnum):
    """How much of the order an engine keeps by itself.

    ANY 0       nothing: it serves first come, first served, so the gateway holds what does not fit into its batch
    PRIORITY 1  it serves waiting calls by the priority that they come with (vLLM with `--scheduling-policy priority`); held
                like 0, and sent with their level as priority
    PLUGIN 2    everything: it orders calls and preempts running ones as the core says (the plug-in); sent at once
    """

    ANY = 0
    PRIORITY = 1
    PLUGIN = 2


@dataclass(slots=True, kw_only=True)
class Place:
    """Where a call stands. The admission alone changes it. Moments on the monotonic clock.

    key         its id in the table
    needs       which engines may have it at all
    engine_ids  engines that might serve it when it arrived, best first; `why`: what made the first the best
    tokens      of its prompt, estimated; `num_bytes`: of its body; `num_answers`: that it asks for
    sent_s      since when it is in its engine; None: it is held
    level       where it was placed last
    asleep      why it may not go whatever its place is, in words; "": it stands in the order
    wake_s      when that is looked at again; infinite: when somebody says so
    turn        set once it is sent, if somebody waits for that
    answering   its answer has begun
    """

    key: str
    program_id: str
    tenant: str
    needs: Needs
    engine_id: str
    engine_ids: tuple[str, ...]
    tokens: int
    arrived_s: float
    num_bytes: int = 0
    num_answers: int = 1
    why: str = ""
    sent_s: float | None = None
    level: int = 0
    asleep: str = ""
    wake_s: float = math.inf
    turn: asyncio.Event | None = None
    answering: bool = False
