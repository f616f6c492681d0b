"""A comparison on the terminal: progress while it runs, a table at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import fmean

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from agentix.sim.plan import SimulationConfig
from agentix.sim.run import CaseResult

Values = Sequence[float | None]  # of one metric, seed by seed

_WIDTH = 100
_CAPTION = "JCT, wait, makespan: s. ms/tok: program-level token latency. Means, then percentiles over programs."
_OVER_SEEDS = "Averaged over seeds; ± is half the distance from the least to the greatest of them."


@contextmanager
def progress_display(console: Console, *, num_cases: int) -> Iterator[Callable[[], None]]:
    """What to call after each case: a bar on a terminal, nothing elsewhere."""
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=num_cases)
        yield lambda: bar.advance(task)


def print_table(config: SimulationConfig, results: Sequence[CaseResult], console: Console) -> None:
    """A row per policy, balancer and rate, averaged over seeds; balancer and rate are columns if there are several.

    About 100 characters wide at most; a narrower terminal folds it, what is no terminal gets it whole.
    """
    caption = _CAPTION + (f" {_OVER_SEEDS}" if len(config.seeds) > 1 else "")
    several_balancers, several_rates = len(config.balancers) > 1, len(config.rates_per_s) > 1
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for name in ("policy", *["balancer"] * several_balancers, *["rate"] * several_rates):
        table.add_column(name, overflow="fold")
    for name in ("JCT", "P95", "P99", "ms/tok", "P95", "wait", "makespan", "hits", "preempt"):
        table.add_column(name, justify="right", overflow="fold")
    num_seeds = len(config.seeds)
    for first in range(0, len(results), num_seeds):  # seeds are innermost
        case = results[first].case
        labels = [case.policy, *[case.balancer] * several_balancers, *[_number(case.rate_per_s)] * several_rates]
        table.add_row(*labels, *_cells(results[first : first + num_seeds]))
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH)
    console.print(table)
    console.print(caption, style="dim", highlight=False, soft_wrap=True)


def print_notes(results: Sequence[CaseResult], console: Console) -> None:
    """What the reader must know before trusting the numbers."""
    num_repeated = max((result.num_repeated for result in results), default=0)
    if num_repeated:
        console.print(f"the workload is too short: {num_repeated} of the programs are repeats", highlight=False)
    num_failed = max((result.num_failed for result in results), default=0)
    if num_failed:
        console.print(f"{num_failed} programs of a run did not end well: they are in no latency", highlight=False)


def _cells(of_seeds: Sequence[CaseResult]) -> list[str]:
    jct = [result.summary.distributions["jct_s"] for result in of_seeds]
    latency = [result.summary.distributions["program_token_latency_s"] for result in of_seeds]
    return [
        _spread([d.mean for d in jct]),
        _mean([d.p95 for d in jct]),
        _mean([d.p99 for d in jct]),
        _spread([_ms(d.mean) for d in latency]),
        _mean([_ms(d.p95) for d in latency]),
        _mean([result.service.total_wait_s for result in of_seeds]),
        _mean([result.summary.makespan_s for result in of_seeds]),
        _mean([result.service.prefix_hit_rate for result in of_seeds]),
        _mean([result.counts.num_preemptions for result in of_seeds]),
    ]


def _mean(values: Values) -> str:
    present = [value for value in values if value is not None]
    return _number(fmean(present) if present else None)


def _spread(values: Values) -> str:
    present = [value for value in values if value is not None]
    if len(present) < 2 or not fmean(present):
        return _mean(values)
    return f"{_mean(values)}±{(max(present) - min(present)) / 2 / fmean(present):.0%}"


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"
