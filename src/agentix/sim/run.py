"""One case: its programs, played by its engines, and what came of it in numbers."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from agentix.core.balancers import make_balancer
from agentix.core.errors import ConfigError
from agentix.cost import Roofline, StepCostModel, UnitCost, device_card, model_card, swap_s
from agentix.metrics import ServiceSummary, Status, Summary, summarise, summarise_service
from agentix.sim.config import EngineConfig, EngineCounts
from agentix.sim.plan import Case, SimulationConfig, is_generated, json_rate
from agentix.sim.scenarios import find_scenario
from agentix.sim.simulation import Simulation
from agentix.sim.timeline import Timeline
from agentix.workload import Call, Program, TraceError, generate_programs, line_of, load_programs, trace_arrivals
from agentix.workload.draw import draw_programs

_BURSTS_CV = 3.0  # coefficient of variation of the gaps between "gamma" arrivals

Drawn = list[tuple[Program, float]]  # programs with their arrivals, in seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """What came of a case. `counts` are summed over the engines; the timeline is there if it was asked for."""

    case: Case
    summary: Summary
    service: ServiceSummary
    counts: EngineCounts
    num_repeated: int  # programs that are copies, because the workload holds too few
    timeline: Timeline | None = None

    @property
    def num_failed(self) -> int:
        """Programs that did not end well."""
        return sum(self.summary.num_programs.values()) - self.summary.num_programs[Status.OK]

    def document(self) -> dict[str, Any]:
        """For JSON. Times in seconds, rate in programs per second; null: all at once, or not drawn."""
        case, summary = self.case, self.summary
        distributions = {**summary.distributions, **self.service.distributions}
        service = asdict(self.service)
        del service["distributions"]
        return {
            "policy": case.policy,
            "balancer": case.balancer,
            "rate": json_rate(case.rate_per_s),
            "seed": case.seed,
            "num_completed": summary.num_programs[Status.OK],
            "num_failed": self.num_failed,
            "num_repeated": self.num_repeated,
            "makespan_s": summary.makespan_s,
            "program_throughput_per_s": summary.program_throughput_per_s,
            "output_token_throughput_per_s": summary.output_token_throughput_per_s,
            **service,
            **{name: asdict(values) for name, values in distributions.items()},
            "engines": asdict(self.counts),
        }


def run_case(config: SimulationConfig, case: Case, *, with_timeline: bool = False) -> CaseResult:
    """Play one case. The same arguments give the same result. Raises AgentixError for bad input, named."""
    drawn, num_repeated = _draw(config, case)
    engine = _engine(config, case)
    timeline = Timeline() if with_timeline else None
    simulation = Simulation(
        [program for program, _ in drawn],
        [arrival_s for _, arrival_s in drawn],
        engine=engine,
        cost=_cost(config),
        swap_cost=None if config.card else partial(swap_s, device_card(config.device), model_card(config.model)),
        call_overhead_s=config.card.call_overhead_s if config.card else 0.0,
        balancer=make_balancer(case.balancer),
        num_engines=config.num_engines,
        on_decision=timeline.record if timeline is not None else None,
    )
    _check_fit(config, engine, [program for program, _ in drawn])
    records = simulation.run()
    counts = _sum(engine.counts for engine in (*simulation.engines.values(), *simulation.failed_engines))
    return CaseResult(
        case=case,
        summary=summarise(records),
        service=summarise_service(records, busy_s=counts.busy_s),
        counts=counts,
        num_repeated=num_repeated,
        timeline=timeline,
    )


def _engine(config: SimulationConfig, case: Case) -> EngineConfig:
    scheduler = replace(config.engine.scheduler, policy=case.policy)
    return replace(config.engine, scheduler=scheduler, num_blocks=config.num_blocks())


def _cost(config: SimulationConfig) -> StepCostModel:
    if config.scenario is not None:
        return UnitCost()
    return config.card.cost if config.card is not None else Roofline(device_card(config.device), model_card(config.model))


def _draw(config: SimulationConfig, case: Case) -> tuple[Drawn, int]:
    """The programs of a case with their arrivals, and how many of them are copies."""
    if config.scenario is not None:
        return [(program, 0.0) for program in find_scenario(config.scenario).programs], 0
    programs = _programs(config.workload or "", num_programs=config.num_programs, seed=case.seed)
    if case.rate_per_s is None:
        return _recorded(config, programs), 0
    drawn = draw_programs(
        programs,
        num_programs=config.num_programs,
        rate_per_s=case.rate_per_s,
        seed=case.seed,
        gap_cv=_BURSTS_CV if config.arrivals == "gamma" else None,
    )
    return drawn, max(0, config.num_programs - len(programs))


def _recorded(config: SimulationConfig, programs: Sequence[Program]) -> Drawn:
    """The first programs to arrive, at their recorded times."""
    try:
        arrivals_s = trace_arrivals(programs)
    except TraceError as error:
        raise TraceError(f"workload {config.workload}: {error}") from error
    return sorted(zip(programs, arrivals_s, strict=True), key=lambda drawn: drawn[1])[: config.num_programs]


def _programs(workload: str, *, num_programs: int, seed: int) -> Sequence[Program]:
    if is_generated(workload):
        rng = random.Random(f"{seed}/programs")  # noqa: S311 - not for secrets
        return generate_programs(workload, rng, num_programs=num_programs)
    return _load(workload)


@lru_cache(maxsize=1)
def _load(path: str) -> Sequence[Program]:
    """The programs of a file, read once for all cases that a process plays."""
    programs = load_programs(path)
    if not programs:
        raise ConfigError(f"{path}: the workload holds no programs")
    for program in programs:
        for call in program.calls:
            if call.prompt_tokens == 0:  # a step computes tokens of the prompt, or there is none
                raise _trace_error(path, program, call, "prompt_tokens is 0")
    return programs


def _check_fit(config: SimulationConfig, engine: EngineConfig, programs: Sequence[Program]) -> None:
    for program in programs:
        for call in program.calls:
            num_tokens = call.prompt_tokens + call.max_tokens
            if num_tokens > engine.kv_tokens:
                problem = f"prompt_tokens and output_tokens, {num_tokens}, do not fit the KV cache of {engine.kv_tokens}"
                raise _trace_error(config.workload or f"scenario {config.scenario}", program, call, problem)


def _trace_error(workload: str, program: Program, call: Call, problem: str) -> TraceError:
    """An error that names the place: that of a program in a file, or of a generated one."""
    line = line_of(workload, program.program_id) if Path(workload).is_file() else None
    return TraceError(problem, path=Path(workload), line=line, program_id=program.program_id, call_id=call.call_id)


def _sum(counts: Iterable[EngineCounts]) -> EngineCounts:
    total = EngineCounts()
    for each in counts:
        for name, value in asdict(each).items():
            setattr(total, name, getattr(total, name) + value)
    return total
