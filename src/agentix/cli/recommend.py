"""`agentix recommend`: what other settings would do for recorded programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agentix.core.balancers import BALANCERS
from agentix.core.errors import ConfigError
from agentix.core.policies import POLICIES
from agentix.cost import DEVICES, MODELS, load_card
from agentix.engine.settings import PluginSettings
from agentix.recommend.config import DEFAULT, NUM_REPEATS, Arm, RecommendConfig
from agentix.recommend.display import print_answer
from agentix.recommend.document import document
from agentix.recommend.run import num_cases
from agentix.recommend.run import recommend as answer_of
from agentix.sim.config import PREEMPTIONS
from agentix.sim.display import progress_display
from agentix.sim.processes import num_cores


def recommend(
    trace: Annotated[Path, typer.Argument(help="Trace of programs, such as agentix record writes: .jsonl or .jsonl.gz.")],
    *,
    engines: Annotated[int, typer.Option(min=1, help="How many engines there are.")] = 1,
    policy: Annotated[str, typer.Option(help="What is in use now: stock vLLM is fcfs.")] = PluginSettings().scheduler.policy,
    balancer: Annotated[str, typer.Option(help="What is in use now.")] = "program_affinity",
    try_policy: Annotated[
        str | None,
        typer.Option(metavar="P,…", help=f"Try these; default: what engines can do of {', '.join(POLICIES.names)}."),
    ] = None,
    try_balancer: Annotated[
        str | None, typer.Option(metavar="B,…", help=f"Try these; default: {', '.join(BALANCERS.names)}.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Programs per second; default: arrivals as recorded.")] = None,
    device: Annotated[str | None, typer.Option(help=f"{', '.join(sorted(DEVICES))}.")] = None,
    model: Annotated[str | None, typer.Option(help=f"{', '.join(sorted(MODELS))}.")] = None,
    cost: Annotated[
        Path | None, typer.Option(help="Card of a measured engine, from agentix calibrate, instead of --device and --model.")
    ] = None,
    kv_tokens: Annotated[int | None, typer.Option(help="KV cache of an engine. Default: as of agentix simulate.")] = None,
    preemption: Annotated[str, typer.Option(help=f"{', '.join(PREEMPTIONS)}.")] = PluginSettings().preemption,
    repeat: Annotated[
        int, typer.Option(min=2, help="Variants of the arrivals on which the proposal is measured.")
    ] = NUM_REPEATS,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: one per core.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Simulate recorded programs under every policy and balancer, and say whether a change is worth it.

    What looks best is measured again on arrivals that had no part in choosing it. Exits with 2 for bad input.
    """
    if cost is not None and (device or model):
        raise ConfigError("--device and --model do not go with --cost, which says what was measured")
    config = RecommendConfig(
        trace=trace,
        now=Arm(policy=policy, balancer=balancer, num_engines=engines),
        rate_per_s=rate,
        policies=_names("try-policy", try_policy),
        balancers=_names("try-balancer", try_balancer),
        num_repeats=repeat,
        device=device or DEFAULT.device,
        model=model or DEFAULT.model,
        card=load_card(cost) if cost is not None else None,
        kv_tokens=kv_tokens,
        preemption=preemption,
    )
    with progress_display(Console(stderr=True), num_cases=num_cases(config)) as on_done:
        answer = answer_of(config, num_processes=jobs or num_cores(), on_done=on_done)
    if as_json:
        typer.echo(json.dumps(document(answer), indent=1, allow_nan=False))
    else:
        print_answer(answer, Console())


def _names(option: str, text: str | None) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",")) if text is not None else ()
    if not all(names):
        raise ConfigError(f"--{option} must be names separated by commas, not {text!r}")
    return names
