"""A whole benchmark run: load, plan, replay, write. The door that the command line uses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agentix.bench.clock import Clock, MonotonicClock
from agentix.bench.config import BenchConfig
from agentix.bench.errors import BenchError
from agentix.bench.plan import make_plan
from agentix.bench.recorder import Progress, Recorder
from agentix.bench.replay import Replay
from agentix.bench.result import BenchResult, Setup, make_result, write_result
from agentix.workload import Program, load_programs

if TYPE_CHECKING:
    import httpx2


@dataclass(slots=True)
class _Run:
    """What of the run outlives an interruption."""

    setup: Setup | None = None
    recorder: Recorder | None = None
    is_complete: bool = False

    def result(self) -> BenchResult | None:
        """None as long as no program could have started."""
        if self.setup is None or self.recorder is None:
            return None
        return make_result(self.setup, self.recorder, is_complete=self.is_complete)


def run_bench(
    config: BenchConfig,
    *,
    argv: Sequence[str] = (),
    on_progress: Callable[[Progress], None] | None = None,
    clock: Clock | None = None,
    transport: httpx2.AsyncBaseTransport | None = None,
) -> BenchResult:
    """Replay `config.workload` against `config.target` and write `config.out`.

    Failed calls are in the result, not raised. Ctrl-C ends the run early: what was measured is written and returned
    with `is_complete` false; before the first program it raises KeyboardInterrupt. Raises AgentixError if the run cannot
    start. `clock` and `transport` replace the machine's clock and network.
    """
    programs = load_programs(config.workload)
    run = _Run()
    result = None
    try:
        asyncio.run(_replay(run, config, programs, argv, on_progress, clock or MonotonicClock(), transport))
    except KeyboardInterrupt:
        if run.recorder is None:
            raise
    finally:
        result = run.result()
        if result is not None:
            write_result(result, config.out)
    if result is None:
        raise BenchError("the run ended before it began")
    return result


async def _replay(
    run: _Run,
    config: BenchConfig,
    programs: Sequence[Program],
    argv: Sequence[str],
    on_progress: Callable[[Progress], None] | None,
    clock: Clock,
    transport: httpx2.AsyncBaseTransport | None,
) -> None:
    try:
        from agentix.bench.target import open_target  # noqa: PLC0415 - the HTTP library is loaded only to run
    except ModuleNotFoundError as error:
        raise BenchError(f"{error.name} is missing: pip install 'agentix[bench]'") from error
    async with open_target(config, clock=clock, transport=transport) as target:
        model = await target.served_model()
        run.setup = _setup(config, programs, argv, model.name, config.max_model_len or model.max_model_len)
        run.recorder = Recorder(run.setup.plan, on_progress=on_progress)
        replay = Replay(
            run.setup.plan,
            server=target,
            recorder=run.recorder,
            clock=clock,
            model=model.name,
            end_programs=config.end_programs,
        )
        await replay.run()
        run.is_complete = True


def _setup(
    config: BenchConfig, programs: Sequence[Program], argv: Sequence[str], model: str, max_model_len: int | None
) -> Setup:
    started_at = datetime.now(UTC)
    run_id = f"s{config.seed}-{started_at:%Y%m%dT%H%M%S%f}"
    plan = make_plan(
        programs,
        run_id=run_id,
        num_programs=config.num_programs,
        rate_per_s=config.rate_per_s,
        seed=config.seed,
        max_model_len=max_model_len,
        context_margin=config.context_margin,
    )
    return Setup(
        config=config,
        argv=tuple(argv),
        run_id=run_id,
        started_at=started_at,
        model=model,
        max_model_len=max_model_len,
        plan=plan,
    )
