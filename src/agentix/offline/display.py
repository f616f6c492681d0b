"""A batch on the terminal: progress while it runs, a few lines at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from agentix.offline.batch import Progress
from agentix.offline.results import Result, Status
from agentix.offline.run import Report

_NUM_PLAIN_LINES = 10  # progress lines of a batch whose output is not a terminal


@contextmanager
def progress_display(console: Console) -> Iterator[Callable[[Result, Progress], None]]:
    """What to call with each result: a live bar on a terminal, about ten plain lines elsewhere. Failures are shown at once."""
    columns = (TextColumn("programs"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    last_step = 0
    with Bar(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def update(result: Result, progress: Progress) -> None:
            nonlocal last_step
            state = f"{progress.num_running} running, {progress.num_failed} failed"
            bar.update(task, total=progress.num_jobs, completed=progress.num_done, description=state)
            step = progress.num_done * _NUM_PLAIN_LINES // progress.num_jobs
            if not console.is_terminal and step > last_step:
                _plain(console, f"{progress.num_done}/{progress.num_jobs} programs, {state}")
            last_step = max(last_step, step)
            if result.status is Status.FAILED:
                _plain(console, f"{result.job_id} failed after {result.attempts} attempts: {result.error}")

        yield update


def print_report(report: Report, out: Path, console: Console) -> None:
    """What came of it, and where it is."""
    parts = {
        "ended well": report.num_ok,
        "failed": report.num_failed,
        "not needed": report.num_not_needed,
        "done before": report.num_skipped,
        "left (go on with --resume)": report.num_left,
    }
    _plain(console, ", ".join(f"{number} {what}" for what, number in parts.items() if number))
    _plain(console, f"makespan {report.makespan_s:.1f} s; results in {out}")


def _plain(console: Console, text: str) -> None:
    """Print as it is: ids and errors of servers are not markup."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
