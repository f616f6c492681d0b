"""A circuit breaker: is an engine that keeps failing worth another call yet?"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

_WINDOW_CALLS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerSettings:
    """When a breaker opens, and for how long.

    num_programs   so many different programs must have failed: what one program alone sends and fails with is its own fault
    share          of the last `window_s` seconds' calls that must have failed, of at least `min_calls`
    backoff_s      how long it stays open the first time; each failed probe doubles that, up to `max_backoff_s`
    probe_s        a probe that has lived for so long without failing is a success: answers may take minutes
    """

    num_programs: int = 3
    share: float = 0.5
    min_calls: int = 10
    window_s: float = 30.0
    backoff_s: float = 1.0
    max_backoff_s: float = 30.0
    probe_s: float = 10.0


class Breaker:
    """Closed: every call passes. Open: none does until a moment. Half-open: one call, the probe, decides.

    It opens when `num_programs` different programs have failed and none has succeeded since, or when a share of the
    recent calls has. Results of calls that were sent before it opened change nothing while it is open. Pure: `now` (monotonic)
    and `jitter` are the caller's.
    """

    def __init__(self, settings: BreakerSettings | None = None) -> None:
        self._settings = settings or BreakerSettings()
        self._failing: set[str] = set()  # programs that have failed since the last success
        self._recent: deque[tuple[float, str | None]] = deque()  # moment, and which program failed; None: a success
        self._num_failed = 0  # of `_recent`
        self._open_until_s: float | None = None
        self._backoff_s = self._settings.backoff_s
        self._ticket = 0  # of the latest probe
        self._probing_since_s: float | None = None

    def state(self, now: float) -> str:
        """`closed`, `open` or `half_open` (a probe may go, or is out)."""
        self._judge_by_age(now)
        if self._open_until_s is None:
            return "closed"
        return "half_open" if self._probing_since_s is not None or now >= self._open_until_s else "open"

    def allows(self, now: float) -> bool:
        """Whether a call may be sent."""
        self._judge_by_age(now)
        return self._open_until_s is None or (self._probing_since_s is None and now >= self._open_until_s)

    def opens_for_s(self, now: float) -> float:
        """How long until it may allow a call again, if nothing happens before; infinite if that depends on a probe alone."""
        if self.allows(now) or self._open_until_s is None:
            return 0.0
        if self._probing_since_s is not None:
            return max(0.0, self._probing_since_s + self._settings.probe_s - now)
        return self._open_until_s - now

    def sent(self, now: float) -> int:
        """A call goes out; gives its ticket, by which the breaker knows its probe. 0: it is none."""
        self._judge_by_age(now)
        if self._open_until_s is None or self._probing_since_s is not None or now < self._open_until_s:
            return 0
        self._ticket += 1
        self._probing_since_s = now
        return self._ticket

    def succeeded(self, now: float, ticket: int = 0) -> bool:
        """A call was answered; whether that closed the breaker."""
        if self._is_probe(ticket):
            self._close()
            return True
        if self._open_until_s is None:
            self._failing.clear()
            self._note(now, None)
        return False

    def failed(self, now: float, program_id: str, ticket: int = 0, *, jitter: float = 0.0) -> bool:
        """The engine failed a call; whether that opened the breaker.

        `jitter`, from 0 to 1, makes the wait up to half as long again, so that gateways do not probe in step.
        """
        if self._is_probe(ticket):
            self._backoff_s = min(self._settings.max_backoff_s, 2 * self._backoff_s)
            self._open(now, jitter)
            return True
        if self._open_until_s is not None:
            return False
        self._failing.add(program_id)
        self._note(now, program_id)
        if len(self._failing) < self._settings.num_programs and not self._too_many():
            return False
        self._open(now, jitter)
        return True

    def abandoned(self, ticket: int) -> None:
        """A call ended with no verdict: its client left before there was an answer. If it was the probe, another may go."""
        if self._is_probe(ticket):
            self._probing_since_s = None

    def _is_probe(self, ticket: int) -> bool:
        return self._probing_since_s is not None and ticket == self._ticket

    def _judge_by_age(self, now: float) -> None:
        if self._probing_since_s is not None and now - self._probing_since_s >= self._settings.probe_s:
            self._close()

    def _open(self, now: float, jitter: float) -> None:
        self._forget()
        self._open_until_s = now + self._backoff_s * (1 + jitter / 2)

    def _close(self) -> None:
        self._forget()
        self._open_until_s = None
        self._backoff_s = self._settings.backoff_s

    def _forget(self) -> None:
        self._failing.clear()
        self._recent.clear()
        self._num_failed = 0
        self._probing_since_s = None

    def _note(self, now: float, failed: str | None) -> None:
        self._recent.append((now, failed))
        self._num_failed += failed is not None
        while self._recent[0][0] < now - self._settings.window_s or len(self._recent) > _WINDOW_CALLS:
            self._num_failed -= self._recent.popleft()[1] is not None

    def _too_many(self) -> bool:
        """Whether the share of failures is too large, and not one program's alone. O(calls in the window)."""
        if len(self._recent) < self._settings.min_calls or self._num_failed < self._settings.share * len(self._recent):
            return False
        return len({p for _, p in self._recent if p is not None}) >= self._settings.num_programs
