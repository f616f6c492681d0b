"""Which programs a run replays: some of each trace, the same for a seed in every arm."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentix.ab.config import Case, Share
from agentix.bench.errors import BenchError
from agentix.bench.plan import Plan, fits, make_plan
from agentix.core.errors import ConfigError
from agentix.workload import Program, load_programs
from agentix.workload.draw import draw_programs


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A trace file as it was when it was loaded, and how many of its programs a run gets. `digest` is of the file's bytes."""

    share: Share
    programs: tuple[Program, ...]
    digest: str

    def document(self) -> dict[str, Any]:
        """For the result files."""
        return {"file": self.share.trace.name, "num_programs": self.share.num_programs, "sha256": self.digest}


def load_traces(shares: Sequence[Share]) -> tuple[Trace, ...]:
    """Read every trace. Raises TraceError, or ConfigError for one that cannot be replayed because it has lengths alone."""
    traces = []
    for share in shares:
        programs = load_programs(share.trace)
        if not programs or not all(program.has_text for program in programs):
            why = "holds no programs" if not programs else "has programs without message text, which can only be simulated"
            raise ConfigError(f"{share.trace} {why}")
        digest = hashlib.sha256(share.trace.read_bytes()).hexdigest()
        traces.append(Trace(share=share, programs=programs, digest=digest))
    return tuple(traces)


def make_mix(traces: Sequence[Trace], case: Case, *, max_model_len: int | None, context_margin: float) -> Plan:
    """The programs of the case, shuffled together, with their arrivals: a pure function of traces, seed, rate and limits.

    Of each trace come as many as its share says, drawn from those that fit the model. Raises BenchError if none does.
    """
    mixed: list[Program] = []
    num_too_long = num_repeated = 0
    for trace in traces:
        fitting = [p for p in trace.programs if fits(p, max_model_len=max_model_len, context_margin=context_margin)]
        if not fitting:
            raise BenchError(f"no program of {trace.share.trace.name} fits the model's context of {max_model_len} tokens")
        num_programs = trace.share.num_programs
        drawn = draw_programs(fitting, num_programs=num_programs, rate_per_s=case.rate_per_s, seed=case.seed)
        mixed += [program for program, _ in drawn]
        num_too_long += len(trace.programs) - len(fitting)
        num_repeated += max(0, num_programs - len(fitting))
    plan = make_plan(
        mixed,
        run_id=f"s{case.seed}",
        num_programs=len(mixed),
        rate_per_s=case.rate_per_s,
        seed=case.seed,
        max_model_len=None,  # all of them fit
        context_margin=context_margin,
    )
    return replace(plan, num_skipped_too_long=num_too_long, num_repeated=num_repeated)
