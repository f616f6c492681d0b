"""A trace file as a batch: each recorded program is a job that replays it (the same bodies and headers as `agentix bench`)."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentix.bench.clock import MonotonicClock
from agentix.bench.config import BenchConfig
from agentix.bench.plan import Plan, PlannedProgram
from agentix.bench.recorder import Recorder
from agentix.bench.replay import ChatServer, Replay
from agentix.metrics import CallRecord
from agentix.offline.config import OfflineConfig
from agentix.offline.errors import HOPELESS, GiveUp, OfflineError
from agentix.offline.job import Job, Session
from agentix.offline.run import OnResult, Report, run_jobs
from agentix.workload import Program, load_programs, thread_ids

_CALL_TIMEOUT_S = 86_400.0  # a batch's calls wait for as long as it takes
_TOKENS_PER_DECODE = 32  # prompt tokens that an engine computes in the time of one answer token, about: batches share steps


def replay_offline(
    trace: Path, config: OfflineConfig, *, model: str | None = None, on_result: OnResult | None = None
) -> Report:
    """Run every program of a trace file; `model` as for `agentix bench`. A result holds the program's tokens and its time.

    Prompts and lengths of answers are the recorded ones. Raises AgentixError if it cannot start; Ctrl-C ends it early.
    """
    programs = load_programs(trace)
    for program in programs:
        if not program.has_text:
            raise OfflineError(f"program {program.program_id!r} has no message text: a length-only trace cannot be replayed")
    return asyncio.run(_replay_all(trace, programs, config, model, on_result))


async def _replay_all(
    trace: Path, programs: Sequence[Program], config: OfflineConfig, model: str | None, on_result: OnResult | None
) -> Report:
    try:
        from agentix.bench.target import open_target  # noqa: PLC0415 - the HTTP library is loaded only to run
    except ModuleNotFoundError as error:
        raise OfflineError(f"{error.name} is missing: pip install 'agentix[offline]'") from error
    target_config = BenchConfig(
        target=config.root,
        workload=trace,
        out=config.out,
        num_programs=max(1, len(programs)),
        rate_per_s=math.inf,
        seed=0,
        model=model,
        api_key=config.api_key,
        timeout_s=_CALL_TIMEOUT_S,
    )
    async with open_target(target_config, clock=MonotonicClock()) as target:
        served = await target.served_model()
        jobs = [replay_job(program, server=target, model=served.name) for program in programs]
        return await run_jobs(jobs, config, on_result=on_result, report_when_cancelled=True)


def replay_job(program: Program, *, server: ChatServer, model: str) -> Job:
    """The job that replays a program. It fails with the first of its calls that does."""

    async def run(session: Session) -> dict[str, Any]:
        planned = PlannedProgram(program_id=session.program_id, arrival_s=0.0, source=program, threads=thread_ids(program))
        plan = Plan(programs=(planned,), num_skipped_too_long=0, num_repeated=0)
        recorder = Recorder(plan)
        await Replay(plan, server=server, recorder=recorder, clock=MonotonicClock(), model=model).run()
        if recorder.failures:
            raise _failure(recorder.failures[0])
        (record,) = recorder.records()
        return {
            "num_calls": len(record.calls),
            "prompt_tokens": sum(call.prompt_tokens or 0 for call in record.calls),
            "cached_tokens": sum(call.cached_tokens or 0 for call in record.calls),
            "output_tokens": sum(call.output_tokens or 0 for call in record.calls),
            "jct_s": max(call.end_s or 0.0 for call in record.calls),
        }

    return Job(job_id=program.program_id, run=run, size=expected_work(program), name=program.workload)


def _failure(call: CallRecord) -> OfflineError:
    problem = f"call {call.call_id}: {call.error}"
    status = re.match(r"HTTP (\d{3}):", call.error or "")  # as `agentix.bench.target` has it
    return GiveUp(problem) if status is not None and int(status[1]) in HOPELESS else OfflineError(problem)


def expected_work(program: Program) -> float:
    """Time that a program needs alone, roughly, in answer tokens: answers along its longest path, and all its prompts.

    A prompt's tokens count where they are new: a prefix that an earlier call had is in the engine's cache.
    """
    path: dict[str, float] = {}
    for call in program.calls:
        inherited = program.call(call.parents[0]) if call.inherits else None
        num_known = inherited.prompt_tokens + inherited.output_tokens if inherited is not None else 0
        work = call.max_tokens + max(0, call.prompt_tokens - num_known) / _TOKENS_PER_DECODE
        path[call.call_id] = work + max((path[parent] for parent in call.parents), default=0.0)
    return max(path.values(), default=0.0)
