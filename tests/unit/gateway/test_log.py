"""Lines of the log, word for word."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.core.errors import ConfigError
from agentix.gateway.log import FORMATS, CallLog, JsonFormatter, TextFormatter, set_up_logging
from agentix.gateway.outcome import Outcome
from observed_calls import Calls

EPOCH_S = 1_767_225_600.25  # 2026-01-01T00:00:00.250Z


def record(message: str, severity: int = logging.INFO, /, **fields: Any) -> logging.LogRecord:
    made = logging.LogRecord("agentix.x", severity, __file__, 1, message, (), None)
    made.created = EPOCH_S
    if fields:
        made.fields = fields
    return made


@pytest.fixture
def restored() -> Iterator[None]:
    """The logging of this process, as it was."""
    root, calls = logging.getLogger(), logging.getLogger("agentix.calls")
    before = root.handlers[:], root.level, calls.level
    yield
    root.handlers[:], root.level = before[0], before[1]
    calls.setLevel(before[2])


def test_a_line_for_people_quotes_what_could_be_taken_for_something_else() -> None:
    line = TextFormatter().format(record("call over", program="p", reason="two words", thread="", level=None, latency_ms=1.5))
    assert line == '2026-01-01T00:00:00.250Z INFO agentix.x: call over program=p reason="two words" thread="" latency_ms=1.5'


@given(st.text(max_size=20))
def test_no_value_can_begin_a_line_or_a_field_of_its_own(value: str) -> None:
    line = TextFormatter().format(record("call over", program=value, end="END"))
    assert len(line.splitlines()) == 1
    rest = line.removeprefix("2026-01-01T00:00:00.250Z INFO agentix.x: call over program=")
    shown = rest.removesuffix(" end=END")
    assert shown == value or json.loads(shown) == value


def test_a_line_for_machines_is_one_object() -> None:
    line = JsonFormatter().format(record("call over", logging.WARNING, program='p"\n', latency_ms=1.5, level=None))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2026-01-01T00:00:00.250Z",
        "severity": "WARNING",
        "logger": "agentix.x",
        "message": "call over",
        "program": 'p"\n',
        "latency_ms": 1.5,
        "level": None,
    }


def test_a_traceback_is_part_of_its_event() -> None:
    made = record("a fault", logging.ERROR)
    try:
        raise ValueError("why")
    except ValueError:
        made.exc_info = sys.exc_info()
    assert json.loads(JsonFormatter().format(made))["exception"].endswith("ValueError: why")
    first, *_, last = TextFormatter().format(made).splitlines()
    assert (first, last) == ("2026-01-01T00:00:00.250Z ERROR agentix.x: a fault", "ValueError: why")


@pytest.mark.usefixtures("restored")
def test_a_call_is_one_line_with_all_that_is_known() -> None:
    stream = io.StringIO()
    set_up_logging("json", calls=True, stream=stream)
    calls = Calls(CallLog())
    call = calls.arrive("acme\x1fp", "1", 10.0, tenant="acme")
    call.level = 1
    calls.send(call, "e0", 10.25)
    calls.begin(call, 10.5)
    calls.end(call, 12.0, prompt_tokens=9, cached_tokens=8, output_tokens=3)
    calls.end(calls.arrive("q", "1", 20.0), 21.0, Outcome.DISCONNECTED)
    first, second = map(json.loads, stream.getvalue().splitlines())
    del first["time"], second["time"]
    assert first == {
        "severity": "INFO",
        "logger": "agentix.calls",
        "message": "call over",
        "program": "p",
        "call": "1",
        "thread": "",
        "tenant": "acme",
        "engine": "e0",
        "level": 1,
        "outcome": "finished",
        "reason": None,
        "queue_ms": 250.0,
        "ttft_ms": 500.0,
        "latency_ms": 2000.0,
        "prompt_tokens": 9,
        "cached_tokens": 8,
        "output_tokens": 3,
    }
    assert {k: second[k] for k in ("outcome", "reason", "engine", "level", "queue_ms", "ttft_ms", "latency_ms")} == {
        "outcome": "disconnected",
        "reason": "it was disconnected",
        "engine": "e",  # where it stood
        "level": None,
        "queue_ms": None,
        "ttft_ms": None,
        "latency_ms": 1000.0,
    }


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("log_format", FORMATS)
def test_without_calls_only_warnings_are_written(log_format: str) -> None:
    stream = io.StringIO()
    set_up_logging(log_format, calls=False, stream=stream)
    calls = Calls(CallLog())
    calls.end(calls.arrive("p", "1", 0.0), 1.0)
    logging.getLogger("somebody.else").warning("look")
    (line,) = stream.getvalue().splitlines()
    assert "look" in line


def test_an_unknown_format_lists_those_there_are() -> None:
    with pytest.raises(ConfigError, match="unknown log format 'xml'; known: text, json"):
        set_up_logging("xml", calls=False)
