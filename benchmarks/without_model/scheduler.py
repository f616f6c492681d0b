"""vLLM's own scheduler, real in every line, driven in this process without a model, workers or sockets."""

from __future__ import annotations

import copy
import json
import os
import tempfile
import warnings
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from benchmarks.without_model.runner import STOP_TOKEN, Runner

with warnings.catch_warnings():  # what torch says of itself while it loads
    warnings.simplefilter("ignore")
    import torch
    from vllm.config import CacheConfig, DeviceConfig, ModelConfig, SchedulerConfig, VllmConfig
    from vllm.sampling_params import SamplingParams
    from vllm.utils.hashing import sha256
    from vllm.v1.core.block_pool import BlockPool
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.interface import PauseState
    from vllm.v1.engine import EngineCoreOutputs
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
    from vllm.v1.outputs import ModelRunnerOutput
    from vllm.v1.request import Request, RequestStatus
    from vllm.v1.serial_utils import MsgpackDecoder, MsgpackEncoder

    import agentix.engine.scheduler as plugin
    from agentix.engine.kept import KeptKV
    from agentix.engine.reuse import ReuseOrder
    from agentix.engine.scheduler import ProgramScheduler
    from agentix.engine.stat_logger import ProgramStatLogger

__all__ = [
    "STEP_S",
    "BlockPool",
    "Engine",
    "KeptKV",
    "PauseState",
    "ProgramScheduler",
    "ProgramStatLogger",
    "ReuseOrder",
    "as_received",
    "make_scheduler",
]

MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "vocab_size": 256,
    "max_position_embeddings": 65536,
}
STEP_S = 0.001  # what a step takes on the clock of these tests


@cache
def _config() -> Any:
    """What does not differ between engines; takes a second."""
    init_none_hash(sha256)
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "config.json").write_text(json.dumps(MODEL))
        model = ModelConfig(model=directory, skip_tokenizer_init=True, dtype="float32", max_model_len=64)
    return VllmConfig(
        model_config=model,
        cache_config=CacheConfig(block_size=4, enable_prefix_caching=True),
        scheduler_config=SchedulerConfig(
            max_num_seqs=4, max_num_batched_tokens=64, max_model_len=64, is_encoder_decoder=False, enable_chunked_prefill=True
        ),
        device_config=DeviceConfig("cpu"),
    )


def make_scheduler(
    agentix: Mapping[str, Any] | None,
    *,
    num_slots: int,
    num_blocks: int,
    block_size: int = 4,
    num_states: int | None = None,
    max_model_len: int = 64,
    max_batch_tokens: int = 64,
    watermark: float = 0.0,
    scheduler_cls: type[Any] | None = None,
) -> Any:
    """Our scheduler with these settings, or stock's if they are None. `num_states` makes it one for the V2 model runner."""
    scheduler_cls = scheduler_cls or (AsyncScheduler if agentix is None else ProgramScheduler)
    config = copy.copy(_config())
    for name in ("model_config", "cache_config", "scheduler_config"):
        setattr(config, name, copy.copy(getattr(config, name)))
    config.model_config.max_model_len = max_model_len
    config.cache_config.block_size, config.cache_config.num_gpu_blocks = block_size, num_blocks
    scheduler = config.scheduler_config
    scheduler.async_scheduling, scheduler.max_num_batched_tokens = True, max_batch_tokens
    scheduler.max_num_seqs, scheduler.max_num_active_seqs = num_states or num_slots, num_slots
    scheduler.watermark = watermark
    config.additional_config = {"agentix": dict(agentix or {})}
    spec = FullAttentionSpec(block_size=block_size, num_kv_heads=1, head_size=1, dtype=torch.float32)
    kv_cache = KVCacheConfig(num_blocks=num_blocks, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)])
    # Grammars are no part of this; the interface takes any object with these two methods.
    no_grammar = SimpleNamespace(accept_tokens=lambda *_: True, clear_backend=lambda: None)
    with patch.dict(os.environ, {"VLLM_USE_V2_MODEL_RUNNER": "0" if num_states is None else "1"}):
        return scheduler_cls(
            vllm_config=config,
            kv_cache_config=kv_cache,
            structured_output_manager=no_grammar,
            block_size=block_size,
            log_stats=True,
        )


def as_received(stats: Any) -> Any:
    """A step's statistics as they reach the API server."""
    sent = MsgpackEncoder().encode(EngineCoreOutputs(scheduler_stats=stats))
    return MsgpackDecoder(EngineCoreOutputs).decode(sent).scheduler_stats


class Engine:
    """The engine core's loop around a scheduler, on a clock that steps move: as in `step_with_batch_queue`, or in `step`."""

    def __init__(self, agentix: Mapping[str, Any] | None, *, overlap: bool = True, **options: Any) -> None:
        self.now = 100.0
        plugin.time = SimpleNamespace(monotonic=lambda: self.now)  # type: ignore[attr-defined, assignment]
        self.scheduler = make_scheduler(agentix, **options)
        self.runner = Runner(self.scheduler.block_size, options.get("num_states"))
        self.in_flight: deque[tuple[Any, dict[str, list[int]]]] = deque()
        self.answers: dict[str, list[int]] = defaultdict(list)
        self.endings: dict[str, list[str]] = defaultdict(list)
        self.num_tokens_of: Counter[str] = Counter()  # tokens that steps were to compute, per request
        self._hasher = get_request_block_hasher(self.scheduler.block_size, sha256)
        self.depth = 2 if overlap else 1

    def make(
        self, request_id: str, prompt: Sequence[int], max_tokens: int, program: str | None = None, *, resumable: bool = False
    ) -> Any:
        """A request; with `resumable` a streaming-input session, or its next piece."""
        return Request(
            request_id=request_id,
            prompt_token_ids=list(prompt),
            sampling_params=SamplingParams(max_tokens=max_tokens, stop_token_ids=[STOP_TOKEN], ignore_eos=True),
            pooling_params=None,
            arrival_time=self.now,
            session_id=program,
            block_hasher=self._hasher,
            resumable=resumable,
        )

    def add(self, *args: Any, **options: Any) -> None:
        """The request that `make` makes of these arrives."""
        self.scheduler.add_request(self.make(*args, **options))

    def abort(self, request_id: str) -> None:
        """The client has left."""
        for request in self.scheduler.finish_requests(request_id, RequestStatus.FINISHED_ABORTED):
            self.endings[request.request_id].append("abort")

    def schedule(self) -> Any:
        """Schedule a step and let the model runner have it."""
        output = self.scheduler.schedule()
        self.in_flight.append((output, self.runner.execute(output)))
        self.num_tokens_of.update(output.num_scheduled_tokens)
        return output

    def is_deep_enough(self, output: Any) -> bool:
        """Whether the engine core now waits for the oldest step in flight before it schedules another."""
        return len(self.in_flight) >= self.depth or not (output.num_scheduled_tokens or self.scheduler.has_requests())

    def step(self) -> None:
        """One turn of the engine core's loop."""
        output = self.schedule() if self.scheduler.has_requests() else None
        if output is None or self.is_deep_enough(output):
            self.take_in()

    def take_in(self) -> None:
        """The oldest output returns."""
        if not self.in_flight:
            return
        output, sampled = self.in_flight.popleft()
        self.now += STEP_S
        for outputs in self.scheduler.update_from_output(output, self.returned(sampled)).values():
            for each in outputs.outputs:
                self.answers[each.request_id].extend(each.new_token_ids)
                if each.finish_reason is not None:
                    self.endings[each.request_id].append(str(each.finish_reason))

    @staticmethod
    def returned(sampled: Mapping[str, list[int]]) -> Any:
        """What a model runner returns that has sampled these tokens."""
        ids = list(sampled)
        return ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={request_id: index for index, request_id in enumerate(ids)},
            sampled_token_ids=[sampled[request_id] for request_id in ids],
        )

    def run(self, max_steps: int = 5000) -> None:
        """Until nothing is left to do. Fails if that takes more steps than it ever should."""
        for _ in range(max_steps):
            if not self.scheduler.has_requests() and not self.in_flight:
                return
            self.step()
        raise AssertionError(f"still at work after {max_steps} steps: {list(self.scheduler.requests)}")
