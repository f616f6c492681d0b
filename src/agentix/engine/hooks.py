"""Everything of vLLM that the plug-in overrides, calls or reads: what `compat` looks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """What has to be there of one class (`owner`; "" for the module itself) in one file of vLLM.

    has        names: attributes that any of its methods sets, fields, members of an enumeration, methods, functions
    takes      calls as the plug-in makes them, which the method of that name must accept: `name(a, b, c=d)`
    overrides  methods that the plug-in overrides with these parameters: vLLM's own must have no others, since vLLM uses them
    only       the plug-in puts a class of its own in the place of this one: it must have no methods but these
    """

    file: str
    owner: str
    has: Sequence[str] = ()
    takes: Sequence[str] = ()
    overrides: Sequence[str] = ()
    only: Sequence[str] = ()


_SCHED = "v1/core/sched"

HOOKS = (
    Hook(
        file=f"{_SCHED}/scheduler.py",
        owner="Scheduler",
        has=(
            "block_size",
            "connector",
            "finished_recving_kv_req_ids",
            "kv_cache_manager",
            "kv_holding_waiting",
            "lora_config",
            "max_model_len",
            "max_num_active_reqs",
            "max_num_running_reqs",
            "max_num_scheduled_tokens",
            "num_waiting_for_streaming_input",
            "pause_state",
            "policy",
            "prev_step_scheduled_req_ids",
            "requests",
            "requires_kv_delivery",
            "running",
            "use_v2_model_runner",
            "vllm_config",
            "waiting",
        ),
        takes=(
            "schedule()",
            "make_stats()",
            "_preempt_request(request, now, drop_stale_output=x)",
            "_free_request(request)",
            "reset_prefix_cache(reset_running_requests)",
            "_request_blocks_can_be_freed(request)",
        ),
        overrides=(
            "add_request(request)",
            "update_from_output(scheduler_output, model_runner_output)",
            "_handle_stopped_request(request)",
            "get_request_counts()",
            "get_num_unfinished_requests()",
        ),
    ),
    Hook(file=f"{_SCHED}/async_scheduler.py", owner="", has=("AsyncScheduler",)),
    Hook(file=f"{_SCHED}/interface.py", owner="PauseState", has=("UNPAUSED", "PAUSED_NEW", "PAUSED_ALL")),
    Hook(file=f"{_SCHED}/request_queue.py", owner="SchedulingPolicy", has=("PRIORITY",)),
    Hook(
        file=f"{_SCHED}/request_queue.py",
        owner="RequestQueue",
        only=(
            "add_request",
            "pop_request",
            "peek_request",
            "prepend_request",
            "prepend_requests",
            "remove_request",
            "remove_requests",
            "__bool__",
            "__len__",
            "__iter__",
        ),
    ),
    Hook(
        file=f"{_SCHED}/output.py",
        owner="SchedulerOutput",
        has=("scheduled_new_reqs", "scheduled_cached_reqs", "num_scheduled_tokens", "total_num_scheduled_tokens"),
    ),
    Hook(file=f"{_SCHED}/output.py", owner="NewRequestData", has=("req_id",)),
    Hook(file=f"{_SCHED}/output.py", owner="CachedRequestData", has=("resumed_req_ids",)),
    Hook(
        file="v1/request.py",
        owner="Request",
        has=(
            "drop_stale_output",
            "is_prefill_chunk",
            "lora_request",
            "max_tokens",
            "num_computed_tokens",
            "num_in_flight_tokens",
            "num_output_placeholders",
            "num_output_tokens",
            "num_prompt_tokens",
            "num_stale_output_tokens",
            "num_tokens",
            "priority",
            "request_id",
            "resumable",
            "sampling_params",
            "session_id",
            "status",
            "structured_output_request",
        ),
    ),
    Hook(
        file="v1/request.py",
        owner="RequestStatus",
        has=(
            "RUNNING",
            "WAITING_FOR_STREAMING_REQ",
            "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR",
            "WAITING_FOR_REMOTE_KVS",
            "FINISHED_ABORTED",
            "FINISHED_ERROR",
            "FINISHED_IGNORED",
        ),
    ),
    Hook(file="v1/structured_output/request.py", owner="StructuredOutputRequest", has=("grammar",)),
    Hook(
        file="v1/core/kv_cache_manager.py",
        owner="KVCacheManager",
        has=(
            "block_pool",
            "coordinator",
            "empty_kv_cache_blocks",
            "enable_caching",
            "num_kv_cache_groups",
            "watermark_blocks",
        ),
        takes=("get_computed_blocks(request)",),
    ),
    Hook(
        file="v1/core/kv_cache_coordinator.py",
        owner="KVCacheCoordinator",
        takes=(
            "get_blocks(request_id)",
            "get_num_blocks_to_allocate(request_id=a, num_tokens=b, new_computed_blocks=c, num_encoder_tokens=d, "
            "total_computed_tokens=e, num_local_computed_tokens=f, num_tokens_main_model=g, apply_admission_cap=h, "
            "prefill_end=i)",
        ),
    ),
    Hook(
        file="v1/core/block_pool.py",
        owner="BlockPool",
        has=("blocks", "free_block_queue"),
        takes=("get_num_free_blocks()",),
    ),
    Hook(
        file="v1/core/kv_cache_utils.py",
        owner="KVCacheBlock",
        has=("block_id", "block_hash", "is_null", "pool", "ref_cnt"),
    ),
    Hook(
        file="v1/core/kv_cache_utils.py",
        owner="FreeKVCacheBlockQueue",
        has=("num_free_blocks",),
        takes=("popleft()", "popleft_n(n)", "remove(block)", "append(block)", "append_n(blocks)", "prepend_n(blocks)"),
        only=(
            "popleft",
            "popleft_n",
            "remove",
            "append",
            "append_n",
            "prepend_n",
            "get_all_free_blocks",
            "iter_blocks_after",
        ),
    ),
    Hook(
        file="config/vllm.py",
        owner="VllmConfig",
        has=(
            "additional_config",
            "cache_config",
            "model_config",
            "parallel_config",
            "scheduler_config",
            "speculative_config",
        ),
    ),
    Hook(file="logger.py", owner="", has=("init_logger",)),
)
"""Without one of these the plug-in does not start."""

METRICS_HOOKS = (
    Hook(file="v1/metrics/stats.py", owner="SchedulerStats", has=("waiting_lora_adapters",)),
    Hook(file="v1/metrics/loggers.py", owner="AggregateStatLoggerBase", has=("__init__",)),
    Hook(file="v1/metrics/loggers.py", owner="", has=("load_stat_logger_plugin_factories",)),
    Hook(
        file="v1/metrics/loggers.py",
        owner="StatLoggerBase",
        overrides=("record(scheduler_stats, iteration_stats, mm_cache_stats, engine_idx)", "log_engine_initialized()"),
    ),
)
"""Without one of these an engine starts, and does not show the plug-in's metrics."""
