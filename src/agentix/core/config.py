"""Settings of the scheduler: one frozen value, built at the edge, checked once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from agentix.core.errors import ConfigError, unknown_name


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """How calls are ordered.

    policy            a registered name or a dotted path `module:Class`
    quanta_s          service a call may receive at level 1, 2, …, in seconds; one more level without a quantum
                      follows. Level i covers priorities from the sum of the quanta above it to that sum plus its own
                      (paper: [lo_i, hi_i), lo_1 = 0, hi_K = ∞), so that a program which arrives with the service that
                      a quantum grants enters where that quantum would have sent it. Round-robin uses the first alone.
    starvation_ratio  β: a call moves to level 1 once its program's and its own waiting reaches β times their service.
                      None: never. Small values favour the tail, large ones the mean.
    patience          of `gittins`: after waiting for so many times the service that it is still expected to need, a program
                      stands on the first level. Small values favour the tail, large ones the mean.
    running_first     within a level a running call goes before those that wait, so that no call is preempted for one of
                      its own level. Off, as in the paper: first come, first served, by entry to the level.
    weigh_evictions   a call takes KV blocks from worse ones only if that is worth it (`Entry.is_worth`); it waits for blocks
                      otherwise, and those after it that hold theirs go on. Off, as in the paper: the order alone decides.
    class_weights     (class, weight) of program classes: one of weight 2 receives twice the service at each level before it
                      sinks; classes that are not named have weight 1. As a JSON object in `from_mapping`.

    The defaults suit calls of 0.1 s to 1 min; they have not been tuned.
    """

    policy: str = "default"
    quanta_s: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
    starvation_ratio: float | None = 20.0
    patience: float = 0.25
    running_first: bool = False
    weigh_evictions: bool = False
    class_weights: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        if not self.quanta_s or not all(0 < q < math.inf for q in self.quanta_s):
            raise ConfigError(f"quanta_s must be one or more positive numbers of seconds, not {self.quanta_s!r}")
        if self.starvation_ratio is not None and not self.starvation_ratio > 0:
            raise ConfigError(f"starvation_ratio must be positive or null, not {self.starvation_ratio!r}")
        if not 0 < self.patience < math.inf:
            raise ConfigError(f"patience must be a positive number, not {self.patience!r}")
        for name, weight in self.class_weights:
            if not 0 < weight < math.inf:
                raise ConfigError(f"the weight of class {name!r} must be a positive number, not {weight!r}")

    def to_mapping(self) -> dict[str, Any]:
        """The inverse of `from_mapping`, ready for JSON."""
        return {**asdict(self), "quanta_s": list(self.quanta_s), "class_weights": dict(self.class_weights)}

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> Self:
        """Build from parsed JSON or YAML. Raises ConfigError for an unknown key or a wrong value."""
        known = [f.name for f in fields(cls)]
        for key in settings:
            if key not in known:
                raise unknown_name("scheduler setting", key, known)
        values = dict(settings)
        if isinstance(values.get("quanta_s"), str):
            raise ConfigError(f"quanta_s must be a list of seconds, not {values['quanta_s']!r}")
        if "quanta_s" in values:
            values["quanta_s"] = _numbers("quanta_s", values["quanta_s"])
        if "patience" in values:
            (values["patience"],) = _numbers("patience", [values["patience"]])
        if values.get("starvation_ratio") is not None:
            (values["starvation_ratio"],) = _numbers("starvation_ratio", [values["starvation_ratio"]])
        weights = values.pop("class_weights", {})
        if not isinstance(weights, Mapping) or not all(_is_number(weight) for weight in weights.values()):
            raise ConfigError(f"class_weights must be an object of class names and numbers, not {weights!r}")
        values["class_weights"] = tuple(weights.items())
        for name in ("running_first", "weigh_evictions"):
            if not isinstance(values.get(name, False), bool):
                raise ConfigError(f"{name} must be true or false, not {values[name]!r}")
        if not isinstance(values.get("policy", ""), str):
            raise ConfigError(f"policy must be a name, not {values['policy']!r}")
        return cls(**values)


def _numbers(name: str, values: Any) -> tuple[float, ...]:
    """Raises ConfigError that names the setting."""
    try:
        return tuple(float(value) for value in values)
    except (TypeError, ValueError):
        raise ConfigError(f"{name} must be numbers, not {values!r}") from None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
