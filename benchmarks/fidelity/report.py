"""The tables of docs/results/fidelity.md."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from benchmarks.fidelity.cases import Case, Measured
from benchmarks.fidelity.predict import STATISTICS, WITHIN, Compared, Predicted

_HEAD = ("JCT mean, s", "JCT P95, s", "token latency mean, ms", "token latency P95, ms")


def prediction_table(predicted: Sequence[Predicted], *, paced: bool) -> str:
    """Real → predicted and the error per case and number; a miss is bold."""

    def cell(one: Compared) -> str:
        value, error = one.paced if paced else one.predicted, _error(one, paced=paced)
        text = f"{_number(one, one.real)} → {_number(one, value)} ({100 * error:+.0f} %)"
        return text if _is_within(one, error) else f"**{text}**"

    rows = [(each.name, *map(cell, each.compared), f"{each.slowness:.2f}") for each in predicted]
    return _table(("case", *_HEAD, "slowness"), rows)


def repeat_table(runs: Sequence[Measured]) -> str:
    """What several runs of one case gave, and their spread: (largest - smallest) ÷ mean."""
    rows = [(run.case.name, *(_number(one, one.real) for one in _numbers(run))) for run in runs]
    columns = zip(*([one.real for one in _numbers(run)] for run in runs), strict=True)
    spread = [f"{100 * (max(column) - min(column)) / fmean(column):.0f} %" for column in columns]
    return _table(("run", *_HEAD), [*rows, ("spread", *spread)])


def count_within(predicted: Sequence[Predicted], *, paced: bool) -> tuple[int, int]:
    """How many numbers are predicted well enough, of how many."""
    numbers = [one for each in predicted for one in each.compared]
    return sum(_is_within(one, _error(one, paced=paced)) for one in numbers), len(numbers)


def same_load(runs: Sequence[Measured], case: Case) -> list[Measured]:
    """The runs of the case: its repeats too."""
    return [run for run in runs if run.case.name.partition("-r")[0] == case.name]


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
