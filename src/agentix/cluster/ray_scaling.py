"""How many engines should there be? Decided from the work that waits, with what it takes not to go up and down all the time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from agentix.core.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSettings:
    """When the number of engines changes.

    min_engines, max_engines  it stays between them
    waiting_calls    so many calls wait for each engine: it is one too few
    waiting_s        so many seconds the calls that wait have waited, all together, for each engine: the same
    idle_calls       so few calls for each of the engines that would be left, and none that waits: it is one too many
    grow_after_s     how long it must be too few, and how long after a change nothing is started
    shrink_after_s   how long it must be too many, and how long after a change none is stopped: starting one takes minutes
    """

    min_engines: int = 1
    max_engines: int = 1
    waiting_calls: float = 4.0
    waiting_s: float = 30.0
    idle_calls: float = 4.0
    grow_after_s: float = 15.0
    shrink_after_s: float = 300.0

    def __post_init__(self) -> None:
        if not 1 <= self.min_engines <= self.max_engines:
            raise ConfigError(f"engines must be at least 1 and at most the most: not {self.min_engines} to {self.max_engines}")
        for name in ("waiting_calls", "waiting_s", "grow_after_s", "shrink_after_s"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be above 0, not {getattr(self, name)!r}")
        if not self.idle_calls >= 0:
            raise ConfigError(f"idle_calls must not be negative: {self.idle_calls!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the engines have to do.

    num_engines   engines that there are; those that are being started count, those that are to go do not
    num_starting  of them: not serving yet
    num_waiting   calls that wait: held at the gateway, or in an engine's own queue
    waiting_s     how long those that are held at the gateway have been held, all together
    num_running   calls that an engine computes
    """

    num_engines: int
    num_starting: int = 0
    num_waiting: int = 0
    waiting_s: float = 0.0
    num_running: int = 0


@dataclass(frozen=True, slots=True)
class Trend:
    """What a decision leaves for the next one: since when there are too few engines, or too many; None: there are not."""

    too_few_since_s: float | None = None
    too_many_since_s: float | None = None


def decide(load: Load, trend: Trend, settings: ScalingSettings, now: float) -> tuple[int, Trend]:
    """How many engines there should be, and the trend from here on. `now` is a moment on any clock that never goes back.

    Between too few and too many there is a band in which nothing changes (hysteresis), and either must hold without a break
    before anything does. A change begins a new trend, so that the same times pass before the next one (cool-down). While an
    engine is being started there are not too few: what waits for it would be counted again and again. So a burst doubles
    the engines with each start at most; they go one by one.
    """
    n, least, most = load.num_engines, settings.min_engines, settings.max_engines
    if not least <= n <= most:
        return min(max(n, least), most), Trend()
    too_few = n < most and not load.num_starting and _is_short(load, settings)
    too_many = n > least and load.num_waiting == 0 and load.num_running <= settings.idle_calls * (n - 1)
    trend = Trend(_since(too_few, trend.too_few_since_s, now), _since(too_many, trend.too_many_since_s, now))
    if trend.too_few_since_s is not None and now - trend.too_few_since_s >= settings.grow_after_s:
        wanted = max(n + 1, math.ceil(load.num_waiting / settings.waiting_calls))
        return min(wanted, 2 * n, most), Trend()
    if trend.too_many_since_s is not None and now - trend.too_many_since_s >= settings.shrink_after_s:
        return n - 1, Trend()
    return n, trend


def _is_short(load: Load, settings: ScalingSettings) -> bool:
    n = load.num_engines
    return load.num_waiting > settings.waiting_calls * n or load.waiting_s > settings.waiting_s * n


def _since(holds: bool, since_s: float | None, now: float) -> float | None:
    """Since when it holds: from now on, if it did not before."""
    return (now if since_s is None else since_s) if holds else None
