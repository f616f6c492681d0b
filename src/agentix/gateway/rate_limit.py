"""What a hosted API lets us send: requests and tokens a minute, calls at a time; and what it says when that was too much."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from agentix.gateway.buckets import Bucket
from agentix.gateway.config import HostedLimits

_LEAST_SHARE = 1 / 64  # of the configured rates, however often the engine refuses
_RECOVERY_PER_S = 0.01
_FIRST_CLOSE_S, _LONGEST_CLOSE_S = 0.5, 60.0
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class EngineLimit:
    """One engine's limits, as configured and as its refusals show them. An engine without limits has one that lets all pass.

    Every call that is sent is over once: by `ended` or, if the engine would not take it, by `refused`. A refusal closes the
    engine until it may be asked again (longer, the more of them come in a row) and halves the believed rate and the number
    of calls at a time; both grow back: additive increase, multiplicative decrease (D.-M. Chiu and R. Jain, 1989). Many
    refusals at once count as one. Pure: `now` is monotonic and the caller's.
    """

    def __init__(self, limits: HostedLimits | None = None) -> None:
        limits = limits or HostedLimits()
        self._requests = Bucket(limits.requests_per_minute) if limits.requests_per_minute else None
        self._tokens = Bucket(limits.tokens_per_minute) if limits.tokens_per_minute else None
        self._most_at_once = math.inf if limits.concurrency is None else float(limits.concurrency)
        self._at_once = self._most_at_once
        self._num_in_flight = 0
        self._closed_until_s = -math.inf
        self._num_refusals = 0  # in a row
        self._share, self._share_at_s = 1.0, 0.0

    def ready_at(self, tokens: int, now: float) -> float:
        """The earliest moment at which a call of so many tokens may be sent; infinite until one ends, if too many are there."""
        if self._num_in_flight + 1 > max(1.0, self._at_once):
            return math.inf
        share = self._share_at(now)
        moments = [
            bucket.ready_at(min(num / share, bucket.num_per_minute), now)  # what is larger than the bucket needs a full one
            for bucket, num in ((self._requests, 1), (self._tokens, tokens))
            if bucket is not None
        ]
        return max(now, self._closed_until_s, *moments)

    def sent(self, tokens: int, now: float) -> None:
        """A call of so many tokens, by estimate, goes out."""
        self._num_in_flight += 1
        if self._requests is not None:
            self._requests.take(1 / self._share_at(now), now)
        if self._tokens is not None:
            self._tokens.take(tokens / self._share_at(now), now)

    def ended(self, now: float, *, estimated: int = 0, used: int | None = None) -> None:
        """A call is over. `used`: the tokens that it had, if the engine has told; `estimated`: what was taken for it before."""
        self._num_in_flight = max(0, self._num_in_flight - 1)
        self._num_refusals = 0
        if self._tokens is not None and used is not None:
            self._tokens.take((used - estimated) / self._share_at(now), now)
        self._at_once = min(self._most_at_once, self._at_once + 1 / self._at_once)

    def refused(self, retry_after_s: float, now: float) -> None:
        """The engine would not take a call now, and asks for none for `retry_after_s`."""
        if now >= self._closed_until_s:  # else it is one more of those that were under way when the first was refused
            self._at_once = max(1.0, min(self._at_once, float(self._num_in_flight)) / 2)
            self._share, self._share_at_s = max(_LEAST_SHARE, self._share_at(now) / 2), now
            least_s = min(_LONGEST_CLOSE_S, _FIRST_CLOSE_S * 2 ** min(self._num_refusals, 10))
            self._num_refusals += 1
            self._closed_until_s = now + max(retry_after_s, least_s)
        self._closed_until_s = max(self._closed_until_s, now + retry_after_s)
        self._num_in_flight = max(0, self._num_in_flight - 1)

    def heard(self, headers: Mapping[str, str], now: float) -> None:
        """What the engine's answer says of its limits: x-ratelimit-remaining-requests, -tokens, and their -reset-."""
        for kind, bucket in (("requests", self._requests), ("tokens", self._tokens)):
            remaining = _number(headers.get(f"x-ratelimit-remaining-{kind}"))
            reset_s = read_duration(headers.get(f"x-ratelimit-reset-{kind}", ""))
            if remaining is not None and bucket is not None:
                excess = bucket.num_per_minute * (1 - bucket.used(now)) - remaining
                bucket.take(max(0.0, excess), now)
            elif remaining == 0 and reset_s is not None:
                self._closed_until_s = max(self._closed_until_s, now + min(reset_s, _LONGEST_CLOSE_S))

    def describe(self, now: float) -> dict[str, Any]:
        """For people: calls in flight and how many may be, the believed share of the rate, seconds until it may be asked."""
        return {
            "num_in_flight": self._num_in_flight,
            "max_in_flight": None if math.isinf(self._at_once) else math.floor(self._at_once),
            "rate_share": self._share_at(now),
            "closed_s": max(0.0, self._closed_until_s - now),
        }

    def _share_at(self, now: float) -> float:
        """The share of the configured rates that is believed in: a call costs so many times more."""
        return min(1.0, self._share + max(0.0, now - self._share_at_s) * _RECOVERY_PER_S)


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """How many seconds to wait: `retry-after-ms`, or `retry-after` in seconds or as a date, by the answer's own date."""
    millis, text = _number(headers.get("retry-after-ms")), headers.get("retry-after", "")
    if millis is not None:
        return millis / 1000
    seconds = _number(text)
    if seconds is not None:
        return seconds
    until, at = _moment(text), _moment(headers.get("date", ""))
    return None if until is None or at is None else max(0.0, (until - at).total_seconds())


def read_duration(text: str) -> float | None:
    """Seconds of `1s`, `6m0s`, `20ms` or a plain number; None for anything else."""
    if (plain := _number(text)) is not None:
        return plain
    parts = _DURATION.findall(text)
    if not parts or "".join(n + u for n, u in parts) != text:
        return None
    return sum(float(n) * _UNIT_S[u] for n, u in parts)


def _number(text: str | None) -> float | None:
    """A finite number that is not negative; None for anything else."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _moment(text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(text)
    except ValueError:
        return None
