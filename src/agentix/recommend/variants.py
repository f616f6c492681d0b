"""The same programs on other days: what a result must hold on before it is more than a coincidence."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agentix.core.errors import ConfigError
from agentix.recommend.config import RecommendConfig
from agentix.sim.plan import SimulationConfig
from agentix.workload import Program, load_programs, save_programs


class Variants:
    """Simulations of one trace, by number: other draws of when which program arrives. Equal numbers are equal days.

    With recorded arrivals number 0 is the trace as it is; in the others the programs have changed places among the recorded
    moments, so bursts and quiet hours stay where they were. With a rate, every number is a draw of order and arrivals.
    `folder` takes the changed traces; it must outlive the simulations. Raises ConfigError for a trace without programs, or
    without arrivals where there is no rate.
    """

    def __init__(self, config: RecommendConfig, folder: Path) -> None:
        self._config = config
        self._folder = folder
        self._programs = load_programs(config.trace)
        if not self._programs:
            raise ConfigError(f"{config.trace}: the trace holds no programs")
        unknown = next((program.program_id for program in self._programs if program.arrival_s is None), None)
        if config.rate_per_s is None and unknown is not None:
            raise ConfigError(f"{config.trace}: nobody knows when program {unknown!r} arrived: give a rate of arrivals")

    @property
    def programs(self) -> Sequence[Program]:
        """The programs of the trace."""
        return self._programs

    def simulation(self, number: int) -> SimulationConfig:
        """That variant of what is in use now."""
        base = replace(self._config.simulation(), num_programs=len(self._programs))
        if self._config.rate_per_s is not None:
            return replace(base, seeds=(number,))
        if number == 0:
            return base
        path = self._folder / f"variant-{number}.jsonl"
        if not path.exists():
            save_programs(path, rearranged(self._programs, number))
        return replace(base, workload=str(path))


def rearranged(programs: Sequence[Program], seed: int) -> list[Program]:
    """The programs, each at the recorded arrival of another (or its own), by chance; the same for a seed."""
    arrivals_s = [program.arrival_s for program in programs]
    random.Random(f"{seed}/arrivals").shuffle(arrivals_s)  # noqa: S311 - not for secrets
    return [replace(program, arrival_s=arrival_s) for program, arrival_s in zip(programs, arrivals_s, strict=True)]
