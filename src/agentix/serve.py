"""Run the whole system on one machine: local engines (or none), and the gateway in front of all of them."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import signal
import socket
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from agentix.cluster.ray_engines import engines_on_ray
from agentix.cluster.ray_settings import RaySettings
from agentix.cluster.ray_supervisor import Supervisor
from agentix.cluster.table import TableKeeper
from agentix.core.balancers import make_balancer
from agentix.core.errors import AgentixError, ConfigError
from agentix.core.policies import make_policy, refuse_clairvoyant
from agentix.engine.launcher import EngineOptions, LocalEngine, start_engines, state_dir, stop
from agentix.engine.model import resolve_model
from agentix.engine.settings import PluginSettings
from agentix.gateway import EngineTarget, GatewayConfig, create_app
from agentix.gateway.admission_settings import AdmissionSettings
from agentix.gateway.decision_log import log_in
from agentix.gateway.observer import Observer
from agentix.gateway.server import serving
from agentix.gateway.tenants import Tenants
from agentix.gateway.tenants_file import load_tenants, reread_tenants
from agentix.wire import KEY_VARIABLE

_WATCH_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """What to run.

    model / engine_urls   start `num_engines` engines of this model, or use servers that run already; one of the two
    plugin                settings for the engines we start; None: stock vLLM, without program scheduling
    decision_log          directory for the gateway's decision log (gateway.jsonl) and one per engine that we start
    vllm_args             passed on to vLLM
    engine_key_env        environment variable with the API key of the servers at `engine_urls`
    tenants_file          who may call, and how much; None: whoever has the key in AGENTIX_API_KEY, or everybody
    insecure              be open to everybody also beyond this machine
    cors_origins          web pages of these origins may read answers
    allowed_hosts         where nobody needs a key: names by which the gateway is called, beside localhost and addresses
    normalise_preambles   take out what clients put at the front of prompts that differs from call to call
    tls                   files of the gateway's certificate and private key
    more_engines          others that run already, each with settings of its own
    observers             who is told how every call fares
    admission             how the gateway holds calls that engines have no room for, and in which order it sends them
    table                 where programs' totals are kept beside the gateway's memory; None: nowhere
    ray                   start the engines on a Ray cluster, as many as there is work for; None: on this machine
    """

    model: str | None = None
    engine_urls: tuple[str, ...] = ()
    num_engines: int = 1
    host: str = "127.0.0.1"
    port: int = 8080
    balancer: str = "program_affinity"
    plugin: PluginSettings | None = field(default_factory=PluginSettings)
    decision_log: Path | None = None
    vllm_args: tuple[str, ...] = ()
    start_timeout_s: float = 600.0
    engine_key_env: str = ""
    tenants_file: Path | None = None
    insecure: bool = False
    cors_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    normalise_preambles: bool = False
    tls: tuple[Path, Path] | None = None
    more_engines: tuple[EngineTarget, ...] = ()
    observers: tuple[Observer, ...] = ()
    admission: AdmissionSettings = field(default_factory=AdmissionSettings)
    table: TableKeeper | None = None
    ray: RaySettings | None = None

    def __post_init__(self) -> None:
        if (self.model and self.engine_urls) or not (self.model or self.engine_urls or self.more_engines):
            raise ConfigError("give either a MODEL to start engines for, or --engine-url of servers that already run")
        ours = (self.num_engines, self.plugin, self.vllm_args)
        if not self.model and ours != (1, PluginSettings(), ()):
            options = "preemption, stock, engines and vLLM's options"
            raise ConfigError(f"{options} are for engines that agentix starts itself")
        if self.num_engines < 1:
            raise ConfigError(f"the number of engines must be at least 1, not {self.num_engines}")
        if self.ray is not None:
            log, args = self.decision_log, self.vllm_args
            self.ray.check(model=self.model, num_engines=self.num_engines, decision_log=log, vllm_args=args)
        if self.engine_key_env and not self.engine_urls:
            raise ConfigError("an engine's key is for servers that already run (--engine-url)")
        make_balancer(self.balancer)
        if self.plugin is not None:
            refuse_clairvoyant(make_policy(self.plugin.scheduler))


class EngineDied(AgentixError):
    """An engine that we started is gone, and there is nothing left to serve with; the message has its last words."""

    def __init__(self, what: str, engine: LocalEngine) -> None:
        tail = "\n".join(f"    {line}" for line in engine.log_tail())
        super().__init__(f"{what}; the last lines of {engine.engine_id}:\n{tail}\nwhole log: {engine.log_path}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """What a user needs to know once everything is up."""

    url: str
    model: str
    engines: tuple[EngineTarget, ...]
    log_dir: Path | None
    needs_key: bool = False


async def serve(options: ServeOptions, *, on_progress: Callable[[str], None], on_ready: Callable[[Ready], None]) -> None:
    """Start everything, call `on_ready`, and serve until SIGINT or SIGTERM; then stop everything that was started.

    Raises AgentixError when something cannot start or every local engine has died; nothing is left running then either.
    """
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()

    def interrupt() -> None:
        if task is not None and not stopped.is_set():  # a second Ctrl-C must not cut short what the first began
            task.cancel()
        stopped.set()

    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signum != signal.SIGHUP or signal.getsignal(signum) != signal.SIG_IGN:  # nohup
            loop.add_signal_handler(signum, interrupt)
    tenants = _load_access(options)
    _reread_on_hangup(options, tenants.adopt)
    listener = _bind(options.host, options.port)
    engines: list[LocalEngine] = []
    log_dir = state_dir() if options.model and options.ray is None else None
    on_ray: Supervisor | None = None
    stack = AsyncExitStack()
    try:
        if options.ray is not None:
            name, scheduler = options.model or "", _plugin_settings(options, "")  # built-in models are made on the machines
            of_engines = EngineOptions(model=name, served_model_name=name, vllm_args=options.vllm_args, scheduler=scheduler)
            there = engines_on_ray(options.ray, of_engines, timeout_s=options.start_timeout_s, on_progress=on_progress)
            on_ray = await stack.enter_async_context(there)
        elif options.model:
            engines = await _start_local(options, options.model, log_dir, on_progress)
        targets = (*(on_ray.targets if on_ray else ()), *_targets(options, engines))
        await _serve_gateway(options, targets, engines, listener, log_dir, on_ready, tenants, on_ray)
    except asyncio.CancelledError:
        if not stopped.is_set():
            raise
    finally:
        listener.close()
        if engines or on_ray:
            on_progress("stopping engines")
        await stop(engines)
        await stack.aclose()


def _reread_on_hangup(options: ServeOptions, adopt: Callable[[Tenants], None]) -> None:
    """Have SIGHUP read the tenants file again, where there is one; else it ends everything, as the end of a terminal does."""
    if options.tenants_file is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reread_tenants, options.tenants_file, os.environ, adopt)


def _load_access(options: ServeOptions) -> Tenants:
    """Who may call. Raises ConfigError for bad files, and for a gateway that would be open to a whole network."""
    tenants = load_tenants(options.tenants_file, os.environ)
    if tenants.is_open and not options.insecure and not _is_loopback(options.host):
        raise ConfigError(
            f"on {options.host} everybody who reaches this machine could call: give --tenants FILE, a key in {KEY_VARIABLE}, "
            "or --insecure if that is meant"
        )
    if options.tls is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*options.tls)
        except OSError as error:  # SSLError is one
            raise ConfigError(f"cannot use {options.tls[0]} with the key {options.tls[1]} for TLS: {error}") from None
    return tenants


def _is_loopback(host: str) -> bool:
    """Whether only this machine reaches it. Another name than localhost may stand for any address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bind(host: str, port: int) -> socket.socket:
    """Take the gateway's port before anything slow starts."""
    # By name: asyncio switches Nagle's algorithm off only where it sees TCP, and answers would come 40 ms late.
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()  # two sockets that only bind may share a port
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot listen on {host} port {port}: {error.strerror}; choose another with --port") from None
    return listener


async def _start_local(
    options: ServeOptions, name: str, log_dir: Path | None, on_progress: Callable[[str], None]
) -> list[LocalEngine]:
    model = await asyncio.to_thread(resolve_model, name, on_progress=on_progress)
    on_progress(f"starting {options.num_engines} engine(s) of {name}; logs in {log_dir}")
    engine_options = [
        EngineOptions(
            model=model,
            served_model_name=name,
            vllm_args=options.vllm_args,
            scheduler=_plugin_settings(options, f"engine-{index}"),
        )
        for index in range(options.num_engines)
    ]
    return await start_engines(engine_options, on_progress=on_progress, timeout_s=options.start_timeout_s, log_dir=log_dir)


def _plugin_settings(options: ServeOptions, engine_id: str) -> dict[str, Any] | None:
    if options.plugin is None:
        return None
    settings = options.plugin.to_mapping()
    log = log_in(options.decision_log, engine_id)
    return settings if log is None else {**settings, "decision_log": str(log)}


def _targets(options: ServeOptions, engines: list[LocalEngine]) -> tuple[EngineTarget, ...]:
    ours = [EngineTarget(engine_id=e.engine_id, url=e.url, plugin=options.plugin is not None) for e in engines]
    theirs = [
        EngineTarget(engine_id=f"engine-{i}", url=url, api_key_env=options.engine_key_env)
        for i, url in enumerate(options.engine_urls)
    ]
    return (*ours, *theirs, *options.more_engines)


async def _serve_gateway(
    options: ServeOptions,
    targets: tuple[EngineTarget, ...],
    engines: list[LocalEngine],
    listener: socket.socket,
    log_dir: Path | None,
    on_ready: Callable[[Ready], None],
    tenants: Tenants,
    on_ray: Supervisor | None,
) -> None:
    """Serve until cancelled, or until the last local engine has died."""
    config = GatewayConfig(
        engines=targets,
        balancer=options.balancer,
        tenants=tenants,
        cors_origins=options.cors_origins,
        allowed_hosts=(*options.allowed_hosts, options.host, socket.gethostname()),
        remote_clients=options.insecure,
        normalise_preambles=options.normalise_preambles,
        admission=options.admission,
        decision_log=log_in(options.decision_log, "gateway"),
    )
    keepers = () if options.table is None else (options.table,)
    app = create_app(
        config,
        observers=(*options.observers, *(observer for keeper in keepers for observer in keeper.observers)),
        companions=[each.beside for each in (*keepers, on_ray) if each is not None],
    )
    _reread_on_hangup(options, app.state.adopt_tenants)
    async with serving(app, listener, tls=options.tls) as server:
        host, port = listener.getsockname()[:2]
        scheme, shown = "https" if options.tls else "http", f"[{host}]" if ":" in host else host
        model = options.model or await _first_model(targets)
        url, needs_key = f"{scheme}://{shown}:{port}/v1", not tenants.is_open
        on_ready(Ready(url=url, model=model, engines=targets, log_dir=log_dir, needs_key=needs_key))
        while not server.done():
            await asyncio.sleep(_WATCH_S)
            if on_ray is not None:
                on_ray.check()
            if engines and all(e.poll() is not None for e in engines):
                raise EngineDied("every engine has died", engines[-1])


async def _first_model(targets: tuple[EngineTarget, ...]) -> str:
    """A model's name for the example we print; a placeholder if no server tells one."""
    async with httpx2.AsyncClient(trust_env=False, timeout=3.0) as client:
        for target in targets:
            with suppress(httpx2.HTTPError, ValueError, KeyError, IndexError, TypeError):
                answer = await client.get(f"{target.url}/v1/models", headers=target.question_headers())
                return str(answer.json()["data"][0]["id"])
    return "MODEL"
