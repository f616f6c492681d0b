"""`agentix simulate`: compare policies on modelled engines."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console

from agentix.core.balancers import BALANCERS
from agentix.core.config import SchedulerConfig
from agentix.core.errors import ConfigError
from agentix.core.policies import POLICIES
from agentix.cost import DEVICES, MODELS, load_card
from agentix.engine.settings import PluginSettings
from agentix.sim.config import PREEMPTIONS, EngineConfig, engine_like
from agentix.sim.display import print_notes, print_table, progress_display
from agentix.sim.plan import ARRIVALS, SimulationConfig
from agentix.sim.processes import num_cores, run_cases
from agentix.sim.report import Files, document, to_json, write_files
from agentix.sim.scenarios import SCENARIOS, find_scenario
from agentix.workload.generate import GENERATORS

T = TypeVar("T", int, float)

_DEFAULT = SimulationConfig(workload="mixed")
_SLOTS = EngineConfig().max_num_seqs
_WITH_SCENARIO = {"scenario", "policy", "quanta", "starvation_ratio", "jobs", "out", "gantt", "trace", "as_json"}


def simulate(
    context: typer.Context,
    *,
    workload: Annotated[
        str | None,
        typer.Option(metavar="FILE|NAME", help=f"Trace of programs (.jsonl, .jsonl.gz) or {', '.join(GENERATORS.names)}."),
    ] = None,
    scenario: Annotated[
        str | None, typer.Option(help=f"A worked example of the paper instead, one step a second: {', '.join(SCENARIOS)}.")
    ] = None,
    programs: Annotated[int, typer.Option(min=1, help="How many programs to run.")] = _DEFAULT.num_programs,
    rate: Annotated[str | None, typer.Option(metavar="R,…", help="Programs per second; inf: all at once. Default: 1.")] = None,
    arrivals: Annotated[
        str, typer.Option(help=f"{', '.join(ARRIVALS)}: independent, in bursts, as recorded.")
    ] = _DEFAULT.arrivals,
    seed: Annotated[str, typer.Option(metavar="S,…", help="Decides which programs run, in what order, and when.")] = "0",
    policy: Annotated[str, typer.Option(metavar="P,…", help=f"{', '.join(POLICIES.names)}, or module:Class.")] = ",".join(
        _DEFAULT.policies
    ),
    quanta: Annotated[
        str | None,
        typer.Option(metavar="S,…", help="Quantum of each level, in seconds. Default: 1,2,4,8,16,32; plug-in: to 512."),
    ] = None,
    starvation_ratio: Annotated[
        float | None, typer.Option(min=0, help="Promote a call once waiting is this many times service; 0: never. Default: 20.")
    ] = None,
    plugin_rules: Annotated[
        bool,
        typer.Option("--plugin-rules", help="The vLLM plug-in's settings: quanta to 512 s, running_first, weigh_evictions."),
    ] = False,
    balancer: Annotated[
        str, typer.Option(metavar="B,…", help=f"{', '.join(BALANCERS.names)}, or module:Class; NAME+option=value sets one.")
    ] = ",".join(_DEFAULT.balancers),
    engines: Annotated[int, typer.Option(min=1, help="How many engines.")] = _DEFAULT.num_engines,
    device: Annotated[str, typer.Option(help=f"{', '.join(sorted(DEVICES))}.")] = _DEFAULT.device,
    model: Annotated[str, typer.Option(help=f"{', '.join(sorted(MODELS))}.")] = _DEFAULT.model,
    cost: Annotated[
        Path | None, typer.Option(help="Card of a measured engine, from agentix calibrate, instead of --device and --model.")
    ] = None,
    slots: Annotated[
        int | None, typer.Option(min=1, help=f"Calls an engine runs at once. Default: {_SLOTS}, or what the card says.")
    ] = None,
    kv_tokens: Annotated[
        int | None, typer.Option(help="KV cache of an engine. Default: what device and model allow, or what the card says.")
    ] = None,
    preemption: Annotated[str, typer.Option(help=f"{', '.join(PREEMPTIONS)}.")] = _DEFAULT.engine.preemption,
    prefix_cache: Annotated[bool, typer.Option(help="Find the KV of earlier prompts.")] = True,
    chunked_prefill: Annotated[bool, typer.Option(help="Cut long prompts to the token budget of a step.")] = True,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: one per core.")] = None,
    out: Annotated[Path | None, typer.Option(help="Result file (JSON).")] = None,
    gantt: Annotated[Path | None, typer.Option(help="Picture of who was served when (SVG).")] = None,
    trace: Annotated[Path | None, typer.Option(help="The same for https://ui.perfetto.dev (JSON).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON instead of a table.")] = False,
) -> None:
    """Run the same programs under several policies on modelled engines, with the core that runs in real ones.

    Policies, balancers, rates and seeds may be lists; every combination is run. Step times come from published figures of
    device and model, or were measured (`--cost`). Exits with 1 if a program did not end well, 2 for bad input.
    """
    files = Files(numbers=out, gantt=gantt, trace=trace)
    policies = _list("policy", policy)
    if scenario is not None:
        names = {parameter.name or "" for parameter in context.command.params}
        _refuse(context, names - _WITH_SCENARIO, "--scenario, which fixes programs and engine")
        example = find_scenario(scenario)
        engine = replace(example.engine, scheduler=_scheduler(example.engine.scheduler, quanta, starvation_ratio))
        config = SimulationConfig(scenario=scenario, rates_per_s=(), policies=policies, engine=engine)
    else:
        card = load_card(cost) if cost is not None else None
        if card is not None:
            _refuse(context, {"device", "model"}, "--cost, which says what was measured")
        measured = engine_like(card.engine) if card is not None else EngineConfig()
        rules = PluginSettings().scheduler if plugin_rules else SchedulerConfig()
        config = SimulationConfig(
            workload=workload,
            num_programs=programs,
            arrivals=arrivals,
            rates_per_s=_rates(rate, arrivals),
            seeds=_numbers("seed", seed, int),
            policies=policies,
            balancers=_list("balancer", balancer),
            device=device,
            model=model,
            num_engines=engines,
            kv_tokens=kv_tokens,
            card=card,
            engine=replace(
                measured,
                scheduler=_scheduler(rules, quanta, starvation_ratio),
                max_num_seqs=slots or measured.max_num_seqs,
                preemption=preemption,
                prefix_cache=prefix_cache and measured.prefix_cache,
                chunked_prefill=chunked_prefill,
            ),
        )
    errors = Console(stderr=True)
    with progress_display(errors, num_cases=len(config.cases())) as on_done:
        results = run_cases(config, num_processes=jobs or num_cores(), on_done=on_done, with_timelines=files.need_timelines)
    write_files(files, config, results)
    if as_json:
        typer.echo(to_json(document(config, results)))
    else:
        print_table(config, results, Console())
    print_notes(results, errors)
    if any(result.num_failed for result in results):
        raise typer.Exit(1)


def _refuse(context: typer.Context, names: Set[str], beside: str) -> None:
    """Raise ConfigError for an option among `names` that was given, since it would be ignored."""
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if name in names and source is not None and source.name == "COMMANDLINE":
            raise ConfigError(f"{parameter.opts[0]} does not go with {beside}")


def _scheduler(base: SchedulerConfig, quanta: str | None, starvation_ratio: float | None) -> SchedulerConfig:
    settings = base.to_mapping()
    if quanta is not None:
        settings["quanta_s"] = quanta.split(",")
    if starvation_ratio is not None:
        settings["starvation_ratio"] = starvation_ratio or None
    return SchedulerConfig.from_mapping(settings)


def _rates(rate: str | None, arrivals: str) -> tuple[float, ...]:
    if rate is not None:
        return _numbers("rate", rate, float)
    return () if arrivals == "trace" else _DEFAULT.rates_per_s


def _list(option: str, text: str) -> tuple[str, ...]:
    items = tuple(item.strip() for item in text.split(","))
    if not all(items):
        raise ConfigError(f"--{option} must be names separated by commas, not {text!r}")
    return items


def _numbers(option: str, text: str, number: Callable[[str], T]) -> tuple[T, ...]:
    try:
        return tuple(number(item) for item in text.split(","))
    except ValueError:
        raise ConfigError(f"--{option} must be numbers separated by commas, not {text!r}") from None
