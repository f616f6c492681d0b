"""From calls to figures: what the metrics of `agentix.metrics` are while programs are still going on (docs/metrics.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from agentix.core.process_table import ProcessTable
from agentix.core.program import ProgramRow
from agentix.gateway.metrics import GatewayMetrics
from agentix.gateway.observer import Observer
from agentix.gateway.outcome import Outcome

if TYPE_CHECKING:
    from agentix.gateway.exchange import Call

N = TypeVar("N", int, float)


@dataclass(slots=True)
class _Program:
    """A live program. Sums over its calls that have finished; None once one of them lacks its figure.

    `alone_s`: how long the program would have taken until `end_s` had none of its calls waited, `end_s` being the end of
    its latest call, or at first its own start.
    """

    end_s: float
    alone_s: float | None = 0.0
    wait_s: float | None = 0.0
    num_tokens: int | None = 0


@dataclass(slots=True)
class _Call:
    """A call under way. `ready_s`: what the program would have taken up to its arrival had no call waited."""

    ready_s: float | None
    sent: bool = False


class Metering(Observer):
    """Counts calls and programs as they come to their ends. A constant amount of memory for each live one.

    A program's time without waiting, alone_s, is a longest path over all its calls (`agentix.metrics.alone_s`), whose ends
    are not kept here. In their place stands one scalar for each program, as in the paper's algorithm 1: a call goes on from
    whatever of its program was over when it came. That is the same for a chain of calls and wherever calls fork and join;
    threads that go their own ways are taken to depend on one another, which makes it an estimate, at most the response time.
    """

    def __init__(self, metrics: GatewayMetrics, table: ProcessTable) -> None:
        self._metrics = metrics
        self._table = table
        self._programs: dict[str, _Program] = {}
        self._calls: dict[str, _Call] = {}

    def arrived(self, call: Call, now: float) -> None:  # noqa: D102 - of Observer, as are those below
        row = self._table.row(call.identity.program_id)
        self._metrics.classes.of(row.program_class)
        program = self._programs.setdefault(row.program_id, _Program(end_s=row.started_s))
        ready_s = None if program.alone_s is None else program.alone_s + call.arrived_s - program.end_s
        self._calls[call.key] = _Call(ready_s)

    def sent(self, call: Call, engine_id: str, now: float) -> None:  # noqa: D102
        figures, state = self._metrics.engines.of(engine_id), self._calls[call.key]
        if state.sent:
            figures.num_retries += 1
        else:
            state.sent = True
            figures.hold_s.observe(now - call.arrived_s)

    def over(self, call: Call, now: float) -> None:  # noqa: D102
        state, program = self._calls.pop(call.key), self._programs[call.identity.program_id]
        latency_s, service_s, account = now - call.arrived_s, call.account.service_s, call.account
        if _answers_without_tokens(call):
            account = replace(account, output_tokens=0)
        wait_s = None if service_s is None else max(0.0, latency_s - service_s)
        self._metrics.call_over(
            call.engine_id,
            call.outcome,
            account,
            latency_s=latency_s,
            ttft_s=None if call.first_token_s is None else call.first_token_s - call.arrived_s,
            wait_s=wait_s,
        )
        in_engine_s = 0.0 if call.sent_s is None else now - call.sent_s
        self._metrics.charge(call.tenant, account, in_engine_s if service_s is None else service_s)
        if call.outcome is not Outcome.FINISHED:
            return  # such a program has no figures
        program.end_s = now
        program.num_tokens = _add(program.num_tokens, account.output_tokens)
        program.wait_s = _add(program.wait_s, wait_s)
        alone_s = _add(state.ready_s, service_s)
        program.alone_s = None if alone_s is None or program.alone_s is None else max(program.alone_s, alone_s)

    def program_over(self, row: ProgramRow) -> None:
        """Count the program; one that has made no call is none."""
        program = self._programs.pop(row.program_id, None)
        if program is None or row.last_completion_s is None:
            return
        if row.num_aborted:
            self._metrics.program_over(row.program_class, None)
            return
        jct_s = row.last_completion_s - row.started_s
        self._metrics.program_over(
            row.program_class,
            jct_s,
            token_latency_s=jct_s / program.num_tokens if program.num_tokens else None,
            slowdown=jct_s / program.alone_s if program.alone_s else None,
            wait_s=program.wait_s,
        )


def _answers_without_tokens(call: Call) -> bool:
    """Whether the call's answer has no tokens to count, as an embedding has none."""
    return str(call.request.scope["path"]).endswith("/embeddings")


def _add(total: N | None, value: N | None) -> N | None:
    """A sum with a further value; None if it, or one before, is unknown: a part of the sum would look like less."""
    return None if total is None or value is None else total + value
