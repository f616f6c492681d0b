"""Arms by name."""

from __future__ import annotations

import pytest

from agentix.ab.arms import Arm, arm_names, find_arm
from agentix.core.errors import ConfigError
from agentix.engine.settings import PluginSettings


def test_stock_arms_have_no_plug_in_whatever_its_settings() -> None:
    assert find_arm("stock-fcfs", {"quanta_s": [1]}) == Arm(name="stock-fcfs")
    assert find_arm("stock-priority", {}) == Arm(
        name="stock-priority", vllm_args=("--scheduling-policy", "priority"), sends_priority=True
    )


@pytest.mark.parametrize(
    ("name", "policy", "preemption"),
    [
        ("plas", "plas", "park"),
        ("atlas-order", "atlas", "none"),
        ("plas-recompute", "plas", "recompute"),
        ("agentix.core.policies.mlfq:MLFQ-order", "agentix.core.policies.mlfq:MLFQ", "none"),
    ],
)
def test_a_policy_is_an_arm_and_its_ending_says_how_it_preempts(name: str, policy: str, preemption: str) -> None:
    arm = find_arm(name, {"quanta_s": [0.5, 2.0], "starvation_ratio": None})
    assert arm == Arm(
        name=name,
        settings={"policy": policy, "preemption": preemption, "quanta_s": [0.5, 2.0], "starvation_ratio": None},
    )
    settings = PluginSettings.from_mapping(arm.settings or {})
    assert settings.scheduler.running_first
    assert settings.preemption == preemption


def test_an_unknown_arm_is_an_error_that_lists_what_exists() -> None:
    with pytest.raises(ConfigError, match=r"unknown arm 'plaz'; known: .*POLICY-order.*plas.*stock-priority"):
        find_arm("plaz", {})
    assert "srpt" not in arm_names()


@pytest.mark.parametrize(
    ("name", "settings", "problem"),
    [
        ("srpt", {}, "SRPT needs knowledge of the future"),
        ("nowhere:Policy", {}, "cannot load policy"),
        ("plas", {"quanta_s": [0]}, "quanta_s must be"),
    ],
)
def test_an_arm_that_could_not_start_is_refused(name: str, settings: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        find_arm(name, settings)
