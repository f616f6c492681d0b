"""What a hosted API lets us send: by hand, and never more than its limits whatever comes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.core.errors import ConfigError
from agentix.gateway.config import HostedLimits
from agentix.gateway.rate_limit import EngineLimit, read_duration, read_retry_after


def test_an_engine_without_limits_lets_everything_pass() -> None:
    limit = EngineLimit()
    for _ in range(1000):
        assert limit.ready_at(10**6, 3.0) == 3.0
        limit.sent(10**6, 3.0)


def test_a_minute_of_requests_may_go_at_once_and_then_one_a_second() -> None:
    limit = EngineLimit(HostedLimits(requests_per_minute=60))
    for _ in range(60):
        assert limit.ready_at(1, 100.0) == 100.0
        limit.sent(1, 100.0)
    assert limit.ready_at(1, 100.0) == 101.0
    assert limit.ready_at(1, 101.0) == 101.0


def test_a_call_of_more_tokens_than_a_minute_has_waits_for_a_full_minute_and_leaves_a_debt() -> None:
    limit = EngineLimit(HostedLimits(tokens_per_minute=600))  # one in a tenth of a second
    assert limit.ready_at(1000, 0.0) == 0.0
    limit.sent(1000, 0.0)  # full again after 100 s
    assert limit.ready_at(1, 0.0) == pytest.approx(100 - 59.9)
    assert limit.ready_at(1000, 0.0) == pytest.approx(100)


def test_usage_corrects_the_estimate() -> None:
    limit = EngineLimit(HostedLimits(tokens_per_minute=600))
    limit.sent(600, 0.0)
    assert limit.ready_at(100, 0.0) == pytest.approx(10)
    limit.ended(0.0, estimated=600, used=540)
    assert limit.ready_at(100, 0.0) == pytest.approx(4)


def test_calls_at_a_time() -> None:
    limit = EngineLimit(HostedLimits(concurrency=2))
    limit.sent(1, 0.0)
    limit.sent(1, 0.0)
    assert limit.ready_at(1, 0.0) == math.inf
    limit.ended(1.0)
    assert limit.ready_at(1, 1.0) == 1.0


def test_a_refusal_closes_halves_and_is_forgotten_by_and_by() -> None:
    limit = EngineLimit()
    for _ in range(4):
        limit.sent(1, 10.0)
    limit.refused(3.0, 10.0)
    assert limit.describe(10.0) == {"num_in_flight": 3, "max_in_flight": 2, "rate_share": 0.5, "closed_s": 3.0}
    limit.refused(3.0, 10.0)  # one that was under way already
    assert limit.describe(10.0) == {"num_in_flight": 2, "max_in_flight": 2, "rate_share": 0.5, "closed_s": 3.0}
    assert limit.ready_at(1, 10.0) == math.inf
    limit.ended(11.0)  # 2.5 at a time
    assert limit.ready_at(1, 11.0) == 13.0
    limit.ended(11.0)  # 2.9
    limit.ended(11.0)  # 3.24
    assert limit.describe(11.0)["max_in_flight"] == 3
    assert limit.describe(60.0)["rate_share"] == 1.0


def test_refusals_in_a_row_close_it_for_longer_each_time() -> None:
    limit, now, closed_s = EngineLimit(), 0.0, []
    for _ in range(4):
        limit.sent(1, now)
        limit.refused(0.0, now)
        closed_s.append(limit.ready_at(1, now) - now)
        now += closed_s[-1]
    assert closed_s == [0.5, 1.0, 2.0, 4.0]
    limit.ended(now)  # a call was taken
    limit.refused(0.0, now)
    assert limit.ready_at(1, now) - now == 0.5


def test_after_a_refusal_calls_cost_twice_as_much_of_the_rate() -> None:
    limit = EngineLimit(HostedLimits(requests_per_minute=60))
    limit.sent(1, 0.0)
    limit.refused(0.0, 0.0)
    for _ in range(29):  # 1 + 29 x 2 = 59 of 60
        limit.sent(1, 0.0)
        limit.ended(0.0)
    assert limit.ready_at(1, 0.0) == pytest.approx(1.0)


def test_what_the_answer_s_headers_say() -> None:
    limit = EngineLimit(HostedLimits(requests_per_minute=60))
    limit.heard({"x-ratelimit-remaining-requests": "1"}, 0.0)
    assert limit.ready_at(1, 0.0) == pytest.approx(0.0)
    limit.sent(1, 0.0)
    assert limit.ready_at(1, 0.0) == pytest.approx(1.0)
    unknown = EngineLimit()
    unknown.heard({"x-ratelimit-remaining-tokens": "7", "x-ratelimit-reset-tokens": "1s"}, 0.0)
    assert unknown.ready_at(1, 0.0) == 0.0
    unknown.heard({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m30s"}, 0.0)
    assert unknown.ready_at(1, 0.0) == 60.0  # no longer than that on a header's word
    unknown.heard({"x-ratelimit-remaining-tokens": "soon", "x-ratelimit-reset-tokens": "-1"}, 0.0)
    assert unknown.ready_at(1, 0.0) == 60.0


@given(st.lists(st.tuples(st.floats(0, 20), st.integers(1, 200)), max_size=60), st.sampled_from([6, 60, 90]))
def test_never_more_than_the_limits(arrivals: list[tuple[float, int]], requests_per_minute: int) -> None:
    limit = EngineLimit(HostedLimits(requests_per_minute=requests_per_minute, tokens_per_minute=1000, concurrency=10_000))
    now, sent = 0.0, []
    for wait_s, tokens in arrivals:
        now = max(now + wait_s, limit.ready_at(tokens, now + wait_s))
        assert limit.ready_at(tokens, now) <= now + 1e-6
        limit.sent(tokens, now)
        limit.ended(now)
        sent.append((now, tokens))
    for i, (start_s, _) in enumerate(sent):
        for j in range(i, len(sent)):
            minutes = 1 + (sent[j][0] - start_s) / 60
            assert j - i + 1 <= requests_per_minute * minutes + 1e-3
            assert sum(tokens for _, tokens in sent[i : j + 1]) <= 1000 * minutes + 1e-3


@given(st.lists(st.tuples(st.floats(0, 5), st.booleans(), st.floats(0, 100)), max_size=60))
def test_it_never_shuts_for_good(steps: list[tuple[float, bool, float]]) -> None:
    limit, now = EngineLimit(HostedLimits(requests_per_minute=600, concurrency=3)), 0.0
    for wait_s, is_refused, retry_after_s in steps:
        now += wait_s
        ready_s = limit.ready_at(1, now)
        assert ready_s <= now + 1000  # nothing is in flight
        now = ready_s
        limit.sent(1, now)
        if is_refused:
            limit.refused(retry_after_s, now)
        else:
            limit.ended(now)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Mon, 30 Nov 2026 00:00:30 GMT", "date": "Mon, 30 Nov 2026 00:00:00 GMT"}, 30.0),
        ({"retry-after": "Mon, 30 Nov 2026 00:00:00 GMT", "date": "Mon, 30 Nov 2026 00:00:30 GMT"}, 0.0),
        ({"retry-after": "Mon, 30 Nov 2026 00:00:30 GMT"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert read_retry_after(headers) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1.0), ("6m0s", 360.0), ("20ms", 0.02), ("1h2m3.5s", 3723.5), ("12", 12.0), ("", None), ("1s!", None)],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, "60"])
def test_a_limit_is_a_number_above_zero(value: object) -> None:
    with pytest.raises(ConfigError, match="requests_per_minute must be a number above 0"):
        HostedLimits(requests_per_minute=value)  # type: ignore[arg-type]
