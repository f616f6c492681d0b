"""The vLLM plug-in: `--scheduler-cls agentix.engine.scheduler.ProgramScheduler`.

It translates what happens in vLLM's scheduler into core events, orders vLLM's waiting queue by the core's answer, and parks
running calls for better ones. vLLM itself admits, allocates and runs; nothing of it is copied or patched.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import vllm
from vllm.logger import init_logger
from vllm.platforms import current_platform
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.core.sched.request_queue import SchedulingPolicy
from vllm.v1.request import Request, RequestStatus

from agentix.core.capacity import EngineCapacity
from agentix.core.events import (
    CallAborted,
    CallArrived,
    CallFinished,
    CallPreempted,
    CallStarted,
    Event,
    ProgramEnded,
    StepCompleted,
    log_line,
)
from agentix.core.policies import refuse_clairvoyant
from agentix.core.process_table import ProcessTable
from agentix.core.scheduler import Scheduler
from agentix.cost.step import Step
from agentix.engine.blocks import kv_capacity_tokens
from agentix.engine.compat import check_source
from agentix.engine.kept import KeptKV
from agentix.engine.line_log import LineLog
from agentix.engine.pace import PrefillPace
from agentix.engine.parking import Parking, can_park
from agentix.engine.queue import ProgramQueue
from agentix.engine.settings import PluginSettings
from agentix.engine.step_log import StepRecord, facts_line, facts_of, step_line, work_of
from agentix.engine.telemetry import Telemetry, count_calls, is_received
from agentix.wire import attained_from_xargs, is_last_call

logger = init_logger(f"vllm.{__name__}")

check_source(Path(vllm.__file__).parent, vllm.__version__)

_UNFINISHED = (RequestStatus.FINISHED_ABORTED, RequestStatus.FINISHED_ERROR, RequestStatus.FINISHED_IGNORED)


@dataclass(frozen=True, slots=True, kw_only=True)
class _StepInFlight:
    """A step that was scheduled and has not returned. `work` is None unless a step log wants it."""

    began_s: float
    scheduled_s: float
    call_ids: tuple[str, ...]
    num_tokens: int
    work: Step | None


class ProgramScheduler(AsyncScheduler):  # type: ignore[misc]  # vLLM is not typed for strict checking
    """vLLM's asynchronous scheduler with waiting calls in program order and exact accounts of service and waiting.

    A request's program is its `session_id` (body, `X-Session-ID` or `vllm_xargs`); one without is a program of its
    own. Service is charged step by step: from the moment a step could start (it was scheduled, and the step before it
    had returned) until its output returned, to every call in it. Lives in vLLM's engine-core process; single-threaded.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.settings = PluginSettings.find(self.vllm_config.additional_config, os.environ)
        self.programs = ProcessTable()
        self._pace = PrefillPace()
        self._capacity = EngineCapacity(kv_tokens=kv_capacity_tokens(self), num_slots=self.max_num_running_reqs)
        self.core = Scheduler(
            self.settings.scheduler,
            self.programs,
            capacity=self._capacity,
            is_ready=self._is_ready,
            on_refiled=self._refile,
        )
        refuse_clairvoyant(self.core.policy)
        self.policy = SchedulingPolicy.PRIORITY
        self.waiting = ProgramQueue(self.core.key, self._is_held)
        self.kv_holding_waiting = ProgramQueue(self.core.key)
        self._kept = KeptKV(self, self.core)
        self._parking = (
            Parking(self, self.core, self._apply, pace=self._pace, num_states=self._num_states()) if can_park(self) else None
        )
        self._telemetry = Telemetry(is_received=is_received(os.environ))
        self._in_flight: dict[int, _StepInFlight] = {}  # oldest first
        self._last_output_s = 0.0
        self._swept_s = time.monotonic()
        self._log = LineLog(self.settings.decision_log, "decision log", logger)
        self._step_log = LineLog(self.settings.step_log, "step log", logger)
        if self._step_log.is_open:
            self._step_log.write(
                facts_line(facts_of(self, vllm_version=vllm.__version__, device=current_platform.get_device_name()))
            )
        logger.info("agentix: program scheduling in vLLM %s with %s", vllm.__version__, self.settings)

    def add_request(self, request: Request) -> None:
        """A call arrives (or, for a streaming-input session, its next piece)."""
        now = time.monotonic()
        self._forget_idle_programs(now)
        if request.request_id not in self.requests:
            params = request.sampling_params
            xargs = params.extra_args if params is not None else None
            self._apply(
                CallArrived(
                    now=now,
                    call_id=request.request_id,
                    program_id=request.session_id or request.request_id,
                    prompt_tokens=request.num_prompt_tokens,
                    priority=request.priority or None,
                    attained=attained_from_xargs(xargs),
                )
            )
            if request.session_id and is_last_call(xargs):
                self._apply(ProgramEnded(now=now, program_id=request.session_id))
            request.priority = self.core.level(request.request_id)
        elif self._parking is not None:
            self._parking.is_settled = False
        super().add_request(request)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """One step: vLLM fills its batch from the queue in program order; calls that entered it are now running."""
        began_s = time.monotonic()
        if self.core.rerank(began_s):
            self.waiting.resort()
            self.kv_holding_waiting.resort()
        self.core.hold_back(began_s)
        self._kept.let_go_until(began_s)
        if self._parking is not None:
            self._parking.arrange(began_s)
        output = super().schedule(*args, **kwargs)
        now = time.monotonic()
        resumed_ids = output.scheduled_cached_reqs.resumed_req_ids
        for call_id in resumed_ids:
            num_found = self.requests[call_id].num_computed_tokens - output.num_scheduled_tokens[call_id]
            self._telemetry.came_back(call_id, num_found)
        for call_id in (*(new.req_id for new in output.scheduled_new_reqs), *sorted(resumed_ids)):
            self._apply(CallStarted(now=now, call_id=call_id))
            self._kept.call_started(self.programs.calls[call_id].program_id)
            if self._parking is not None:
                self._parking.started(call_id)
        if output.num_scheduled_tokens:
            self._in_flight[id(output)] = _StepInFlight(
                began_s=began_s,
                scheduled_s=now,
                call_ids=tuple(output.num_scheduled_tokens),
                num_tokens=output.total_num_scheduled_tokens,
                work=work_of(output.num_scheduled_tokens, self.requests) if self._step_log.is_open else None,
            )
        self._telemetry.scheduled(time.monotonic() - began_s)
        return output

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """A step's output has returned: charge the step, then let vLLM take it in (calls may finish in there)."""
        now = time.monotonic()
        step = self._in_flight.pop(id(scheduler_output), None)
        if step is not None:
            # With asynchronous scheduling a step is scheduled while the one before it still runs.
            started_s = max(step.scheduled_s, self._last_output_s)
            self._last_output_s = now
            self._log_step(step, started_s, now)
            self._pace.note(now - started_s, num_calls=len(step.call_ids), num_tokens=step.num_tokens)
            self._capacity.prefill_s_per_token = self._pace.s_per_token
            active = tuple(filter(self.programs.calls.__contains__, step.call_ids))
            self._apply(StepCompleted(now=now, duration_s=now - started_s, call_ids=active))
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        if self._parking is not None:
            self._parking.step_returned()
        return outputs

    def make_stats(self, *args: Any, **kwargs: Any) -> Any:
        """The statistics of a step; now and then they carry the plug-in's own to /metrics."""
        stats, now = super().make_stats(*args, **kwargs), time.monotonic()
        if stats is not None and self._telemetry.is_due(now, idle=not self.requests):
            parked, totals = (self._parking.parked, asdict(self._parking.counts)) if self._parking is not None else ((), {})
            totals |= self.core.holding.counts
            calls = count_calls(self.core, parked, (self.waiting, self.kv_holding_waiting))
            self._telemetry.report(stats, now, calls, totals)
        return stats

    def get_request_counts(self) -> tuple[int, int]:
        """Requests that run and that wait; parked ones wait."""
        num_running, num_waiting = super().get_request_counts()
        return num_running, num_waiting + self._num_parked

    def get_num_unfinished_requests(self) -> int:
        """Requests that vLLM still has to work for; parked ones hold KV and are finished even while new ones are held off."""
        num_parked = self._num_parked if self.pause_state == PauseState.PAUSED_NEW else 0
        return int(super().get_num_unfinished_requests()) + num_parked

    def reset_prefix_cache(self, reset_running_requests: bool = False, *args: Any, **kwargs: Any) -> bool:
        """Forget the prefix cache; with `reset_running_requests` every call loses its blocks, parked ones too."""
        if reset_running_requests and self._parking is not None:
            self._parking.release_all()
        is_reset = bool(super().reset_prefix_cache(reset_running_requests, *args, **kwargs))
        if is_reset:
            self._kept.forget()
        return is_reset

    def _preempt_request(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """KV blocks ran out: vLLM takes the request's blocks and puts it back into the queue."""
        if self.programs.call(request.request_id).running:
            self._apply(CallPreempted(now=time.monotonic(), call_id=request.request_id))
        if self._parking is not None:
            self._parking.forget(request.request_id)
        self._telemetry.lost_kv(request.request_id, request.num_computed_tokens)
        super()._preempt_request(request, *args, **kwargs)

    def _handle_stopped_request(self, request: Request) -> Any:
        """An answer has ended; a streaming-input session goes back to the queue, for its next piece."""
        finished = super()._handle_stopped_request(request)
        if not finished:
            if self._parking is not None:
                self._parking.forget(request.request_id)
            if self.programs.call(request.request_id).running:
                self._apply(CallPreempted(now=time.monotonic(), call_id=request.request_id))
                self._reposition(request.request_id)
        return finished

    def _free_request(self, request: Request, *args: Any, **kwargs: Any) -> Any:
        """The request is over, finished or aborted."""
        now = time.monotonic()
        call = self.programs.call(request.request_id)
        if self._parking is not None:
            self._parking.forget(request.request_id)
        if request.status in _UNFINISHED:
            service_s = call.service_s + self._unreturned_s(call.call_id, now)
            self._apply(CallAborted(now=now, call_id=call.call_id, reason=str(request.status), service_s=service_s))
        else:
            self._apply(CallFinished(now=now, call_id=request.request_id, output_tokens=request.num_output_tokens))
        self._telemetry.over(call.call_id)
        if not request.session_id:
            self._apply(ProgramEnded(now=now, program_id=call.program_id))
        blocks = self._kept.findable_blocks(call.call_id)
        params = super()._free_request(request, *args, **kwargs)
        has_finished = request.status not in _UNFINISHED
        self._kept.call_over(request.session_id or None, blocks, has_finished=has_finished, now=now)
        return params

    def _unreturned_s(self, call_id: str, now: float) -> float:
        """Service of the call in the step that runs now, whose output will find it gone."""
        step = next(iter(self._in_flight.values()), None)
        if step is None or call_id not in step.call_ids:
            return 0.0
        return now - max(step.scheduled_s, self._last_output_s)

    def _apply(self, event: Event) -> None:
        """Tell the core, log, and bring vLLM's copies of the order up to date with what the core decided."""
        placed = self.core.apply(event)
        if self._parking is not None and (placed or not isinstance(event, StepCompleted)):
            self._parking.is_settled = False
        if isinstance(event, ProgramEnded):
            self._kept.program_over(event.program_id)
        if self._log.is_open:
            self._log.write(log_line(event, placed))
        for placement in placed:
            request = self.requests.get(placement.call_id)
            if request is not None:
                self._telemetry.placed(request.priority, placement.level)
                request.priority = placement.level
                self._reposition(placement.call_id)

    def _is_held(self, call_id: str) -> bool:
        """Whether the call waits because its program is held back."""
        return not self.core.holding.passes(self.programs.calls[call_id])

    def _is_ready(self, call_id: str) -> bool:
        """Whether the call would run if it were let: a streaming-input session waits for its client."""
        return bool(self.requests[call_id].status != RequestStatus.WAITING_FOR_STREAMING_REQ)

    def _refile(self, call_id: str) -> None:
        """The waiting call is held back, or let go, from now on."""
        if self._parking is not None:
            self._parking.is_settled = False
        self._reposition(call_id)

    def _reposition(self, call_id: str) -> None:
        """The call may have another place now in the queue where it waits, if it does."""
        self.waiting.reposition(call_id)
        self.kv_holding_waiting.reposition(call_id)

    @property
    def _num_parked(self) -> int:
        return len(self._parking.parked) if self._parking is not None else 0

    def _num_states(self) -> int | None:
        """Calls for which the model runner keeps a slot, running or parked; None: as many as there are."""
        return self.max_num_running_reqs if self.use_v2_model_runner else None

    def _log_step(self, step: _StepInFlight, started_s: float, now: float) -> None:
        if step.work is not None:
            record = StepRecord(
                began_s=step.began_s, started_s=started_s, returned_s=now, num_calls=len(step.call_ids), step=step.work
            )
            self._step_log.write(step_line(record))

    def _forget_idle_programs(self, now: float) -> None:
        if now - self._swept_s > self.settings.program_idle_s / 10:
            self._swept_s = now
            for program_id in self.programs.stale(now, self.settings.program_idle_s):
                self._apply(ProgramEnded(now=now, program_id=program_id))
