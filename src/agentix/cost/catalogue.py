"""The devices and models that Agentix has figures for.

**Devices.** Peak, memory bandwidth and links are NVIDIA's data sheets, dense (without sparsity); a link that the sheet
gives for both directions together is halved. Memory is what the driver leaves to programs, with ECC on. L4 has no
NVLink, so its devices meet over PCIe.

**Efficiencies are assumptions**, chosen so that whole steps come out where public benchmarks of vLLM put them. What is
behind them: FlashAttention-2 reaches 50-73 % of an A100's peak (Dao, 2023) and far less of an H100's, whose peak is
harder to feed; nccl-tests on four H100 reach 366 of 450 GB/s; pinned copies over PCIe 4 x16 reach about 25 of 32 GB/s.
The times per step, all-reduce and copy are orders of magnitude, assumed. Where it matters, fit a real engine instead.

**cpu-2core** is any two cores with AVX2: 2 cores × 32 float operations per cycle × 2.5 GHz, two channels of memory
shared with neighbours. Rough: a factor of two either way is no surprise.

**Models.** Sizes are those of the models' `config.json` and safetensors index on Hugging Face, in bf16, spread over as
many devices as the paper's evaluation does. A CPU without bf16 arithmetic runs a model in float32, which is
`dataclasses.replace(model_card("smollm2-135m"), bytes_per_weight=4.0, bytes_per_kv_element=4.0)`.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentix.core.errors import unknown_name
from agentix.cost.cards import DeviceCard, ModelCard

GIB = 2.0**30

_DEVICES = (
    DeviceCard(
        name="a100-80gb",  # SXM
        peak_flops_per_s=312e12,
        memory_bytes_per_s=2039e9,
        memory_bytes=79.2 * GIB,
        reserved_bytes=1.5 * GIB,
        host_link_bytes_per_s=32e9,  # PCIe 4 x16
        interconnect_bytes_per_s=300e9,  # NVLink 3
        compute_efficiency=0.6,
        attention_efficiency=0.5,
        memory_efficiency=0.8,
    ),
    DeviceCard(
        name="h100-sxm",
        peak_flops_per_s=989e12,
        memory_bytes_per_s=3350e9,
        memory_bytes=79.2 * GIB,
        reserved_bytes=1.5 * GIB,
        host_link_bytes_per_s=64e9,  # PCIe 5 x16
        interconnect_bytes_per_s=450e9,  # NVLink 4
        compute_efficiency=0.5,
        attention_efficiency=0.4,
        memory_efficiency=0.75,
    ),
    DeviceCard(
        name="h200",  # an H100's arithmetic with more and faster memory
        peak_flops_per_s=989e12,
        memory_bytes_per_s=4800e9,
        memory_bytes=139.8 * GIB,
        reserved_bytes=1.5 * GIB,
        host_link_bytes_per_s=64e9,
        interconnect_bytes_per_s=450e9,
        compute_efficiency=0.5,
        attention_efficiency=0.4,
        memory_efficiency=0.75,
    ),
    DeviceCard(
        name="l4",
        peak_flops_per_s=121e12,
        memory_bytes_per_s=300e9,
        memory_bytes=22.0 * GIB,
        reserved_bytes=1.0 * GIB,
        host_link_bytes_per_s=32e9,
        interconnect_bytes_per_s=32e9,
        compute_efficiency=0.5,  # 72 W do not sustain the boost clock
        attention_efficiency=0.4,
        memory_efficiency=0.8,
    ),
    DeviceCard(
        name="cpu-2core",
        peak_flops_per_s=160e9,
        memory_bytes_per_s=20e9,
        memory_bytes=8.0 * GIB,
        reserved_bytes=2.0 * GIB,
        host_link_bytes_per_s=10e9,  # a copy from memory to memory
        interconnect_bytes_per_s=10e9,
        compute_efficiency=0.4,
        attention_efficiency=0.2,
        memory_efficiency=0.6,
        step_overhead_s=10e-3,  # every operator of every layer is launched from Python
        copy_launch_s=1e-6,
    ),
)

_MODELS = (
    ModelCard(
        name="llama-3.1-8b", num_parameters=8.03e9, num_layers=32, hidden=4096, num_kv_heads=8, head_dim=128, vocab=128_256
    ),
    ModelCard(
        name="llama-3.1-70b",
        num_parameters=70.55e9,
        num_layers=80,
        hidden=8192,
        num_kv_heads=8,
        head_dim=128,
        vocab=128_256,
        tensor_parallel=4,
    ),
    ModelCard(
        name="falcon-180b",
        num_parameters=180e9,
        num_layers=80,
        hidden=14_848,
        num_kv_heads=8,
        head_dim=64,
        vocab=65_024,
        tied_embeddings=True,
        tensor_parallel=8,
        all_reduces_per_layer=1,
    ),
    ModelCard(
        name="smollm2-135m",
        num_parameters=134.5e6,
        num_layers=30,
        hidden=576,
        num_kv_heads=3,
        head_dim=64,
        vocab=49_152,
        tied_embeddings=True,
    ),
)

DEVICES: Mapping[str, DeviceCard] = {card.name: card for card in _DEVICES}
MODELS: Mapping[str, ModelCard] = {card.name: card for card in _MODELS}


def device_card(name: str) -> DeviceCard:
    """The device of that name. Raises ConfigError, which lists the names."""
    if name not in DEVICES:
        raise unknown_name("device", name, DEVICES)
    return DEVICES[name]


def model_card(name: str) -> ModelCard:
    """The model of that name. Raises ConfigError, which lists the names."""
    if name not in MODELS:
        raise unknown_name("model", name, MODELS)
    return MODELS[name]
