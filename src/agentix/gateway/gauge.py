"""What is known of one engine's queue, and of what calls and prompts take there: measured, for balancers to weigh."""

from __future__ import annotations

import math
import re
from collections import deque
from dataclasses import dataclass

from agentix.gateway.concurrency import EngineLoad

_RECENT = 0.05  # weight of the call that ended last in the mean time of a call, as in the simulator
_NUM_PROMPTS = 64
_LONG_TOKENS = 128  # fewer that are computed take a step, however few they are: they tell nothing of what a token takes

# vLLM's histograms of finished calls: seconds from the first step to the first token, and tokens that were not cached.
_SUMS = (
    rb"vllm:request_prefill_time_seconds_sum",
    rb"vllm:request_prefill_kv_computed_tokens_sum",
    rb"vllm:request_prefill_kv_computed_tokens_count",
)
_SAMPLE = re.compile(rb"^(" + b"|".join(_SUMS) + rb")(?:\{.*\})?[ \t]+([0-9.eE+]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts that an engine has computed since it started: seconds, tokens, and how many prompts."""

    seconds: float
    num_tokens: float
    num_calls: float


def read_prompts(metrics: bytes) -> Prompts | None:
    """What vLLM's Prometheus text says of the prompts of calls that are over; None if it is not vLLM's."""
    sums = dict.fromkeys(_SUMS, 0.0)
    samples = _SAMPLE.findall(metrics)
    for name, value in samples:
        try:
            sums[name] += float(value)
        except ValueError:
            return None
    return Prompts(*sums.values()) if len({name for name, _ in samples}) == len(_SUMS) else None


class Gauge:
    """One engine, gauged. Pure: it is told, and has no clock. Every method takes constant time.

    call_s               how long the engine computed a call: mean, the calls that ended last counting most
    prefill_s_per_token  of a prompt's tokens that are not cached: the lower quartile of the last long prompts. Whatever else
                         is in the batch makes a prompt take longer, never shorter, so the mean would be too much
    None: not known yet.
    """

    def __init__(self) -> None:
        self.call_s: float | None = None
        self.prefill_s_per_token: float | None = None
        self._paces: deque[float] = deque(maxlen=_NUM_PROMPTS)
        self._answers_tell = False
        self._prompts: Prompts | None = None
        self._num_foreign = 0  # calls in it less those that we had sent, when it told its load
        self._num_waiting: int | None = None
        self._full_at: int | None = None

    def loaded(self, load: EngineLoad, num_sent: int) -> None:
        """The engine tells its load, while it has `num_sent` calls of ours.

        How many calls it runs when others wait is what it has room for, until it runs more. One call may wait for the next
        step in any case, and one more for each sixteen that run: see `Concurrency`.
        """
        self._num_foreign = load.num_running + load.num_waiting - num_sent
        self._num_waiting = load.num_waiting
        if load.num_waiting > 1 + load.num_running // 16:
            self._full_at = max(1, load.num_running)
        elif self._full_at is not None:
            self._full_at = max(self._full_at, load.num_running)

    def num_waiting(self, num_sent: int) -> int | None:
        """How many calls the engine lets wait now that it has `num_sent` of ours; None: it has never told.

        What it told last, with the calls that have come and gone since. Where it has never been full, those that came are
        taken to run.
        """
        if self._num_waiting is None:
            return None
        if self._full_at is None:
            return self._num_waiting
        return max(0, self._num_foreign + num_sent - self._full_at)

    def finished(self, service_s: float | None, prefill_s: float | None, num_computed: int | None) -> None:
        """A call has finished: computed for `service_s`, its prompt for `prefill_s`, of which `num_computed` tokens had to be.

        None: nobody has told.
        """
        if service_s is not None:
            self.call_s = service_s if self.call_s is None else self.call_s + _RECENT * (service_s - self.call_s)
        if prefill_s is not None and num_computed is not None:
            self._answers_tell = True
            self._note(prefill_s, num_computed)

    def prompts_computed(self, prompts: Prompts) -> None:
        """The engine tells what all its prompts have taken: for want of better, where answers say nothing of each."""
        before, self._prompts = self._prompts, prompts
        num_calls = prompts.num_calls - before.num_calls if before is not None else 0.0
        if before is None or self._answers_tell or num_calls <= 0:  # less than before: it was started anew
            return
        self._note((prompts.seconds - before.seconds) / num_calls, (prompts.num_tokens - before.num_tokens) / num_calls)

    def _note(self, prefill_s: float, num_tokens: float) -> None:
        if math.isfinite(num_tokens) and num_tokens >= _LONG_TOKENS and 0 <= prefill_s < math.inf:
            self._paces.append(prefill_s / num_tokens)
            self.prefill_s_per_token = sorted(self._paces)[len(self._paces) // 4]
