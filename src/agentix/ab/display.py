"""A comparison on the terminal: how it goes, and tables at its end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from agentix.ab.compare import ALL, Comparison, Run, Spread, compare, spread
from agentix.ab.config import Case
from agentix.bench.recorder import Progress

_WIDTH = 110
_NUM_PLAIN_LINES = 10  # progress lines of a run whose output is not a terminal
_COUNTERS = {
    "prefix_hit_rate": "hits",
    "num_preemptions": "lost KV",
    "num_parks": "parks",
    "num_resumes": "resumes",
    "num_evictions": "evicted",
    "evicted_tokens": "evicted tokens",
}


class Display:
    """An observer of a comparison: one live line on a terminal, some plain ones elsewhere, a line per finished run."""

    def __init__(self, console: Console, status: Status | None) -> None:
        self._console = console
        self._status = status
        self._headline = ""
        self._num_lines = 0

    def begin(self, case: Case, *, number: int, num_cases: int) -> None:
        """A run begins."""
        rate = "all at once" if math.isinf(case.rate_per_s) else f"{case.rate_per_s:.3g} programs/s"
        load = "" if case.load is None else f"load {case.load:g}, "
        self._headline = f"run {number}/{num_cases}, repeat {case.repeat}, {load}{rate}, {case.arm.name}"
        self._num_lines = 0
        self._show("starting", is_plain=True)

    def phase(self, text: str) -> None:
        """What is going on."""
        self._show(text, is_plain=False)

    def progress(self, progress: Progress) -> None:
        """How many programs are done."""
        num_lines = progress.num_programs_done * _NUM_PLAIN_LINES // progress.num_programs
        text = (
            f"{progress.num_programs_done}/{progress.num_programs} programs, "
            f"{progress.num_calls_in_flight} calls in flight, {progress.num_failed_calls} failed"
        )
        self._show(text, is_plain=num_lines > self._num_lines)
        self._num_lines = num_lines

    def done(self, run: Run, *, was_there: bool) -> None:
        """A run is over."""
        numbers = run.groups[ALL]
        latency_s = numbers["program_token_latency_s.mean"]
        origin = " (from an earlier session)" if was_there else ""
        _plain(
            self._console,
            f"{self._headline}: mean {_ms(latency_s)} ms/token, JCT {_number(numbers['jct_s.mean'])} s, "
            f"makespan {_number(numbers['makespan_s'])} s{origin}",
        )

    def _show(self, text: str, *, is_plain: bool) -> None:
        if self._status is not None:
            self._status.update(Text(f"{self._headline}: {text}"))
        elif is_plain:
            _plain(self._console, f"{self._headline}: {text}")


@contextmanager
def display(console: Console) -> Iterator[Display]:
    """An observer that shows on `console`."""
    if not console.is_terminal:
        yield Display(console, None)
        return
    with console.status("starting") as status:
        yield Display(console, status)


def print_tables(runs: Sequence[Run], *, first_arm: str, console: Console) -> None:
    """Per point the arms over all programs and by group of programs, then what the engines counted."""
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH)
    for point, of_point in groupby(compare(runs, first_arm=first_arm), key=lambda comparison: comparison.point):
        comparisons = list(of_point)
        of_all = [comparison for comparison in comparisons if comparison.group == ALL]
        num_repeats = len({run.case.repeat for run in runs if run.case.point == point})
        console.print(f"\n{point}: {num_repeats} repeats, {of_all[0].num_programs} programs each", highlight=False)
        console.print(_arms_table(of_all))
        console.print(_groups_table([comparison for comparison in comparisons if comparison.group != ALL]))
        console.print(_counters_table([run for run in runs if run.case.point == point]))
    caption = (
        "ms/tok: program-level token latency; JCT, makespan: s. Mean, P95, P99 over programs, then the median over repeats. "
        f"÷: ratio to {first_arm} within a repeat, median [least-greatest] over repeats; below 1 is better."
    )
    console.print(caption, style="dim", markup=False, highlight=False, soft_wrap=True)


def print_notes(runs: Sequence[Run], console: Console) -> None:
    """What the reader must know before trusting the numbers."""
    if not runs:
        return
    most = {
        "calls of a run failed: their programs are in no latency": max(run.num_failed_calls for run in runs),
        "answers of a run are shorter than asked for": max(run.num_short_answers for run in runs),
        "programs of the traces do not fit the context: left out": max(run.num_skipped_too_long for run in runs),
        "programs of a run are repeats: the traces are too short": max(run.num_repeated for run in runs),
    }
    for text, number in most.items():
        if number:
            _plain(console, f"{number} {text}")


def _arms_table(comparisons: Sequence[Comparison]) -> Table:
    table = _table("arm", numbers=("ms/tok", "P95", "P99", "JCT", "P95", "P99", "makespan", "÷ ms/tok", "÷ JCT"))
    for each in comparisons:
        values = each.values
        table.add_row(
            each.arm,
            *(_ms(_median(values, f"program_token_latency_s.{name}")) for name in ("mean", "p95", "p99")),
            *(_number(_median(values, f"jct_s.{name}")) for name in ("mean", "p95", "p99")),
            _number(_median(values, "makespan_s")),
            _ratio(each.ratios.get("program_token_latency_s.mean")),
            _ratio(each.ratios.get("jct_s.mean")),
        )
    return table


def _groups_table(comparisons: Sequence[Comparison]) -> Table:
    table = _table("programs", "arm", numbers=("number", "ms/tok", "P95", "JCT", "P95", "÷ ms/tok", "÷ JCT"))
    for group, of_group in groupby(comparisons, key=lambda comparison: comparison.group):
        for index, each in enumerate(of_group):
            table.add_row(
                "" if index else group,
                each.arm,
                "" if index else str(each.num_programs),
                *(_ms(_median(each.values, f"program_token_latency_s.{name}")) for name in ("mean", "p95")),
                *(_number(_median(each.values, f"jct_s.{name}")) for name in ("mean", "p95")),
                _ratio(each.ratios.get("program_token_latency_s.mean")),
                _ratio(each.ratios.get("jct_s.mean")),
            )
    return table


def _counters_table(runs: Sequence[Run]) -> Table:
    """Medians over repeats; "–" where the engine does not tell."""
    table = _table("engine", numbers=tuple(_COUNTERS.values()))
    for arm in dict.fromkeys(run.case.arm.name for run in sorted(runs, key=lambda run: run.case.repeat)):
        of_arm = [run.counters for run in runs if run.case.arm.name == arm]
        found = [spread(counters.get(name) for counters in of_arm) for name in _COUNTERS]
        table.add_row(arm, *(_number(each.median if each else None) for each in found))
    return table


def _table(*texts: str, numbers: Sequence[str]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for name in texts:
        table.add_column(name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", overflow="fold")
    return table


def _median(values: Mapping[str, Spread], name: str) -> float | None:
    return values[name].median if name in values else None


def _ratio(found: Spread | None) -> str:
    return "–" if found is None else rf"{found.median:.2f} \[{found.min:.2f}-{found.max:.2f}]"


def _ms(seconds: float | None) -> str:
    return _number(None if seconds is None else 1000 * seconds)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _plain(console: Console, text: str) -> None:
    """Print as it is: names are not markup."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
