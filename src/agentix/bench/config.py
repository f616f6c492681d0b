"""What to run: built once at the edge, checked at once."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from agentix.core.errors import ConfigError
from agentix.wire import server_root


@dataclass(frozen=True, kw_only=True)
class BenchConfig:
    """One open-loop run. Raises ConfigError for a value that cannot be honoured."""

    target: str  # base URL, with or without /v1
    workload: Path
    out: Path
    num_programs: int
    rate_per_s: float  # programs per second; inf: all at once
    seed: int
    model: str | None = None  # None: the one the target serves
    api_key: str | None = field(default=None, repr=False)
    timeout_s: float = 600.0  # per call, from sending to the end of the answer
    max_model_len: int | None = None  # tokens; None: what the target says
    context_margin: float = 1.3  # model tokens per token of the trace's tokenizer, at most
    end_programs: bool = True  # DELETE /v1/programs/{id} when a program is over

    def __post_init__(self) -> None:
        parts = urlsplit(self.target)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ConfigError("target must be a URL such as http://localhost:8000")
        if parts.query or parts.fragment or "@" in parts.netloc:
            raise ConfigError("target must be a base URL, without '?', '#' or a password: it is stored in the result")
        _require(self.num_programs >= 1, f"programs must be at least 1, not {self.num_programs}")
        _require(self.rate_per_s > 0, f"rate must be above 0 programs/s (inf: all at once), not {self.rate_per_s}")
        _require(0 < self.timeout_s < math.inf, f"timeout must be above 0 seconds, not {self.timeout_s}")
        _require(0 < self.context_margin < math.inf, f"context margin must be above 0, not {self.context_margin}")
        _require(
            self.max_model_len is None or self.max_model_len >= 1, f"max_model_len must be at least 1, not {self.max_model_len}"
        )
        if self.api_key is not None and not (self.api_key.isascii() and self.api_key.isprintable()):
            raise ConfigError("the API key holds characters that cannot be sent in a header")
        if self.out.is_dir() or not os.access(self.out.parent, os.W_OK):
            raise ConfigError(f"cannot write to {self.out}: not a file in a writable folder")

    @property
    def base_url(self) -> str:
        """The target without a trailing slash or /v1."""
        return server_root(self.target)


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise ConfigError(problem)
