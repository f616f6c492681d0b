"""The gateway as an application of Ray Serve, with its engines on the same cluster.

    serve run agentix.cluster.ray_serve:app model=Qwen/Qwen3-8B max_engines=4

One replica: programs are in its memory. Ray Serve starts it again, with new engines, when it dies.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from agentix.cluster.ray_engines import engines_on_ray
from agentix.cluster.ray_scaling import ScalingSettings
from agentix.cluster.ray_settings import RaySettings
from agentix.core.balancers import make_balancer
from agentix.core.errors import ConfigError, unknown_name
from agentix.core.policies import make_policy, refuse_clairvoyant
from agentix.engine.launcher import EngineOptions
from agentix.engine.settings import PluginSettings
from agentix.gateway import GatewayConfig, create_app
from agentix.gateway.tenants_file import load_tenants
from agentix.wire import KEY_VARIABLE

logger = logging.getLogger(__name__)

_MAX_CALLS = 100_000  # under way at a time: the gateway bounds them itself


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeArguments:
    """What `serve run` and a Serve configuration may say, all as text; the names are those of `agentix serve`'s options."""

    model: str
    min_engines: str = "1"
    max_engines: str = ""
    tensor_parallel: str = "1"
    gpus_per_engine: str = ""
    cpus_per_engine: str = "1"
    policy: str = PluginSettings().scheduler.policy
    balancer: str = "program_affinity"
    start_timeout: str = "600"
    tenants: str = ""
    insecure: str = "false"

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> ServeArguments:
        """Raises ConfigError for what is unknown, missing or makes no sense."""
        names = cls.__dataclass_fields__
        for name in arguments:
            if name not in names:
                raise unknown_name("argument", name, names)
        if not arguments.get("model"):
            raise ConfigError("say which model: model=NAME")
        read = cls(**{name: _as_text(value) for name, value in arguments.items()})
        read.settings()
        refuse_clairvoyant(make_policy(read.plugin.scheduler))
        make_balancer(read.balancer)
        if read.insecure not in {"true", "false"}:
            raise ConfigError(f"insecure must be true or false, not {read.insecure!r}")
        return read

    def settings(self) -> RaySettings:
        """Where engines run, and how many."""
        least = _whole("min_engines", self.min_engines)
        most = _whole("max_engines", self.max_engines) if self.max_engines else least
        return RaySettings(
            scaling=ScalingSettings(min_engines=least, max_engines=most),
            tensor_parallel=_whole("tensor_parallel", self.tensor_parallel),
            gpus_per_engine=_number("gpus_per_engine", self.gpus_per_engine) if self.gpus_per_engine else None,
            cpus_per_engine=_number("cpus_per_engine", self.cpus_per_engine),
        )

    def engine_options(self) -> EngineOptions:
        """What every engine runs."""
        return EngineOptions(
            model=self.model,
            served_model_name=self.model,
            scheduler=self.plugin.to_mapping(),
        )

    @property
    def plugin(self) -> PluginSettings:
        """How engines schedule."""
        return PluginSettings.from_mapping({"policy": self.policy})

    @property
    def start_timeout_s(self) -> float:
        """Seconds that an engine may take to come up."""
        return _number("start_timeout", self.start_timeout)


class Gateway:
    """One replica of the gateway: what Ray Serve keeps of it besides its application."""

    app: Starlette  # `make_gateway`'s; Ray Serve sets it

    def check_health(self) -> None:
        """Raise if its engines are supervised no more: asked by Ray Serve all the time, which starts another replica then."""
        self.app.state.check()


def app(arguments: Mapping[str, Any]) -> Any:
    """The application, for `serve run` and for a Serve configuration's `import_path`. Raises ConfigError."""
    return deployment(ServeArguments.read(arguments))


def deployment(arguments: ServeArguments) -> Any:
    """The application with its arguments read. Raises ConfigError without Ray Serve."""
    try:
        serve = importlib.import_module("ray.serve")
    except ImportError as error:
        raise ConfigError(f"Ray Serve cannot be imported ({error}); run: pip install 'ray[serve]'") from None

    ingress = serve.ingress(lambda: make_gateway(arguments))(Gateway)
    return serve.deployment(num_replicas=1, max_ongoing_requests=_MAX_CALLS)(ingress).bind()


def make_gateway(arguments: ServeArguments) -> Starlette:
    """The gateway, whose engines come up when it does and go when it does."""

    @asynccontextmanager
    async def lifespan(outer: Starlette) -> AsyncIterator[None]:
        tenants = load_tenants(Path(arguments.tenants) if arguments.tenants else None, os.environ)
        if tenants.is_open and arguments.insecure != "true":
            raise ConfigError(f"who may call? give tenants=FILE, a key in {KEY_VARIABLE} on the cluster, or insecure=true")
        engines = engines_on_ray(
            arguments.settings(), arguments.engine_options(), timeout_s=arguments.start_timeout_s, on_progress=logger.info
        )
        async with engines as supervisor:
            config = GatewayConfig(
                engines=supervisor.targets,
                balancer=arguments.balancer,
                tenants=tenants,
                remote_clients=arguments.insecure == "true",
            )
            outer.state.check = supervisor.check
            gateway = create_app(config, companions=[supervisor.beside])
            outer.mount("", gateway)
            async with gateway.router.lifespan_context(gateway):
                yield

    return Starlette(lifespan=lifespan)


def _as_text(value: Any) -> str:
    """A value as one types it; a configuration file's `true` is no text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{name} must be a number, not {text!r}") from None


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{name} must be a whole number, not {text!r}") from None
