"""Measuring: what repeats of a run took, and on what machine."""

from __future__ import annotations

import gc
import platform
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds of each repeat: on the processor, which other processes disturb less, and on the clock."""

    cpu_s: list[float]
    wall_s: list[float]

    def summary(self) -> dict[str, float]:
        """Best and median of both; the best is what the work itself takes, as far as one can tell on a shared machine."""
        return {
            "cpu_best_s": min(self.cpu_s),
            "cpu_median_s": median(self.cpu_s),
            "wall_best_s": min(self.wall_s),
            "wall_median_s": median(self.wall_s),
        }


def measure(run: Callable[[], T], num_repeats: int) -> tuple[T, Timing]:
    """Do it `num_repeats` times, with a clean heap before each; returns the last outcome and the seconds."""
    cpu_s: list[float] = []
    wall_s: list[float] = []
    outcomes: list[T] = []
    for _ in range(num_repeats):
        outcomes.clear()
        gc.collect()
        began_wall_s, began_cpu_s = time.perf_counter(), time.process_time()
        outcomes.append(run())
        cpu_s.append(time.process_time() - began_cpu_s)
        wall_s.append(time.perf_counter() - began_wall_s)
    return outcomes[0], Timing(cpu_s=cpu_s, wall_s=wall_s)


def machine() -> dict[str, str]:
    """Python and processor, in words."""
    try:
        described = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        described = ""
    named = re.search(r"^model name\s*:\s*(.+)$", described, re.MULTILINE)
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "cpu": named[1].strip() if named else platform.processor() or platform.machine(),
    }
