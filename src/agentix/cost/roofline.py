"""Step times from first principles: what must be computed and read, over what a device can compute and read."""

from __future__ import annotations

from agentix.cost.cards import DeviceCard, ModelCard
from agentix.cost.step import Step

_ACTIVATION_BYTES = 2  # bf16


class Roofline:
    """A step's time on `model.tensor_parallel` devices: linear + attention + all-reduce + overhead, one after another.

    Symbols: n tokens in the step (prefill + decodes), s of them sampled (decodes, and one if there is prefill), L
    layers, h hidden, d devices; F and B the FLOP/s and bytes/s that one device reaches, efficiency included.

    linear      max(2·(body·n + head·s) / (d·F), weight bytes / (d·B)). Every token passes the body, sampled ones the
                output head as well; all weights are read once, however many tokens share them.
    attention   prefill: 4·L·h·pairs / (d·F_attention), 2 FLOP each for the score and for the weighted value.
                decode: the larger of 4·L·h·context / (d·F_attention) and of reading context × KV bytes at B.
    all-reduce  per layer and reduction: latency + 2·(d - 1)/d · n·h·2 bytes / link, a ring; 0 for one device.
    overhead    per step.

    Prefill and decode attention add up because they are different kernels. Left out, all small in usual steps: reading
    the cached prefix of a short prefill chunk, writing activations, the rounded corner where compute meets memory.
    Not small for models far below a billion parameters on a GPU: the latency of each kernel, which makes their steps
    several times longer than computed here.

    >>> from agentix.cost import Step, device_card, model_card
    >>> a100 = Roofline(device_card("a100-80gb"), model_card("llama-3.1-8b"))
    >>> round(a100.step_s(Step(num_decodes=1, decode_context_tokens=100)), 3)
    0.01
    """

    def __init__(self, device: DeviceCard, model: ModelCard) -> None:
        self.device = device
        self.model = model
        num_devices = model.tensor_parallel
        flops_per_s = num_devices * device.peak_flops_per_s * device.compute_efficiency
        attention_flops_per_s = num_devices * device.peak_flops_per_s * device.attention_efficiency
        bytes_per_s = device.memory_bytes_per_s * device.memory_efficiency
        read_parameters = model.body_parameters + model.head_parameters
        self._body_s = 2 * model.body_parameters / flops_per_s
        self._head_s = 2 * model.head_parameters / flops_per_s
        self._weights_s = read_parameters * model.bytes_per_weight / (num_devices * bytes_per_s)
        self._pair_s = 4 * model.num_layers * model.hidden / attention_flops_per_s
        self._context_s = max(self._pair_s, model.device_kv_bytes_per_token / bytes_per_s)
        self._num_all_reduces = model.num_layers * model.all_reduces_per_layer if num_devices > 1 else 0
        self._reduced_token_s = (2 * (num_devices - 1) / num_devices * model.hidden * _ACTIVATION_BYTES) / (
            device.interconnect_bytes_per_s * device.link_efficiency
        )

    def step_s(self, step: Step, /) -> float:
        """Duration of the step in seconds: the sum of the terms below and the overhead; 0 for an empty step."""
        if step.is_empty:
            return 0.0
        return self.linear_s(step) + self.attention_s(step) + self.all_reduce_s(step) + self.device.step_overhead_s

    def linear_s(self, step: Step) -> float:
        """Seconds in the matrix products with weights, of a step that is not empty."""
        num_tokens = step.prefill_tokens + step.num_decodes
        num_sampled = step.num_decodes + (step.prefill_tokens > 0)
        return max(self._body_s * num_tokens + self._head_s * num_sampled, self._weights_s)

    def attention_s(self, step: Step) -> float:
        """Seconds in attention over the context."""
        return self._pair_s * step.prefill_pairs + self._context_s * step.decode_context_tokens

    def all_reduce_s(self, step: Step) -> float:
        """Seconds in which the devices add up their parts of each layer, of a step that is not empty."""
        num_tokens = step.prefill_tokens + step.num_decodes
        return self._num_all_reduces * (self.device.all_reduce_latency_s + self._reduced_token_s * num_tokens)
