"""The vLLM plug-in: `--scheduler-cls agentix.engine.scheduler.ProgramScheduler`.

It translates what happens in vLLM's scheduler into core events and orders vLLM's waiting queue by the core's answer.
vLLM itself admits, allocates and runs; nothing of it is copied or patched. This version decides who is admitted next
and, when KV blocks run out, who is preempted first (the call at the worst level).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import vllm
from vllm.logger import init_logger
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.request_queue import SchedulingPolicy
from vllm.v1.request import Request, RequestStatus

from agentix.core.events import (
    CallAborted,
    CallArrived,
    CallFinished,
    CallPreempted,
    CallStarted,
    Event,
    Placed,
    ProgramEnded,
    StepCompleted,
    log_line,
)
from agentix.core.policies import refuse_clairvoyant
from agentix.core.process_table import ProcessTable
from agentix.core.scheduler import Scheduler
from agentix.engine.compat import check_attributes, check_methods
from agentix.engine.queue import ProgramQueue
from agentix.engine.settings import PluginSettings
from agentix.wire import attained_from_xargs

logger = init_logger(f"vllm.{__name__}")

check_methods(AsyncScheduler, vllm.__version__)

_UNFINISHED = (RequestStatus.FINISHED_ABORTED, RequestStatus.FINISHED_ERROR, RequestStatus.FINISHED_IGNORED)


class ProgramScheduler(AsyncScheduler):  # type: ignore[misc]  # vLLM is not typed for strict checking
    """vLLM's asynchronous scheduler with waiting calls in program order and exact accounts of service and waiting.

    A request's program is its `session_id` (body, `X-Session-ID` or `vllm_xargs`); one without is a program of its
    own. Service is charged step by step: from the moment a step could start (it was scheduled, and the step before it
    had returned) until its output returned, to every call in it. Lives in vLLM's engine-core process; single-threaded.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        check_attributes(self, vllm.__version__)
        self.settings = PluginSettings.from_mapping((self.vllm_config.additional_config or {}).get("agentix", {}))
        self.programs = ProcessTable()
        self.core = Scheduler(self.settings.scheduler, self.programs)
        refuse_clairvoyant(self.core.policy)
        self.policy = SchedulingPolicy.PRIORITY
        self.waiting = ProgramQueue(self.core.key)
        self.kv_holding_waiting = ProgramQueue(self.core.key)
        self._in_flight: dict[int, tuple[float, tuple[str, ...]]] = {}  # oldest first: when scheduled, which calls
        self._last_output_s = 0.0
        self._swept_s = time.monotonic()
        path = self.settings.decision_log
        self._log = Path(path).open("a", buffering=1, encoding="utf-8") if path else None  # noqa: SIM115  (engine's lifetime)
        logger.info("agentix: program scheduling in vLLM %s with %s", vllm.__version__, self.settings)

    def add_request(self, request: Request) -> None:
        """A call arrives (or, for a streaming-input session, its next piece)."""
        now = time.monotonic()
        self._forget_idle_programs(now)
        if request.request_id not in self.requests:
            params = request.sampling_params
            self._apply(
                CallArrived(
                    now=now,
                    call_id=request.request_id,
                    program_id=request.session_id or request.request_id,
                    prompt_tokens=request.num_prompt_tokens,
                    attained=attained_from_xargs(params.extra_args if params is not None else None),
                )
            )
            request.priority = self.core.level(request.request_id)
        super().add_request(request)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """One step: vLLM fills its batch from the queue in program order; calls that entered it are now running."""
        if self.core.rerank(time.monotonic()):
            self.waiting.resort()
            self.kv_holding_waiting.resort()
        output = super().schedule(*args, **kwargs)
        now = time.monotonic()
        for call_id in output.num_scheduled_tokens:
            if not self.programs.call(call_id).running:
                self._apply(CallStarted(now=now, call_id=call_id))
        if output.num_scheduled_tokens:
            self._in_flight[id(output)] = (now, tuple(output.num_scheduled_tokens))
        return output

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """A step's output has returned: charge the step, then let vLLM take it in (calls may finish in there)."""
        now = time.monotonic()
        step = self._in_flight.pop(id(scheduler_output), None)
        if step is not None:
            scheduled_s, call_ids = step
            # With asynchronous scheduling a step is scheduled while the one before it still runs.
            started_s = max(scheduled_s, self._last_output_s)
            self._last_output_s = now
            active = tuple(c for c in call_ids if c in self.programs.calls)
            self._apply(StepCompleted(now=now, duration_s=now - started_s, call_ids=active))
        return super().update_from_output(scheduler_output, model_runner_output)

    def _preempt_request(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """KV blocks ran out: vLLM takes the request's blocks and puts it back into the queue."""
        if self.programs.call(request.request_id).running:
            self._apply(CallPreempted(now=time.monotonic(), call_id=request.request_id))
        super()._preempt_request(request, *args, **kwargs)

    def _handle_stopped_request(self, request: Request) -> Any:
        """An answer has ended; a streaming-input session goes back to the queue, for its next piece."""
        finished = super()._handle_stopped_request(request)
        if not finished and self.programs.call(request.request_id).running:
            self._apply(CallPreempted(now=time.monotonic(), call_id=request.request_id))
        return finished

    def _free_request(self, request: Request, *args: Any, **kwargs: Any) -> Any:
        """The request is over, finished or aborted."""
        now = time.monotonic()
        call = self.programs.call(request.request_id)
        if request.status in _UNFINISHED:
            service_s = call.service_s + self._unreturned_s(call.call_id, now)
            self._apply(CallAborted(now=now, call_id=call.call_id, reason=str(request.status), service_s=service_s))
        else:
            self._apply(CallFinished(now=now, call_id=request.request_id, output_tokens=request.num_output_tokens))
        if not request.session_id:
            self._apply(ProgramEnded(now=now, program_id=call.program_id))
        return super()._free_request(request, *args, **kwargs)

    def _unreturned_s(self, call_id: str, now: float) -> float:
        """Service of the call in the step that runs now, whose output will find it gone."""
        scheduled_s, call_ids = next(iter(self._in_flight.values()), (now, ()))
        return now - max(scheduled_s, self._last_output_s) if call_id in call_ids else 0.0

    def _apply(self, event: Event) -> None:
        """Tell the core, log, and bring vLLM's copies of the order up to date with what the core decided."""
        placed = self.core.apply(event)
        self._write_log(event, placed)
        for placement in placed:
            request = self.requests.get(placement.call_id)
            if request is not None:
                request.priority = placement.level
                self.waiting.reposition(placement.call_id)
                self.kv_holding_waiting.reposition(placement.call_id)

    def _write_log(self, event: Event, placed: list[Placed]) -> None:
        """One line more, if a log is wanted; the engine goes on without one that cannot be written (disk full)."""
        if self._log is None:
            return
        try:
            self._log.write(log_line(event, placed) + "\n")
        except OSError as error:
            logger.error("agentix: the decision log ends here: %s", error)
            self._log = None

    def _forget_idle_programs(self, now: float) -> None:
        if now - self._swept_s > self.settings.program_idle_s / 10:
            self._swept_s = now
            for program_id in self.programs.stale(now, self.settings.program_idle_s):
                self._apply(ProgramEnded(now=now, program_id=program_id))
