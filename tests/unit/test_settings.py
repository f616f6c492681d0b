"""Settings of the core: SchedulerConfig, registries of parts, and records of events. What bad input gets."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from agentix.core import POLICIES, ConfigError, SchedulerConfig, SchedulingPolicy, make_policy
from agentix.core.events import Attained, CallArrived, ProgramStarted, from_record, to_record
from agentix.core.registry import Registry


class UsersPolicy(SchedulingPolicy):
    """What a user would write."""


NOT_CALLABLE = 1


def test_settings_survive_a_trip_through_json() -> None:
    config = SchedulerConfig(policy="atlas", quanta_s=(0.5, 1.0), starvation_ratio=None)
    assert SchedulerConfig.from_mapping(json.loads(json.dumps(config.to_mapping()))) == config


def test_settings_left_out_take_the_defaults() -> None:
    assert SchedulerConfig.from_mapping({}) == SchedulerConfig()


def test_whole_numbers_are_numbers_of_seconds() -> None:
    config = SchedulerConfig.from_mapping({"quanta_s": [1, 2], "starvation_ratio": 3})
    assert config == SchedulerConfig(quanta_s=(1.0, 2.0), starvation_ratio=3.0)


def test_an_unknown_setting_is_named_and_the_known_ones_listed() -> None:
    known = "class_weights, patience, policy, quanta_s, running_first, starvation_ratio"
    with pytest.raises(ConfigError, match=f"unknown scheduler setting 'quanta'; known: {known}"):
        SchedulerConfig.from_mapping({"policy": "plas", "quanta": [1.0]})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("quanta_s", []),
        ("quanta_s", [0.0]),
        ("quanta_s", [1.0, -1.0]),
        ("quanta_s", [math.inf]),
        ("quanta_s", [math.nan]),
        ("quanta_s", ["long"]),
        ("patience", "long"),
        ("patience", None),
        ("starvation_ratio", "long"),
        ("quanta_s", "12"),
        ("quanta_s", 1.0),
        ("quanta_s", None),
        ("starvation_ratio", 0.0),
        ("starvation_ratio", -1.0),
        ("starvation_ratio", math.nan),
        ("starvation_ratio", "much"),
        ("policy", 7),
        ("policy", None),
    ],
)
def test_a_wrong_value_is_an_error_that_names_its_setting(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=key):
        SchedulerConfig.from_mapping({key: value})


def test_an_unknown_policy_is_an_error_that_lists_those_that_exist() -> None:
    known = (
        "atlas, atlas_exact, default, fcfs, gittins, las, mlfq, pause_resume, plas, program_fcfs, round_robin, srpt, "
        "your_module:YourClass"
    )
    with pytest.raises(ConfigError, match=f"unknown policy 'lottery'; known: {known}"):
        make_policy(SchedulerConfig(policy="lottery"))


@pytest.mark.parametrize("name", POLICIES.names)
def test_every_registered_policy_can_be_made(name: str) -> None:
    assert isinstance(make_policy(SchedulerConfig(policy=name)), SchedulingPolicy)


def test_a_users_policy_is_found_by_its_dotted_path() -> None:
    policy = make_policy(SchedulerConfig(policy=f"{__name__}:UsersPolicy"))
    assert type(policy) is UsersPolicy


@pytest.mark.parametrize(
    "path",
    [
        f"{__name__}:Missing",
        f"{__name__}:NOT_CALLABLE",
        f"{__name__}:",
        "no_such_module_at_all:Policy",
        ":Policy",
        ".relative:Policy",
    ],
)
def test_a_bad_dotted_path_is_an_error_that_repeats_it(path: str) -> None:
    with pytest.raises(ConfigError, match=f"policy '{path}'"):
        make_policy(SchedulerConfig(policy=path))


def test_a_name_is_registered_once() -> None:
    registry: Registry[SchedulingPolicy] = Registry("policy")
    registry.register("mine", UsersPolicy)
    with pytest.raises(ConfigError, match="policy 'mine' is registered twice"):
        registry.register("mine", SchedulingPolicy)
    assert registry.resolve("mine") is UsersPolicy


def test_a_record_omits_what_is_unset_and_keeps_an_empty_list_of_parents() -> None:
    root = CallArrived(now=1.0, call_id="c", program_id="p", parents=(), attained=Attained(service_s=2.0))
    unknown = CallArrived(now=1.0, call_id="c", program_id="p")
    assert "parents" not in to_record(unknown)
    for event in (root, unknown):
        assert from_record(json.loads(json.dumps(to_record(event)))) == event


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"type": "Nonsense", "now": 0.0},
        {"type": ["ProgramStarted"], "now": 0.0},
        {"type": "ProgramStarted", "now": 0.0},
        {"type": "ProgramStarted", "now": 0.0, "program_id": "p", "colour": "red"},
        {"type": "CallArrived", "now": 0.0, "call_id": "c", "program_id": "p", "attained": {"colour": "red"}},
    ],
)
def test_a_bad_record_is_an_error(record: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        from_record(record)


def test_reading_a_record_leaves_it_as_it_was() -> None:
    record = to_record(ProgramStarted(now=0.0, program_id="p"))
    before = dict(record)
    from_record(record)
    assert record == before
