"""What the process says on standard error: one line for each event, for people or for machines; and one for each call.

No line holds a word of a prompt or an answer, nor any header of a client's.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from agentix.core.errors import ConfigError
from agentix.gateway.observer import Observer

if TYPE_CHECKING:
    from agentix.gateway.exchange import Call

calls_logger = logging.getLogger("agentix.calls")


class TextFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.000Z INFO agentix.calls: finished program=p latency_ms=12.5`; texts with spaces are quoted."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, and a traceback below it if there is one."""
        fields = "".join(f" {name}={_plain(value)}" for name, value in _fields(record).items() if value is not None)
        line = f"{_moment(record)} {record.levelname} {record.name}: {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `time` (UTC), `severity`, `logger`, `message`, the fields of the event, and `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        """The object; what JSON cannot say is said as text."""
        line = {
            "time": _moment(record),
            "severity": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


FORMATS: Mapping[str, type[logging.Formatter]] = {"text": TextFormatter, "json": JsonFormatter}


def set_up_logging(log_format: str, *, calls: bool, stream: TextIO | None = None) -> None:
    """Have everything in this process that logs do it in this format: warnings, and with `calls` a line for each call.

    Raises ConfigError for an unknown format.
    """
    if log_format not in FORMATS:
        raise ConfigError(f"unknown log format {log_format!r}; known: {', '.join(FORMATS)}")
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(FORMATS[log_format]())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    calls_logger.setLevel(logging.INFO if calls else logging.WARNING)


class CallLog(Observer):
    """A line for every call that is over. Durations since its arrival; what is not known is null, in text left out."""

    def over(self, call: Call, now: float) -> None:
        """Write it."""
        account = call.account
        fields = {
            "program": call.identity.shown_id,
            "call": call.call_id,
            "thread": call.identity.thread_id,
            "tenant": call.tenant,
            "engine": call.engine_id,
            "level": call.level,
            "outcome": call.outcome.value,
            "reason": call.reason or None,
            "queue_ms": _since(call, call.sent_s),
            "ttft_ms": _since(call, call.first_token_s),
            "latency_ms": _since(call, now),
            "prompt_tokens": account.prompt_tokens,
            "cached_tokens": account.cached_tokens,
            "output_tokens": account.output_tokens,
        }
        calls_logger.info("call over", extra={"fields": fields})


def _since(call: Call, moment_s: float | None) -> float | None:
    return None if moment_s is None else round((moment_s - call.arrived_s) * 1000, 3)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """What the event carries beside its message."""
    fields: dict[str, Any] = getattr(record, "fields", {})
    return fields


def _moment(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _plain(value: Any) -> str:
    """A value that cannot be taken for anything else in a line of text."""
    text = str(value)
    is_plain = text and text.isprintable() and not any(c in " =\"'" for c in text)
    return text if is_plain else json.dumps(text)
