"""Who listens to the calls of `agentix serve`, as asked for on its command line or by the environment."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from urllib.parse import urlsplit

from agentix.core.errors import ConfigError
from agentix.gateway.log import CallLog
from agentix.gateway.observer import Observer

logger = logging.getLogger(__name__)

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"


def make_listeners(*, log_calls: bool, otlp_endpoint: str | None, environ: Mapping[str, str]) -> tuple[Observer, ...]:
    """The log of calls, and traces if `otlp_endpoint` or the standard environment says where to.

    Raises ConfigError if `otlp_endpoint` cannot be used. What the environment alone says may have been meant for others: if
    that cannot be done, a warning says so.
    """
    calls: tuple[Observer, ...] = (CallLog(),) if log_calls else ()
    if otlp_endpoint is None:
        return (*calls, *_from_environment(environ))
    parts = urlsplit(otlp_endpoint)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(f"an OTLP endpoint starts with http:// or https://, not {otlp_endpoint!r}")
    return (*calls, _export_to(otlp_endpoint))


def _from_environment(environ: Mapping[str, str]) -> tuple[Observer, ...]:
    """Tracing as the environment asks for it (https://opentelemetry.io/docs/specs/otel/protocol/exporter/)."""
    is_off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp"
    if is_off or not any(environ.get(name) for name in _ENDPOINTS):
        return ()
    protocol = next((environ[name] for name in _PROTOCOLS if environ.get(name)), _PROTOCOL)
    try:
        if protocol != _PROTOCOL:
            raise ConfigError(f"the OTLP protocol must be {_PROTOCOL}, not {protocol!r}")
        return (_export_to(None),)
    except ConfigError as error:
        logger.warning("no traces, although the environment asks for them: %s", error)
        return ()


def _export_to(endpoint: str | None) -> Observer:
    try:
        from agentix.gateway.tracing import export_to  # noqa: PLC0415 - an extra of its own
    except ImportError:
        raise ConfigError("traces need OpenTelemetry; run: pip install 'agentix[otel]'") from None
    return export_to(endpoint)
