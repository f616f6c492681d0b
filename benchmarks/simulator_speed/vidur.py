"""The same calls in vidur, a simulator of LLM serving in Python (Agrawal et al., *Vidur*, MLSys 2024), and here."""

from __future__ import annotations

import csv
import json
import os
import random
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentix.cost import Step
from agentix.workload import Call, Program
from agentix.workload.arrivals import poisson_arrivals
from benchmarks.simulator_speed.programs import chats, cost_model, engine_config, play_drawn
from benchmarks.simulator_speed.timing import Timing, measure

REQUIREMENT = "vidur==0.0.26"
NUM_CALLS = 2000
RATE_PER_S = 4.0  # calls
_MAX_TOKENS = 4096  # of prompt and answer: vidur has no prefix cache, long chats would be computed again for every call
_DRIVER = Path(__file__).with_name("vidur_driver.py")


def vidur(num_repeats: int, scale: float) -> dict[str, Any]:
    """Seconds per call of both, or why vidur could not be run. AGENTIX_VIDUR_PYTHON: an interpreter that has it."""
    calls = independent_calls(max(1, round(NUM_CALLS * scale)))
    with tempfile.TemporaryDirectory(prefix="vidur-") as folder:
        try:
            python = os.environ.get("AGENTIX_VIDUR_PYTHON") or _install(Path(folder))
            theirs = [_run(python, calls, Path(folder)) for _ in range(num_repeats)]
        except (OSError, subprocess.SubprocessError) as error:
            return {"requirement": REQUIREMENT, "error": _reason(error)}
    engine = engine_config("fcfs", prefix_cache=False)
    played, timing = measure(lambda: play_drawn(calls, engine=engine), num_repeats)
    their_timing = Timing(cpu_s=[run["cpu_s"] for run in theirs], wall_s=[run["wall_s"] for run in theirs])
    return {
        "requirement": REQUIREMENT,
        "num_calls": len(calls),
        "output_tokens": played.output_tokens,
        "rate_per_s": RATE_PER_S,
        "rows": [
            _row("Agentix", timing, played.num_calls, played.num_steps, played.makespan_s),
            _row("vidur", their_timing, len(calls), theirs[0]["num_steps"], theirs[0]["makespan_s"]),
        ],
    }


def _row(simulator: str, timing: Timing, num_calls: int, num_steps: int, makespan_s: float) -> dict[str, Any]:
    call_s = min(timing.cpu_s) / num_calls
    return {"simulator": simulator, "num_steps": num_steps, "makespan_s": makespan_s, "call_s": call_s, **timing.summary()}


def independent_calls(num_calls: int) -> list[tuple[Program, float]]:
    """Calls of the chats that are not too long, each a program of its own, with Poisson arrivals."""
    calls = [c for program in chats().programs for c in program.calls if c.prompt_tokens + c.max_tokens <= _MAX_TOKENS]
    chosen = random.Random("0/calls").choices(calls, k=num_calls)  # noqa: S311 - not for secrets
    arrivals_s = poisson_arrivals(random.Random("0/arrivals"), num_programs=num_calls, rate_per_s=RATE_PER_S)  # noqa: S311
    return [(_alone(f"call-{i}", call), arrival_s) for i, (call, arrival_s) in enumerate(zip(chosen, arrivals_s, strict=True))]


def _alone(program_id: str, call: Call) -> Program:
    alone = replace(call, parents=(), tool_gap_s=None, inherits=False, messages=None, keep=None, prompt_parts=None)
    return Program(program_id=program_id, workload="calls", calls=(alone,))


def formula() -> tuple[float, float, float]:
    """Seconds per step at least, per token of it, and per token of context: the roofline in three numbers."""
    cost = cost_model()
    shortest_s = cost.step_s(Step(num_decodes=1, decode_context_tokens=0))
    per_token_s = cost.step_s(Step(prefill_tokens=100_000)) / 100_000
    with_context_s = cost.step_s(Step(num_decodes=1, decode_context_tokens=100_000))
    return shortest_s, per_token_s, (with_context_s - shortest_s) / 100_000


def _install(folder: Path) -> str:
    """A virtual environment with vidur; its interpreter."""
    venv.create(folder / "venv", with_pip=True)
    python = str(folder / "venv" / "bin" / "python")
    _check([python, "-m", "pip", "install", "--quiet", REQUIREMENT], timeout_s=1800)
    return python


def _run(python: str, calls: Sequence[tuple[Program, float]], folder: Path) -> dict[str, Any]:
    trace = folder / "calls.csv"
    with trace.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["Date", "Time", "PromptTokenCount", "CompletionTokenCount"])
        for program, arrival_s in calls:
            writer.writerow(["2026-01-01", arrival_s, program.calls[0].prompt_tokens, program.calls[0].max_tokens])
    command = [python, "-I", str(_DRIVER), str(trace), *map(str, formula()), str(folder / "output")]
    outcome: dict[str, Any] = json.loads(_check(command, timeout_s=3600).splitlines()[-1])
    return outcome


def _check(command: list[str], *, timeout_s: float) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=timeout_s).stdout


def _reason(error: Exception) -> str:
    """The last line that the failed command printed, or the error itself."""
    printed = (getattr(error, "stderr", None) or "").strip().splitlines()
    return f"Python {sys.version.split()[0]}: {printed[-1] if printed else error}"
