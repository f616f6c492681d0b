"""What program scheduling costs per step: our plug-in's time in vLLM's scheduler over stock's, without a model.

`python -m benchmarks.scheduler_overhead` runs both schedulers in turns, in one process, in steady decode: a fixed number of
calls runs, others wait, and a share of those that run ends with each step and is replaced by new ones. A step is timed
from the arrival of its new calls through `schedule` to the end of `update_from_output`. Needs vLLM; no model is loaded.
Policies that hold programs back get an engine whose KV cache has room for the contexts of about twice as many programs as run.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
from itertools import product
from typing import Any

from agentix.core.config import SchedulerConfig
from agentix.core.policies import make_policy
from benchmarks.without_model.runner import STOP_TOKEN
from benchmarks.without_model.scheduler import Engine

PROMPT_TOKENS = 64
BLOCK_SIZE = 16
STEP_S = 0.02  # on the clock that the plug-in sees


class SteadyDecode:
    """One scheduler at `num_slots` running and `num_waiting` waiting calls; `step` returns the seconds it took.

    Calls belong to four times as many programs as are active at once, in random order, so that programs come back with
    the service they have had and all levels are in use. The same seed gives both schedulers the same calls and endings.
    """

    def __init__(
        self, agentix: dict[str, Any] | None, num_slots: int, num_waiting: int, ending_share: float, num_blocks: int
    ) -> None:
        self._engine = Engine(
            agentix,
            num_slots=num_slots,
            num_blocks=num_blocks,
            block_size=BLOCK_SIZE,
            max_model_len=4096,
            max_batch_tokens=8192,
        )
        self._random = random.Random(7)  # noqa: S311 - not for secrets
        self._ending_share = ending_share
        self._num_calls = 0
        self._num_active = num_slots + num_waiting
        self._in_flight: list[Any] = []
        for _ in range(self._num_active):
            self._engine.scheduler.add_request(self._make_call())

    @property
    def num_parks(self) -> int:
        """How often a call has stood aside so far."""
        parking = self._engine.scheduler._parking
        return int(parking.counts.num_parks) if parking is not None else 0

    @property
    def num_held(self) -> int:
        """How many programs are held back now."""
        return len(self._engine.scheduler.core.holding.held)

    def _make_call(self) -> Any:
        self._num_calls += 1
        prompt = [self._random.randrange(1, 200) for _ in range(PROMPT_TOKENS)]
        program = f"program-{self._random.randrange(4 * self._num_active)}"
        return self._engine.make(f"call-{self._num_calls}", prompt, max_tokens=2000, program=program)

    def step(self) -> float:
        """One step; another is in flight meanwhile, as in vLLM's engine."""
        scheduler = self._engine.scheduler
        arriving = [self._make_call() for _ in range(self._num_active - len(scheduler.requests))]
        began = time.thread_time()
        for request in arriving:
            scheduler.add_request(request)
        output = scheduler.schedule()
        scheduled = time.thread_time()
        self._in_flight.append(output)
        if len(self._in_flight) < 2:
            return 0.0
        oldest = self._in_flight.pop(0)
        self._engine.now += STEP_S
        returned = self._engine.returned({i: [self._token()] for i in oldest.num_scheduled_tokens})
        returning = time.thread_time()
        scheduler.update_from_output(oldest, returned)
        return (scheduled - began) + (time.thread_time() - returning)

    def _token(self) -> int:
        return STOP_TOKEN if self._random.random() < self._ending_share else 1


def compare(
    num_slots: int, num_waiting: int, *, policy: str, preemption: str, ending_share: float, num_rounds: int, num_steps: int
) -> dict[str, Any]:
    """Both schedulers, step by step in turns; median and quartiles over rounds of the ratio of their median steps.

    Work that is done once in many steps does not show in a median; `mean` is the ratio of all their time.
    """
    settings = SchedulerConfig.from_mapping({"policy": policy})
    arms = {"stock": None, "ours": {"policy": policy, "preemption": preemption}}
    # A call rarely lives for 500 tokens; 131 at a time on average, and a new one is taken to need as much.
    num_blocks = num_slots * (16 if make_policy(settings).holds_programs else 82)
    loads = {name: SteadyDecode(agentix, num_slots, num_waiting, ending_share, num_blocks) for name, agentix in arms.items()}
    gc.collect()
    gc.freeze()
    took: dict[str, list[float]] = {name: [] for name in arms}
    total_s = dict.fromkeys(arms, 0.0)
    for round_number in range(num_rounds + 1):
        steps: dict[str, list[float]] = {name: [] for name in arms}
        for _ in range(num_steps):
            for name, load in loads.items():
                steps[name].append(load.step())
        if round_number:  # the first fills the batch
            for name in arms:
                took[name].append(statistics.median(steps[name]))
                total_s[name] += sum(steps[name])
    ratios = [ours / stock for ours, stock in zip(took["ours"], took["stock"], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return {
        "policy": policy,
        "preemption": preemption,
        "running": num_slots,
        "waiting": num_waiting,
        "stock_ms": 1000 * statistics.median(took["stock"]),
        "ours_ms": 1000 * statistics.median(took["ours"]),
        "ratio": middle,
        "quartiles": (low, high),
        "mean": total_s["ours"] / total_s["stock"],
        "held": loads["ours"].num_held,
        "parks_per_step": loads["ours"].num_parks / (num_steps * (num_rounds + 1)),
    }


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--waiting", type=int, nargs="*", default=[0, 1000, 10000])
    parser.add_argument("--policy", nargs="*", default=["plas", "gittins"])
    parser.add_argument("--preemption", nargs="*", default=["park", "none"])
    parser.add_argument("--running", type=int, default=256)
    parser.add_argument("--ending-share", type=float, default=0.015, help="of the running calls, per step")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()
    print("policy   preemption running waiting  stock ms  ours ms  ratio  (quartiles)     mean  parks/step programs held")
    for policy, preemption, num_waiting in product(args.policy, args.preemption, args.waiting):
        r = compare(
            args.running,
            num_waiting,
            policy=policy,
            preemption=preemption,
            ending_share=args.ending_share,
            num_rounds=args.rounds,
            num_steps=args.steps,
        )
        print(
            f"{policy:8} {preemption:10} {r['running']:7} {r['waiting']:7} {r['stock_ms']:9.3f} {r['ours_ms']:8.3f}"
            f" {r['ratio']:6.3f}  ({r['quartiles'][0]:.3f}-{r['quartiles'][1]:.3f}) {r['mean']:7.3f} {r['parks_per_step']:8.2f}"
            f" {r['held']:9}",
            flush=True,
        )


if __name__ == "__main__":
    main()
