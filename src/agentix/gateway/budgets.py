"""How much may a tenant, or one of its programs, still use? Demote first, then hold, then refuse. Pure: `now` is an argument.

Of each budget four things are counted: calls and tokens a minute, calls at a time, and seconds of attained service an hour
(docs/tenants.md). What a call costs is known only when it is over. So it starts when something is left, may overdraw the
budget, and the debt is paid off before the next one starts; calls under way count with the mean of those before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from agentix.gateway.buckets import Bucket, Window
from agentix.gateway.errors import HTTPError
from agentix.gateway.identity.scoped import split_scoped
from agentix.gateway.tenants import Budget, Tenant

_HOUR_S = 3600.0
_FIRST_GUESS_S = 5.0  # of how long a call takes, until one is over
_NEWS = 0.2  # how much each call counts in the mean of how long they take
_MIN_PROGRAMS = 1024
_ALL = 1e-9  # "below this": nothing is left in the window


class _Account:
    """What one tenant, or one program, has used of its budget, and what of its calls waits to be sent."""

    def __init__(self, budget: Budget, owner: str) -> None:
        self.budget = budget
        self.owner = owner
        self.num_waiting = 0
        self.num_running = 0
        self._waiting_tokens = 0
        self._stay_s = _FIRST_GUESS_S
        self._service_s = _FIRST_GUESS_S
        self._calls = _bucket(None, budget.calls_per_minute)
        self._tokens = _bucket(None, budget.tokens_per_minute)
        self._window = Window(_HOUR_S)

    def change(self, budget: Budget) -> None:
        """Other limits from now on; of each that there was, the same share is used up."""
        self.budget = budget
        self._calls = _bucket(self._calls, budget.calls_per_minute)
        self._tokens = _bucket(self._tokens, budget.tokens_per_minute)

    def ready_at(self, now: float) -> float:
        """The moment from which one more call may be sent; infinity: once one of those under way is over."""
        budget, moment_s = self.budget, now
        if budget.concurrent_calls is not None and self.num_running >= budget.concurrent_calls:
            return math.inf
        if budget.service_s_per_hour is not None:
            moment_s = self._window.below_at(budget.service_s_per_hour, now)
            running_s = self.num_running * self._service_s
            if moment_s <= now and self._window.total(now) + running_s >= budget.service_s_per_hour:
                return math.inf
        if self._calls is not None:
            moment_s = max(moment_s, self._calls.ready_at(1, now))
        if self._tokens is not None:
            moment_s = max(moment_s, self._tokens.ready_at(0, now))
        return moment_s

    def wait(self, now: float) -> tuple[float, str]:
        """How long a new call is likely to wait behind those that do, in seconds, and for which limit ("": for none)."""
        budget, waits = self.budget, [(0.0, "")]
        num_before = self.num_running + self.num_waiting
        if self._calls is not None:
            waits.append((self._calls.ready_at(self.num_waiting + 1, now) - now, f"{budget.calls_per_minute} calls a minute"))
        if self._tokens is not None:
            until_s = self._tokens.ready_at(self._waiting_tokens, now)
            waits.append((until_s - now, f"{budget.tokens_per_minute} tokens a minute"))
        if budget.concurrent_calls is not None:
            rounds = num_before // budget.concurrent_calls
            waits.append((rounds * self._stay_s, f"{budget.concurrent_calls} calls at a time"))
        if budget.service_s_per_hour is not None:
            limit_s, before_s = budget.service_s_per_hour, num_before * self._service_s
            until_s = self._window.below_at(max(limit_s - before_s, _ALL), now)
            later_s = max(0.0, before_s - limit_s) / limit_s * _HOUR_S
            waits.append((until_s - now + later_s, f"{limit_s:g} s of service an hour"))
        return max(waits, key=lambda wait: wait[0])

    def share(self, now: float) -> float:
        """The largest share of a limit that is used up or spoken for; 1: all of it. A number at a time is no share."""
        shares = [0.0]
        if self._calls is not None:
            shares.append(self._calls.used(now) + self.num_waiting / self._calls.num_per_minute)
        if self._tokens is not None:
            shares.append(self._tokens.used(now) + self._waiting_tokens / self._tokens.num_per_minute)
        if self.budget.service_s_per_hour is not None:
            under_way_s = self.num_running * self._service_s
            shares.append((self._window.total(now) + under_way_s) / self.budget.service_s_per_hour)
        return max(shares)

    def levels(self, now: float) -> int:
        """By how many levels its calls are worsened: 1 from the soft share on, 2 once nothing is left."""
        share = self.share(now)
        return 0 if share < self.budget.soft else 1 if share < 1 else 2

    def arrive(self, use: _Use) -> None:
        """A call waits to be sent."""
        self.num_waiting += use.num_calls
        self._waiting_tokens += use.tokens

    def leave(self, use: _Use) -> None:
        """It waits no longer."""
        self.num_waiting -= use.num_calls
        self._waiting_tokens -= use.tokens

    def start(self, use: _Use, now: float) -> None:
        """It is sent."""
        self.leave(use)
        self.num_running += use.num_calls
        if self._calls is not None:
            self._calls.take(use.num_calls, now)
        if self._tokens is not None:
            self._tokens.take(use.tokens, now)

    def put_back(self, use: _Use, now: float) -> None:
        """It was sent, but no engine has taken it: it waits again, and has used nothing."""
        self.num_running -= use.num_calls
        self.arrive(use)
        if self._calls is not None:
            self._calls.take(-use.num_calls, now)
        if self._tokens is not None:
            self._tokens.take(-use.tokens, now)

    def finish(self, use: _Use, more_tokens: int, service_s: float, stay_s: float, now: float) -> None:
        """It is over: it took so many tokens more than was thought, and this service, in a stay that was so long."""
        self.num_running -= use.num_calls
        self._stay_s += _NEWS * (stay_s - self._stay_s)
        self._service_s += _NEWS * (service_s - self._service_s)
        if self._tokens is not None:
            self._tokens.take(more_tokens, now)
        if self.budget.service_s_per_hour is not None:
            self._window.add(service_s * use.num_calls, now)

    def is_fresh(self, now: float) -> bool:
        """Whether one that has used nothing would be the same."""
        return not (self.num_waiting or self.num_running or self.share(now))


@dataclass(slots=True)
class _Use:
    """A call that is under way: whose accounts it is on, and since when it is in an engine (None: it is not).

    `num_calls`: as how many it counts, which is how many answers it asks for.
    """

    accounts: tuple[_Account, ...]
    tokens: int
    num_calls: int = 1
    sent_s: float | None = None


class Budgets:
    """The accounts of all tenants and of their programs.

    A call is told of in order: `check`, `arrived`, `sent` (once it has been let), `over`. Whoever has no limits has no
    account and costs nothing. Every method takes constant time, but that accounts which are as good as new are dropped now
    and then, in time proportional to the arrivals since.
    """

    def __init__(self, tenants: tuple[Tenant, ...] = ()) -> None:
        self._tenants = {t.name: t for t in tenants}
        self._accounts = {t.name: _Account(t.budget, f"tenant {t.name!r}") for t in tenants if t.budget.is_limited}
        self._programs: dict[str, _Account] = {}
        self._max_programs = _MIN_PROGRAMS
        self._uses: dict[str, _Use] = {}

    def adopt(self, tenants: tuple[Tenant, ...]) -> None:
        """Other tenants, or other budgets of theirs, from now on. What has been used of a limit stays used."""
        self._tenants = {t.name: t for t in tenants}
        before = self._accounts
        self._accounts = {t.name: _Account(t.budget, f"tenant {t.name!r}") for t in tenants if t.budget.is_limited}
        for name in before.keys() & self._accounts.keys():
            before[name].change(self._accounts[name].budget)
            self._accounts[name] = before[name]
        programs, self._programs = self._programs, {}
        for program_id, account in programs.items():
            tenant = self._tenants.get(split_scoped(program_id)[0])
            if tenant is not None and tenant.program_budget.is_limited:
                account.change(tenant.program_budget)
                self._programs[program_id] = account

    def is_limited(self, tenant: str) -> bool:
        """Whether anything that the tenant's calls use is limited."""
        found = self._tenants.get(tenant)
        return found is not None and (found.budget.is_limited or found.program_budget.is_limited)

    def tenant_weight(self, tenant: str) -> float:
        """The tenant's share beside other tenants; 1 for the open tenant."""
        return self._tenants[tenant].weight if tenant in self._tenants else 1.0

    def check(self, tenant: str, program_id: str, now: float, *, num_calls: int = 1) -> int:
        """By how many levels a call of this program that arrives now is worsened. `num_calls`: as how many it counts.

        Raises HTTPError 429 if it would wait for longer than the budget's `max_hold_s`, 400 if it asks for more answers at a
        time than ever may be.
        """
        levels = 0
        for account in self._of(tenant, program_id):
            at_most = account.budget.concurrent_calls
            if at_most is not None and num_calls > at_most:
                message = f"{account.owner} may have {at_most} answers at a time; the call asks for {num_calls}"
                raise HTTPError(400, message, param="n", code="budget_exceeded")
            wait_s, limit = account.wait(now)
            if wait_s > account.budget.max_hold_s:
                raise _over_budget(account.owner, limit, wait_s)
            levels = max(levels, account.levels(now))
        return levels

    def hold_until(self, tenant: str, program_id: str, now: float) -> float:
        """The moment before which no call of this program may be sent; `now`: at once, infinity: when one under way is over."""
        accounts = self._of(tenant, program_id)
        return max(a.ready_at(now) for a in accounts) if accounts else now

    def arrived(self, key: str, tenant: str, program_id: str, tokens: int, now: float, *, num_calls: int = 1) -> None:
        """A call waits to be sent. `key`: its id in the table, `tokens`: its prompt's, estimated."""
        budget = self._tenants[tenant].program_budget if tenant in self._tenants else None
        if budget is not None and budget.is_limited and program_id not in self._programs:
            self._forget_fresh(now)
            self._programs[program_id] = _Account(budget, f"program {split_scoped(program_id)[1]!r}")
        use = _Use(self._of(tenant, program_id), tokens, num_calls)
        for account in use.accounts:
            account.arrive(use)
        if use.accounts:
            self._uses[key] = use

    def sent(self, key: str, now: float) -> None:
        """The call goes to an engine; to another one after that is nothing new."""
        use = self._uses.get(key)
        if use is None or use.sent_s is not None:
            return
        use.sent_s = now
        for account in use.accounts:
            account.start(use, now)

    def put_back(self, key: str, now: float) -> None:
        """No engine has taken the call: it waits again, and no longer counts against its own program and tenant."""
        use = self._uses.get(key)
        if use is None or use.sent_s is None:
            return
        use.sent_s = None
        for account in use.accounts:
            account.put_back(use, now)

    def over(self, key: str, *, service_s: float, tokens: int | None, now: float) -> None:
        """The call is over, or was given up while it waited. `tokens`: all that it took; None: nobody has counted."""
        use = self._uses.pop(key, None)
        if use is None:
            return
        for account in use.accounts:
            if use.sent_s is None:
                account.leave(use)
            else:
                more_tokens = 0 if tokens is None else tokens - use.tokens
                account.finish(use, more_tokens, service_s, now - use.sent_s, now)

    def _of(self, tenant: str, program_id: str) -> tuple[_Account, ...]:
        found = (self._accounts.get(tenant), self._programs.get(program_id))
        return () if found == (None, None) else tuple(a for a in found if a is not None)

    def _forget_fresh(self, now: float) -> None:
        if len(self._programs) >= self._max_programs:
            self._programs = {p: a for p, a in self._programs.items() if not a.is_fresh(now)}
            self._max_programs = max(_MIN_PROGRAMS, 2 * len(self._programs))


def _bucket(before: Bucket | None, num_per_minute: float | None) -> Bucket | None:
    """A bucket for the limit, taken from like the one that there was; None: there is no limit."""
    if num_per_minute is None:
        return None
    return Bucket(num_per_minute) if before is None else before.resized(num_per_minute)


def _over_budget(owner: str, limit: str, wait_s: float) -> HTTPError:
    """429: `wait_s` until there is room again."""
    retry_after_s = math.ceil(wait_s)
    message = f"{owner} is over its budget of {limit}; there is room again in about {retry_after_s} s"
    return HTTPError(429, message, "rate_limit_error", retry_after_s, code="budget_exceeded")
