"""Is this vLLM one that the plug-in can live in? Asked once, when the engine starts.

vLLM's scheduler is not a public interface, so everything the plug-in overrides or reads is listed here, and a missing
piece is named before the first request rather than found during one.
"""

from __future__ import annotations

from typing import Any

from agentix.core.errors import AgentixError

TESTED_VLLM = "0.32.0"

_METHODS = (
    "add_request",
    "schedule",
    "update_from_output",
    "_preempt_request",
    "_handle_stopped_request",
    "_free_request",
    "get_request_counts",
    "get_num_unfinished_requests",
    "reset_prefix_cache",
    "_request_blocks_can_be_freed",
)
_ATTRIBUTES = (
    "requests",
    "policy",
    "waiting",
    "kv_holding_waiting",
    "running",
    "vllm_config",
    "kv_cache_manager",
    "block_size",
    "max_num_active_reqs",
    "max_num_running_reqs",
    "num_waiting_for_streaming_input",
    "lora_config",
    "pause_state",
    "finished_recving_kv_req_ids",
    "prev_step_scheduled_req_ids",
    "requires_kv_delivery",
    "max_model_len",
    "use_v2_model_runner",
)


class IncompatibleEngine(AgentixError):
    """The installed vLLM lacks something the plug-in stands on."""


def check_methods(scheduler_cls: type[Any], version: str) -> None:
    """Raise IncompatibleEngine unless vLLM's scheduler class has every method that the plug-in overrides."""
    _report([name for name in _METHODS if not callable(getattr(scheduler_cls, name, None))], version)


def check_attributes(scheduler: Any, version: str) -> None:
    """Raise IncompatibleEngine unless vLLM's initialised scheduler has every attribute that the plug-in uses."""
    _report([name for name in _ATTRIBUTES if not hasattr(scheduler, name)], version)


def _report(missing: list[str], version: str) -> None:
    if missing:
        raise IncompatibleEngine(
            f"agentix: the scheduler of vLLM {version} has no {', '.join(missing)}; this plug-in was tested with vLLM "
            f"{TESTED_VLLM}. Install that release, or start the engine without --scheduler-cls."
        )
