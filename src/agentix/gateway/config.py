"""Settings of the gateway: frozen, built at the edge."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from agentix.core.errors import ConfigError
from agentix.gateway.admission_settings import AdmissionSettings
from agentix.gateway.tenants import Tenants
from agentix.wire import server_root

PROGRAM_IDLE_S = 3600.0
# As a Bearer token (OpenAI, vLLM and most others), or bare: Anthropic, Azure.
KEY_HEADERS = ("authorization", "x-api-key", "api-key")
_ANTHROPIC_VERSION = "2023-06-01"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedLimits:
    """What a hosted API lets us send, as far as it is known (None: not); refusals teach the rest."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    concurrency: int | None = None

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and 0 < value < math.inf):
                raise ConfigError(f"limit {name} must be a number above 0, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTarget:
    """An engine the gateway may send calls to.

    `url` is the server's root, without /v1. `plugin`: the engine runs our scheduler, so calls carry their program's
    totals in `vllm_xargs`; any other server gets nothing that plain OpenAI-compatible servers might refuse. `hosted`: it is
    somebody else's API with limits of its own; it gets no field of a vendor's, and no questions that may cost.
    `api_key_env`: the environment variable with the engine's own API key, which replaces whatever key a client sends;
    "": clients' keys are passed on, unless they are keys of this gateway. `api_key_header`: where the engine looks for it
    (`KEY_HEADERS`).
    """

    engine_id: str
    url: str
    plugin: bool = False
    hosted: HostedLimits | None = None
    api_key_env: str = ""
    api_key_header: str = "authorization"

    def __post_init__(self) -> None:
        if self.api_key_header not in KEY_HEADERS:
            known = ", ".join(KEY_HEADERS)
            raise ConfigError(f"engine {self.engine_id!r}: api_key_header must be one of {known}, not {self.api_key_header!r}")
        if self.api_key_env and not os.environ.get(self.api_key_env):
            raise ConfigError(f"engine {self.engine_id!r}: the environment variable {self.api_key_env!r} (its key) is not set")
        try:
            url = httpx2.URL(self.url)
        except httpx2.InvalidURL as error:
            raise ConfigError(f"engine {self.engine_id!r}: {self.url!r} is not a url: {error}") from None
        if url.scheme not in {"http", "https"} or not url.host:
            raise ConfigError(f"engine {self.engine_id!r}: url must start with http:// or https://, not {self.url!r}")
        if url.userinfo:  # it would replace the clients' Authorization, and /health shows the url to everybody
            raise ConfigError(f"engine {self.engine_id!r}: no credentials in the url; those of the clients are passed on")
        # People paste the OpenAI base URL; we address the root.
        object.__setattr__(self, "url", server_root(self.url))

    def credentials(self) -> dict[str, str]:
        """The header with the engine's own key; {} if it has none. Read each time, so that the key is in no object."""
        key = os.environ.get(self.api_key_env) if self.api_key_env else None
        if not key:
            return {}
        return {self.api_key_header: f"Bearer {key}" if self.api_key_header == "authorization" else key}

    def question_headers(self) -> dict[str, str]:
        """The same for questions that the gateway asks by itself: Anthropic's API wants its version named in each."""
        own = self.credentials()
        return {**own, "anthropic-version": _ANTHROPIC_VERSION} if "x-api-key" in own else own


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """How the gateway serves.

    balancer          a registered name or a dotted path `module:Class`
    max_body_bytes    larger request bodies are refused with 413 before anything is parsed
    program_idle_s    a program without a call for this long is taken to be over, or for less if programs come back sooner
    health_period_s   how often each engine's /health is asked
    normalise_preambles  take out what differs at the front of the prompt from call to call (`preambles.VOLATILE`): engines
                      then find the rest in their prefix caches, but do not get what the client sent
    tenants           who may call; none: whoever reaches it
    admission         how calls are held, and in which order they are sent
    decision_log      file to which events, decisions and choices of engines are appended (`DecisionLog`); None: no log
    cors_origins      web pages of these origins may read answers, or ("*",) of all
    allowed_hosts     without tenants: names by which clients call the gateway, beside localhost and addresses; ("*",): any
    remote_clients    without tenants: clients of other machines are served too
    """

    engines: tuple[EngineTarget, ...]
    balancer: str = "program_affinity"
    max_body_bytes: int = 32 * 2**20
    program_idle_s: float = PROGRAM_IDLE_S
    health_period_s: float = 2.0
    normalise_preambles: bool = False
    tenants: Tenants = field(default_factory=Tenants)
    cors_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    remote_clients: bool = False
    admission: AdmissionSettings = field(default_factory=AdmissionSettings)
    decision_log: Path | None = None

    def __post_init__(self) -> None:
        ids = [e.engine_id for e in self.engines]
        if not ids:
            raise ConfigError("a gateway needs at least one engine")
        if len(set(ids)) < len(ids):
            raise ConfigError(f"engine ids must differ: {', '.join(ids)}")
