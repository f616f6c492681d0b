"""The card of one measured engine: what it is, and how long its steps take."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from agentix.core.errors import ConfigError, unknown_name
from agentix.cost.fitted import FittedCost

SCHEMA = "agentix-cost-card/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What an engine says it is.

    device              the accelerator's or processor's name, for a CPU with the number of threads
    max_batch_tokens    token budget of a step
    num_blocks          KV blocks that calls can hold, of `block_size` tokens each
    """

    device: str
    vllm_version: str
    dtype: str
    max_num_seqs: int
    max_batch_tokens: int
    block_size: int
    num_blocks: int
    max_model_len: int
    prefix_cache: bool
    async_scheduling: bool

    @property
    def kv_tokens(self) -> int:
        """Tokens of context that the KV cache holds."""
        return self.num_blocks * self.block_size

    @classmethod
    def from_mapping(cls, raw: Any) -> Self:
        """Build from parsed JSON. Raises ConfigError for an unknown, missing or wrong field, and names it."""
        types = {"device": str, "vllm_version": str, "dtype": str, "prefix_cache": bool, "async_scheduling": bool}
        names = tuple(field.name for field in fields(cls))
        values = _object(raw, "engine", names)
        for name in names:
            wanted = types.get(name, int)
            if type(values[name]) is not wanted or (wanted is int and values[name] < 1):
                kind = "a whole number of 1 or more" if wanted is int else f"a {wanted.__name__}"
                raise ConfigError(f"engine: {name} must be {kind}, not {values[name]!r}")
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedCard:
    """What `agentix calibrate` has measured, for `agentix simulate --cost`.

    model            the name under which the engine served it
    measured_at      UTC, ISO 8601
    agentix_version  what measured it
    engine           the engine's own settings, which a simulation takes over unless told otherwise
    cost             step times, with the quality of the fit
    call_overhead_s  seconds of an idle engine's call that are in none of its steps: HTTP, tokenizer, queues between
                     processes, and the way back
    """

    model: str
    measured_at: str
    agentix_version: str
    engine: EngineFacts
    cost: FittedCost
    call_overhead_s: float

    def to_mapping(self) -> dict[str, Any]:
        """The inverse of `from_mapping`, ready for JSON."""
        return {"schema": SCHEMA, **asdict(self), "cost": self.cost.to_mapping()}

    @classmethod
    def from_mapping(cls, raw: Any) -> Self:
        """Build from parsed JSON. Raises ConfigError for an unknown, missing or wrong field, and names it."""
        values = _object(raw, "cost card", ("schema", *(field.name for field in fields(cls))))
        if (schema := values.pop("schema")) != SCHEMA:
            raise ConfigError(f"cost card: schema must be {SCHEMA!r}, not {schema!r}")
        for name in ("model", "measured_at", "agentix_version"):
            if not isinstance(values[name], str):
                raise ConfigError(f"cost card: {name} must be text, not {values[name]!r}")
        overhead_s = values["call_overhead_s"]
        if isinstance(overhead_s, bool) or not isinstance(overhead_s, int | float) or not 0 <= overhead_s < float("inf"):
            raise ConfigError(f"cost card: call_overhead_s must be 0 or more seconds, not {overhead_s!r}")
        values["engine"] = EngineFacts.from_mapping(values["engine"])
        values["cost"] = FittedCost.from_mapping(values["cost"])
        return cls(**values)


def load_card(path: Path | str) -> CalibratedCard:
    """Read a card. Raises ConfigError, which names the file, for one that cannot be read or is none."""
    path = Path(path)
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from None
    try:
        return CalibratedCard.from_mapping(raw)
    except (ValueError, ConfigError) as error:
        raise ConfigError(f"{path}: {error}") from None


def save_card(card: CalibratedCard, path: Path | str) -> None:
    """Write a card in one step: the file is the old one or the whole new one."""
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(card.to_mapping(), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    partial.replace(path)


def _object(raw: Any, what: str, names: tuple[str, ...]) -> dict[str, Any]:
    """`raw` as a dictionary with exactly the fields `names`."""
    if not isinstance(raw, Mapping):
        raise ConfigError(f"{what}: an object is expected, not {raw!r}")
    for key in raw:
        if key not in names:
            raise unknown_name(f"{what} field", str(key), names)
    for name in names:
        if name not in raw:
            raise ConfigError(f"{what} field {name!r} is missing")
    return dict(raw)
