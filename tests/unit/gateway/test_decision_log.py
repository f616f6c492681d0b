"""The gateway's decision log: whatever happens, the core decides the same from it; and it ends when it is long enough."""

from __future__ import annotations

import json
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentix.core import ConfigError
from agentix.core.events import CallAborted, CallFinished, ProgramEnded, ProgramStarted, ServedElsewhere
from agentix.gateway.admission_settings import AdmissionSettings
from agentix.gateway.config import EngineTarget, GatewayConfig
from agentix.gateway.decision_log import DecisionLog
from gateway_replay import replay
from held_calls import SCHEDULER, Gateway

ENGINES = (EngineTarget(engine_id="e0", url="http://e0"),)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "arrive",
                "arrive",
                "start",
                "end",
                "finish",
                "abort",
                "pause",
                "resume",
                "weigh",
                "put_back",
                "drain",
                "back",
                "tick",
            ]
        ),
        st.integers(0, 5),
        st.floats(0, 2),
    ),
    max_size=40,
)


def open_log(path: Path, **options: Any) -> DecisionLog:
    return DecisionLog(path, GatewayConfig(engines=ENGINES, admission=AdmissionSettings(scheduler=SCHEDULER)), **options)


@settings(deadline=None, max_examples=30)
@given(STEPS)
def test_the_core_decides_the_same_from_the_log(steps: list[tuple[str, int, float]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        log = open_log(Path(directory) / "log")
        gateway = Gateway(2, decision_log=log, max_concurrency=2)
        play(gateway, steps)
        log.close()
        counts = replay(Path(directory) / "log")
        assert counts["gateway"] == 1
        assert counts["ProgramStarted"] == sum(what == "start" for what, _, _ in steps)


def play(gateway: Gateway, steps: list[tuple[str, int, float]]) -> None:
    admission, pool, now = gateway.admission, gateway.pool, 1.0
    for number, (what, which, gap_s) in enumerate(steps):
        now = gateway.now = now + gap_s
        keys, program_id, engine = list(admission.places), "abcdef"[which], pool.states[f"e{which % 2}"]
        key = keys[which % len(keys)] if keys else ""
        match what:
            case "arrive":
                gateway.arrive(f"{program_id}{number}", now, engine_id=engine.target.engine_id, tenant="tu"[which % 2])
            case "start":
                gateway.table.apply(ProgramStarted(now=now, program_id=program_id, program_class="kind"))
            case "end" if program_id in gateway.table.rows:
                gateway.table.apply(ProgramEnded(now=now, program_id=program_id))
            case "finish" if key in gateway.sent:
                admission.over(CallFinished(now=now, call_id=key, service_s=gap_s, waiting_s=0.0))
            case "abort" if key:
                admission.over(CallAborted(now=now, call_id=key, service_s=0.0, waiting_s=gap_s))
            case "put_back" if key in gateway.sent:
                admission.put_back(key, now)
            case "pause":
                admission.pause(program_id, now)
            case "resume":
                admission.resume(program_id, now)
            case "weigh" if program_id in gateway.table.rows:
                admission.weigh(program_id, 0.5 + gap_s, now)
            case "drain":
                pool.drain(engine)
            case "back":
                pool.drain(engine, draining=False)
            case "tick":
                admission.turns.tick(now)


def test_a_log_whose_decisions_are_not_the_core_s_is_found_out(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    gateway = Gateway(decision_log=log, max_concurrency=1)
    gateway.table.apply(ServedElsewhere(now=0.0, program_id="b", service_s=5.0))
    for call_id in ("a1", "b1", "c1"):
        gateway.arrive(call_id)
    gateway.finish("a1", 1.0)
    log.close()
    text = (tmp_path / "log").read_text()
    counts = replay(tmp_path / "log")
    assert counts == {"gateway": 1, "ServedElsewhere": 1, "CallArrived": 3, "CallStarted": 2, "CallFinished": 1}
    swapped = text.replace('"CallStarted", "now": 1.0, "call_id": "c1"', '"CallStarted", "now": 1.0, "call_id": "b1"')
    (tmp_path / "order").write_text(swapped)
    with pytest.raises(AssertionError):
        replay(tmp_path / "order")
    (tmp_path / "level").write_text(text.replace('"level": 0', '"level": 1', 1))
    with pytest.raises(AssertionError):
        replay(tmp_path / "level")


def test_every_start_begins_anew_in_the_same_file_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    for _ in range(2):
        log = open_log(tmp_path / "log")
        Gateway(decision_log=log).arrive("a1")
        log.close()
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600
    assert replay(tmp_path / "log") == {"gateway": 2, "CallArrived": 2, "CallStarted": 2}


def test_it_ends_at_its_bound_with_a_whole_line_and_the_gateway_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log(tmp_path / "log", max_bytes=2000)
    gateway = Gateway(decision_log=log)
    for number in range(20):
        gateway.arrive(f"a{number}")
    size = (tmp_path / "log").stat().st_size
    assert 1500 < size <= 2000
    assert [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert caplog.messages == ["the decision log ends here: it is as long as it may be"]
    assert len(gateway.sent) == 20
    log.close()


def test_a_file_that_cannot_be_opened_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"cannot write the decision log {tmp_path}/no/log: No such file or directory"):
        open_log(tmp_path / "no" / "log")
