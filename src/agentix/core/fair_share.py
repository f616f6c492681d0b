"""Whose turn is it? Service shared between tenants by weight, whatever number of programs each of them has."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from agentix.core.errors import InvalidTransition


@dataclass(slots=True)
class _Account:
    """What a tenant has had: seconds of service ÷ weight up to `since_s`, and how many of its calls are served since then."""

    attained_s: float = 0.0
    since_s: float = 0.0
    weight: float = 1.0
    num_active: int = 0
    num_running: int = 0

    def at(self, now: float) -> float:
        """The account as of `now`: every running call adds a second per second."""
        return self.attained_s + self.num_running * (now - self.since_s) / self.weight

    def settle(self, now: float) -> None:
        self.attained_s, self.since_s = self.at(now), now


class FairShare:
    """The tenant with the least attained service ÷ weight goes first; who has none running goes before who has, in a tie.

    A tenant that was idle has banked nothing: when it comes back its account is no less than the least of those that
    are active, or the largest of all if none is (start-time fair queueing: Goyal, Vin, Cheng, SIGCOMM 1996). What it had
    beyond that stays with it, so that nothing is gained by coming and going.

    Tenants that always have calls waiting get service in proportion to their weights, to within what their running calls
    take: no call is taken off for another tenant. `turn` is O(candidates), everything else O(tenants) at most.
    """

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}

    def arrived(self, tenant: str, weight: float, now: float) -> None:
        """A call of the tenant is there, waiting; `weight` is the tenant's from now on."""
        if not 0 < weight < math.inf:
            raise InvalidTransition(f"the weight of tenant {tenant!r} must be a positive number, not {weight!r}")
        account = self._accounts.setdefault(tenant, _Account())
        account.settle(now)
        if account.num_active == 0:
            account.attained_s = max(account.attained_s, self._floor_s(now))
        account.weight = weight
        account.num_active += 1

    def started(self, tenant: str, now: float) -> None:
        """A waiting call of the tenant is served from now on."""
        account = self._accounts[tenant]
        account.settle(now)
        account.num_running += 1

    def stopped(self, tenant: str, now: float) -> None:
        """A call that was served waits again."""
        account = self._accounts[tenant]
        account.settle(now)
        account.num_running -= 1

    def left(self, tenant: str) -> None:
        """A waiting call of the tenant is there no more: over, or gone elsewhere."""
        self._accounts[tenant].num_active -= 1

    def turn(self, tenants: Iterable[str], now: float) -> str:
        """Which of these active tenants is next. A tie is broken by share of running calls, then by name."""

        def place(tenant: str) -> tuple[float, float, str]:
            account = self._accounts[tenant]
            return account.at(now), account.num_running / account.weight, tenant

        return min(tenants, key=place)

    def attained_s(self, tenant: str, now: float) -> float:
        """Seconds of service ÷ weight on the tenant's account; 0 for one that is not known."""
        account = self._accounts.get(tenant)
        return 0.0 if account is None else account.at(now)

    def _floor_s(self, now: float) -> float:
        active = [a.at(now) for a in self._accounts.values() if a.num_active]
        return min(active) if active else max(a.attained_s for a in self._accounts.values())

    def validate(self) -> None:
        """Check every invariant; raises InvalidTransition with the first that is broken."""
        for tenant, account in self._accounts.items():
            if not 0 <= account.num_running <= account.num_active or account.attained_s < 0:
                raise InvalidTransition(f"the account of tenant {tenant!r} is inconsistent: {account}")
