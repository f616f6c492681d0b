"""What becomes of the calls of an arm: told by its gateway, read by the screen, the result and the picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentix.gateway.observer import Observer
from agentix.sim.timeline import CallSpans

if TYPE_CHECKING:
    from agentix.gateway.exchange import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A program at a moment: its calls by state, and how long they have waited at the gateway in sum, in seconds."""

    num_done: int
    num_running: int
    num_held: int
    waited_s: float


class Watch(Observer):
    """The calls of one arm, in seconds since `begin`. Their programs are called `NAME` and whatever follows `suffix`.

    A call is taken to be served from the moment when it is sent to the server until its answer is complete.
    """

    def __init__(self, suffix: str) -> None:
        self.calls: dict[str, CallSpans] = {}  # in order of arrival
        self.began_s = 0.0
        self._suffix = suffix
        self._sent_s: dict[str, float] = {}  # of calls that are with the server

    @property
    def end_s(self) -> float:
        """When the last call was over."""
        return max((call.ended_s for call in self.calls.values() if call.ended_s is not None), default=0.0)

    def arrived(self, call: Call, now: float) -> None:  # noqa: D102 - of Observer, as are those below
        name = call.identity.shown_id.removesuffix(self._suffix)
        at_s = now - self.began_s
        self.calls[call.key] = CallSpans(call_id=f"{name}/{call.call_id}", program_id=name, engine_id="server", arrived_s=at_s)

    def sent(self, call: Call, engine_id: str, now: float) -> None:  # noqa: D102
        self._sent_s[call.key] = now - self.began_s

    def over(self, call: Call, now: float) -> None:  # noqa: D102
        spans, at_s = self.calls[call.key], now - self.began_s
        spans.ended_s = at_s
        if (sent_s := self._sent_s.pop(call.key, None)) is not None:
            spans.served.append((sent_s, at_s))

    def of(self, name: str) -> Sequence[CallSpans]:
        """The program's calls, in order of arrival."""
        return [call for call in self.calls.values() if call.program_id == name]

    def standing(self, name: str, now_s: float) -> Standing:
        """The program at that moment of the arm."""
        calls = [(key, call) for key, call in self.calls.items() if call.program_id == name]
        running = [key for key, call in calls if key in self._sent_s]
        held = [call for key, call in calls if call.ended_s is None and key not in self._sent_s]
        waited_s = sum(end_s - begin_s for _, call in calls for begin_s, end_s in call.waits())
        waited_s += sum(self._sent_s[key] - self.calls[key].arrived_s for key in running)
        waited_s += sum(now_s - call.arrived_s for call in held)
        num_done = sum(call.ended_s is not None for _, call in calls)
        return Standing(num_done=num_done, num_running=len(running), num_held=len(held), waited_s=waited_s)
