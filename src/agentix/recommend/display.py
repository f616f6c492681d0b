"""The answer on the terminal: what to do, then the evidence."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from agentix.metrics.interval import Interval
from agentix.recommend.choose import LEAST_GAIN, Comparison, Verdict
from agentix.recommend.config import NUM_TRIALS, Arm
from agentix.recommend.play import JCT, NAMES, TAIL
from agentix.recommend.run import Recommendation

_WORDS = {
    JCT: "JCT mean (s)",
    "jct_s.p95": "JCT P95 (s)",
    TAIL: "JCT P99 (s)",
    "program_token_latency_s.mean": "token latency (s/token)",
    "makespan_s": "makespan (s)",
}
_INTERVALS = (
    "In brackets: 95 % confidence intervals (Student's t) over {n} variants of the arrivals. Ratios: below 1 is better."
)
_WIDTH = 100


def print_answer(answer: Recommendation, console: Console) -> None:
    """Verdict, the comparison that it rests on, and what else was tried."""
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH)
    for line in verdict_lines(answer):
        _say(console, line)
    if answer.comparison.arm != answer.config.now:
        console.print(_comparison_table(answer.comparison, answer.config.now))
        _say(console, _INTERVALS.format(n=answer.config.num_repeats))
    if answer.fewer is not None:
        _say(console, f"\n{_name(answer.fewer.arm)}, against what is in use:")
        console.print(_comparison_table(answer.fewer, answer.config.now))
    _say(console, f"\nTried on {NUM_TRIALS} other variants; ratios to what is in use:")
    console.print(_trials_table(answer))
    _say(console, "Simulated: step times and arrivals are models of yours. Check a change on the engines (agentix ab).")


def verdict_lines(answer: Recommendation) -> Iterator[str]:
    """What to do, and why, in sentences."""
    now, comparison = answer.config.now, answer.comparison
    arm, mean = comparison.arm, comparison.ratios.get(JCT)
    yield f"{answer.num_programs} programs, {answer.num_calls} calls; in use: {_name(now)}."
    match answer.verdict:
        case Verdict.CHANGE:
            yield f"Change to {_options(arm, now)}: the mean response time would be {_gain(mean)}."
        case Verdict.KEEP:
            yield "Change nothing: of what was tried, nothing is faster than what is in use."
        case Verdict.NOISE:
            yield f"Change nothing: {_name(arm)} looked best, but its gain ({_gain(mean)}) is within noise."
        case Verdict.SMALL:
            yield f"Change nothing: {_name(arm)} is better, but by less than {LEAST_GAIN:.0%} ({_gain(mean)})."
        case Verdict.TAIL:
            tail = _gain(comparison.ratios.get(TAIL))
            yield f"Change nothing: with {_name(arm)} the mean would be {_gain(mean)}, but the P99 {tail}."
    if answer.hardly_waits:
        yield "These programs hardly wait in the engines: no order can help them much."
    if answer.one_engine_fewer_would_do and answer.fewer is not None:
        yield f"One engine fewer would do: {_name(answer.fewer.arm)} is faster than what is in use, also in the P99."


def _comparison_table(comparison: Comparison, now: Arm) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("")
    for name in ("now", "then", "ratio"):
        table.add_column(name, justify="right")
    for name in NAMES:
        cells = (comparison.base.get(name), comparison.values.get(name), comparison.ratios.get(name))
        table.add_row(_WORDS[name], *map(_cell, cells))
    return table


def _trials_table(answer: Recommendation) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in ("policy", "balancer"):
        table.add_column(name)
    for name in NAMES:
        table.add_column(_WORDS[name].rpartition(" (")[0], justify="right")
    for arm, ratios in sorted(answer.trials.items(), key=lambda item: item[1][JCT].centre if JCT in item[1] else 1.0):
        table.add_row(arm.policy, arm.balancer, *(f"{ratios[name].centre:.2f}" if name in ratios else "–" for name in NAMES))
    return table


def _options(arm: Arm, now: Arm) -> str:
    """What to give to `agentix serve`: only what changes."""
    changes = [("--policy", arm.policy, now.policy), ("--balancer", arm.balancer, now.balancer)]
    return " ".join(f"{option} {value}" for option, value, old in changes if value != old)


def _name(arm: Arm) -> str:
    engines = "1 engine" if arm.num_engines == 1 else f"{arm.num_engines} engines, {arm.balancer}"
    return f"{arm.policy} on {engines}"


def _gain(ratio: Interval | None) -> str:
    """`12% shorter [8% shorter, 15% shorter]`."""
    if ratio is None:
        return "unknown"
    if ratio.low is None or ratio.high is None:
        return _percent(ratio.centre)
    return f"{_percent(ratio.centre)} [{_percent(ratio.high)}, {_percent(ratio.low)}]"


def _percent(ratio: float) -> str:
    return f"{abs(1 - ratio):.0%} {'shorter' if ratio <= 1 else 'longer'}"


def _cell(interval: Interval | None) -> str:
    if interval is None:
        return "–"
    if interval.low is None or interval.high is None:
        return _number(interval.centre)
    return f"{_number(interval.centre)} [{_number(interval.low)}, {_number(interval.high)}]"


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
