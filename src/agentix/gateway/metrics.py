"""What the gateway counts (docs/metrics.md). `metering` counts calls and programs, `exposition` shows it to Prometheus."""

from __future__ import annotations

from collections import Counter

from agentix.gateway.accounting import Account
from agentix.gateway.histogram import (
    CALL_BOUNDS_S,
    JCT_BOUNDS_S,
    SLOWDOWN_BOUNDS,
    TOKEN_LATENCY_BOUNDS_S,
    TTFT_BOUNDS_S,
    Histogram,
)
from agentix.gateway.labels import OTHER, Labelled
from agentix.gateway.outcome import Outcome

MAX_CLASSES = 32
MAX_TENANTS = 64
MAX_ENGINES = 1000  # an operator names them; but who adds and removes them for months uses many names

REASONS = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "unknown_model",
    408: "slow_body",
    413: "body_too_large",
    429: "over_budget",
    503: "no_engine",
}


class ClassFigures:
    """What is known of one class's programs that are over. `num_failed`: those with a call that did not finish."""

    def __init__(self) -> None:
        self.jct_s = Histogram(JCT_BOUNDS_S)
        self.token_latency_s = Histogram(TOKEN_LATENCY_BOUNDS_S)
        self.slowdown = Histogram(SLOWDOWN_BOUNDS)
        self.wait_s = Histogram(JCT_BOUNDS_S)
        self.num_ok = 0
        self.num_failed = 0

    def add(self, other: ClassFigures) -> None:
        """Take in the other class."""
        self.jct_s.add(other.jct_s)
        self.token_latency_s.add(other.token_latency_s)
        self.slowdown.add(other.slowdown)
        self.wait_s.add(other.wait_s)
        self.num_ok += other.num_ok
        self.num_failed += other.num_failed


class EngineFigures:
    """What is known of one engine's calls.

    hold_s         of those sent there first: how long the gateway has held them
    prompt_tokens  of those that have finished, by where their KV came from: `cached`, `computed`, or `unknown`
    num_retries    calls that were sent there after they had been sent before
    moves          calls of programs at home there that were routed to another engine, by why (`Weighing.routed`)
    """

    def __init__(self) -> None:
        self.latency_s = Histogram(CALL_BOUNDS_S)
        self.ttft_s = Histogram(TTFT_BOUNDS_S)
        self.hold_s = Histogram(CALL_BOUNDS_S)
        self.wait_s = Histogram(CALL_BOUNDS_S)
        self.outcomes: Counter[Outcome] = Counter()
        self.prompt_tokens: Counter[str] = Counter()
        self.num_output_tokens = 0
        self.num_retries = 0
        self.moves: Counter[str] = Counter()

    def add(self, other: EngineFigures) -> None:
        """Take in the other engine."""
        self.latency_s.add(other.latency_s)
        self.ttft_s.add(other.ttft_s)
        self.hold_s.add(other.hold_s)
        self.wait_s.add(other.wait_s)
        self.outcomes.update(other.outcomes)
        self.prompt_tokens.update(other.prompt_tokens)
        self.num_output_tokens += other.num_output_tokens
        self.num_retries += other.num_retries
        self.moves.update(other.moves)

    def count_tokens(self, account: Account) -> None:
        """Count the tokens of a call that has finished, as far as the engine has told them."""
        self.num_output_tokens += account.output_tokens or 0
        if account.prompt_tokens is None:
            return
        if account.cached_tokens is None:
            self.prompt_tokens["unknown"] += account.prompt_tokens
            return
        num_cached = min(account.cached_tokens, account.prompt_tokens)
        self.prompt_tokens.update(cached=num_cached, computed=account.prompt_tokens - num_cached)


class TenantFigures:
    """What one tenant's calls have taken, however they came out, and how many were refused, by reason."""

    def __init__(self) -> None:
        self.num_calls = 0
        self.service_s = 0.0
        self.num_prompt_tokens = 0
        self.num_output_tokens = 0
        self.rejections: Counter[str] = Counter()

    def add(self, other: TenantFigures) -> None:
        """Take in the other tenant."""
        self.num_calls += other.num_calls
        self.service_s += other.service_s
        self.num_prompt_tokens += other.num_prompt_tokens
        self.num_output_tokens += other.num_output_tokens
        self.rejections.update(other.rejections)


class GatewayMetrics:
    """Counts since the gateway started, by class of program, by engine and by tenant. Every method takes constant time."""

    def __init__(
        self, *, max_classes: int = MAX_CLASSES, max_engines: int = MAX_ENGINES, max_tenants: int = MAX_TENANTS
    ) -> None:
        self.classes = Labelled(ClassFigures, max_classes)
        self.engines = Labelled(EngineFigures, max_engines)
        self.tenants = Labelled(TenantFigures, max_tenants)

    def call_over(
        self,
        engine_id: str,
        outcome: Outcome,
        account: Account,
        *,
        latency_s: float,
        ttft_s: float | None = None,
        wait_s: float | None = None,
    ) -> None:
        """A call is over; only one that has finished has a latency. `ttft_s`: of a stream that has begun."""
        figures = self.engines.of(engine_id)
        figures.outcomes[outcome] += 1
        if outcome is not Outcome.FINISHED:
            return
        figures.count_tokens(account)
        for histogram, value in ((figures.latency_s, latency_s), (figures.ttft_s, ttft_s), (figures.wait_s, wait_s)):
            if value is not None:
                histogram.observe(value)

    def charge(self, tenant: str, account: Account, service_s: float) -> None:
        """A call of the tenant is over and has had so much service."""
        figures = self.tenants.of(tenant)
        figures.num_calls += 1
        figures.service_s += service_s
        figures.num_prompt_tokens += account.prompt_tokens or 0
        figures.num_output_tokens += account.output_tokens or 0

    def program_over(
        self,
        program_class: str,
        jct_s: float | None,
        *,
        token_latency_s: float | None = None,
        slowdown: float | None = None,
        wait_s: float | None = None,
    ) -> None:
        """A program is over. Without a `jct_s` it has failed; what else has no value is None."""
        figures = self.classes.of(program_class)
        if jct_s is None:
            figures.num_failed += 1
            return
        figures.num_ok += 1
        for histogram, value in (
            (figures.jct_s, jct_s),
            (figures.token_latency_s, token_latency_s),
            (figures.slowdown, slowdown),
            (figures.wait_s, wait_s),
        ):
            if value is not None:
                histogram.observe(value)

    def rejected(self, status: int, code: str | None = None, tenant: str = "") -> None:
        """The gateway has refused a call of the tenant by itself, with this HTTP status, and a code that tells more."""
        reason = code if code in CODES else REASONS.get(status, OTHER)
        self.tenants.of(tenant).rejections[reason] += 1


CODES = frozenset({"queue_full", "held_too_long", "budget_exceeded", "rate_limit_exceeded", "context_length_exceeded"})
"""Codes of errors of the gateway's own that say more than their status: shown as reasons by these names."""
