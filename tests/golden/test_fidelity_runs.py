"""The simulator still predicts the runs of a real engine that docs/results/fidelity holds, once the machine's pace is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentix.cost import load_card
from benchmarks.fidelity.cases import SITTINGS, Measured, cases_of
from benchmarks.fidelity.predict import WITHIN, predict

RUNS = Path(__file__).parents[2] / "docs" / "results" / "fidelity"


@pytest.mark.parametrize(("sitting", "name"), [(sitting, case.name) for sitting in SITTINGS for case in cases_of(sitting)])
def test_a_real_run_is_predicted_within_bounds(sitting: str, name: str) -> None:
    runs = RUNS / sitting
    measured = Measured.load(runs / f"{name}.json.gz")
    predicted = predict(measured, runs / f"{name}.programs.jsonl.gz", load_card(runs / "card.json"))
    assert len(measured.jct_s) >= 30
    for one in predicted.compared:
        assert abs(one.paced_error) <= WITHIN[one.of], one
    assert predicted.cached_tokens == pytest.approx(measured.cached_tokens, rel=0.05)


BELOW_SATURATION = [(s, case.name) for s in SITTINGS for case in cases_of(s) if case.load < 1]


@pytest.mark.parametrize(("sitting", "name"), BELOW_SATURATION)
def test_below_saturation_the_card_alone_predicts_a_real_run_within_bounds(sitting: str, name: str) -> None:
    runs = RUNS / sitting
    measured = Measured.load(runs / f"{name}.json.gz")
    predicted = predict(measured, runs / f"{name}.programs.jsonl.gz", load_card(runs / "card.json"))
    for one in predicted.compared:
        assert abs(one.error) <= WITHIN[one.of], one
