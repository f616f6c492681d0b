"""Settings of the gateway: frozen, built at the edge."""

from __future__ import annotations

from dataclasses import dataclass

import httpx2

from agentix.core.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTarget:
    """An engine the gateway may send calls to.

    `url` is the server's root, without /v1. `plugin`: the engine runs our scheduler, so calls carry their program's
    totals in `vllm_xargs`; any other server gets nothing that plain OpenAI-compatible servers might refuse.
    """

    engine_id: str
    url: str
    plugin: bool = False

    def __post_init__(self) -> None:
        try:
            url = httpx2.URL(self.url)
        except httpx2.InvalidURL as error:
            raise ConfigError(f"engine {self.engine_id!r}: {self.url!r} is not a url: {error}") from None
        if url.scheme not in {"http", "https"} or not url.host:
            raise ConfigError(f"engine {self.engine_id!r}: url must start with http:// or https://, not {self.url!r}")
        if url.userinfo:  # it would replace the clients' Authorization, and /health shows the url to everybody
            raise ConfigError(f"engine {self.engine_id!r}: no credentials in the url; those of the clients are passed on")
        # People paste the OpenAI base URL; we address the root.
        object.__setattr__(self, "url", self.url.rstrip("/").removesuffix("/v1"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """How the gateway serves.

    balancer          a registered name or a dotted path `module:Class`
    max_body_bytes    larger request bodies are refused with 413 before anything is parsed
    program_idle_s    a program without a call for this long is taken to be over, or for less if programs come back sooner
    health_period_s   how often each engine's /health is asked
    normalise_preambles  take out what differs at the front of the prompt from call to call (`preambles.VOLATILE`): engines
                      then find the rest in their prefix caches, but do not get what the client sent
    """

    engines: tuple[EngineTarget, ...]
    balancer: str = "program_affinity"
    max_body_bytes: int = 32 * 2**20
    program_idle_s: float = 3600.0
    health_period_s: float = 2.0
    normalise_preambles: bool = False

    def __post_init__(self) -> None:
        ids = [e.engine_id for e in self.engines]
        if not ids:
            raise ConfigError("a gateway needs at least one engine")
        if len(set(ids)) < len(ids):
            raise ConfigError(f"engine ids must differ: {', '.join(ids)}")
