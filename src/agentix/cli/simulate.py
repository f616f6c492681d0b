"""`agentix simulate`: compare policies on modelled engines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console

from agentix.core.balancers import BALANCERS
from agentix.core.config import SchedulerConfig
from agentix.core.errors import ConfigError
from agentix.core.policies import POLICIES
from agentix.cost import DEVICES, MODELS
from agentix.sim.config import PREEMPTIONS, EngineConfig
from agentix.sim.display import print_notes, print_table, progress_display
from agentix.sim.plan import ARRIVALS, SimulationConfig
from agentix.sim.processes import num_cores, run_cases
from agentix.sim.report import Files, document, to_json, write_files
from agentix.sim.scenarios import SCENARIOS, find_scenario
from agentix.workload.generate import GENERATORS

T = TypeVar("T", int, float)

_DEFAULT = SimulationConfig(workload="mixed")
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
        str | None, typer.Option(metavar="S,…", help="Quantum of each level, in seconds. Default: 1,2,4,8,16,32.")
    ] = None,
    starvation_ratio: Annotated[
        float | None, typer.Option(min=0, help="Promote a call once waiting is this many times service; 0: never. Default: 20.")
    ] = None,
    balancer: Annotated[
        str, typer.Option(metavar="B,…", help=f"{', '.join(BALANCERS.names)}, or module:Class; NAME+option=value sets one.")
    ] = ",".join(_DEFAULT.balancers),
    engines: Annotated[int, typer.Option(min=1, help="How many engines.")] = _DEFAULT.num_engines,
    device: Annotated[str, typer.Option(help=f"{', '.join(sorted(DEVICES))}.")] = _DEFAULT.device,
    model: Annotated[str, typer.Option(help=f"{', '.join(sorted(MODELS))}.")] = _DEFAULT.model,
    slots: Annotated[int, typer.Option(min=1, help="Calls that an engine runs at once.")] = _DEFAULT.engine.max_num_seqs,
    kv_tokens: Annotated[int | None, typer.Option(help="KV cache of an engine; default: what device and model allow.")] = None,
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
    device and model; they are not measured here. Exits with 1 if a program did not end well, 2 for bad input.
    """
    files = Files(numbers=out, gantt=gantt, trace=trace)
    policies = _list("policy", policy)
    if scenario is not None:
        _refuse_ignored(context)
        example = find_scenario(scenario)
        engine = replace(example.engine, scheduler=_scheduler(example.engine.scheduler, quanta, starvation_ratio))
        config = SimulationConfig(scenario=scenario, rates_per_s=(), policies=policies, engine=engine)
    else:
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
            engine=EngineConfig(
                scheduler=_scheduler(SchedulerConfig(), quanta, starvation_ratio),
                max_num_seqs=slots,
                preemption=preemption,
                prefix_cache=prefix_cache,
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


def _refuse_ignored(context: typer.Context) -> None:
    """Raise ConfigError for an option that a scenario, which brings its programs and engine along, would ignore."""
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if name not in _WITH_SCENARIO and source is not None and source.name == "COMMANDLINE":
            raise ConfigError(f"{parameter.opts[0]} does not go with --scenario, which fixes programs and engine")


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
