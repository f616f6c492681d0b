"""All runs of a comparison, one after the other. The door that the command line uses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from agentix.ab.compare import Run, read_run
from agentix.ab.config import AbConfig, Case, json_rate
from agentix.ab.measure import Watch, measure
from agentix.ab.mix import Trace, load_traces
from agentix.ab.report import summary_document
from agentix.ab.store import CASE, Store
from agentix.bench.errors import BenchError
from agentix.engine.launcher import state_dir
from agentix.engine.model import resolve_model

_SATURATION = "saturation"


class Observer(Watch, Protocol):
    """Told how a comparison goes."""

    def begin(self, case: Case, *, number: int, num_cases: int) -> None:
        """A run begins; `number` counts from 1."""

    def done(self, run: Run, *, was_there: bool) -> None:
        """A run is over, or its result was there already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbResult:
    """A finished or interrupted comparison."""

    document: dict[str, Any]
    runs: tuple[Run, ...]
    saturation_per_s: float | None
    is_complete: bool

    @property
    def exit_code(self) -> int:
        """130 if interrupted (as shells have it for Ctrl-C), 1 if a call failed, 0 otherwise."""
        if not self.is_complete:
            return 130
        return 1 if any(run.num_failed_calls for run in self.runs) else 0


def run_ab(config: AbConfig, observer: Observer) -> AbResult:
    """Do every run that has no result yet, and write each result when it is there.

    Ctrl-C ends it early: the run that is under way is dropped, its engine stopped, and what is complete is returned. Raises
    AgentixError when something cannot start or go on; the runs before it stay on disk, and `resume` goes on from there.
    """
    session = _Session(config, Store(folder=config.out, resume=config.resume), load_traces(config.workload), observer)
    try:
        asyncio.run(session.run())
        session.is_complete = True
    except KeyboardInterrupt:
        if not session.runs:
            raise
    finally:
        result = session.result()
        if result.runs or result.is_complete:
            session.store.save_summary(result.document)
    return result


class _Session:
    """What of a comparison outlives an interruption."""

    def __init__(self, config: AbConfig, store: Store, traces: Sequence[Trace], observer: Observer) -> None:
        self.store = store
        self.runs: list[Run] = []
        self.is_complete = False
        self._config = config
        self._traces = traces
        self._observer = observer
        self._saturation_per_s = config.saturation_per_s
        self._log_dir = state_dir()
        self._model: str | None = None

    def result(self) -> AbResult:
        document = summary_document(
            self._config,
            self._traces,
            self.runs,
            saturation_per_s=self._saturation_per_s,
            is_complete=self.is_complete,
        )
        return AbResult(
            document=document,
            runs=tuple(self.runs),
            saturation_per_s=self._saturation_per_s,
            is_complete=self.is_complete,
        )

    async def run(self) -> None:
        config = self._config
        num_before = int(config.needs_saturation)
        num_cases = num_before + len(config.cases(1.0))
        if config.needs_saturation:
            case = config.saturation_case()
            self._observer.begin(case, number=1, num_cases=num_cases)
            burst = await self._run_case(case, _SATURATION)
            if not burst.throughput_per_s:
                raise BenchError("no program ended well when all came at once: there is no saturation point to be found")
            self._saturation_per_s = burst.throughput_per_s
        for number, case in enumerate(config.cases(self._saturation_per_s), start=1 + num_before):
            self._observer.begin(case, number=number, num_cases=num_cases)
            self.runs.append(await self._run_case(case, case.name))

    async def _run_case(self, case: Case, name: str) -> Run:
        configuration = self._configuration(case)
        document = self.store.load(name, configuration)
        was_there = document is not None
        if document is None:
            document = await self._measure(case, name) | {CASE: configuration}
            self.store.save(name, document)
        run = read_run(case, document)
        self._observer.done(run, was_there=was_there)
        return run

    async def _measure(self, case: Case, name: str) -> dict[str, Any]:
        config, observer = self._config, self._observer
        if self._model is None:
            self._model = await asyncio.to_thread(resolve_model, config.model, on_progress=observer.phase)
        log_dir, out = self._log_dir / name, self.store.path(name)
        return await measure(config, case, self._traces, model=self._model, log_dir=log_dir, out=Path(out), watch=observer)

    def _configuration(self, case: Case) -> dict[str, Any]:
        """Everything that decides the outcome of the run."""
        return {
            **self._config.document(),
            "workload": [trace.document() for trace in self._traces],
            "arm": asdict(case.arm),
            "repeat": case.repeat,
            "seed": case.seed,
            "rate_per_s": json_rate(case.rate_per_s),
            "load": case.load,
        }
