"""Arms against the first one: ratios within repeats, with how sure they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agentix.metrics.interval import Interval, ratio_interval
from agentix.report.model import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One number of an arm divided by the first arm's, over the repeats that both have; less than 1 is better."""

    point: str
    group: str
    arm: str
    name: str
    interval: Interval


def ratios_to_first(report: Report) -> list[Ratio]:
    """Every ratio there is: by point, by group in the order in which the first arm has them, by arm, by number."""
    return list(_ratios(report))


def _ratios(report: Report) -> Iterator[Ratio]:
    first, *others = report.arms
    for point in report.points:
        base = {run.repeat: run for run in report.at(first, point)}
        groups = dict.fromkeys(
            (group, name) for run in base.values() for group, numbers in run.groups.items() for name in numbers
        )
        for arm in others:
            own = [run for run in report.at(arm, point) if run.repeat in base]
            for group, name in groups:
                interval = ratio_interval(
                    (run.groups.get(group, {}).get(name), base[run.repeat].groups[group].get(name))
                    for run in own
                    if group in base[run.repeat].groups
                )
                if interval is not None:
                    yield Ratio(point=point, group=group, arm=arm, name=name, interval=interval)
