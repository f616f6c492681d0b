"""From step log to samples, overhead and biases, with numbers worked out by hand."""

from __future__ import annotations

import pytest

from agentix.calibrate.drive import Sent
from agentix.calibrate.learn import TooFewSteps, biases, call_overhead_s, kind_of, pace, samples_of
from agentix.cost import FittedCost, Step
from agentix.engine.step_log import StepRecord

PREFILL = Step(prefill_tokens=8, prefill_pairs=36)
DECODE = Step(num_decodes=1, decode_context_tokens=9)
COST = FittedCost(
    per_step_s=1.0, per_prefill_token_s=0.0, per_prefill_pair_s=0.0, per_decode_s=0.5, per_decode_context_token_s=0.0
)


def record(began_s: float, returned_s: float, step: Step) -> StepRecord:
    return StepRecord(began_s=began_s, started_s=began_s, returned_s=returned_s, num_calls=1, step=step)


def test_what_the_engine_does_between_two_steps_belongs_to_the_later_one_unless_it_may_have_been_idle() -> None:
    records = [record(1.0, 2.0, PREFILL), record(2.25, 3.0, DECODE), record(5.0, 6.0, PREFILL)]
    assert samples_of(records, since_s=0.0) == [(PREFILL, 1.0, 1.0), (DECODE, 2.25, 1.0), (PREFILL, 5.0, 1.0)]


def test_a_step_that_was_asked_for_while_another_ran_counts_from_its_end() -> None:
    """Asynchronous scheduling."""
    records = [record(1.0, 3.0, PREFILL), record(1.5, 4.0, PREFILL), record(3.0, 5.5, DECODE)]
    assert samples_of(records, since_s=1.0) == [(PREFILL, 0.0, 2.0), (PREFILL, 0.5, 1.0), (DECODE, 2.0, 1.5)]


def test_steps_of_the_warm_up_are_no_samples() -> None:
    records = [record(1.0, 2.0, PREFILL), record(5.0, 6.0, PREFILL), record(6.5, 7.0, DECODE)]
    assert samples_of(records, since_s=4.0) == [(PREFILL, 1.0, 1.0), (DECODE, 2.5, 1.0)]


def test_the_overhead_is_the_median_over_calls_that_were_alone() -> None:
    records = [record(1.0, 2.0, PREFILL), record(2.5, 3.0, DECODE), record(11.0, 12.0, PREFILL), record(21.0, 22.0, PREFILL)]
    calls = [
        Sent(sent_s=0.5, ended_s=3.25, was_alone=True),  # 2.75 s, of which 2 from the first step to the last
        Sent(sent_s=10.5, ended_s=12.75, was_alone=True),  # 2.25 s, of which 1
        Sent(sent_s=20.9, ended_s=22.1, was_alone=True),  # 1.2 s, of which 1
        Sent(sent_s=0.0, ended_s=30.0, was_alone=False),
    ]
    assert call_overhead_s(records, calls) == 0.75
    with pytest.raises(TooFewSteps):
        call_overhead_s(records, calls[3:])


def test_the_pace_of_a_machine_window_by_window() -> None:
    """Estimates of 1 s and 1.5 s: 2 + 3 of 2.5 s in the first window, nothing in the second, then exactly as estimated."""
    steps = [(PREFILL, 0.0, 2.0), (DECODE, 19.9, 3.0), (DECODE, 40.0, 1.5)]
    assert pace(COST, steps, window_s=20.0) == [2.0, 6.5 / 4.0, 1.0]


def test_biases_compare_sums_by_kind() -> None:
    samples = [(DECODE, 1.0), (DECODE, 2.0), (PREFILL, 0.5)]
    assert biases(COST, samples) == {"decode 1": 0.0, "prefill 5-8": 1.0}


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (Step(num_decodes=2), "decode 2"),
        (Step(num_decodes=3), "decode 3-4"),
        (Step(num_decodes=8), "decode 5-8"),
        (Step(prefill_tokens=9), "prefill 9-16"),
        (Step(prefill_tokens=129, num_decodes=1), "mixed 129-256"),
    ],
)
def test_kinds_of_steps(step: Step, kind: str) -> None:
    assert kind_of(step) == kind
