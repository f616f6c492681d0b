"""Costs: how long a step of an engine takes, how much context fits, and what moving KV costs.

`step` is the seam. `Roofline` computes times from the published figures of a device and a model (`cards`,
`catalogue`), `FittedCost` holds what `fit` learned from a real engine's steps and a `CalibratedCard` what was measured
with it, `UnitCost` is for worked examples.
"""

from __future__ import annotations

from agentix.cost.calibrated import CalibratedCard, EngineFacts, load_card, save_card
from agentix.cost.cards import DeviceCard, ModelCard, kv_capacity_tokens
from agentix.cost.catalogue import DEVICES, MODELS, device_card, model_card
from agentix.cost.fitted import FitQuality, FittedCost
from agentix.cost.fitting import fit
from agentix.cost.roofline import Roofline
from agentix.cost.step import Step, StepCostModel, UnitCost, causal_pairs
from agentix.cost.swap import recompute_s, swap_s

__all__ = [
    "DEVICES",
    "MODELS",
    "CalibratedCard",
    "DeviceCard",
    "EngineFacts",
    "FitQuality",
    "FittedCost",
    "ModelCard",
    "Roofline",
    "Step",
    "StepCostModel",
    "UnitCost",
    "causal_pairs",
    "device_card",
    "fit",
    "kv_capacity_tokens",
    "load_card",
    "model_card",
    "recompute_s",
    "save_card",
    "swap_s",
]
