"""What is measured of an engine: queues, calls and prompts, by sequences worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.gateway.concurrency import EngineLoad
from agentix.gateway.gauge import Gauge, Prompts, read_prompts

VLLM = b"""# TYPE vllm:request_prefill_time_seconds histogram
vllm:request_prefill_time_seconds_bucket{engine="0",le="0.3",model_name="m"} 2.0
vllm:request_prefill_time_seconds_count{engine="0",model_name="m"} 3.0
vllm:request_prefill_time_seconds_sum{engine="0",model_name="m"} 1.5
vllm:request_prefill_time_seconds_sum{engine="1",model_name="m"} 0.5
vllm:request_prefill_kv_computed_tokens_count{engine="0",model_name="m"} 3.0
vllm:request_prefill_kv_computed_tokens_count{engine="1",model_name="m"} 1.0
vllm:request_prefill_kv_computed_tokens_sum{engine="0",model_name="m"} 900.0
vllm:request_prefill_kv_computed_tokens_sum{engine="1",model_name="m"} 1.1e+03
"""


def test_what_vllm_says_of_prompts_is_summed_over_its_engines() -> None:
    assert read_prompts(VLLM) == Prompts(2.0, 2000.0, 4.0)
    assert read_prompts(VLLM.replace(b"prefill_kv", b"other")) is None
    assert read_prompts(b"python_info 1\n") is None
    assert read_prompts(VLLM + b"vllm:request_prefill_time_seconds_sum 1.e.2\n") is None


def test_a_queue_is_what_the_engine_told_and_what_came_and_went_since() -> None:
    gauge = Gauge()
    assert gauge.num_waiting(7) is None, "it has told nothing"
    gauge.loaded(EngineLoad(6, 0), 6)
    assert gauge.num_waiting(6) == 0
    assert gauge.num_waiting(40) == 0, "nobody knows yet how many it takes"
    gauge.loaded(EngineLoad(8, 4), 12)
    assert [gauge.num_waiting(n) for n in (12, 15, 9, 3)] == [4, 7, 1, 0]
    gauge.loaded(EngineLoad(5, 0), 5)
    assert [gauge.num_waiting(n) for n in (5, 8, 9)] == [0, 0, 1], "it is full at 8, as it was"
    gauge.loaded(EngineLoad(10, 0), 10)
    assert [gauge.num_waiting(n) for n in (10, 11)] == [0, 1], "or at 10"
    gauge.loaded(EngineLoad(3, 9), 12)
    assert gauge.num_waiting(12) == 9, "longer calls: only 3 have room"


def test_calls_of_others_fill_an_engine_as_well() -> None:
    gauge = Gauge()
    gauge.loaded(EngineLoad(8, 30), 2)
    assert [gauge.num_waiting(n) for n in (2, 0, 5)] == [30, 28, 33]


def test_a_call_that_waits_for_the_next_step_is_no_queue() -> None:
    gauge = Gauge()
    gauge.loaded(EngineLoad(2, 1), 3)
    assert gauge.num_waiting(3) == 1, "as it says"
    gauge.loaded(EngineLoad(3, 0), 3)
    assert gauge.num_waiting(20) == 0, "but it was not full"
    gauge.loaded(EngineLoad(32, 3), 35)
    assert gauge.num_waiting(40) == 3, "two more for 32"
    gauge.loaded(EngineLoad(32, 4), 36)
    assert gauge.num_waiting(40) == 8


def test_the_time_of_a_call_follows_those_that_ended_last() -> None:
    gauge = Gauge()
    gauge.finished(2.0, None, None)
    assert gauge.call_s == 2.0
    gauge.finished(None, None, None)
    gauge.finished(4.0, None, None)
    assert gauge.call_s == pytest.approx(2.1)


def test_the_pace_of_prompts_is_that_of_the_least_disturbed_long_ones() -> None:
    gauge = Gauge()
    gauge.finished(None, 0.9, 127)
    gauge.finished(None, None, 4000)
    gauge.finished(None, 0.9, None)
    assert gauge.prefill_s_per_token is None, "too short, or not known"
    for prefill_s in (0.4, 0.1, 0.2, 0.3):
        gauge.finished(None, prefill_s, 1000)
    assert gauge.prefill_s_per_token == pytest.approx(0.2e-3)
    for _ in range(64):
        gauge.finished(None, 5.0, 1000)
    assert gauge.prefill_s_per_token == pytest.approx(5e-3), "what was before is forgotten"


def test_where_answers_do_not_tell_the_engine_s_sums_do() -> None:
    gauge = Gauge()
    gauge.prompts_computed(Prompts(100.0, 1e6, 1000.0))
    assert gauge.prefill_s_per_token is None, "of what time, nobody knows"
    gauge.prompts_computed(Prompts(100.5, 1e6 + 1000, 1002.0))
    assert gauge.prefill_s_per_token == pytest.approx(0.5e-3)
    gauge.prompts_computed(Prompts(100.5, 1e6 + 1000, 1002.0))
    gauge.prompts_computed(Prompts(0.1, 200.0, 1.0))  # started anew
    gauge.prompts_computed(Prompts(0.2, 240.0, 2.0))  # a short one
    assert gauge.prefill_s_per_token == pytest.approx(0.5e-3)
    gauge.prompts_computed(Prompts(0.3, 740.0, 3.0))
    assert gauge.prefill_s_per_token == pytest.approx(0.2e-3)
    gauge.finished(1.0, 1.0, 1000)
    gauge.prompts_computed(Prompts(9.9, 99_740.0, 4.0))
    assert len(gauge._paces) == 3, "from now on answers tell"


@pytest.mark.parametrize("prompts", [Prompts(float("inf"), 1e6, 2.0), Prompts(1.0, float("inf"), 2.0)])
def test_figures_without_end_teach_nothing(prompts: Prompts) -> None:
    gauge = Gauge()
    gauge.prompts_computed(Prompts(0.0, 0.0, 0.0))
    gauge.prompts_computed(prompts)
    gauge.prompts_computed(prompts)
    assert gauge.prefill_s_per_token is None


loads = st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 100))


@given(st.lists(loads, min_size=1), st.integers(0, 100))
def test_a_queue_is_never_negative_nor_shrinks_as_more_is_sent(told: list[tuple[int, int, int]], num_sent: int) -> None:
    gauge = Gauge()
    for running, waiting, sent in told:
        gauge.loaded(EngineLoad(running, waiting), sent)
    before, after = gauge.num_waiting(num_sent), gauge.num_waiting(num_sent + 1)
    assert before is not None
    assert after is not None
    assert 0 <= before <= after <= before + 1
    running, waiting, sent = told[-1]
    if waiting > 1 + running // 16 and running:
        assert gauge.num_waiting(sent) == waiting, "just told"
