"""The real side: an engine per case, programs replayed on it by the bench, and what it saw written down.

The programs are kept as the engine saw them: lengths by its own tokenizer, and an id per block that is equal exactly
where its prefix cache may find the block. An answer is not the recorded one that the next prompt repeats, so no later
prompt finds an answer's KV: in these programs nothing but prompts has ids.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import httpx2

from agentix.bench import BenchConfig, BenchResult, run_bench
from agentix.bench.messages import normalise
from agentix.bench.plan import PlannedProgram, make_plan
from agentix.calibrate import CalibrateConfig, calibrate
from agentix.calibrate.learn import samples_of
from agentix.engine.command import ENGINE_COMMAND, pinned
from agentix.engine.launcher import EngineOptions, LocalEngine, start_engines, stop
from agentix.engine.model import BUILT_IN, resolve_model
from agentix.engine.step_log import read_step_log
from agentix.workload import Call, Program, full_messages, load_programs
from agentix.workload.save import save_programs
from benchmarks.fidelity.cases import Case, Measured

VLLM_ARGS = ("--max-num-seqs", "8", "--max-model-len", "4096", "--block-size", "32")
_BLOCK_SIZE = 32


def measure(cases: Sequence[Case], traces: Path, out: Path, work: Path, *, engine_cpus: str | None) -> None:
    """Run every case that has no result in `out` yet; logs go to `work`."""
    model = resolve_model(BUILT_IN)
    for case in cases:
        if _result(out, case).exists():
            continue
        print(f"{case.name}: starting the engine", flush=True)
        logs = work / case.name
        logs.mkdir(parents=True, exist_ok=True)
        for log in ("steps.jsonl", "decisions.jsonl"):
            (logs / log).unlink(missing_ok=True)
        result = asyncio.run(_run(case, traces / f"{case.workload}.jsonl.gz", out, logs, model, engine_cpus))
        _keep(case, result, logs, out)


def calibrate_engine(out: Path, *, engine_cpus: str | None, minutes: float) -> None:
    """Measure the card on the engine that the cases run on."""
    config = CalibrateConfig(
        model=BUILT_IN,
        out=out,
        duration_s=60 * minutes,
        vllm_args=VLLM_ARGS,
        engine_command=pinned(ENGINE_COMMAND, engine_cpus),
    )
    calibration = asyncio.run(calibrate(config, on_progress=lambda line: print(line, flush=True)))
    print({kind: f"{bias:+.1%}" for kind, bias in calibration.biases.items()}, [round(x, 2) for x in calibration.pace])


async def _run(case: Case, trace: Path, out: Path, logs: Path, model: str, engine_cpus: str | None) -> BenchResult:
    options = EngineOptions(
        model=model,
        served_model_name=BUILT_IN,
        vllm_args=VLLM_ARGS,
        scheduler={
            "policy": case.policy,
            "preemption": "none",
            "decision_log": str(logs / "decisions.jsonl"),
            "step_log": str(logs / "steps.jsonl"),
        },
        command=pinned(ENGINE_COMMAND, engine_cpus),
    )
    [engine] = await start_engines([options], log_dir=logs)
    try:
        await _write_programs(case, trace, out / f"{case.name}.programs.jsonl.gz", engine)
        config = BenchConfig(
            target=engine.url,
            workload=trace,
            out=logs / "bench.json",
            num_programs=case.num_programs,
            rate_per_s=case.rate_per_s,
            seed=case.seed,
        )
        return await asyncio.to_thread(run_bench, config)
    finally:
        await stop([engine])


def _keep(case: Case, result: BenchResult, logs: Path, out: Path) -> None:
    if result.exit_code != 0:
        raise SystemExit(f"{case.name}: {len(result.failures)} calls failed; see {logs / 'bench.json'}")
    facts, records = read_step_log(logs / "steps.jsonl")
    programs, calls = result.document["programs"], result.document["calls"]
    jct = result.summary.distributions["jct_s"]
    Measured(
        case=case,
        started_at=result.document["started_at"],
        engine=facts,
        jct_s=[program["jct_s"] for program in programs],
        token_latency_s=[program["program_token_latency_s"] for program in programs],
        prompt_tokens=sum(call["prompt_tokens"] for call in calls),
        cached_tokens=sum(call["cached_tokens"] or 0 for call in calls),
        steps=[
            (step, round(began_s, 3), round(duration_s, 5))
            for step, began_s, duration_s in samples_of(records, since_s=records[0].began_s)
        ],
    ).save(_result(out, case))
    print(
        f"{case.name}: mean JCT {jct.mean:.1f} s, P95 {jct.p95:.1f} s, makespan {result.summary.makespan_s:.0f} s", flush=True
    )


def _result(out: Path, case: Case) -> Path:
    return out / f"{case.name}.json.gz"


async def _write_programs(case: Case, trace: Path, path: Path, engine: LocalEngine) -> None:
    plan = make_plan(
        load_programs(trace),
        run_id=case.name,
        num_programs=case.num_programs,
        rate_per_s=case.rate_per_s,
        seed=case.seed,
        max_model_len=int(VLLM_ARGS[VLLM_ARGS.index("--max-model-len") + 1]),
        context_margin=BenchConfig.context_margin,
    )
    async with httpx2.AsyncClient(base_url=engine.url, trust_env=False, timeout=60) as client:
        save_programs(path, [await _as_served(client, program) for program in plan.programs])


async def _as_served(client: httpx2.AsyncClient, planned: PlannedProgram) -> Program:
    calls = []
    for call in planned.source.calls:
        tokens = await _tokens(client, planned.source, call)
        ends = range(_BLOCK_SIZE, len(tokens) + _BLOCK_SIZE, _BLOCK_SIZE)
        calls.append(
            Call(
                call_id=call.call_id,
                parents=call.parents,
                prompt_tokens=len(tokens),
                output_tokens=call.max_tokens,
                tool_gap_s=call.tool_gap_s,
                prefix_hash_ids=tuple(_digest(tokens[:end]) for end in ends),
            )
        )
    return Program(
        program_id=planned.program_id,
        workload=planned.source.workload,
        calls=tuple(calls),
        arrival_s=planned.arrival_s,
        block_size=_BLOCK_SIZE,
    )


async def _tokens(client: httpx2.AsyncClient, program: Program, call: Call) -> list[int]:
    body = {"model": BUILT_IN, "messages": normalise(full_messages(program, call)), "add_generation_prompt": True}
    response = await client.post("/tokenize", json=body)
    response.raise_for_status()
    return list(response.json()["tokens"])


def _digest(tokens: Sequence[int]) -> int:
    return int.from_bytes(blake2b(json.dumps(tokens).encode(), digest_size=6).digest(), "big")
