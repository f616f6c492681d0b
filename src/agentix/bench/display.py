"""A run on the terminal: progress while it runs, a table at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table

from agentix.bench.recorder import Progress
from agentix.bench.result import BenchResult
from agentix.metrics import Distribution, Status

_NUM_PLAIN_LINES = 10  # progress lines of a run whose output is not a terminal


@contextmanager
def progress_display(console: Console) -> Iterator[Callable[[Progress], None]]:
    """What to call with each Progress: a live bar on a terminal, about ten plain lines elsewhere."""
    if not console.is_terminal:
        yield _plain_lines(console)
        return
    columns = (TextColumn("programs"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Bar(*columns, console=console) as bar:
        task = bar.add_task("", total=None)

        def update(progress: Progress) -> None:
            bar.update(
                task,
                total=progress.num_programs,
                completed=progress.num_programs_done,
                description=_calls_text(progress),
            )

        yield update


def _plain_lines(console: Console) -> Callable[[Progress], None]:
    last_step = 0

    def update(progress: Progress) -> None:
        nonlocal last_step
        step = progress.num_programs_done * _NUM_PLAIN_LINES // progress.num_programs
        if step > last_step:
            last_step = step
            _plain(console, f"{progress.num_programs_done}/{progress.num_programs} programs, {_calls_text(progress)}")

    return update


def _calls_text(progress: Progress) -> str:
    return f"{progress.num_calls_in_flight} calls in flight, {progress.num_failed_calls} failed"


def print_table(result: BenchResult, console: Console) -> None:
    """Every metric of the run, in a table that fits 80 columns."""
    summary = result.summary
    table = Table(title=_title(result), box=SIMPLE_HEAD)
    table.add_column("metric", no_wrap=True)
    for column in ("mean", "P50", "P95", "P99", "values"):
        table.add_column(column, justify="right")
    for name, values in summary.distributions.items():
        table.add_row(name, *_cells(values))
    console.print(table)
    _plain(console, f"makespan {_number(summary.makespan_s)} s")
    _plain(console, f"throughput {_number(summary.program_throughput_per_s)} programs/s")
    _plain(console, f"throughput {_number(summary.output_token_throughput_per_s)} output tokens/s")


def print_warnings(result: BenchResult, console: Console) -> None:
    """What the reader must know before trusting the numbers: programs left out or repeated, short answers, failures."""
    document, summary = result.document, result.summary
    if document["num_skipped_too_long"]:
        _plain(console, f"{document['num_skipped_too_long']} programs of the workload do not fit the context: left out")
    if document["num_repeated"]:
        _plain(console, f"the workload is too short: {document['num_repeated']} programs are repeats")
    if summary.num_short_answers:
        _plain(console, f"{summary.num_short_answers} answers are shorter than asked for: the server ignores ignore_eos")
    if not result.is_complete:
        _plain(console, "interrupted: the result holds what was measured until then")
    if result.failures:
        first = result.failures[0]
        num_calls = sum(summary.num_calls.values())
        _plain(console, f"{len(result.failures)} of {num_calls} calls failed; the first:")
        _plain(console, f"program {first.program_id}, call {first.call_id}: {first.error}")


def _title(result: BenchResult) -> str:
    programs = result.summary.num_programs
    return f"{programs[Status.OK]} of {sum(programs.values())} programs ended well"


def _cells(values: Distribution) -> list[str]:
    numbers = (values.mean, values.p50, values.p95, values.p99)
    return [*map(_number, numbers), str(values.num_values)]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _plain(console: Console, text: str) -> None:
    """Print as it is: program ids and server errors are not markup."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
