"""What one gateway knows of a program that is shared: its own account, the others', and what holds whoever says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agentix.cluster.table_record import COMMON, Account, Totals, Versioned
from agentix.core.program import ProgramRow

Told = tuple[str, int, str, list[float], list[tuple[str, int, Any]]]
"""What is told of a program: its id, its life, the account's name ("": none) and numbers, and (name, version, value) of
what is common."""


@dataclass(slots=True, kw_only=True)
class SharedProgram:
    """Changed by the `Ledger` alone.

    account   the name of our account; `told`: others may know of it
    own       what the account says; while there is a row, what the row has beyond the others'
    others    the accounts of other gateways, and earlier ones of ours; `elsewhere` is their sum
    row       the row that stands for the program; None: there is none, or it is of an earlier life
    common    what holds, by name; `local`: the row's own values when they were last compared with it
    changed_s when something of it was last told or heard
    """

    program_id: str
    account: str
    changed_s: float
    told: bool = False
    life: int = 0
    own: Account = field(default_factory=Account)
    others: dict[str, Account] = field(default_factory=dict)
    elsewhere: Totals = field(default_factory=Totals)
    row: ProgramRow | None = None
    common: dict[str, Versioned] = field(default_factory=dict)
    local: dict[str, Any] = field(default_factory=dict)

    @property
    def has_accounts(self) -> bool:
        """Whether anybody has seen anything of it in this life."""
        return bool(self.others) or self.own != Account()

    @property
    def critical_path_s(self) -> float:
        """The longest path of service that any gateway has seen."""
        return max([self.own.critical_path_s, *(a.critical_path_s for a in self.others.values())])

    def begin_life(self, life: int) -> None:
        """The program is over; what comes is a new one of the same id."""
        self.life = life
        self.own, self.others, self.elsewhere = Account(), {}, Totals()
        self.row, self.common, self.local = None, {}, {}

    def settle(self, local: Mapping[str, Any]) -> None:
        """Bring our account, and the versions of what is common, up to the row, of which `local` are the values now."""
        if self.row is None:
            self.own = replace(self.own, num_active=0)
            return
        totals = Totals.of(self.row).beyond(self.elsewhere)
        self.own = Account(totals, self.row.critical_path_s, len(self.row.calls))
        for name, value in local.items():
            if value != self.local.get(name, COMMON[name]):
                self.local[name] = value
                known = self.common.get(name)
                self.common[name] = Versioned(known.version + 1 if known else 1, value)

    def tell(self) -> Told:
        """What is to be told of it."""
        if self.row is None and self.own == Account():
            return self.program_id, self.life, "", [], []
        common = [(name, said.version, said.value) for name, said in self.common.items()]
        return self.program_id, self.life, self.account, self.own.to_json(), common

    def hear(self, accounts: Mapping[str, Account]) -> bool:
        """Take over the others' accounts; whether they say anything that was not known."""
        is_news = False
        for name, account in accounts.items():
            known = self.others.get(name)
            if name != self.account and account.after(known) != known:
                self.others[name] = account.after(known)
                is_news = True
        if is_news:
            self.elsewhere = Totals()
            for account in self.others.values():
                self.elsewhere += account.totals
        return is_news

    def adopt(self, common: Mapping[str, Versioned]) -> dict[str, Any]:
        """Take over what is newer than what we have, or as new and the server's; those values, by name."""
        adopted = {}
        for name, said in common.items():
            ours = self.common.get(name)
            if ours is None or said.version > ours.version or (said.version == ours.version and said != ours):
                self.common[name] = said
                adopted[name] = said.value
        return adopted
