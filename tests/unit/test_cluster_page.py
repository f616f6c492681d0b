"""What the page about many engines says of its numbers. Nothing is simulated but one skewed program."""

from __future__ import annotations

import random

from agentix.workload import check_program
from benchmarks.cluster.balancers import Balancers
from benchmarks.cluster.part import GUARDED, LEAST_USED, PAPER, ROUND_ROBIN, SESSION_HASH
from benchmarks.cluster.replicas import Replicas
from benchmarks.cluster.skewed import Skewed, SkewedLoad


def test_the_aim_is_judged_against_the_better_of_the_two() -> None:
    """Rates at which curves that grow as 2^rate reach 4: shifted by the numbers given."""
    rates = {ROUND_ROBIN: 1.0, LEAST_USED: 2.0, SESSION_HASH: 2.0, PAPER: 2.2, GUARDED: 2.6}
    curves = {balancer: [(rate - 1, 2.0), (rate + 1, 8.0)] for balancer, rate in rates.items()}
    hit_rate = dict.fromkeys(rates, 0.5)
    case = {"workload": "chat", "num_engines": 4, "latencies": [4.0, 9.0], "curves": curves, "hit_rate": hit_rate}
    text = Balancers().text({"cases": [case]})
    assert "It is at 4 s/token. **It holds.**" in text
    assert f"| `{PAPER}` | 2.20 (1.10×) | ≥3.20 (–) | 50% |" in text
    curves[GUARDED] = curves[PAPER]
    assert "**It does not hold here.**" in Balancers().text({"cases": [case]})


def test_efficiency_is_what_each_engine_carries_of_what_one_does() -> None:
    def curve(rate: float) -> list[tuple[float, float]]:
        return [(rate - 100, 1.0), (rate + 100, 4.0)]

    curves = {PAPER: [(1, curve(1000))], GUARDED: [(1, curve(1000)), (8, curve(960))]}
    numbers = {"latency": 2.0, "window_s": 20.0, "curves": curves}
    text = Replicas().text(numbers)
    assert "| 8 | – | – | 960 | 0.96 |" in text
    assert "**It holds.**" in text
    curves[GUARDED][1] = (8, curve(940))
    assert "**It does not hold here.**" in Replicas().text(numbers)


def test_a_wide_program_asks_all_its_questions_at_once_about_one_text() -> None:
    generator = Skewed(every=2, num_questions=3)
    rng = random.Random(1)
    chat, wide = (generator.generate(rng, index=index) for index in range(2))
    assert (chat.workload, wide.workload) == ("chat", "wide")
    check_program(wide)
    assert [call.parents for call in wide.calls] == [(), *[("read",)] * 3, ("ask0", "ask1", "ask2")]
    assert {call.prompt_parts[0] for call in wide.calls if call.prompt_parts} == {("wide-1/text", 6000)}


def test_skewed_load_is_judged_for_all_programs_and_for_the_wide_ones() -> None:
    def run(mean: float, p99: float, wide: float) -> dict[str, object]:
        jct = {"mean": mean, "p95": p99, "p99": p99}
        return {"jct_s": jct, "token_latency_by_kind": {"chat": 0.01, "wide": wide}, "makespan_s": 9.0, "hit_rate": 0.5}

    runs = {LEAST_USED: run(9.0, 9.0, 0.0005), PAPER: run(10.0, 20.0, 0.002), GUARDED: run(9.0, 21.0, 0.001)}
    program = {"every": 80, "num_questions": 300, "text_tokens": 6000}
    loads = [{"rate_per_engine": 1.0, "num_programs": 120, "runs": runs}]
    text = SkewedLoad().text({"num_engines": 4, "program": program, "loads": loads})
    assert (
        "in mean and P99 of response times: **It does not hold here.** For wide programs: **It holds.** They take 2.0 times"
        in text
    )
    assert f"| `{GUARDED}` | 9.00 | 21.00 | 21.00 | 10.00 | 1.00 | 9 | 50% |" in text
