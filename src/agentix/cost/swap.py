"""What it costs to take a call's KV off the device and to have it back: copy it, or compute it again."""

from __future__ import annotations

from agentix.cost.cards import DeviceCard, ModelCard
from agentix.cost.step import Step, StepCostModel, causal_pairs


def recompute_s(cost: StepCostModel, num_tokens: int) -> float:
    """Seconds to compute the KV of `num_tokens` tokens again: one prefill step of all of them, alone.

    Both ways of the trip: dropping KV is free. In an engine that cuts prefill into chunks every further chunk adds its
    own overhead, and a step that it shares with decodes costs less than the two apart.
    """
    return cost.step_s(Step(prefill_tokens=num_tokens, prefill_pairs=causal_pairs(num_tokens)))


def swap_s(device: DeviceCard, model: ModelCard, *, num_tokens: int, num_blocks: int, bulk: bool) -> float:
    """Seconds to move the KV of `num_tokens` tokens, which lies in `num_blocks` blocks, to the host or back: one way.

    b bytes per device cross its own host link in t = b / link. Devices of a tensor-parallel group work side by side.

    per block   copies · launch + t, with copies = 2·layers·blocks: keys and values of every layer lie apart, so each is
                a copy of its own. At 5 µs each that is 10 µs per block and layer, several times what the bytes need.
    bulk        2 · launch + t + 2·b / memory: one kernel gathers all blocks into one buffer (a read and a write of
                device memory), one copy moves it. The paper reports 3-7x less time (figure 19).

    A block that is moved is moved whole, so `num_tokens` is blocks × block size where the last is not full.
    """
    if num_tokens == 0:
        return 0.0
    num_bytes = num_tokens * model.device_kv_bytes_per_token
    transfer_s = num_bytes / (device.host_link_bytes_per_s * device.link_efficiency)
    if not bulk:
        return 2 * model.num_layers * num_blocks * device.copy_launch_s + transfer_s
    gather_s = 2 * num_bytes / (device.memory_bytes_per_s * device.memory_efficiency)
    return 2 * device.copy_launch_s + transfer_s + gather_s
