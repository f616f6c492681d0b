"""Which programs a run replays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from agentix.ab.arms import STOCK_FCFS, find_arm
from agentix.ab.config import Case, Share
from agentix.ab.mix import load_traces, make_mix
from agentix.bench.errors import BenchError
from agentix.bench.plan import Plan
from agentix.core.errors import ConfigError

WriteTrace = Callable[..., Path]


def case(seed: int = 1, rate_per_s: float = 2.0, arm: str = "stock-fcfs") -> Case:
    return Case(arm=find_arm(arm, {}) if arm != "stock-fcfs" else STOCK_FCFS, repeat=1, seed=seed, rate_per_s=rate_per_s)


def mix(shares: list[tuple[Path, int]], of: Case, max_model_len: int | None = None) -> Plan:
    traces = load_traces([Share(trace=path, num_programs=number) for path, number in shares])
    return make_mix(traces, of, max_model_len=max_model_len, context_margin=1.0)


def sources(plan: Plan) -> list[str]:
    return [planned.source.program_id for planned in plan.programs]


def test_every_kind_has_its_share_and_no_program_comes_twice_while_there_are_others(write_trace: WriteTrace) -> None:
    chat, react = write_trace("chat", *[(1,)] * 40), write_trace("react", *[(1,)] * 3)
    for seed in range(20):
        plan = mix([(chat, 25), (react, 3)], case(seed))
        assert Counter(planned.source.workload for planned in plan.programs) == {"chat": 25, "react": 3}
        assert len(set(sources(plan))) == 28
        assert plan.num_repeated == 0


def test_every_arm_of_a_repeat_gets_the_same_and_every_repeat_something_else(write_trace: WriteTrace) -> None:
    shares = [(write_trace("chat", *[(1,)] * 40), 10), (write_trace("react", *[(1,)] * 20), 5)]
    plan = mix(shares, case())
    assert mix(shares, case(arm="plas")) == plan
    assert sources(mix(shares, case(seed=2))) != sources(plan)
    kinds = [planned.source.workload for planned in plan.programs]
    assert kinds != sorted(kinds), "kinds are shuffled together"


def test_the_rate_only_stretches_the_arrivals(write_trace: WriteTrace) -> None:
    shares = [(write_trace("chat", *[(1,)] * 9), 9)]
    slow, fast = mix(shares, case(rate_per_s=1.0)), mix(shares, case(rate_per_s=4.0))
    assert sources(slow) == sources(fast)
    assert [p.arrival_s for p in slow.programs] == pytest.approx([4 * p.arrival_s for p in fast.programs])


def test_programs_that_do_not_fit_are_left_out_and_counted_and_too_few_are_repeated(write_trace: WriteTrace) -> None:
    path = write_trace("chat", (90,), (91,), (5, 95), (1, 2))  # of 100 tokens, 10 are the prompt's
    plan = mix([(path, 5)], case(), max_model_len=100)
    assert set(sources(plan)) == {"chat-0", "chat-3"}
    assert (plan.num_skipped_too_long, plan.num_repeated, len(plan.programs)) == (2, 3, 5)
    with pytest.raises(BenchError, match=r"no program of chat\.jsonl fits the model's context of 11 tokens"):
        mix([(path, 5)], case(), max_model_len=11)


def test_a_trace_without_text_is_refused(write_trace: WriteTrace) -> None:
    with pytest.raises(ConfigError, match=r"lengths\.jsonl has programs without message text"):
        mix([(write_trace("lengths", (1,), text=False), 1)], case())
    with pytest.raises(ConfigError, match=r"empty\.jsonl holds no programs"):
        mix([(write_trace("empty"), 1)], case())
