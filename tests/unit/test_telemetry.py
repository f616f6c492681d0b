"""Counts of the plug-in on their way to the API server: nothing twice, nothing lost, nothing too often."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from agentix.engine.telemetry import Telemetry, is_received, take_report


def test_reports_say_what_was_added_since_the_last_one() -> None:
    telemetry = Telemetry(is_received=True)
    first, second = SimpleNamespace(waiting_lora_adapters={"adapter": 1}), SimpleNamespace(waiting_lora_adapters={})
    telemetry.placed(0, 1)
    telemetry.placed(1, 1)
    telemetry.scheduled(0.25)
    telemetry.report(first, 1.0, {("running", 0): 2}, {"num_parks": 3, "evicted_tokens": 50})
    telemetry.placed(1, 0)
    telemetry.report(second, 2.0, {("running", 0): 1}, {"num_parks": 4, "evicted_tokens": 60})
    assert take_report(first.waiting_lora_adapters) == (
        {"num_demotions": 1, "scheduling_us": 250_000, "num_parks": 3},
        {("running", 0): 2},
    )
    assert first.waiting_lora_adapters == {"adapter": 1}
    assert take_report(first.waiting_lora_adapters) is None
    assert take_report(second.waiting_lora_adapters) == ({"num_promotions": 1, "num_parks": 1}, {("running", 0): 1})


def test_an_engine_at_work_reports_twice_a_second_and_an_idle_one_at_once() -> None:
    telemetry = Telemetry(is_received=True)
    assert telemetry.is_due(100.0, idle=False)
    telemetry.report(SimpleNamespace(waiting_lora_adapters={}), 100.0, {}, {})
    assert not telemetry.is_due(100.49, idle=False)
    assert telemetry.is_due(100.5, idle=False)
    assert telemetry.is_due(100.01, idle=True)


def test_only_a_call_that_had_lost_its_kv_computes_again() -> None:
    telemetry = Telemetry(is_received=True)
    telemetry.came_back("a", 0)
    telemetry.lost_kv("a", 14)
    telemetry.came_back("a", 8)
    telemetry.came_back("a", 0)
    telemetry.lost_kv("b", 7)
    telemetry.came_back("b", 8)  # another call has computed the same meanwhile, and more
    telemetry.lost_kv("c", 9)
    telemetry.over("c")
    telemetry.came_back("c", 0)
    assert telemetry.counts["recomputed_tokens"] == 14 - 8


def test_an_engine_whose_statistics_have_no_place_for_it_goes_on_without(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry(is_received=True)
    telemetry.report(SimpleNamespace(), 1.0, {}, {})
    assert not telemetry.is_due(2.0, idle=True)
    assert caplog.text.count("waiting_lora_adapters") == 1


def test_nothing_is_sent_where_vllm_is_told_to_leave_our_logger_out(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["agentix.engine.telemetry"]
    monkeypatch.setattr(module, "entry_points", lambda **_: SimpleNamespace(names={"agentix", "other"}))
    assert is_received({})
    assert is_received({"VLLM_PLUGINS": "other,agentix"})
    assert not is_received({"VLLM_PLUGINS": "other"})
    monkeypatch.setattr(module, "entry_points", lambda **_: SimpleNamespace(names={"other"}))
    assert not is_received({})
    assert not Telemetry(is_received=False).is_due(0.0, idle=True)
