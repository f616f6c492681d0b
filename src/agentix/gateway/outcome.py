"""How calls come out."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """How a call came out.

    finished      answered to the end
    refused       the engine answered with an error
    lost          the engine broke off
    rejected      no engine got it
    disconnected  the client went away
    cancelled     somebody cancelled its program
    stopped       the gateway stopped
    failed        a fault of the gateway
    """

    FINISHED = "finished"
    REFUSED = "refused"
    LOST = "lost"
    REJECTED = "rejected"
    DISCONNECTED = "disconnected"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    FAILED = "failed"
