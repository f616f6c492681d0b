"""One run: the programs through the gateway under one balancer, and what is kept of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from agentix.bench import BenchConfig, run_bench
from agentix.engine.launcher import LocalEngine
from benchmarks.two_engines.system import empty_caches, gateway, tell

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Programs of a trace, arriving at random: `rate_per_s` of them a second in the mean."""

    workload: Path
    num_programs: int
    rate_per_s: float
    context_margin: float = 1.15

    def bench(self, url: str, out: Path, seed: int) -> BenchConfig:
        """The same for `agentix bench`."""
        return BenchConfig(
            target=url,
            workload=self.workload,
            out=out,
            num_programs=self.num_programs,
            rate_per_s=self.rate_per_s,
            seed=seed,
            timeout_s=300.0,
            context_margin=self.context_margin,
        )


def compare(
    engines: Sequence[LocalEngine], load: Load, balancers: list[str], work: Path, *, num_repeats: int
) -> list[Document]:
    """Every balancer once in each repeat, in turns: the same programs, arrivals and empty caches for all of a repeat."""
    runs = []
    for repeat in range(num_repeats):
        order = balancers[repeat % len(balancers) :] + balancers[: repeat % len(balancers)]  # none is always the first
        for balancer in order:
            empty_caches(engines)
            with gateway(engines, work, "--port", "0", "--balancer", balancer) as (url, _):
                document = run_bench(load.bench(url, work / "result.json", seed=repeat)).document
                moves = count(url, "moves_total")
            runs.append({"balancer": balancer, "repeat": repeat, "num_moves": moves, **figures(document)})
            tell(f"repeat {repeat}, {balancer}: {runs[-1]['jct_s']['mean']:.2f} s, hits {runs[-1]['hit_rate']:.0%}")
    return runs


def figures(document: Mapping[str, Any]) -> Document:
    """What counts of a benchmark's result."""
    summary, ended = document["summary"], [c for c in document["calls"] if c["status"] == "ok"]
    prompt_tokens = sum(c["prompt_tokens"] or 0 for c in ended)
    return {
        "jct_s": {name: summary["distributions"]["jct_s"][name] for name in ("mean", "p50", "p95")},
        "ttft_s": {name: summary["distributions"]["ttft_s"][name] for name in ("mean", "p50", "p95")},
        "makespan_s": summary["makespan_s"],
        "num_calls": summary["num_calls"],
        "hit_rate": sum(c["cached_tokens"] or 0 for c in ended) / prompt_tokens if prompt_tokens else None,
        "error": next((c["error"] for c in document["calls"] if c["error"]), None),
    }


def count(url: str, name: str) -> float:
    """The sum of a counter of the gateway's over all its labels."""
    text = httpx2.get(f"{url}/metrics", trust_env=False, timeout=10.0).text
    lines = (line for line in text.splitlines() if line.startswith(f"agentix_gateway_{name}{{"))
    return sum(float(line.rpartition(" ")[2]) for line in lines)
