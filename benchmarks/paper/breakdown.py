"""Figures 6 and 17: whose calls and programs wait, and what the time of programs consists of."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.paper.curves import OVERLOADED_RATE, overloaded
from benchmarks.paper.figure import Finding, Numbers, Panel
from benchmarks.paper.point import CALL_BINS, PROGRAM_BINS, Outcome, Point
from benchmarks.paper.sweep import Outcomes


class Ratios:
    """Figure 6."""

    number = "6"
    title = "Waiting per execution, by length of calls and programs"
    claim = "under FCFS short calls and short programs wait most for their length; MLFQ mends that for calls, not for programs"

    def points(self, scale: float) -> Sequence[Point]:
        """Every system but vLLM on Mixed, overloaded."""
        return list(overloaded(scale).values())

    def numbers(self, outcomes: Outcomes, scale: float) -> Numbers:
        """Mean ratios by bins of output tokens."""
        runs = overloaded(scale)
        return {
            "rate_per_s": OVERLOADED_RATE,
            "call_bins": _names(CALL_BINS),
            "program_bins": _names(PROGRAM_BINS),
            "by_call": {label: outcomes[point].ratio_by_call for label, point in runs.items()},
            "by_program": {label: outcomes[point].ratio_by_program for label, point in runs.items()},
        }

    def findings(self, numbers: Numbers) -> Sequence[Finding]:
        """Shortest against longest, and what each order makes of the shortest."""
        calls, programs = numbers["by_call"], numbers["by_program"]
        short, long = _ends(calls["vLLM-opt"])
        short_program, long_program = _ends(programs["vLLM-opt"])
        rows = [(label, _ends(calls[label])[0], _ends(programs[label])[0]) for label in calls]
        table = "; ".join(f"{label} {call:.2f} and {program:.2f}" for label, call, program in rows)
        by_label = {label: (call, program) for label, call, program in rows}
        fcfs, mlfq, agentix = by_label["vLLM-opt"], by_label["MLFQ"], by_label["Agentix"]
        return [
            Finding(
                text=f"On Mixed at {numbers['rate_per_s']:g} programs/s FCFS makes the shortest calls wait {short:.2f} times "
                f"their execution and the longest {long:.2f}; programs {short_program:.2f} and {long_program:.2f}.",
                holds=short > long and short_program > long_program,
                why="See the bins: what waits most for its length is in the middle.",
            ),
            Finding(
                text=f"Ratio of the shortest calls and of the shortest programs: {table}.",
                holds=mlfq[0] < fcfs[0] and agentix[1] < min(mlfq[1], fcfs[1]),
                why="A call here is short against the first quantum, so that MLFQ demotes few and is FCFS for the rest.",
            ),
        ]

    def panels(self, numbers: Numbers) -> Sequence[Panel]:
        """Calls, then programs."""
        return [
            Panel(
                title=what,
                x="output tokens",
                y="waiting / execution",
                bars=numbers[f"by_{what[:-1]}"],
                groups=numbers[f"{what[:-1]}_bins"],
            )
            for what in ("calls", "programs")
        ]


class Breakdown:
    """Figure 17."""

    number = "17"
    title = "What programs' time consists of"
    claim = "Agentix shortens waiting and swapping; scheduling costs little"

    def points(self, scale: float) -> Sequence[Point]:
        """Every system but vLLM on Mixed, overloaded."""
        return list(overloaded(scale).values())

    def numbers(self, outcomes: Outcomes, scale: float) -> Numbers:
        """Mean shares, mean response time, and the seconds that the device waited for choices and swaps."""
        return {
            "rate_per_s": OVERLOADED_RATE,
            "systems": {label: _shares(outcomes[point]) for label, point in overloaded(scale).items()},
        }

    def findings(self, numbers: Numbers) -> Sequence[Finding]:
        """Waiting, swapping, scheduling."""
        systems = numbers["systems"]
        table = "; ".join(
            f"{label} {s['wait']:.0%} waiting, {s['execute']:.0%} executing, {s['swap']:.1%} swapping"
            for label, s in systems.items()
        )
        scheduling = max(s["scheduling_of_device"] for s in systems.values())
        ours, mlfq, fcfs = systems["Agentix"], systems["MLFQ"], systems["vLLM-opt"]
        return [
            Finding(
                text=f"On Mixed at {numbers['rate_per_s']:g} programs/s, mean over programs: {table}.",
                holds=ours["wait"] < min(mlfq["wait"], fcfs["wait"]) and ours["swap"] <= mlfq["swap"],
                why="The share that is swapping compares with MLFQ on the same bulk swaps, not with swapping block by block.",
            ),
            Finding(
                text=f"Choosing batches takes at most {scheduling:.1%} of the device's time (an assumption, not a result: "
                "2 ms per choice); a program's wait for it counts as waiting.",
            ),
        ]

    def panels(self, numbers: Numbers) -> Sequence[Panel]:
        """One bar per system and share."""
        systems = numbers["systems"]
        return [
            Panel(
                title="Mixed",
                x="",
                y="share of program time",
                bars={what: [systems[label][what] for label in systems] for what in ("wait", "execute", "swap")},
                groups=list(systems),
            )
        ]


def _names(bounds: Sequence[float]) -> list[str]:
    """What the bins are called: the upper bound, and what lies above the last finite one."""
    return [f"≤{bound:g}" if bound < math.inf else f">{bounds[i - 1]:g}" for i, bound in enumerate(bounds)]


def _ends(ratios: Sequence[float | None]) -> tuple[float, float]:
    """The first and the last bin that has a value."""
    present = [ratio for ratio in ratios if ratio is not None]
    return present[0], present[-1]


def _shares(outcome: Outcome) -> dict[str, float]:
    counts = outcome.counts
    device_s = counts.busy_s + counts.scheduling_s + counts.swap_s
    return {
        "wait": outcome.wait,
        "execute": outcome.execute,
        "swap": outcome.swap,
        "mean_jct_s": outcome.jct.mean or 0.0,
        "scheduling_of_device": counts.scheduling_s / device_s,
        "swap_of_device": counts.swap_s / device_s,
    }
