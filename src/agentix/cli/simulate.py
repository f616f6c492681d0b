"""`agentix simulate`: compare policies on modelled engines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from agentix.core.balancers import BALANCERS
from agentix.core.config import SchedulerConfig
from agentix.core.policies import POLICIES
from agentix.cost import DEVICES, MODELS
from agentix.sim.engine import EngineConfig
from agentix.sim.run import PolicyResult, SimulationConfig, describe, run_policies
from agentix.workload.generate import GENERATORS

_DEFAULT = SimulationConfig(generate="mixed")
_QUANTA = ",".join(f"{quantum_s:g}" for quantum_s in _DEFAULT.quanta_s)


def simulate(
    *,
    workload: Annotated[Path | None, typer.Option(help="Trace of programs: .jsonl.gz or .jsonl.")] = None,
    generate: Annotated[str | None, typer.Option(help=f"Synthetic programs instead: {', '.join(GENERATORS.names)}.")] = None,
    programs: Annotated[int, typer.Option(min=1, help="How many programs to run.")] = _DEFAULT.num_programs,
    rate: Annotated[float, typer.Option(help="Programs per second, Poisson arrivals; inf: all at once.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Decides which programs run, in what order, and when.")] = 0,
    policy: Annotated[
        str, typer.Option(metavar="P,P,…", help=f"Policies to compare: {', '.join(POLICIES.names)}, or module:Class.")
    ] = ",".join(_DEFAULT.policies),
    quanta: Annotated[str, typer.Option(metavar="S,S,…", help="Quantum of each level, in seconds.")] = _QUANTA,
    starvation_ratio: Annotated[
        float, typer.Option(min=0, help="Promote a call once waiting is this many times service; 0: never.")
    ] = _DEFAULT.starvation_ratio or 0.0,
    device: Annotated[str, typer.Option(help=f"{', '.join(sorted(DEVICES))}.")] = _DEFAULT.device,
    model: Annotated[str, typer.Option(help=f"{', '.join(sorted(MODELS))}.")] = _DEFAULT.model,
    engines: Annotated[int, typer.Option(min=1, help="How many engines.")] = 1,
    balancer: Annotated[str, typer.Option(help=f"{', '.join(BALANCERS.names)}, or module:Class.")] = _DEFAULT.balancer,
    slots: Annotated[int, typer.Option(min=1, help="Calls that an engine runs at once.")] = 64,
    kv_tokens: Annotated[int | None, typer.Option(help="KV cache of an engine; default: what device and model allow.")] = None,
    preemption: Annotated[str, typer.Option(help="park (KV stays until it is needed) or recompute.")] = "park",
    prefix_cache: Annotated[bool, typer.Option(help="Find the KV of earlier prompts.")] = True,
    chunked_prefill: Annotated[bool, typer.Option(help="Cut long prompts to the token budget of a step.")] = True,
    out: Annotated[Path | None, typer.Option(help="Result file (JSON).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON instead of a table.")] = False,
) -> None:
    """Run the same programs under several policies on modelled engines, with the core that runs in real ones.

    Step times come from published figures of device and model; they are not measured here.
    """
    settings = {"quanta_s": quanta.split(","), "starvation_ratio": starvation_ratio or None}
    scheduler = SchedulerConfig.from_mapping(settings)
    config = SimulationConfig(
        workload=workload,
        generate=generate,
        num_programs=programs,
        rate_per_s=rate,
        seed=seed,
        policies=tuple(policy.split(",")),
        quanta_s=scheduler.quanta_s,
        starvation_ratio=scheduler.starvation_ratio,
        device=device,
        model=model,
        num_engines=engines,
        balancer=balancer,
        kv_tokens=kv_tokens,
        engine=EngineConfig(
            max_num_seqs=slots, preemption=preemption, prefix_cache=prefix_cache, chunked_prefill=chunked_prefill
        ),
    )
    with Console(stderr=True).status("loading") as status:
        results = list(run_policies(config, on_progress=lambda name: status.update(f"simulating {name}")))
    document = {"config": describe(config), "results": [result.document() for result in results]}
    if out is not None:
        out.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(document, indent=1, allow_nan=False))
    else:
        Console().print(_table(results))


def _table(results: list[PolicyResult]) -> Table:
    caption = "JCT, makespan: s. ms/tok: program-level token latency. Means, then percentiles over programs."
    table = Table(box=None, padding=(0, 1), pad_edge=False, caption=caption, caption_justify="left")
    for name in ("policy", "JCT", "P95", "P99", "ms/tok", "P95", "P99", "makespan", "hits", "preempt"):
        table.add_column(name, no_wrap=True, justify="left" if name == "policy" else "right")
    for result in results:
        jct, latency = (result.summary.distributions[name] for name in ("jct_s", "program_token_latency_s"))
        table.add_row(
            result.policy,
            *(_number(v) for v in (jct.mean, jct.p95, jct.p99)),
            *(_number(None if v is None else 1000 * v) for v in (latency.mean, latency.p95, latency.p99)),
            _number(result.summary.makespan_s),
            _number(result.hit_rate),
            str(result.counts.num_preemptions),
        )
    return table


def _number(value: Any) -> str:
    return "–" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"
