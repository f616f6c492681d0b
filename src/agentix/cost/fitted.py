"""Step times as measured: five coefficients, and the card in which they are kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from agentix.core.errors import ConfigError, unknown_name
from agentix.cost.step import Step

Features = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FitQuality:
    """How well a fit describes the samples it was made from; it says nothing of other loads.

    num_samples    steps that were measured
    r_squared      1 - Σ(t - t̂)² / Σ(t - mean t)²: share of the variance that is explained, at most 1. None if all steps
                   took the same time.
    mape           mean of |t - t̂| / t: 0.05 is an average error of 5 %
    undetermined   coefficients that the samples cannot tell apart from others, or that no sample has work for; these
                   are 0 or stand for several
    """

    num_samples: int
    r_squared: float | None
    mape: float
    undetermined: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.num_samples, bool) or not isinstance(self.num_samples, int) or self.num_samples < 1:
            raise ConfigError(f"quality: num_samples must be a whole number of 1 or more, not {self.num_samples!r}")
        if self.r_squared is not None and (not _is_number(self.r_squared) or self.r_squared > 1):
            raise ConfigError(f"quality: r_squared must be a number of at most 1 or null, not {self.r_squared!r}")
        if not _is_number(self.mape) or self.mape < 0:
            raise ConfigError(f"quality: mape must be a number of 0 or more, not {self.mape!r}")
        for name in self.undetermined:
            if name not in COEFFICIENTS:
                raise unknown_name("coefficient in undetermined", str(name), COEFFICIENTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedCost:
    """A step's time as a sum: per step + tokens, pairs, decodes and context, each × its coefficient, in seconds.

    `fit` finds the coefficients from measured steps. None is negative, so that more work never takes less time; a
    ConfigError names the one that is. A straight line has no roofline's corner: where small batches are bound by
    memory and large ones by arithmetic it is a compromise over the range it was fitted on.
    """

    per_step_s: float
    per_prefill_token_s: float
    per_prefill_pair_s: float
    per_decode_s: float
    per_decode_context_token_s: float
    quality: FitQuality | None = None

    def __post_init__(self) -> None:
        for name in COEFFICIENTS:
            value = getattr(self, name)
            if not _is_number(value) or value < 0:
                raise ConfigError(f"{name} must be a number of seconds of 0 or more, not {value!r}")

    def step_s(self, step: Step, /) -> float:
        """Duration of the step in seconds; 0 for an empty step."""
        if step.is_empty:
            return 0.0
        return (
            self.per_step_s
            + self.per_prefill_token_s * step.prefill_tokens
            + self.per_prefill_pair_s * step.prefill_pairs
            + self.per_decode_s * step.num_decodes
            + self.per_decode_context_token_s * step.decode_context_tokens
        )

    def to_mapping(self) -> dict[str, Any]:
        """The inverse of `from_mapping`, ready for JSON."""
        card = asdict(self)
        if self.quality is None:
            del card["quality"]
        else:
            card["quality"]["undetermined"] = list(self.quality.undetermined)
        return card

    @classmethod
    def from_mapping(cls, card: Mapping[str, Any]) -> Self:
        """Build from parsed JSON. Raises ConfigError for an unknown, missing or wrong field, and names it."""
        values = _known_fields(card, "cost card field", (*COEFFICIENTS, "quality"), COEFFICIENTS)
        if values.get("quality") is not None:
            values["quality"] = _quality(values["quality"])
        return cls(**values)


COEFFICIENTS = tuple(field.name for field in fields(FittedCost) if field.name != "quality")


def features(step: Step) -> Features:
    """What each of `COEFFICIENTS` is multiplied by, in their order, for a step that is not empty."""
    return (1, step.prefill_tokens, step.prefill_pairs, step.num_decodes, step.decode_context_tokens)


def _quality(raw: Any) -> FitQuality:
    names = tuple(field.name for field in fields(FitQuality))
    values = _known_fields(raw, "quality field", names, ("num_samples", "r_squared", "mape"))
    undetermined = values.get("undetermined", [])
    if not isinstance(undetermined, list | tuple):
        raise ConfigError(f"quality: undetermined must be a list of coefficients, not {undetermined!r}")
    return FitQuality(**values | {"undetermined": tuple(undetermined)})


def _known_fields(raw: Any, kind: str, known: tuple[str, ...], required: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(raw, Mapping):
        raise ConfigError(f"an object with each {kind} is expected, not {raw!r}")
    for key in raw:
        if key not in known:
            raise unknown_name(kind, str(key), known)
    for key in required:
        if key not in raw:
            raise ConfigError(f"{kind} {key!r} is missing")
    return dict(raw)


def _is_number(value: object) -> bool:
    """A finite number that JSON can hold; a boolean is none. A whole number beyond the floats is not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
