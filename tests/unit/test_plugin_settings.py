"""What reaches the plug-in from outside: its settings, and a call's totals on the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentix.core import ConfigError
from agentix.core.events import Attained
from agentix.engine.settings import PluginSettings
from agentix.wire import attained_from_xargs


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (None, "object of settings"),
        (5, "object of settings"),
        ("plas", "object of settings"),
        ({"polciy": "plas"}, "polciy"),
        ({"decision_log": 1}, "decision_log"),
        ({"step_log": ["a"]}, "step_log"),
        ({"program_idle_s": 0}, "program_idle_s"),
    ],
)
def test_bad_settings_are_an_error_that_names_them(settings: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        PluginSettings.from_mapping(settings)


@pytest.mark.parametrize("number", ["Infinity", "1e999", "NaN", "-1", '"1"', "1" + 400 * "0"])
def test_totals_that_are_no_finite_number_are_ignored(number: str) -> None:
    """All of these pass Python's JSON; the last does not fit a float."""
    xargs = json.loads(f'{{"agentix_service_s": 2, "agentix_waiting_s": {number}}}')
    assert attained_from_xargs(xargs) == Attained(service_s=2.0)


def test_settings_come_from_the_command_line_or_else_from_the_environment() -> None:
    environ = {"AGENTIX_PLUGIN": '{"policy": "atlas"}'}
    assert PluginSettings.find({"agentix": {"policy": "mlfq"}}, environ).scheduler.policy == "mlfq"
    assert PluginSettings.find({"other": 1}, environ).scheduler.policy == "atlas"
    assert PluginSettings.find(None, environ).scheduler.policy == "atlas"
    assert PluginSettings.find(None, {}) == PluginSettings.from_mapping({})


@pytest.mark.parametrize("text", ["{", "plas", "[1]", ""])
def test_settings_in_the_environment_must_be_an_object(text: str) -> None:
    with pytest.raises(ConfigError, match="object"):
        PluginSettings.find(None, {"AGENTIX_PLUGIN": text})


def test_running_calls_are_parked_unless_that_is_switched_off() -> None:
    assert PluginSettings().preemption == PluginSettings.from_mapping({}).preemption == "park"
    assert PluginSettings.from_mapping({"preemption": "none"}).preemption == "none"


def test_settings_survive_json() -> None:
    settings = PluginSettings.from_mapping(
        {"policy": "atlas", "preemption": "park", "class_weights": {"gold": 2}, "program_idle_s": 5}
    )
    assert PluginSettings.from_mapping(json.loads(json.dumps(settings.to_mapping()))) == settings
    assert PluginSettings.from_mapping(PluginSettings().to_mapping()) == PluginSettings()
