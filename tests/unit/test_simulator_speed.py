"""The benchmark of the simulator's speed: it measures what it says, and its page tells what was measured."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentix.workload import Call, Program
from benchmarks.simulator_speed import page
from benchmarks.simulator_speed.programs import select
from benchmarks.simulator_speed.timing import Timing, measure
from benchmarks.simulator_speed.waiting import Queue, engine_row, fit_exponent


def one_call(program_id: str, prompt_tokens: int) -> Program:
    call = Call(call_id="a", parents=(), prompt_tokens=prompt_tokens, output_tokens=1)
    return Program(program_id=program_id, workload="w", calls=(call,))


def test_the_exponent_of_a_power_is_found() -> None:
    assert fit_exponent([(n, 3 * n**0.5) for n in (100, 1_000, 10_000)]) == pytest.approx(0.5)
    assert fit_exponent([(100, 2.0), (10_000, 2.0)]) == 0.0


def test_a_cycle_promotes_one_call_and_leaves_the_queue_as_long_as_it_was() -> None:
    queue = Queue(num_waiting=10)
    for num_cycles in range(1, 41):
        queue.cycle()
        queue.scheduler.validate()
        assert queue.num_promoted == num_cycles
        assert len(queue.scheduler.running) == 64
        assert len(queue.scheduler.order) == 64 + 10
    # From cycle 11 on the starving call is one that arrived in a cycle; all start in the order in which they came.
    assert {f"call-{i}" for i in range(40)} <= queue.scheduler.running


def test_an_engine_works_off_as_many_calls_as_asked() -> None:
    row = engine_row(10, num_calls=70)
    assert row["num_calls"] >= 70
    # A call takes a step for its prompt's last token and one for each token of its answer but the first: 32 at least.
    assert row["num_steps"] >= 32


def test_programs_that_cannot_be_played_are_left_out_and_counted() -> None:
    chosen = select("w", [one_call("a", 100_000), one_call("b", 100_001), one_call("c", 0), one_call("d", 1)])
    assert [program.program_id for program in chosen.programs] == ["a", "d"]
    assert chosen.num_left_out == 2


def test_a_measurement_takes_the_seconds_of_the_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def ticks(*moments: float) -> Iterator[float]:
        return iter(moments)

    wall, cpu = ticks(0.0, 5.0, 10.0, 13.0), ticks(1.0, 2.0, 5.0, 7.0)
    monkeypatch.setattr(time, "perf_counter", lambda: next(wall))
    monkeypatch.setattr(time, "process_time", lambda: next(cpu))
    outcome, taken = measure(lambda: "done", 2)
    assert outcome == "done"
    assert taken == Timing(cpu_s=[1.0, 2.0], wall_s=[5.0, 3.0])
    assert taken.summary() == {"cpu_best_s": 1.0, "cpu_median_s": 1.5, "wall_best_s": 3.0, "wall_median_s": 4.0}


def test_the_page_says_why_vidur_could_not_be_run(tmp_path: Path) -> None:
    measured = {
        "machine": {"python": "CPython 3.11.7", "cpu": "a processor"},
        "num_repeats": 1,
        "scale": 0.5,
        "requirement": "vidur==0.0.26",
        "error": "Python 3.11.7: no such version",
    }
    written = tmp_path / "page.md"
    page.write_page(written, {"vidur": measured})
    text = written.read_text(encoding="utf-8")
    assert "`vidur==0.0.26` could not be run: `Python 3.11.7: no such version`." in text
    assert text.endswith("Measured with CPython 3.11.7 on a processor, one run, 0.5 of the full size.\n")
