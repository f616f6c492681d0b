"""What the page says of two real engines, from numbers by hand. No engine is started."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.cluster.__main__ import write_page
from benchmarks.two_engines.kill import _after
from benchmarks.two_engines.play import figures
from benchmarks.two_engines.report import BEGIN, END, kept_section, replace_section, section


def run(balancer: str, repeat: int, jct_s: float, hit_rate: float) -> dict[str, Any]:
    spread = {"mean": jct_s, "p50": jct_s, "p95": 2 * jct_s}
    num_calls = {"ok": 9, "failed": 1, "cancelled": 0, "not_run": 2}
    return {
        "balancer": balancer,
        "repeat": repeat,
        "num_moves": 3.0,
        "jct_s": spread,
        "ttft_s": spread,
        "makespan_s": 60.0,
        "num_calls": num_calls,
        "hit_rate": hit_rate,
    }


def document(**more: Any) -> dict[str, Any]:
    return {
        "machine": {"num_cpus": 2},
        "engines": {"model": "tiny-random", "num_slots": 4, "num_blocks": 1024, "block_size": 32, "max_model_len": 8192},
        "load": {"workload": "t.jsonl.gz", "num_programs": 16, "rate_per_s": 1.0},
        "command": "python -m benchmarks.two_engines",
        "runs": [run("round_robin", 0, 20.0, 0.5), run("round_robin", 1, 22.0, 0.6), run("mine", 0, 10.0, 0.9)],
        **more,
    }


def test_balancers_stand_side_by_side_with_their_spread() -> None:
    text = section(document())
    assert "| `round_robin` | 21.0 (20.0–22.0) | 42.0 (40.0–44.0) | 21.00 (20.00–22.00) | 55 (50–60) | 6 | 6 |" in text
    assert "| `mine` | 10.0 | 20.0 | 10.00 | 90 | 3 | 3 |" in text
    assert "`tiny-random`, 4 slots and 32,768 tokens of KV each" in text


def test_what_became_of_calls_after_a_kill_is_counted() -> None:
    def call(arrived: float, sent: float | None, first: float | None, over: float, engine: str, outcome: str) -> dict[str, Any]:
        moments = {"arrived_s": arrived, "sent_s": sent, "first_token_s": first, "over_s": over}
        return {**moments, "engine_id": engine, "outcome": outcome}

    calls = [
        call(1.0, 1.0, 1.5, 5.0, "engine-0", "finished"),  # over before
        call(8.0, 8.0, 8.5, 10.1, "engine-0", "lost"),  # it was streaming
        call(9.0, 10.2, 10.6, 11.0, "engine-1", "finished"),  # moved
        call(9.5, 10.4, 12.0, 14.0, "engine-1", "finished"),  # moved, later
        call(9.0, 9.0, 9.1, 12.0, "engine-1", "finished"),  # it had been there all the time
        call(9.9, 9.9, None, 10.3, "engine-0", "lost"),  # nobody took it
        call(12.0, 12.0, 12.1, 13.0, "engine-1", "finished"),  # came later
    ]
    assert _after(calls, 10.0, "engine-1") == {
        "num_calls": 7,
        "num_under_way": 5,
        "num_moved": 2,
        "num_moved_and_finished": 2,
        "num_broken_streams": 1,
        "num_lost_without_a_token": 1,
        "last_moved_s": pytest.approx(0.4),
        "next_finished_s": pytest.approx(1.0),
        "num_finished_later": 4,
    }


def test_prefix_hits_are_of_calls_that_ended_well() -> None:
    calls = [
        {"status": "ok", "prompt_tokens": 100, "cached_tokens": 64, "error": None},
        {"status": "ok", "prompt_tokens": 100, "cached_tokens": None, "error": None},
        {"status": "failed", "prompt_tokens": 900, "cached_tokens": 900, "error": "HTTP 502: gone"},
    ]
    spread = {"mean": 1.0, "p50": 1.0, "p95": 1.0, "max": 1.0}
    summary = {"distributions": {"jct_s": spread, "ttft_s": spread}, "makespan_s": 3.0, "num_calls": {"ok": 2, "failed": 1}}
    told = figures({"summary": summary, "calls": calls})
    assert (told["hit_rate"], told["error"]) == (0.32, "HTTP 502: gone")


def test_a_section_is_replaced_where_it_stands_and_outlives_the_rest_of_the_page(tmp_path: Any) -> None:
    page = replace_section("# Many engines\n\ntext\n", "first")
    assert page == f"# Many engines\n\ntext\n\n{BEGIN}\nfirst\n{END}\n"
    page = replace_section(page + "\nmore\n", "second")
    assert page == f"# Many engines\n\ntext\n\n{BEGIN}\nsecond\n{END}\n\nmore\n"
    path = tmp_path / "cluster.md"
    path.write_text(page, encoding="utf-8")
    write_page(path, {})
    assert path.read_text(encoding="utf-8").endswith(f"\n\n{BEGIN}\nsecond\n{END}\n")
    assert kept_section("# a page without one\n") == ""
