"""The plug-in's numbers, counted on vLLM's real scheduler without a model, and their way to what vLLM's /metrics shows."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import prometheus_client
import pytest

from agentix.engine import telemetry
from benchmarks.without_model.scheduler import STEP_S, Engine, ProgramScheduler, ProgramStatLogger, as_received

pytestmark = pytest.mark.engine

STATES = ("running", "waiting", "parked", "held")
SCHEDULING_S = STEP_S / 4  # what a decision takes on the clock of these tests
MODEL = SimpleNamespace(model_config=SimpleNamespace(served_model_name="small"))


class Reporting(ProgramScheduler):
    """The plug-in; its decisions take time, and its statistics go the way to the API server."""

    engine: Engine

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.api_server = ProgramStatLogger(MODEL, [0])

    def _update_after_schedule(self, scheduler_output: Any) -> None:
        super()._update_after_schedule(scheduler_output)
        self.engine.now += SCHEDULING_S

    def make_stats(self, *args: Any, **kwargs: Any) -> Any:
        stats = super().make_stats(*args, **kwargs)
        received = as_received(stats)
        self.api_server.record(received, None, engine_idx=3)
        assert not received.waiting_lora_adapters, "vLLM's own loggers would take these for adapters"
        return stats


def engine_of(*, starvation_ratio: float | None = None, **options: Any) -> Engine:
    """One slot; two steps at the first level, then the last. Every step reports, unless the test says otherwise."""
    settings = {"policy": "plas", "preemption": "park", "quanta_s": [2 * STEP_S], "starvation_ratio": starvation_ratio}
    engine = Engine(settings, overlap=False, num_slots=1, scheduler_cls=Reporting, **options)
    engine.scheduler.engine = engine
    return engine


def shown(name: str, **labels: str) -> float | None:
    """What /metrics would show; None: nothing."""
    return prometheus_client.REGISTRY.get_sample_value(f"agentix:{name}", {"model_name": "small", "engine": "3"} | labels)


def counters() -> dict[str, float | None]:
    names = ("num_parks", "num_resumes", "num_evictions", "recomputed_tokens", "num_demotions", "num_promotions")
    return {name: shown(f"{name}_total") for name in names}


def test_every_number_is_right_after_a_history_worked_out_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """`long` runs four steps and sinks after two; then `short` of a new program has the slot.

    `short` sinks after its two and goes on, until `long` starves: it has 4 ms of service, and with what decisions take it
    has waited 10 ms at the end of step 12. Promoted, it runs its other eight steps, sinks again after two of them, and
    `short` comes back for its last four. A 25th step without tokens tells the model runner that all is over.
    """
    monkeypatch.setattr(telemetry, "_EVERY_S", 0.0)
    engine = engine_of(starvation_ratio=2.4, num_blocks=30)
    engine.add("long", [1, 2, 3, 4, 5], 12, "p")
    for _ in range(4):
        engine.step()
    engine.add("short", [6, 7, 8], 12, "q")
    engine.step()
    levels = {(state, level): shown("num_calls", state=state, level=str(level)) for state in STATES for level in (0, 1)}
    assert {key for key, number in levels.items() if number} == {("running", 0), ("parked", 1)}
    engine.add("third", [9, 9, 9], 12, "r")
    engine.abort("third")
    engine.run()
    assert {name: len(answer) for name, answer in engine.answers.items()} == {"long": 12, "short": 12}
    assert counters() == {
        "num_parks": 2,
        "num_resumes": 2,
        "num_evictions": 0,
        "recomputed_tokens": 0,
        "num_demotions": 3,
        "num_promotions": 1,
    }
    assert shown("scheduling_seconds_total") == pytest.approx(25 * SCHEDULING_S)
    assert all(shown("num_calls", state=state, level=str(level)) == 0 for state in STATES for level in (0, 1))


def test_what_is_computed_again_is_what_the_prefix_cache_has_lost() -> None:
    """Eight blocks: `a` has computed 14 tokens in four when `b` needs six. It takes the free four, then a's last two.

    So two of a's blocks are found when it comes back, and 14 - 8 tokens are computed again.
    """
    engine = engine_of(num_blocks=9)
    engine.add("a", list(range(1, 13)), 8, "p")
    for _ in range(3):
        engine.step()
    engine.add("b", list(range(21, 0, -1)), 2, "q")
    engine.run()
    found = counters()
    assert (found["num_parks"], found["num_evictions"], found["num_resumes"]) == (1, 1, 0)
    assert found["recomputed_tokens"] == 14 - 8
    assert engine.num_tokens_of["a"] == 12 + 8 - 1 + (14 - 8)


def test_statistics_that_cannot_be_shown_end_the_metrics_and_not_the_engine(caplog: pytest.LogCaptureFixture) -> None:
    logger = ProgramStatLogger(MODEL, [0])
    with caplog.at_level("ERROR", logger="vllm"), patch.object(logging.getLogger("vllm"), "propagate", True):
        logger.record(SimpleNamespace(), None)
        logger.record(SimpleNamespace(), None)
    assert caplog.text.count("no more metrics") == 1
