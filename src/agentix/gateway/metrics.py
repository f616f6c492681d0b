"""What the gateway measures of calls and programs (docs/metrics.md). `exposition` shows it to Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator

from agentix.core.program import ProgramRow
from agentix.gateway.identity.recent import Recent
from agentix.gateway.outcome import Outcome

OTHER = "other"
_REASONS = {400: "bad_request", 404: "unknown_model", 413: "body_too_large", 503: "no_engine"}


def _decades(first: int, last: int) -> tuple[float, ...]:
    """Bounds 1, 2.5 and 5 times each power of ten from `first` up to `last`."""
    return tuple(float(f"{digits}e{exponent}") for exponent in range(first, last) for digits in ("1", "2.5", "5"))


JCT_BOUNDS_S = _decades(-1, 5)
TOKEN_LATENCY_BOUNDS_S = _decades(-3, 2)
CALL_LATENCY_BOUNDS_S = _decades(-2, 4)
TTFT_BOUNDS_S = _decades(-3, 3)


class Histogram:
    """How many values are at most each bound, and their sum. Unlike prometheus_client's, two of them can be added."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.sum = 0.0
        self._counts = [0] * (len(bounds) + 1)

    def observe(self, value: float) -> None:
        """Count one value. O(log bounds)."""
        self._counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def add(self, other: Histogram) -> None:
        """Take in all that the other one has counted."""
        self._counts = [a + b for a, b in zip(self._counts, other._counts, strict=True)]
        self.sum += other.sum

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Each bound, infinity last, and how many values are at most that."""
        total = 0
        for bound, count in zip((*self.bounds, float("inf")), self._counts, strict=True):
            total += count
            yield bound, total


class ClassFigures:
    """What is known of one class's programs that are over. `num_failed`: those with a call that did not finish."""

    def __init__(self) -> None:
        self.jct_s = Histogram(JCT_BOUNDS_S)
        self.token_latency_s = Histogram(TOKEN_LATENCY_BOUNDS_S)
        self.num_ok = 0
        self.num_failed = 0

    def add(self, other: ClassFigures) -> None:
        """Take in the other class."""
        self.jct_s.add(other.jct_s)
        self.token_latency_s.add(other.token_latency_s)
        self.num_ok += other.num_ok
        self.num_failed += other.num_failed


class EngineFigures:
    """What is known of one engine's calls that are over."""

    def __init__(self) -> None:
        self.latency_s = Histogram(CALL_LATENCY_BOUNDS_S)
        self.ttft_s = Histogram(TTFT_BOUNDS_S)
        self.outcomes: Counter[Outcome] = Counter()


class GatewayMetrics:
    """Counts since the gateway started.

    Clients choose the names of classes, and each would be a time series for ever. So at most `max_classes` have figures of
    their own, those seen last; what was counted for the others is in `other`, and nothing is lost from the sum of all.
    Only calls that have finished have a latency, and only programs all of whose calls have. Every method takes constant time.
    """

    def __init__(self, *, max_classes: int = 32) -> None:
        self.engines: defaultdict[str, EngineFigures] = defaultdict(EngineFigures)
        self.rejections: Counter[str] = Counter()
        self._max_classes = max_classes
        self._classes: Recent[str, ClassFigures] = Recent(max_classes)
        self._other = ClassFigures()
        self._tokens: dict[str, int | None] = {}  # that the engines have counted for each live program; None: not all

    def label(self, program_class: str) -> str:
        """The class as it is shown: itself, or `other`."""
        return program_class if program_class in self._classes else OTHER

    def classes(self) -> Iterator[tuple[str, ClassFigures]]:
        """Figures by class as it is shown."""
        yield from sorted(self._classes.items())
        yield OTHER, self._other

    def arrived(self, program_class: str) -> None:
        """A call of a program of the class has come."""
        self._of_class(program_class)

    def call_over(
        self,
        program_id: str,
        engine_id: str,
        outcome: Outcome,
        *,
        latency_s: float,
        ttft_s: float | None = None,
        output_tokens: int | None = None,
    ) -> None:
        """A call is over, and its program not yet. `ttft_s`: of a stream that has begun."""
        figures = self.engines[engine_id]
        figures.outcomes[outcome] += 1
        if outcome is not Outcome.FINISHED:
            return
        figures.latency_s.observe(latency_s)
        if ttft_s is not None:
            figures.ttft_s.observe(ttft_s)
        before = self._tokens.get(program_id, 0)
        self._tokens[program_id] = None if before is None or output_tokens is None else before + output_tokens

    def program_over(self, row: ProgramRow) -> None:
        """A program is over; one that made no call is no program."""
        num_tokens = self._tokens.pop(row.program_id, None)
        if row.last_completion_s is None:
            return
        figures = self._of_class(row.program_class)
        if row.num_aborted:
            figures.num_failed += 1
            return
        figures.num_ok += 1
        jct_s = row.last_completion_s - row.started_s
        figures.jct_s.observe(jct_s)
        if num_tokens:
            figures.token_latency_s.observe(jct_s / num_tokens)

    def rejected(self, status: int) -> None:
        """The gateway has refused a call by itself, with this HTTP status."""
        self.rejections[_REASONS.get(status, OTHER)] += 1

    def _of_class(self, program_class: str) -> ClassFigures:
        """The figures of a class; it is now the one seen last."""
        if program_class == OTHER:
            return self._other
        if program_class not in self._classes and len(self._classes) == self._max_classes:
            oldest, figures = next(iter(self._classes.items()))
            self._classes.pop(oldest)
            self._other.add(figures)
        return self._classes.setdefault(program_class, ClassFigures)
