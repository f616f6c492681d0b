"""Who listens: by the command line, and by OpenTelemetry's own environment."""

from __future__ import annotations

import builtins
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from agentix.core.errors import ConfigError
from agentix.gateway.listeners import make_listeners
from agentix.gateway.log import CallLog
from agentix.gateway.observer import Observer
from agentix.gateway.tracing import Tracing

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


@pytest.fixture
def made() -> Iterator[list[Observer]]:
    """Closes what a test puts in."""
    observers: list[Observer] = []
    yield observers
    for observer in observers:
        observer.close()


@pytest.mark.parametrize(
    ("endpoint", "environ", "traces"),
    [
        (None, {}, False),
        ("http://127.0.0.1:9", {}, True),
        (None, ENDPOINT, True),
        (None, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9/v1/traces"}, True),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        (None, {**ENDPOINT, "OTEL_SDK_DISABLED": "TRUE"}, False),
        (None, {**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, False),
        (None, {**ENDPOINT, "OTEL_TRACES_EXPORTER": "otlp"}, True),
        (None, {**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, True),
    ],
)
@pytest.mark.parametrize("log_calls", [False, True])
def test_who_listens(
    endpoint: str | None, environ: dict[str, str], traces: bool, log_calls: bool, made: list[Observer]
) -> None:
    made += make_listeners(log_calls=log_calls, otlp_endpoint=endpoint, environ=environ)
    assert [type(o) for o in made] == [CallLog] * log_calls + [Tracing] * traces


@pytest.mark.parametrize("endpoint", ["collector:4318", "grpc://collector:4317", "http://", ""])
def test_an_endpoint_that_is_none_is_refused(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="an OTLP endpoint starts with http:// or https://, not '"):
        make_listeners(log_calls=False, otlp_endpoint=endpoint, environ={})


def test_a_protocol_that_is_not_spoken_is_told_and_does_not_stop_the_gateway(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        environ = {**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
        assert make_listeners(log_calls=False, otlp_endpoint=None, environ=environ) == ()
    assert [r.getMessage() for r in caplog.records] == [
        "no traces, although the environment asks for them: the OTLP protocol must be http/protobuf, not 'grpc'"
    ]


def test_without_the_extra_the_option_fails_and_the_environment_warns(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any) -> Any:
        if name == "agentix.gateway.tracing":
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"pip install 'agentix\[otel\]'"):
        make_listeners(log_calls=False, otlp_endpoint="http://127.0.0.1:9", environ={})
    with caplog.at_level(logging.WARNING):
        assert make_listeners(log_calls=False, otlp_endpoint=None, environ=ENDPOINT) == ()
    assert "agentix[otel]" in caplog.text
