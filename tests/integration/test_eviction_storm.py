"""A storm of evictions: quanta below a step, KV for a quarter of the calls, clients that leave all at once. Without a model."""

from __future__ import annotations

import random
from typing import Any

import pytest

from benchmarks.without_model.scheduler import STEP_S
from parking_load import Load

pytestmark = pytest.mark.engine

# A call sinks with each step until it is in the last level, so whoever arrives takes the slots and KV of whoever runs.
STORM = {"quanta_s": [STEP_S / 8, STEP_S / 4, STEP_S / 2, STEP_S], "starvation_ratio": 4.0}
OPTIONS = {"num_slots": 8, "num_blocks": 41, "max_batch_tokens": 64, "watermark": 0.0}
NUM_STEPS = 400
MAX_WAITING = 40
BURSTS = (0, 0, 0, 1, 1, 2, 12)
"""Calls that come before a step, one of these at random; a call has up to 32 tokens, which are 8 of the 40 blocks."""


class Storm:
    """Calls in bursts at one engine; after each step somebody must be better off than before."""

    def __init__(self, load: Load, rng: random.Random) -> None:
        self.load = load
        self._rng = rng
        self._num_idle = 0  # steps in a row that yielded nothing although there were calls

    def blow(self) -> None:
        """Calls come and go, then a step."""
        for _ in range(self._rng.choice(BURSTS) if len(self._live) < MAX_WAITING else 0):
            self.load.arrive(self._rng.randrange(1000))
        if self._rng.random() < 0.1:
            self.load.act("abort", self._rng.randrange(1000))
        if self._rng.random() < 0.01:
            for _ in self._live:
                self.load.act("abort", 0)
        self.step()

    def step(self) -> None:
        """One turn of the engine's loop. A prompt fits one step and two are in flight, so every third yields a token."""
        before = self._num_yielded
        self.load.act("step", 0)
        self._num_idle = self._num_idle + 1 if self._live and self._num_yielded == before else 0
        assert self._num_idle <= 2, "calls are switched, and nobody gets on"

    @property
    def _live(self) -> list[str]:
        return list(self.load.engine.scheduler.requests)

    @property
    def _num_yielded(self) -> int:
        return sum(map(len, self.load.engine.answers.values()))


@pytest.mark.parametrize("weigh_evictions", [True, False])
@pytest.mark.parametrize("spare_states", [None, 2])
@pytest.mark.parametrize("overlap", [True, False])
def test_calls_that_take_each_other_s_kv_all_the_time_end_all_the_same(
    overlap: bool, spare_states: int | None, weigh_evictions: bool
) -> None:
    """Every call ends in one way and with its own tokens, no block is lost, and each step brings somebody on."""
    settings: dict[str, Any] = STORM | {"policy": "plas", "preemption": "park", "weigh_evictions": weigh_evictions}
    load = Load.on(settings, OPTIONS | {"overlap": overlap, "spare_states": spare_states})
    storm = Storm(load, random.Random(7))
    for _ in range(NUM_STEPS):
        storm.blow()
    while load.engine.scheduler.requests:
        storm.step()
    load.finish()
    counts = load.engine.scheduler._parking.counts
    assert counts.num_evictions > NUM_STEPS / 8
