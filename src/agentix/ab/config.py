"""What to compare: settings, checked at once, and the runs that they make."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agentix.ab.arms import STOCK_FCFS, Arm
from agentix.core.errors import ConfigError
from agentix.engine.command import ENGINE_COMMAND, EngineOptions, engine_command, pinned


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """So many programs of one trace file."""

    trace: Path
    num_programs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run of one arm. `repeat` counts from 1; runs of a repeat have one seed, so the same programs and order."""

    arm: Arm
    repeat: int
    seed: int
    rate_per_s: float  # programs per second; inf: all at once
    load: float | None = None  # the rate as a multiple of saturation, if that is how it was asked for

    @property
    def name(self) -> str:
        """What its file is called, without ending."""
        return f"{self.point}-r{self.repeat}-{quote(self.arm.name, safe='')}"

    @property
    def point(self) -> str:
        """The load in a word: runs of one point are compared."""
        return f"rate{self.rate_per_s:g}" if self.load is None else f"load{self.load:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AbConfig:
    """A comparison. Raises ConfigError for what cannot be honoured, before anything starts.

    model              a directory, a hub name, or a built-in model's name
    arms               the first is what the others are compared with
    workload           programs of each trace in every run
    out                folder of the results
    rates_per_s        programs per second; or
    loads              multiples of the saturation; with neither, the saturation alone is measured
    saturation_per_s   in programs per second; None: measured first if it is needed
    num_repeats        runs of each arm at each point, each repeat with a seed of its own, from `seed` on
    vllm_args          passed on to vLLM in every arm
    timeout_s          per call; a call that waits longer has failed
    max_model_len      tokens that programs must fit; None: what the engine says
    context_margin     model tokens per token of the trace, at most
    engine_cpus        CPUs that the engine computes on, as `taskset -c` takes them; None: wherever it likes
    engine_command     what the engine's arguments are appended to; see EngineOptions
    """

    model: str
    workload: tuple[Share, ...]
    out: Path
    arms: tuple[Arm, ...] = (STOCK_FCFS,)
    rates_per_s: tuple[float, ...] = ()
    loads: tuple[float, ...] = ()
    saturation_per_s: float | None = None
    num_repeats: int = 3
    seed: int = 0
    vllm_args: tuple[str, ...] = ()
    resume: bool = False
    timeout_s: float = 3600.0
    max_model_len: int | None = None
    context_margin: float = 1.3
    start_timeout_s: float = 600.0
    engine_cpus: str | None = None
    engine_command: tuple[str, ...] = ENGINE_COMMAND

    def __post_init__(self) -> None:
        names = [arm.name for arm in self.arms]
        for kind, values in (("arms", names), ("rates", self.rates_per_s), ("loads", self.loads)):
            _refuse_twice(kind, values)
        if not self.arms or not self.workload:
            raise ConfigError("at least one arm and one trace are needed")
        if self.rates_per_s and self.loads:
            raise ConfigError("give rates or loads, not both")
        if self.saturation_per_s is not None and not self.loads:
            raise ConfigError("the saturation is for loads, which are multiples of it")
        if self.saturation_per_s is not None and not 0 < self.saturation_per_s < math.inf:
            raise ConfigError(f"the saturation must be above 0 programs/s, not {self.saturation_per_s}")
        for value in (*self.rates_per_s, *self.loads):
            if not value > 0:
                raise ConfigError(f"rates and loads must be above 0, not {value}")
        if self.num_repeats < 1:
            raise ConfigError(f"there must be at least 1 repeat, not {self.num_repeats}")
        if any(arg.replace("_", "-").startswith("--scheduling-policy") for arg in self.vllm_args):
            raise ConfigError("--scheduling-policy is what the arms differ in: choose stock-priority as an arm instead")
        for arm in self.arms:
            engine_command(self.engine_options(arm, self.model), 0)  # an argument that is not the user's to set

    @property
    def num_programs(self) -> int:
        """Programs of each run."""
        return sum(share.num_programs for share in self.workload)

    @property
    def needs_saturation(self) -> bool:
        """Whether the saturation is to be measured."""
        return not self.rates_per_s and self.saturation_per_s is None

    def engine_options(self, arm: Arm, model: str) -> EngineOptions:
        """How the arm's engine is started; `model` is the resolved one."""
        return EngineOptions(
            model=model,
            served_model_name=public_name(self.model),
            vllm_args=(*self.vllm_args, *arm.vllm_args),
            scheduler=arm.settings,
            command=pinned(self.engine_command, self.engine_cpus),
        )

    def saturation_case(self) -> Case:
        """All programs at once on stock vLLM."""
        return Case(arm=STOCK_FCFS, repeat=1, seed=self.seed, rate_per_s=math.inf)

    def cases(self, saturation_per_s: float | None) -> list[Case]:
        """Every run in order: repeat by repeat all points, at each all arms, which take turns in going first."""
        at_rates: list[tuple[float, float | None]] = [(rate_per_s, None) for rate_per_s in self.rates_per_s]
        at_loads = [(load * (saturation_per_s or 0.0), load) for load in self.loads]
        return [
            Case(arm=arm, repeat=repeat, seed=self.seed + repeat - 1, rate_per_s=rate_per_s, load=load)
            for repeat in range(1, self.num_repeats + 1)
            for rate_per_s, load in (*at_rates, *at_loads)
            for arm in _rotated(self.arms, repeat - 1)
        ]

    def document(self) -> dict[str, Any]:
        """For the result files: everything that decides what is measured but the case itself, and no path."""
        return {
            "model": public_name(self.model),
            "vllm_args": [_without_folder(arg) for arg in self.vllm_args],
            "num_programs": self.num_programs,
            "timeout_s": self.timeout_s,
            "max_model_len": self.max_model_len,
            "context_margin": self.context_margin,
            "engine_cpus": self.engine_cpus,
        }


def parse_workload(text: str, num_programs: int | None) -> tuple[Share, ...]:
    """Shares from `FILE[:NUM],…`: files without a number share equally what is left of `num_programs`. Raises ConfigError.

    What does not divide evenly goes to the first of them.
    """
    files: list[tuple[Path, int | None]] = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, number = item.rpartition(":")
        files.append((Path(name), int(number)) if name and number.isdecimal() else (Path(item), None))
    if not files:
        raise ConfigError("the workload names no trace file")
    given = sum(number or 0 for _, number in files)
    num_open = sum(number is None for _, number in files)
    total = given if num_programs is None and not num_open else num_programs
    if total is None:
        raise ConfigError("say how many programs to run: FILE:NUM for each file, or --programs")
    left = total - given
    if (num_open == 0 and left) or left < num_open:
        raise ConfigError(f"{total} programs cannot be shared out: {given} are given to files, {num_open} files have no number")
    equal = iter([left // num_open + (i < left % num_open) for i in range(num_open)] if num_open else [])
    shares = tuple(Share(trace=path, num_programs=next(equal) if number is None else number) for path, number in files)
    if any(share.num_programs < 1 for share in shares):
        raise ConfigError(f"every file must give at least 1 program: {text}")
    return shares


def json_rate(rate_per_s: float) -> float | None:
    """The rate for JSON, which has no infinity."""
    return rate_per_s if math.isfinite(rate_per_s) else None


def public_name(model: str) -> str:
    """The model without where it lies on this machine."""
    return Path(model).name if Path(model).is_dir() else model


def _without_folder(arg: str) -> str:
    """An argument for vLLM with a path in it, as the file's name alone."""
    flag, equals, value = arg.rpartition("=")
    return f"{flag}{equals}{Path(value).name}" if Path(value).is_absolute() else arg


def _rotated(arms: Sequence[Arm], by: int) -> list[Arm]:
    by %= len(arms)
    return [*arms[by:], *arms[:by]]


def _refuse_twice(kind: str, values: Iterable[Any]) -> None:
    seen = set()
    for value in values:
        if value in seen:
            raise ConfigError(f"{kind} hold {value!r} twice")
        seen.add(value)
