"""`agentix serve`."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from agentix.cli.extras import require
from agentix.cluster.ray_scaling import ScalingSettings
from agentix.cluster.ray_settings import RaySettings
from agentix.core.balancers import BALANCERS
from agentix.core.config import SchedulerConfig
from agentix.core.errors import ConfigError
from agentix.core.policies import POLICIES
from agentix.engine.settings import PREEMPTIONS, PluginSettings

if TYPE_CHECKING:
    from agentix.serve import Ready

_PLUGIN = PluginSettings()
_DEFAULT = _PLUGIN.scheduler
_DEFAULT_QUANTA = ",".join(f"{quantum_s:g}" for quantum_s in _DEFAULT.quanta_s)
_OWN = "or your own as module:Class"


def serve(
    model: Annotated[
        str | None,
        typer.Argument(help="Model to start engines for: a directory, a hub name, or built in: smollm2-135m, tiny-random."),
    ] = None,
    vllm_args: Annotated[
        list[str] | None, typer.Argument(metavar="[-- VLLM_ARGS…]", help="Everything after -- goes to vLLM.")
    ] = None,
    engine_url: Annotated[
        list[str] | None,
        typer.Option(help="Use this OpenAI-compatible server instead of starting engines. Repeatable."),
    ] = None,
    engines: Annotated[int, typer.Option(min=1, help="How many engines to start; they are not spread over GPUs yet.")] = 1,
    host: Annotated[str, typer.Option(help="Address the gateway listens on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the gateway; 0 picks a free one.")] = 8080,
    policy: Annotated[str, typer.Option(help=f"{', '.join(POLICIES.names)}, {_OWN}.")] = _DEFAULT.policy,
    quanta: Annotated[
        str, typer.Option(metavar="S,S,…", help="Quantum of each level, in seconds; one more level without follows.")
    ] = _DEFAULT_QUANTA,
    starvation_ratio: Annotated[
        float, typer.Option(min=0, help="Promote a call once waiting is this many times service; 0: never.")
    ] = _DEFAULT.starvation_ratio or 0.0,
    class_weight: Annotated[
        list[str] | None,
        typer.Option(metavar="CLASS=W", help="Programs of this class get W times the service at each level. Repeatable."),
    ] = None,
    preemption: Annotated[
        str, typer.Option(help=f"Of running calls, {', '.join(PREEMPTIONS)}: see docs/engine.md.")
    ] = _PLUGIN.preemption,
    stock: Annotated[
        bool, typer.Option("--stock", help="Start plain vLLM engines, without program scheduling (for comparison).")
    ] = False,
    balancer: Annotated[str, typer.Option(help=f"{', '.join(BALANCERS.names)}, {_OWN}.")] = "program_affinity",
    decision_log: Annotated[
        Path | None,
        typer.Option(help="Directory for JSON-lines logs of every scheduling event and decision, of gateway and engines."),
    ] = None,
    start_timeout: Annotated[float, typer.Option(min=1, help="Seconds an engine may take to become healthy.")] = 600.0,
    engines_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="More servers, each with its own settings: see docs/gateway.md.")
    ] = None,
    engine_key_env: Annotated[
        str, typer.Option(metavar="NAME", help="Environment variable with the API key of the servers at --engine-url.")
    ] = "",
    tenants: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Who may call, and how much: see docs/tenants.md and `agentix key`.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Serve clients of other machines although nobody needs a key.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Where nobody needs a key: a name by which clients call this machine. Repeatable."),
    ] = None,
    cors_origin: Annotated[
        list[str] | None, typer.Option(metavar="ORIGIN", help="Web pages from there may read answers; * for all. Repeatable.")
    ] = None,
    normalise_preambles: Annotated[
        bool, typer.Option("--normalise-preambles", help="Take out of prompts what their clients change in every call.")
    ] = False,
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="Certificate, to speak HTTPS; with --tls-key.")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Private key of --tls-cert.")] = None,
    log_format: Annotated[str, typer.Option(help="Of lines on standard error: text or json.")] = "text",
    log_calls: Annotated[bool, typer.Option("--log-calls", help="A line for every call that is over.")] = False,
    otlp_endpoint: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Send traces there (OpenTelemetry over HTTP); or set OTEL_EXPORTER_OTLP_ENDPOINT."),
    ] = None,
    tier: Annotated[str, typer.Option(help="What engines order by themselves, auto, 0, 1, 2: see docs/gateway.md.")] = "auto",
    max_concurrency: Annotated[
        int | None, typer.Option(min=1, help="Calls that may be in one engine at a time; otherwise found out.")
    ] = None,
    max_hold: Annotated[
        float, typer.Option(min=0.1, metavar="S", help="Seconds for which a call is held until its turn comes.")
    ] = 600.0,
    max_queue: Annotated[int, typer.Option(min=0, help="Calls that are held at a time.")] = 10_000,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Start the engines on a Ray cluster: auto, local or HOST:PORT. They listen on their machines' addresses.",
        ),
    ] = None,
    min_engines: Annotated[int | None, typer.Option(min=1, help="With --ray: engines that there are at least; else 1.")] = None,
    max_engines: Annotated[
        int | None, typer.Option(min=1, help="With --ray: engines for which there may be work; else as many as at least.")
    ] = None,
    tensor_parallel: Annotated[int | None, typer.Option(min=1, help="With --ray: GPUs that a model is split over.")] = None,
    gpus_per_engine: Annotated[
        float | None, typer.Option(min=0, help="With --ray: GPUs an engine takes, or a part of one; 0: it computes on CPUs.")
    ] = None,
    cpus_per_engine: Annotated[float | None, typer.Option(min=0, help="With --ray: CPUs kept for an engine; else 1.")] = None,
    table: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|URL",
            envvar="AGENTIX_TABLE",
            help="Keep programs over restarts in a file, or share them with other gateways at redis://HOST: "
            "see docs/many-gateways.md.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON line when ready, nothing else.")] = False,
) -> None:
    """Start engines (or use running ones) and the gateway in front of them. Ctrl-C stops everything it started.

    \b
    agentix serve smollm2-135m                     a real small model on the CPU
    agentix serve MODEL -- --max-model-len 32768   your model, with vLLM's own options
    agentix serve --engine-url http://host:8000    in front of a server that already runs
    """  # noqa: D301  (\b keeps click from reflowing the examples)
    require("gateway", "starlette", "uvicorn", "httpx2", "aiohttp", "prometheus_client", "psutil")
    from agentix.cluster.table import keep_table  # noqa: PLC0415 - heavy, and optional for other commands
    from agentix.gateway.admission_settings import AdmissionSettings  # noqa: PLC0415 - heavy, and optional for other commands
    from agentix.gateway.engines_file import load_engines  # noqa: PLC0415 - heavy, and optional for other commands
    from agentix.gateway.listeners import make_listeners  # noqa: PLC0415 - heavy, and optional for other commands
    from agentix.gateway.log import set_up_logging  # noqa: PLC0415 - heavy, and optional for other commands
    from agentix.gateway.server import make_loop, relieve_collector  # noqa: PLC0415 - heavy, and optional
    from agentix.serve import ServeOptions  # noqa: PLC0415 - heavy, and optional for other commands
    from agentix.serve import serve as run  # noqa: PLC0415

    set_up_logging(log_format, calls=log_calls)
    settings = {
        "policy": policy,
        "quanta_s": quanta.split(","),
        "starvation_ratio": starvation_ratio or None,
        "class_weights": dict(map(_weight, class_weight or [])),
    }
    admission = AdmissionSettings(
        scheduler=SchedulerConfig.from_mapping(settings),
        tier="2" if stock and tier == "auto" else tier,  # for comparison: nothing is held
        max_concurrency=max_concurrency,
        max_hold_s=max_hold,
        max_queue=max_queue,
    )
    of_engines = {"preemption": preemption, **(settings if model else {})}
    options = ServeOptions(
        model=model,
        engine_urls=tuple(engine_url or ()),
        num_engines=engines,
        host=host,
        port=port,
        balancer=balancer,
        plugin=None if stock else PluginSettings.from_mapping(of_engines),
        decision_log=decision_log,
        vllm_args=tuple(vllm_args or ()),
        start_timeout_s=start_timeout,
        engine_key_env=engine_key_env,
        more_engines=load_engines(engines_file) if engines_file is not None else (),
        tenants_file=tenants,
        insecure=insecure,
        cors_origins=tuple(cors_origin or ()),
        allowed_hosts=tuple(allow_host or ()),
        normalise_preambles=normalise_preambles,
        tls=_tls(tls_cert, tls_key),
        observers=make_listeners(log_calls=log_calls, otlp_endpoint=otlp_endpoint, environ=os.environ),
        admission=admission,
        table=keep_table(table) if table else None,
        ray=_ray(ray, min_engines, max_engines, tensor_parallel, gpus_per_engine, cpus_per_engine),
    )
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    on_terminal = console.is_terminal and not as_json
    with console.status("starting") if on_terminal else nullcontext() as status:

        def on_progress(line: str) -> None:
            if status is not None:
                status.update(line)
            elif not as_json:
                console.print(line, markup=False)

        def on_ready(ready: Ready) -> None:
            if status is not None:
                status.stop()
            relieve_collector()
            typer.echo(_as_json(ready) if as_json else _greeting(ready))

        with asyncio.Runner(loop_factory=make_loop) as runner:
            runner.run(run(options, on_progress=on_progress, on_ready=on_ready))


def _ray(
    address: str | None,
    min_engines: int | None,
    max_engines: int | None,
    tensor_parallel: int | None,
    gpus_per_engine: float | None,
    cpus_per_engine: float | None,
) -> RaySettings | None:
    if address is None:
        if (min_engines, max_engines, tensor_parallel, gpus_per_engine, cpus_per_engine) != (None,) * 5:
            raise ConfigError("how many engines there are, and what they take, is for engines on Ray: give --ray ADDRESS")
        return None
    least = min_engines or 1
    return RaySettings(
        address=address,
        scaling=ScalingSettings(min_engines=least, max_engines=max_engines or least),
        tensor_parallel=tensor_parallel or 1,
        gpus_per_engine=gpus_per_engine,
        cpus_per_engine=1.0 if cpus_per_engine is None else cpus_per_engine,
    )


def _weight(text: str) -> tuple[str, float]:
    name, _, weight = text.rpartition("=")
    try:
        return name, float(weight)
    except ValueError:
        raise ConfigError(f"a class weight is CLASS=NUMBER, not {text!r}") from None


def _tls(cert: Path | None, key: Path | None) -> tuple[Path, Path] | None:
    if (cert is None) != (key is None):
        raise ConfigError("--tls-cert and --tls-key go together")
    return None if cert is None or key is None else (cert, key)


def _as_json(ready: Ready) -> str:
    engines = [{"id": e.engine_id, "url": e.url, "program_scheduling": e.plugin} for e in ready.engines]
    logs = str(ready.log_dir) if ready.log_dir else None
    return json.dumps({"url": ready.url, "model": ready.model, "engines": engines, "log_dir": logs})


def _greeting(ready: Ready) -> str:
    body = {
        "model": ready.model,
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
        "max_tokens": 32,
        "temperature": 0,
    }
    key = ' -H "Authorization: Bearer $AGENTIX_API_KEY"' if ready.needs_key else ""
    lines = [
        "",
        f"Agentix is ready. Base URL: {ready.url}",
        "",
        "Try a call of the program my-agent:",
        "",
        f"  curl {ready.url}/chat/completions{key} -H 'Content-Type: application/json' \\",
        f"    -H 'X-Agentix-Program: my-agent' -d '{json.dumps(body)}'",
        "",
        f"and look at the process table:  curl {ready.url}/programs{key}",
        f"or at the dashboard:  {ready.url.removesuffix('/v1')}/ui",
        *([f"Engine logs: {ready.log_dir}"] if ready.log_dir else []),
        "Ctrl-C stops everything.",
        "",
    ]
    return "\n".join(lines)
