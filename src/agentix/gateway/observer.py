"""Who is told how calls fare: metrics, traces, the log of calls. They listen; a call goes on as if nobody did."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from agentix.core.program import ProgramRow

if TYPE_CHECKING:
    from agentix.gateway.exchange import Call
    from agentix.gateway.identity import Turn

logger = logging.getLogger(__name__)


class Observer:
    """Told what happens to every call of a program, as it happens: `now` is a moment on the monotonic clock.

    Of one call: `arrived`, then `held` as often as the reason changes, `sent` (again for every further engine that it is
    tried on), `first_token` if its answer is a stream that says something, `answered`, and `over`. A call may be over from any
    of these states; it is over once. The table knows the call from before `arrived` until after `over`.

    Methods run in the event loop in the middle of a call: they take microseconds and never wait. A listener implements
    those that it wants. Nothing of a prompt, an answer or a key may leave it.
    """

    def arrived(self, call: Call, now: float) -> None:
        """The call is in the table."""

    def held(self, call: Call, reason: str, now: float) -> None:
        """It is not sent yet; `reason` says why in words."""

    def sent(self, call: Call, engine_id: str, now: float) -> None:
        """It is on its way to the engine."""

    def first_token(self, call: Call, now: float) -> None:
        """The first piece of its answer is here."""

    def answered(self, call: Call, answers: Sequence[tuple[Turn, ...]]) -> None:
        """What the engine wrote, once for each of its choices; before `over`, if anything of it can be read."""

    def over(self, call: Call, now: float) -> None:
        """It has come out; `call.outcome`, `call.reason` and `call.account` say how."""

    def program_changed(self, row: ProgramRow, now: float) -> None:
        """Somebody has opened the program, or given it another weight."""

    def program_ended(self, program_id: str, now: float) -> None:
        """Somebody says that the program is over; its row is still there, and its active calls go on."""

    def program_over(self, row: ProgramRow) -> None:
        """The program is over, and so are all its calls. A program may be over without ever having made one."""

    def close(self) -> None:
        """The gateway has stopped. Runs in a thread of its own, and may take a few seconds."""


class Observers(Observer):
    """All listeners, told in order what they have a method for. One that raises is told nothing more, and the call goes on."""

    def __init__(self, observers: Iterable[Observer]) -> None:
        self._observers = tuple(observers)
        self._listeners: dict[str, list[Observer]] = {}  # by what they listen to

    def arrived(self, call: Call, now: float) -> None:  # noqa: D102 - of Observer, as are those below
        self._tell("arrived", call, now)

    def held(self, call: Call, reason: str, now: float) -> None:  # noqa: D102
        self._tell("held", call, reason, now)

    def sent(self, call: Call, engine_id: str, now: float) -> None:  # noqa: D102
        self._tell("sent", call, engine_id, now)

    def first_token(self, call: Call, now: float) -> None:  # noqa: D102
        self._tell("first_token", call, now)

    def answered(self, call: Call, answers: Sequence[tuple[Turn, ...]]) -> None:  # noqa: D102
        self._tell("answered", call, answers)

    def over(self, call: Call, now: float) -> None:  # noqa: D102
        self._tell("over", call, now)

    def program_changed(self, row: ProgramRow, now: float) -> None:  # noqa: D102
        self._tell("program_changed", row, now)

    def program_ended(self, program_id: str, now: float) -> None:  # noqa: D102
        self._tell("program_ended", program_id, now)

    def program_over(self, row: ProgramRow) -> None:  # noqa: D102
        self._tell("program_over", row)

    def close(self) -> None:  # noqa: D102
        self._tell("close")

    def _tell(self, what: str, *told: object) -> None:
        if what not in self._listeners:
            self._listeners[what] = [o for o in self._observers if getattr(type(o), what) is not getattr(Observer, what)]
        for observer in self._listeners[what]:
            try:
                getattr(observer, what)(*told)
            except Exception:
                logger.exception("%s has failed and is told nothing more", type(observer).__name__)
                self._observers = tuple(o for o in self._observers if o is not observer)
                self._listeners = {}
