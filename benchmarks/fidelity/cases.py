"""What is measured and predicted, and the files in which it is kept."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from agentix.cost import EngineFacts, Step

# Programs per second that the engine completes when 24 arrive at once, measured beforehand.
SATURATION_PER_S = {"react_hotpotqa_fireact": 0.25, "mtbench101_chat": 0.17}
POLICIES = ("fcfs", "plas")
# Sitting → share of saturation → programs. Each sitting has a folder of its own, with the card that was measured in it.
SITTINGS: Mapping[str, Mapping[float, int]] = {
    "loaded-machine": {1.3: 40, 0.7: 32},
    "quiet-machine": {1.0: 32},
    "low-load": {0.5: 30},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run of the real engine. `repeat` counts runs of the same programs and arrivals."""

    workload: str  # a trace file's name without its endings
    policy: str
    load: float
    num_programs: int
    seed: int
    repeat: int = 1

    @property
    def name(self) -> str:
        """What its files are called."""
        repeat = f"-r{self.repeat}" if self.repeat > 1 else ""
        return f"{self.workload.partition('_')[0]}-{self.policy}-{self.load:g}{repeat}"

    @property
    def rate_per_s(self) -> float:
        """Programs per second."""
        return self.load * SATURATION_PER_S[self.workload]


def cases_of(sitting: str) -> list[Case]:
    """Two workloads × the loads × two policies; then the overloaded ones, which differ most from run to run, again."""
    once = [
        Case(workload=workload, policy=policy, load=load, num_programs=num_programs, seed=seed)
        for seed, workload in enumerate(SATURATION_PER_S, start=11)
        for load, num_programs in SITTINGS[sitting].items()
        for policy in POLICIES
    ]
    return [*once, *(replace(case, repeat=2) for case in once if case.load > 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a run of the real engine gave: everything that a prediction is compared with.

    jct_s, token_latency_s  of every program, in order of arrival
    steps                   every step: its work, when it began (in s, the first at 0), how many seconds it took
    """

    case: Case
    started_at: str
    engine: EngineFacts
    jct_s: Sequence[float]
    token_latency_s: Sequence[float]
    prompt_tokens: int
    cached_tokens: int
    steps: Sequence[tuple[Step, float, float]]

    def save(self, path: Path) -> None:
        """Write as compressed JSON; equal results give equal bytes."""
        document = asdict(self)
        document["steps"] = [[*asdict(step).values(), *times] for step, *times in self.steps]
        path.write_bytes(gzip.compress(json.dumps(document).encode(), mtime=0))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        document: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
        document["case"] = Case(**document["case"])
        document["engine"] = EngineFacts.from_mapping(document["engine"])
        names = tuple(Step.__dataclass_fields__)
        document["steps"] = [(Step(**dict(zip(names, row[:-2], strict=True))), *row[-2:]) for row in document["steps"]]
        return cls(**document)
