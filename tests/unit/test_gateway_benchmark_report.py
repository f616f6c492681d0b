"""The benchmark of the gateway: it sends what it says, its figures are those of what came, and its page tells them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gateway.load import Load, make_request, make_schedule
from benchmarks.gateway.process import BenchmarkError
from benchmarks.gateway.report import BEGIN, END, report, write_section
from benchmarks.gateway.summary import Taken, summarise


def test_figures_are_of_the_calls_that_count() -> None:
    taken = [
        Taken(sent_s=0.5, first_s=0.6, ended_s=1.5),  # sent too early for a latency; answered in time for a rate
        Taken(sent_s=1.0, first_s=1.1, ended_s=1.2),
        Taken(sent_s=2.0, first_s=2.2, ended_s=2.4),
        Taken(sent_s=2.9, first_s=3.1, ended_s=3.2),  # answered too late for a rate
        Taken(sent_s=3.0, first_s=3.1, ended_s=3.2),  # sent too late
        Taken(sent_s=1.0, ended_s=1.1, fault="HTTP 500: no"),
    ]
    summary = summarise(taken, 1.0, 3.0, lags_s=[0.001, 0.003])
    assert (summary["num_calls"], summary["num_failed"], summary["fault"]) == (3, 1, "HTTP 500: no")
    assert summary["calls_per_s"] == 1.5
    latency = {name: pytest.approx(value) for name, value in {"mean": 900 / 3, "p50": 300, "p99": 398, "max": 400}.items()}
    assert summary["latency_ms"] == latency
    assert summary["first_ms"]["p50"] == pytest.approx(200)
    assert summary["lag_ms"]["mean"] == pytest.approx(2)
    assert summarise([], 0.0, 1.0)["latency_ms"] is None


def test_every_arm_gets_the_same_calls_at_the_same_moments() -> None:
    load = Load(kind="rate", url="http://127.0.0.1:1", rate_per_s=200.0, warm_s=1.0, duration_s=49.0, num_programs=10)
    schedule = make_schedule(load)
    assert schedule == make_schedule(load)
    assert schedule[-1][0] < 50.0
    assert len(schedule) == pytest.approx(10_000, rel=0.04)  # four standard deviations
    assert {program for _, program in schedule} == set(range(10))


def test_a_request_says_how_long_it_is() -> None:
    head, _, body = make_request(Load(kind="rate", url="http://127.0.0.1:81"), 7).partition(b"\r\n\r\n")
    assert b"content-length: %d" % len(body) in head
    assert b"host: 127.0.0.1:81" in head
    assert b"x-agentix-program: program-7" in head
    assert sum(len(turn["content"]) for turn in json.loads(body)["messages"]) == pytest.approx(4000, rel=0.02)


def played(p50_ms: float, p99_ms: float, calls_per_s: float, num_failed: int = 0) -> dict[str, Any]:
    common = {"num_failed": num_failed, "fault": "HTTP 500:\nno" if num_failed else None}
    return {
        "latency": {**common, "latency_ms": {"p50": p50_ms, "p99": p99_ms}},
        "calls": {**common, "num_failed": 0, "calls_per_s": calls_per_s},
        "chunks": {**common, "num_failed": 0, "chunks_per_s": 10 * calls_per_s},
    }


DOCUMENT: dict[str, Any] = {
    "machine": {"python": "CPython 3.11.7", "cpu": "a processor", "num_cores": 2},
    "cpus": {"gateway": "1", "others": "0"},
    "load_average": "0.1",
    "engine_delay_s": 0.005,
    "took_s": 12.4,
    "plan": {"num_rounds": 3, "rate_per_s": 200.0, "latency_s": 8.0, "closed_s": 4.0, "num_held": 2000},
    "arms": {
        "direct": {"error": None, "rounds": [played(5.0, 6.0, 9000), played(5.5, 6.0, 9500), played(5.0, 7.0, 9100)]},
        "agentix": {
            "error": None,
            "rounds": [played(6.0, 9.0, 1000), played(6.0, 10.0, 1300), played(6.2, 11.0, 1200, num_failed=2)],
            "memory": {"idle_mb": 80.4, "held_mb": 300.6, "num_failed": 0, "num_open": 1999},
            "table": [
                {
                    "num_programs": number,
                    "memory_mb": memory_mb,
                    "filled": {"num_failed": 0},
                    "latency": {"num_failed": 0, "latency_ms": {"p50": 6.0, "p99": 9.0}},
                }
                for number, memory_mb in ((200, 90.0), (100_000, 250.0))
            ],
        },
        "other": {"error": "other==1 does not\ninstall", "rounds": []},
    },
}


def test_latency_is_added_to_that_of_the_same_round_and_nothing_that_failed_is_hidden() -> None:
    text = report(DOCUMENT)
    lines = text.split("\n")
    assert "| direct | – | – | **9,100** (9,000 to 9,500) | **91,000** (90,000 to 95,000) | – | – |" in lines
    ours = (
        "| agentix | **1.00** (0.50 to 1.20) | **4.00** (3.00 to 4.00) | **1,200** (1,000 to 1,300) "
        "| **12,000** (10,000 to 13,000) | 80 | 301 |"
    )
    assert ours in lines
    assert "| other | – | – | – | – | – | – |" in lines
    assert "| 100,000 | 6.00 | 9.00 | 250 |" in lines
    assert "- other: `other==1 does not install`" in lines
    assert "- agentix, memory: 1,999 streams began in time, not all" in lines
    assert "- agentix, latency: 2 calls failed, the first with `HTTP 500: no`" in lines
    assert "the gateway alone on core 1, mock engine and load generator together on 0" in text


def test_a_page_keeps_what_stands_around_the_section(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    write_section(page, "new")
    write_section(page, "newer")
    assert page.read_text(encoding="utf-8") == f"before\n{BEGIN}\n\nnewer\n\n{END}\nafter\n"
    page.write_text("no marks", encoding="utf-8")
    with pytest.raises(BenchmarkError, match="lacks the lines"):
        write_section(page, "new")
