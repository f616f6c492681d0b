"""What gateways tell each other of a program: each its own account, and what holds for the program whoever says it.

An account is what one gateway alone has seen of the program, from the beginning: never a difference. Telling it twice, late or
again after a break changes nothing, and the program's totals are the sum over all accounts (a grow-only counter; M. Shapiro
et al., *Conflict-free Replicated Data Types*, SSS 2011).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from agentix.core.program import MAX_WEIGHT, MIN_WEIGHT, ProgramRow

logger = logging.getLogger(__name__)

ACCOUNT = "a:"
"""Names of accounts begin with it; behind it the gateway, a dot and a number that the gateway never uses twice."""

_ROUNDING_S = 1e-9

COMMON: Mapping[str, Any] = {"home": "", "weight": 1.0, "class": ""}
"""What holds for a program whoever says it, and what holds if nobody does. Home is the engine's address."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What a program has had, in seconds and calls that are over."""

    service_s: float = 0.0
    waiting_s: float = 0.0
    num_finished: int = 0
    num_aborted: int = 0

    @classmethod
    def of(cls, row: ProgramRow) -> Self:
        """Those of a row."""
        return cls(row.service_s, row.waiting_s, row.num_finished, row.num_aborted)

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.service_s + other.service_s,
            self.waiting_s + other.waiting_s,
            self.num_finished + other.num_finished,
            self.num_aborted + other.num_aborted,
        )

    def at_least(self, other: Totals) -> Totals:
        """The larger of each."""
        return Totals(
            max(self.service_s, other.service_s),
            max(self.waiting_s, other.waiting_s),
            max(self.num_finished, other.num_finished),
            max(self.num_aborted, other.num_aborted),
        )

    def beyond(self, other: Totals) -> Totals:
        """What these have beyond others; where they have less, nothing. Less than a nanosecond is rounding, and nothing."""
        return Totals(
            _more(self.service_s, other.service_s),
            _more(self.waiting_s, other.waiting_s),
            max(0, self.num_finished - other.num_finished),
            max(0, self.num_aborted - other.num_aborted),
        )


def _more(this_s: float, that_s: float) -> float:
    return this_s - that_s if this_s - that_s > _ROUNDING_S else 0.0


@dataclass(frozen=True, slots=True)
class Account:
    """What one gateway has seen of a program, and how many of its calls are active there."""

    totals: Totals = Totals()
    critical_path_s: float = 0.0
    num_active: int = 0

    def to_json(self) -> list[float]:
        """A list of numbers."""
        t = self.totals
        return [t.service_s, t.waiting_s, self.critical_path_s, t.num_finished, t.num_aborted, self.num_active]

    @classmethod
    def from_json(cls, said: Any) -> Self:
        """The inverse. Raises ValueError or TypeError for anything else."""
        if not all(0 <= number < math.inf for number in said):
            raise ValueError(f"an account has no such numbers: {said}")
        service_s, waiting_s, critical_path_s, num_finished, num_aborted, num_active = said
        totals = Totals(float(service_s), float(waiting_s), int(num_finished), int(num_aborted))
        return cls(totals, float(critical_path_s), int(num_active))

    def after(self, before: Account | None) -> Account:
        """This account where another state of it is known already: what a gateway has seen is never less than before."""
        if before is None:
            return self
        critical_path_s = max(before.critical_path_s, self.critical_path_s)
        return Account(self.totals.at_least(before.totals), critical_path_s, self.num_active)


@dataclass(frozen=True, slots=True)
class Versioned:
    """Something that holds for the program: who changes it counts the version up. Of two with one version the first holds."""

    version: int
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """All that is shared of a program.

    life      how often somebody has said that the program is over; what is told of an earlier life is void
    accounts  by name, see ACCOUNT
    common    see COMMON
    """

    life: int = 0
    accounts: Mapping[str, Account] = field(default_factory=dict)
    common: Mapping[str, Versioned] = field(default_factory=dict)

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        """As the server tells it. Raises ValueError, TypeError or KeyError for what is no record."""
        accounts = {name: Account.from_json(value) for name, value in said.items() if name.startswith(ACCOUNT)}
        common = {name: _versioned(name, said[name]) for name in COMMON if name in said}
        return cls(life=int(said["life"]), accounts=accounts, common=common)


def _versioned(name: str, said: Any) -> Versioned:
    version, value = said
    is_good = MIN_WEIGHT <= value <= MAX_WEIGHT if name == "weight" else isinstance(value, str)
    if not is_good:
        raise ValueError(f"no program has the {name} {value!r}")
    return Versioned(int(version), value)


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What the server tells in one exchange.

    server    which server and which table it is: one that has been started again, or emptied, may have forgotten things
    number    of the last change that is in the news
    has_more  there are more changes
    records   of programs that have changed, by id, as they were before this exchange
    loads     the other gateways that are alive, and how many calls each has in the engines, by the engine's address
    """

    server: str
    number: int
    has_more: bool
    records: Mapping[str, Record]
    loads: Mapping[str, Mapping[str, int]]

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        """As the server tells it. Raises ValueError, TypeError or KeyError for anything else."""
        return cls(
            server=str(said["server"]),
            number=int(said["number"]),
            has_more=bool(said["more"]),
            records=_records(said["records"]),
            loads=said["gateways"],
        )


def _records(said: Mapping[str, Any]) -> dict[str, Record]:
    """Those that can be read: one that cannot must not keep the others from us."""
    records = {}
    for program_id, record in said.items():
        try:
            records[program_id] = Record.from_json(record)
        except (ValueError, TypeError, KeyError) as error:
            logger.warning("the shared table has a record that cannot be read (%s)", error)
    return records
