"""How fast this engine computes prompts, learnt from its own steps."""

from __future__ import annotations

_SHARE = 0.02  # of the newest step in the running means: they forget a step within a few hundred


class PrefillPace:
    """A running estimate of the seconds that a token of a prompt adds to a step.

    A step that only decodes tells what a step takes without prompts; by what another takes longer, that is its prompts'. Of
    each call's tokens one counts as decoded. Until a prompt has been computed the estimate is 0.
    """

    def __init__(self) -> None:
        self._decode_s: float | None = None
        self._prefill_s = 0.0
        self._num_tokens = 0.0

    def note(self, duration_s: float, *, num_calls: int, num_tokens: int) -> None:
        """A step of so many calls and tokens took so long."""
        num_prefill_tokens = num_tokens - num_calls
        if num_prefill_tokens > 0:
            self._prefill_s += duration_s - (self._decode_s or 0.0) - _SHARE * self._prefill_s
            self._num_tokens += num_prefill_tokens - _SHARE * self._num_tokens
        elif self._decode_s is None:
            self._decode_s = duration_s
        else:
            self._decode_s += _SHARE * (duration_s - self._decode_s)

    @property
    def s_per_token(self) -> float:
        """The estimate: seconds over tokens, both summed with older steps fading."""
        return max(0.0, self._prefill_s / self._num_tokens) if self._num_tokens else 0.0
