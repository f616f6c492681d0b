"""How a batch is run: built once at the edge, checked at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from agentix.core.errors import ConfigError
from agentix.wire import server_root

PROGRAMS_PER_ENGINE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineConfig:
    """A batch over one gateway. Raises ConfigError for a value that cannot be honoured.

    gateway      base URL, with or without /v1; any OpenAI-compatible server will do, but cannot cancel programs
    out          results file, JSON lines
    concurrency  programs under way at once; None: PROGRAMS_PER_ENGINE for each healthy engine of the gateway
    resume       go on with a results file that exists: jobs that ended well are skipped, failed ones are tried again
    attempts     how often a job is tried
    retry_s      seconds before the second attempt; doubled for each one after it, up to a minute
    timeout_s    of one attempt, in seconds; inf: none
    enough       jobs of a group that must end well before the rest of it is cancelled
    api_key      sent with what the batch itself asks of the gateway; jobs have clients of their own
    """

    gateway: str
    out: Path
    concurrency: int | None = None
    resume: bool = False
    attempts: int = 3
    retry_s: float = 1.0
    timeout_s: float = math.inf
    enough: int = 1
    api_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.gateway)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
            raise ConfigError("gateway must be a URL such as http://localhost:8080, without '?', '#' or a password")
        for name in ("concurrency", "attempts", "enough"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, not {value}")
        if not 0 <= self.retry_s < math.inf:
            raise ConfigError(f"retry_s must be 0 or more and finite, not {self.retry_s}")
        if not self.timeout_s > 0:
            raise ConfigError(f"timeout_s must be above 0, not {self.timeout_s}")
        if self.out.is_dir() or not self.out.parent.is_dir():
            raise ConfigError(f"cannot write to {self.out}: not a file in a folder that exists")
        if self.out.exists() and self.out.stat().st_size and not self.resume:
            raise ConfigError(f"{self.out} exists: say that the batch is to resume it, or name another file")

    @property
    def root(self) -> str:
        """The gateway without a trailing slash or /v1."""
        return server_root(self.gateway)
