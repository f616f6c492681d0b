"""What must be known of a device and of a model to say how long a step takes and how much context fits."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from agentix.core.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCard:
    """One accelerator (or one machine's processors), as published, and how much of that a serving engine gets.

    peak_flops_per_s            dense bf16 multiply-adds count as two
    memory_bytes_per_s          bandwidth of the device's memory
    memory_bytes                size of that memory, as the driver reports it
    reserved_bytes              of it: activations, captured graphs, the runtime itself
    host_link_bytes_per_s       to host memory, one direction; the way of a swap
    interconnect_bytes_per_s    to the other devices of a tensor-parallel group, one direction
    compute_efficiency          share of the peak that large matrix products reach
    attention_efficiency        share of the peak that attention over a prompt reaches
    memory_efficiency           share of the memory bandwidth that reading weights and KV reaches
    link_efficiency             share of either link that large transfers reach
    step_overhead_s             per step: scheduling, launches that are not hidden, sampling
    all_reduce_latency_s        per all-reduce, however small
    copy_launch_s               per copy between device and host, however small

    Everything is positive, efficiencies at most 1; ConfigError otherwise.
    """

    name: str
    peak_flops_per_s: float
    memory_bytes_per_s: float
    memory_bytes: float
    reserved_bytes: float
    host_link_bytes_per_s: float
    interconnect_bytes_per_s: float
    compute_efficiency: float
    attention_efficiency: float
    memory_efficiency: float
    link_efficiency: float = 0.8
    step_overhead_s: float = 1e-3
    all_reduce_latency_s: float = 10e-6
    copy_launch_s: float = 5e-6

    def __post_init__(self) -> None:
        _check_positive(self)
        for name in ("compute_efficiency", "attention_efficiency", "memory_efficiency", "link_efficiency"):
            if getattr(self, name) > 1:
                raise ConfigError(f"{name} of {self.name!r} must be at most 1, not {getattr(self, name)!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """One dense transformer with grouped-query attention, and over how many devices it is spread.

    num_parameters          all of them, embeddings included
    hidden                  width of the residual stream; query heads × head_dim is taken to be the same
    num_kv_heads            heads that keep keys and values
    vocab                   rows of the embedding, and of the output head
    tied_embeddings         embedding and output head are one matrix
    bytes_per_weight        2 for bf16
    bytes_per_kv_element    2 for bf16
    tensor_parallel         devices that share every layer
    all_reduces_per_layer   2: after attention and after the feed-forward; 1 where a model runs both in parallel

    Everything is positive; ConfigError otherwise.
    """

    name: str
    num_parameters: float
    num_layers: int
    hidden: int
    num_kv_heads: int
    head_dim: int
    vocab: int
    tied_embeddings: bool = False
    bytes_per_weight: float = 2.0
    bytes_per_kv_element: float = 2.0
    tensor_parallel: int = 1
    all_reduces_per_layer: int = 2

    def __post_init__(self) -> None:
        _check_positive(self)
        if self.body_parameters <= 0:
            raise ConfigError(f"num_parameters of {self.name!r} must exceed its embeddings, not {self.num_parameters!r}")

    @property
    def weight_bytes(self) -> float:
        """Bytes of all weights, over all devices."""
        return self.num_parameters * self.bytes_per_weight

    @property
    def head_parameters(self) -> int:
        """Parameters of the output head, vocab × hidden: used for sampled tokens only."""
        return self.vocab * self.hidden

    @property
    def body_parameters(self) -> float:
        """Parameters of the layers: all but the output head and the embedding, which is looked up, not multiplied."""
        return self.num_parameters - self.head_parameters * (1 if self.tied_embeddings else 2)

    @property
    def kv_bytes_per_token(self) -> float:
        """KV bytes of one token of context: keys and values × layers × KV heads × head_dim × bytes per element."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * self.bytes_per_kv_element

    @property
    def device_kv_bytes_per_token(self) -> float:
        """KV bytes of one token on each device. KV heads are shared out whole; with fewer heads than devices, copied."""
        return self.kv_bytes_per_token * math.ceil(self.num_kv_heads / self.tensor_parallel) / self.num_kv_heads


def kv_capacity_tokens(device: DeviceCard, model: ModelCard, *, memory_utilisation: float = 0.9) -> int:
    """Tokens of context whose KV fits beside the weights on `tensor_parallel` such devices.

    (utilisation × memory - reserved - weights per device) / KV bytes per token and device. Raises ConfigError if the
    model does not fit at all.
    """
    if not 0 < memory_utilisation <= 1:
        raise ConfigError(f"memory_utilisation must be above 0 and at most 1, not {memory_utilisation!r}")
    usable = memory_utilisation * device.memory_bytes - device.reserved_bytes
    weights = model.weight_bytes / model.tensor_parallel
    if usable - weights < model.device_kv_bytes_per_token:
        raise ConfigError(
            f"{model.name} does not fit on {model.tensor_parallel} × {device.name}: its weights take {weights / 1e9:.1f} GB "
            f"of each device, and {usable / 1e9:.1f} GB are usable"
        )
    return int((usable - weights) / model.device_kv_bytes_per_token)


def _check_positive(card: DeviceCard | ModelCard) -> None:
    for field in fields(card):
        value = getattr(card, field.name)
        if not isinstance(value, str | bool) and not 0 < value < math.inf:
            raise ConfigError(f"{field.name} of {card.name!r} must be a positive number, not {value!r}")
