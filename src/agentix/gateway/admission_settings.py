"""How calls are held: settings of the admission."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from agentix.core.config import SchedulerConfig
from agentix.core.errors import ConfigError
from agentix.core.policies import make_policy, refuse_clairvoyant

TIERS = ("auto", "0", "1", "2")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionSettings:
    """How calls are held.

    scheduler        policy, levels and weights, as for engines: the order in which calls that are held are sent
    tier             what engines order by themselves: `auto`, or 0, 1 or 2 for all of them (`Tier`)
    max_concurrency  calls that may be in one engine at a time; None: found out (`Concurrency`)
    max_hold_s       a call that was held for so long is refused
    max_queue        so many calls are held, at all engines together; more are refused at once (`Held` says whose)
    max_queue_bytes  the same for the bodies of all calls that are held
    heartbeat_s      a client that streams hears every so often that its call is still held
    """

    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    tier: str = "auto"
    max_concurrency: int | None = None
    max_hold_s: float = 600.0
    max_queue: int = 10_000
    max_queue_bytes: int = 2**30
    heartbeat_s: float = 5.0

    def __post_init__(self) -> None:
        if self.tier not in TIERS:
            raise ConfigError(f"tier must be one of {', '.join(TIERS)}, not {self.tier!r}")
        if self.max_concurrency is not None and self.max_concurrency < 1:
            raise ConfigError(f"max_concurrency must be at least 1, not {self.max_concurrency}")
        for name in ("max_queue", "max_queue_bytes"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must be 0 or more, not {getattr(self, name)}")
        for name in ("max_hold_s", "heartbeat_s"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name} must be a positive number of seconds, not {getattr(self, name)!r}")
        refuse_clairvoyant(make_policy(self.scheduler))
