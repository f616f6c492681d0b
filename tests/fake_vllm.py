"""The parts of vLLM that the plug-in stands on, in little: the same names, and the same order of calls as in vLLM 0.32.0.

A stand-in for the bookkeeping alone: no KV blocks, no tokens, no model. A step serves every running request; the test says
which answers end with it.
"""

from __future__ import annotations

import enum
import importlib
import logging
import sys
from abc import ABC
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch


class RequestQueue(ABC):  # noqa: B024 - as in vLLM; what it asks for is checked against the real one by every engine start
    pass


class SchedulingPolicy(enum.Enum):
    FCFS = "fcfs"
    PRIORITY = "priority"


class RequestStatus(enum.IntEnum):
    WAITING = 1
    WAITING_FOR_STREAMING_REQ = 2
    RUNNING = 3
    PREEMPTED = 4
    FINISHED_STOPPED = 5
    FINISHED_ABORTED = 6
    FINISHED_IGNORED = 7
    FINISHED_ERROR = 8


class PauseState(enum.IntEnum):
    UNPAUSED = 0
    PAUSED_NEW = 1
    PAUSED_ALL = 2


class Request:
    """`pieces`: None for an ordinary request, else those of a streaming-input session that came before their turn.

    Without `xargs` it is a pooling request, which has no sampling parameters.
    """

    def __init__(
        self, request_id: str, session_id: str | None = None, *, xargs: dict[str, Any] | None = None, streaming: bool = False
    ) -> None:
        self.request_id = request_id
        self.session_id = session_id
        self.sampling_params = None if xargs is None else SimpleNamespace(extra_args=xargs)
        self.pieces: deque[str] | None = deque() if streaming else None
        self.status = RequestStatus.WAITING
        self.holds_kv = False
        self.priority = 0
        self.num_prompt_tokens = 8
        self.num_computed_tokens = 8
        self.num_output_tokens = 4


class AsyncScheduler:
    """vLLM's scheduler with `num_slots` slots and nothing else."""

    def __init__(self, num_slots: int, agentix: Any = None) -> None:
        self.num_slots = num_slots
        self.max_num_active_reqs = self.max_num_running_reqs = num_slots
        self.num_waiting_for_streaming_input = 0
        self.pause_state = PauseState.UNPAUSED
        self.use_v2_model_runner = False
        self.requires_kv_delivery = False
        self.finished_recving_kv_req_ids: set[str] = set()
        self.prev_step_scheduled_req_ids: set[str] = set()
        self.max_model_len = 4096
        self.lora_config: Any = None
        self.kv_cache_manager: Any = SimpleNamespace(enable_caching=False, num_kv_cache_groups=1)
        self.connector = None
        self.max_num_scheduled_tokens = 2048
        self.block_size = 16
        self.vllm_config = SimpleNamespace(
            additional_config={"agentix": {"preemption": "none", **(agentix or {})}},  # it cannot park
            model_config=SimpleNamespace(dtype="torch.float32", max_model_len=4096),
            cache_config=SimpleNamespace(num_gpu_blocks=100, enable_prefix_caching=True),
            scheduler_config=SimpleNamespace(async_scheduling=True),
        )
        self.policy = SchedulingPolicy.FCFS
        self.requests: dict[str, Request] = {}
        self.running: list[Request] = []
        self.waiting: Any = None
        self.kv_holding_waiting: Any = None

    def add_request(self, request: Request) -> None:
        existing = self.requests.get(request.request_id)
        if existing is None:
            self.waiting.add_request(request)
            self.requests[request.request_id] = request
        elif existing.status == RequestStatus.WAITING_FOR_STREAMING_REQ:
            existing.status = RequestStatus.WAITING
        else:
            assert existing.pieces is not None, "duplicate request id"
            existing.pieces.append("piece")

    def schedule(self) -> Any:
        entered: list[str] = []
        for queue in (self.kv_holding_waiting, self.waiting):
            skipped = []
            while queue and len(self.running) < self.num_slots:
                request = queue.peek_request()
                assert queue.pop_request() is request
                if request.status == RequestStatus.WAITING_FOR_STREAMING_REQ:
                    skipped.append(request)
                else:
                    request.status, request.holds_kv = RequestStatus.RUNNING, True
                    self.running.append(request)
                    entered.append(request.request_id)
            queue.prepend_requests(skipped)
        return SimpleNamespace(
            num_scheduled_tokens={r.request_id: 1 for r in self.running},
            total_num_scheduled_tokens=len(self.running),
            scheduled_new_reqs=[SimpleNamespace(req_id=request_id) for request_id in entered],
            scheduled_cached_reqs=SimpleNamespace(resumed_req_ids=set()),
        )

    def update_from_output(self, scheduler_output: Any, stopped_ids: Iterable[str]) -> Any:
        were_running: list[Request] = []
        were_preempted: list[Request] = []
        for request_id in scheduler_output.num_scheduled_tokens:
            request = self.requests.get(request_id)
            if request is None or request_id not in stopped_ids:
                continue
            (were_running if request.status == RequestStatus.RUNNING else were_preempted).append(request)
            request.status = RequestStatus.FINISHED_STOPPED
            if self._handle_stopped_request(request):
                self._free_request(request)
        self.running = [r for r in self.running if r not in were_running]
        self.waiting.remove_requests(were_preempted)
        self.kv_holding_waiting.remove_requests(were_preempted)

    def preempt(self, request: Request) -> None:
        """What `schedule` does when KV blocks run out, and `reset_prefix_cache` to all."""
        self.running.remove(request)
        self._preempt_request(request, 0.0, drop_stale_output=False)

    def finish_requests(self, request_id: str, status: RequestStatus) -> None:
        request = self.requests[request_id]
        if request.status == RequestStatus.RUNNING:
            self.running.remove(request)
        self.waiting.remove_requests([request])
        self.kv_holding_waiting.remove_requests([request])
        request.status = status
        self._free_request(request, delay_free_blocks=False)

    def _preempt_request(self, request: Request, timestamp: float, drop_stale_output: bool = False) -> None:
        request.status, request.holds_kv = RequestStatus.PREEMPTED, False
        self.waiting.prepend_request(request)

    def _handle_stopped_request(self, request: Request) -> bool:
        if request.pieces is None:
            return True
        request.status = RequestStatus.WAITING if request.pieces else RequestStatus.WAITING_FOR_STREAMING_REQ
        if request.pieces:
            request.pieces.popleft()
        (self.kv_holding_waiting if request.holds_kv else self.waiting).add_request(request)
        return False

    def _free_request(self, request: Request, delay_free_blocks: bool = False) -> None:
        del self.requests[request.request_id]

    def make_stats(self) -> Any:
        return SimpleNamespace(waiting_lora_adapters={})

    def get_request_counts(self) -> tuple[int, int]:
        return len(self.running), len(self.waiting) + len(self.kv_holding_waiting)

    def get_num_unfinished_requests(self) -> int:
        return sum(self.get_request_counts())

    def reset_prefix_cache(self, reset_running_requests: bool = False, reset_connector: bool = False) -> bool:
        while reset_running_requests and self.running:
            self.preempt(self.running[-1])
        return True

    def _request_blocks_can_be_freed(self, request: Request) -> bool:
        return True


@contextmanager
def plug_in() -> Iterator[ModuleType]:
    """`agentix.engine.scheduler` as it is when imported beside this vLLM."""
    modules: dict[str, dict[str, Any]] = {
        "vllm": {"__version__": "0.0", "__file__": "nowhere/vllm/__init__.py"},
        "vllm.logger": {"init_logger": logging.getLogger},
        "vllm.platforms": {"current_platform": SimpleNamespace(get_device_name=lambda: "an accelerator")},
        "vllm.v1.core.kv_cache_utils": {"FreeKVCacheBlockQueue": object},
        "vllm.v1.core.sched.async_scheduler": {"AsyncScheduler": AsyncScheduler},
        "vllm.v1.core.sched.interface": {"PauseState": PauseState},
        "vllm.v1.core.sched.request_queue": {"RequestQueue": RequestQueue, "SchedulingPolicy": SchedulingPolicy},
        "vllm.v1.request": {"Request": Request, "RequestStatus": RequestStatus},
    }
    with patch.dict(sys.modules), patch("agentix.engine.compat.check_source"):
        for name, attributes in modules.items():
            sys.modules[name] = ModuleType(name)
            vars(sys.modules[name]).update(attributes)
        for name in ("scheduler", "queue", "parking", "blocks", "room", "kept", "reuse"):
            sys.modules.pop(f"agentix.engine.{name}", None)
        yield importlib.import_module("agentix.engine.scheduler")
