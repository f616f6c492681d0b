"""The tables of docs/results/fidelity.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from benchmarks.fidelity.cases import Case, Measured
from benchmarks.fidelity.predict import STATISTICS, WITHIN, Compared, Predicted

_HEAD = ("JCT mean, s", "JCT P95, s", "token latency mean, ms", "token latency P95, ms")


def prediction_table(predicted: Sequence[Predicted], *, paced: bool) -> str:
    """Real → predicted and the error per case and number, in order of time; a miss is bold."""

    def cell(one: Compared) -> str:
        value, error = one.paced if paced else one.predicted, _error(one, paced=paced)
        text = f"{_number(one, one.real)} → {_number(one, value)} ({100 * error:+.0f} %)"
        return text if _is_within(one, error) else f"**{text}**"

    rows = [
        (each.name, each.started_at[11:16], *map(cell, each.compared), f"{each.slowness:.2f}")
        for each in sorted(predicted, key=lambda each: each.started_at)
    ]
    return _table(("case", "began", *_HEAD, "slowness"), rows)


def repeat_table(runs: Sequence[Measured]) -> str:
    """What the runs of one case gave, for every case that was run more than once; spread: (largest - smallest) ÷ mean."""
    cases: dict[Case, list[Measured]] = {}
    for run in runs:
        cases.setdefault(replace(run.case, repeat=1), []).append(run)
    rows = [
        (case.name, *map(_repeated, zip(*map(_numbers, same), strict=True))) for case, same in cases.items() if len(same) > 1
    ]
    return _table(("case", *_HEAD), rows)


def _repeated(numbers: Sequence[Compared]) -> str:
    values = [one.real for one in numbers]
    spread = (max(values) - min(values)) / fmean(values)
    return f"{' / '.join(_number(one, one.real) for one in numbers)} ({100 * spread:.0f} %)"


def count_within(predicted: Sequence[Predicted], *, paced: bool) -> tuple[int, int]:
    """How many numbers are predicted well enough, of how many."""
    numbers = [one for each in predicted for one in each.compared]
    return sum(_is_within(one, _error(one, paced=paced)) for one in numbers), len(numbers)


def _error(one: Compared, *, paced: bool) -> float:
    return one.paced_error if paced else one.error


def _is_within(one: Compared, error: float) -> bool:
    return abs(error) <= WITHIN[one.of]


def _numbers(run: Measured) -> list[Compared]:
    real = {"jct_s": run.jct_s, "program_token_latency_s": run.token_latency_s}
    return [
        Compared(metric=metric, of=of, real=statistic(values), predicted=0.0, paced=0.0)
        for metric, values in real.items()
        for of, statistic in STATISTICS.items()
    ]


def _number(one: Compared, value: float) -> str:
    return f"{value:.1f}" if one.metric == "jct_s" else f"{1000 * value:.0f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
