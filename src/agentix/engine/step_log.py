"""What an engine's steps computed and how long they took: the lines that `agentix calibrate` learns from."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentix.core.errors import ConfigError
from agentix.cost.calibrated import EngineFacts
from agentix.cost.step import Step, causal_pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step. Times are seconds on the engine's monotonic clock.

    began_s     the scheduler was asked for the step
    started_s   the step could start: it was scheduled, and the step before it had returned
    returned_s  its output was back; `started_s` to here is what its calls are charged
    step        what it computed, over `num_calls` calls
    """

    began_s: float
    started_s: float
    returned_s: float
    num_calls: int
    step: Step


def facts_of(scheduler: Any, *, vllm_version: str, device: str) -> EngineFacts:
    """Read the facts from vLLM's initialised scheduler. One of its KV blocks is a placeholder that no call gets."""
    config = scheduler.vllm_config
    return EngineFacts(
        device=_processor() if device == "cpu" else device,
        vllm_version=vllm_version,
        dtype=str(config.model_config.dtype).removeprefix("torch."),
        max_num_seqs=scheduler.max_num_active_reqs,
        max_batch_tokens=scheduler.max_num_scheduled_tokens,
        block_size=scheduler.block_size,
        num_blocks=config.cache_config.num_gpu_blocks - 1,
        max_model_len=config.model_config.max_model_len,
        prefix_cache=bool(config.cache_config.enable_prefix_caching),
        async_scheduling=bool(config.scheduler_config.async_scheduling),
    )


def work_of(num_scheduled_tokens: Mapping[str, int], requests: Mapping[str, Any]) -> Step:
    """The work of a step that vLLM has just scheduled; `requests` are its requests, which count it as computed already.

    One token after the whole prompt is a decode. Everything else is prefill, an answer that is computed again after a
    preemption too.
    """
    prefill_tokens = prefill_pairs = num_decodes = decode_context_tokens = 0
    for request_id, num_tokens in num_scheduled_tokens.items():
        request = requests[request_id]
        num_before = request.num_computed_tokens - num_tokens
        if num_tokens == 1 and num_before >= request.num_prompt_tokens:
            num_decodes += 1
            decode_context_tokens += num_before + 1
        else:
            prefill_tokens += num_tokens
            prefill_pairs += causal_pairs(num_tokens, num_before)
    return Step(
        prefill_tokens=prefill_tokens,
        prefill_pairs=prefill_pairs,
        num_decodes=num_decodes,
        decode_context_tokens=decode_context_tokens,
    )


def _processor() -> str:
    """The CPU by its maker's name, and the threads that compute: vLLM calls every CPU "cpu"."""
    try:
        cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        cpuinfo = ""
    named = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    threads = os.environ.get("OMP_NUM_THREADS")
    return f"{named.group(1).strip() if named else platform.machine()}" + (f", {threads} thread(s)" if threads else "")


def facts_line(facts: EngineFacts) -> str:
    """The first line of a step log, without its end."""
    return json.dumps({"engine": asdict(facts)})


def step_line(record: StepRecord) -> str:
    """Any other line of a step log, without its end."""
    return json.dumps(asdict(record))


def read_step_log(path: Path) -> tuple[EngineFacts, list[StepRecord]]:
    """The engine and all its steps. Raises ConfigError, with file and line, for what is no line of a step log."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path.name}: the step log cannot be read ({error})") from None
    if not lines:
        raise ConfigError(f"{path.name}: the step log is empty")
    facts: EngineFacts | None = None
    records: list[StepRecord] = []
    for number, line in enumerate(lines, start=1):
        try:
            fields = json.loads(line)
            if facts is None:
                facts = EngineFacts.from_mapping(fields["engine"])
            else:
                records.append(StepRecord(**fields | {"step": Step(**fields["step"])}))
        except (ConfigError, ValueError, TypeError, KeyError) as error:
            raise ConfigError(f"{path.name}, line {number}: not a line of a step log ({error!r})") from None
    assert facts is not None  # noqa: S101 - for mypy: the first line gave them or raised
    return facts, records
