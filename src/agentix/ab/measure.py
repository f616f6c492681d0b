"""One run: a fresh engine, the gateway in front of it, a warm-up, and the programs of the case."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import httpx2

from agentix.ab.config import AbConfig, Case
from agentix.ab.counters import ask_num_preemptions, ask_version, read_parking
from agentix.ab.mix import Trace, make_mix
from agentix.ab.priority import CallsSoFar
from agentix.bench import BenchConfig, BenchResult
from agentix.bench.clock import Clock, MonotonicClock
from agentix.bench.plan import make_plan
from agentix.bench.recorder import Progress, Recorder
from agentix.bench.replay import ChatServer, Replay
from agentix.bench.result import Setup, make_result
from agentix.bench.target import Target, open_target
from agentix.core.errors import AgentixError
from agentix.engine.launcher import LocalEngine, start_engines, stop
from agentix.gateway import EngineTarget, GatewayConfig, create_app
from agentix.gateway.admission_settings import AdmissionSettings
from agentix.gateway.server import serving
from agentix.metrics import prefix_hit_rate
from agentix.serve import EngineDied
from agentix.workload import Call, Program

_NUM_WARM_UP_CALLS = 8
_LOG_LINES = 200  # in which the plug-in's last account of a run is looked for


class WarmUpFailed(AgentixError):
    """The engine refuses a call of the warm-up, so it would refuse those of the run; the message has its words."""


class Watch(Protocol):
    """Told how a run goes."""

    def phase(self, text: str) -> None:
        """What is going on, one short line."""

    def progress(self, progress: Progress) -> None:
        """How many programs are done."""


async def measure(
    config: AbConfig, case: Case, traces: Sequence[Trace], *, model: str, log_dir: Path, out: Path, watch: Watch
) -> dict[str, Any]:
    """Run the case and return its document: what `agentix bench` writes, and what the engine counted.

    Calls that fail are in it. Raises AgentixError if the engine does not start, dies, or refuses the warm-up. However this
    ends, the engine is gone.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        bench = _bench_config(config, case, traces, url, out)  # checks settings before anything slow starts
        options = config.engine_options(case.arm, model)
        [engine] = await start_engines([options], on_progress=watch.phase, timeout_s=config.start_timeout_s, log_dir=log_dir)
        try:
            target = EngineTarget(engine_id=engine.engine_id, url=engine.url, plugin=case.arm.settings is not None)
            async with serving(create_app(GatewayConfig(engines=(target,), admission=AdmissionSettings(tier="2"))), listener):
                return await _replay(bench, config, case, traces, engine, watch)
        finally:
            watch.phase("stopping the engine")
            await stop([engine])


def _bench_config(config: AbConfig, case: Case, traces: Sequence[Trace], url: str, out: Path) -> BenchConfig:
    return BenchConfig(
        target=url,
        workload=Path("+".join(trace.share.trace.name for trace in traces)),  # a name for the result; it is not read
        out=out,
        num_programs=config.num_programs,
        rate_per_s=case.rate_per_s,
        seed=case.seed,
        timeout_s=config.timeout_s,
        max_model_len=config.max_model_len,
        context_margin=config.context_margin,
    )


async def _replay(
    bench: BenchConfig, config: AbConfig, case: Case, traces: Sequence[Trace], engine: LocalEngine, watch: Watch
) -> dict[str, Any]:
    clock = MonotonicClock()
    async with (
        open_target(bench, clock=clock) as target,
        httpx2.AsyncClient(trust_env=False, timeout=10.0) as engine_client,
    ):
        model = await target.served_model()
        max_model_len = config.max_model_len or model.max_model_len
        plan = make_mix(traces, case, max_model_len=max_model_len, context_margin=config.context_margin)
        watch.phase("warming up")
        await _warm_up(target, clock, model.name)
        num_before = await ask_num_preemptions(engine_client, engine.url)
        recorder = Recorder(plan, on_progress=watch.progress)
        setup = Setup(
            config=bench,
            argv=(),
            run_id=f"s{case.seed}",
            started_at=datetime.now(UTC),
            model=model.name,
            max_model_len=max_model_len,
            plan=plan,
        )
        await Replay(plan, server=_server(target, case), recorder=recorder, clock=clock, model=model.name).run()
        if engine.poll() is not None:
            raise EngineDied("the engine has died in the run", engine)
        num_after = await ask_num_preemptions(engine_client, engine.url)
        version = await ask_version(engine_client, engine.url)
    result: BenchResult = make_result(setup, recorder, is_complete=True)
    counters = {
        "prefix_hit_rate": prefix_hit_rate(recorder.records()),
        "num_preemptions": None if num_before is None or num_after is None else num_after - num_before,
        **read_parking(engine.log_tail(_LOG_LINES)),
    }
    return {**result.document, "engine_version": version, "counters": counters}


def _server(target: Target, case: Case) -> ChatServer:
    return CallsSoFar(target) if case.arm.sends_priority else target


async def _warm_up(target: Target, clock: Clock, model: str) -> None:
    """A few calls at once, whose prompts are nobody's, so that no run pays for what an engine does once."""
    programs = [
        Program(
            program_id=f"warm-up-{index}",
            workload="warm-up",
            calls=(
                Call(
                    call_id="c",
                    parents=(),
                    prompt_tokens=16,
                    output_tokens=16,
                    messages=({"role": "user", "content": f"{index}: count from {100 * index} to {100 * index + 99}."},),
                ),
            ),
        )
        for index in range(_NUM_WARM_UP_CALLS)
    ]
    plan = make_plan(
        programs,
        run_id="warm-up",
        num_programs=len(programs),
        rate_per_s=float("inf"),
        seed=0,
        max_model_len=None,
        context_margin=1.0,
    )
    recorder = Recorder(plan)
    await Replay(plan, server=target, recorder=recorder, clock=clock, model=model).run()
    if recorder.failures:
        raise WarmUpFailed(f"the engine fails a call: {recorder.failures[0].error}")
