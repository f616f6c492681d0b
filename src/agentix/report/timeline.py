"""Who was served when: a row for each of the first programs, as far as the results tell of calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from agentix.report.chart import Chart, Panel, Span, Table, number
from agentix.report.model import CallSpan, Report, Run

_MAX_PROGRAMS = 40  # rows that can still be told apart
_MAX_PANELS = 4


def timeline_chart(report: Report) -> Chart | None:
    """The first repeat of each arm at the highest load; None if no result tells of calls."""
    runs = _chosen(report)
    if not runs:
        return None
    shown = [(run, _first_programs(run)) for run in runs]
    last_s = max(call.end_s for _, programs in shown for calls in programs.values() for call in calls)
    panels, rows = [], []
    for run, programs in shown:
        panels.append(
            Panel(
                title=f"{run.arm}, {run.point}, {run.repeat}",
                x="s since the run began",
                y="program",
                spans=[span for row, calls in enumerate(programs.values()) for span in _spans(calls, row)],
                num_rows=len(programs),
                x_max=last_s,  # the same in all panels
            )
        )
        for row, (program_id, calls) in enumerate(programs.items(), start=1):
            rows.append([run.arm, str(row), program_id, number(max(call.end_s for call in calls))])
    text = (
        f"The first {_MAX_PROGRAMS} programs by arrival, a row each, of each arm's first repeat at the highest load. Pale: "
        "sent, and no token yet. Full: answering. Blank: tool gaps. Calls of one program at the same time lie over each other."
    )
    table = Table(header=["arm", "row", "program", "last call over (s)"], rows=rows)
    return Chart(slug="timeline", title="Who was served when", text=text, panels=panels, table=table)


def _chosen(report: Report) -> list[Run]:
    """With calls, one for each arm at the last point at which any has some."""
    told = [run for run in report.runs if run.calls]
    point = next((point for point in reversed(report.points) if any(run.point == point for run in told)), None)
    firsts: dict[str, Run] = {}
    for run in told:
        if run.point == point:
            firsts.setdefault(run.arm, run)
    return list(firsts.values())[:_MAX_PANELS]


def _first_programs(run: Run) -> dict[str, list[CallSpan]]:
    """Calls by program, of the first to arrive."""
    programs: dict[str, list[CallSpan]] = {}
    for call in run.calls:
        programs.setdefault(call.program_id, []).append(call)
    return dict(islice(programs.items(), _MAX_PROGRAMS))


def _spans(calls: Sequence[CallSpan], row: int) -> Iterator[Span]:
    for call in calls:
        begun_s = call.sent_s if call.first_token_s is None else call.first_token_s
        yield Span(row=row, start_s=call.sent_s, end_s=begun_s, strong=False)
        yield Span(row=row, start_s=begun_s, end_s=call.end_s, strong=True)
