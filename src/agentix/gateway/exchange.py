"""What a call carries on its way through the gateway, and what all calls share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from agentix.core.balancers import LoadBalancer
from agentix.core.process_table import ProcessTable
from agentix.gateway.accounting import Account
from agentix.gateway.admission import Admission
from agentix.gateway.budgets import Budgets
from agentix.gateway.cancel_scope import CancelScope
from agentix.gateway.engine_transport import EngineTransport
from agentix.gateway.engines import EnginePool
from agentix.gateway.identity import Identity, Sessions, Trail
from agentix.gateway.lifetimes import Lifetimes
from agentix.gateway.metrics import GatewayMetrics
from agentix.gateway.models import Models
from agentix.gateway.observer import Observer
from agentix.gateway.outcome import Outcome
from agentix.gateway.prompt_length import PromptLength
from agentix.gateway.tenants import Tenants
from agentix.gateway.weighing import Weighing


@dataclass(slots=True)
class Call:
    """A call on its way, and how it came out.

    `key` is its id in the table: a program's calls may be numbered 1, 2, 3 like another's. `outcome` holds as soon as it is
    certain; until then what would be true if it broke off now. `reason` says it to people. `noted`: what it said is
    remembered. `closed`: it is accounted for. `scope`: its work, to be cancelled. `num_bytes`: of its body.
    `wished_priority`: how many levels later its client wants it. Moments on the monotonic clock. Known once it is over:
    `engine_id`, where it was sent last or would have been; `sent_s`, when, or None; `level`, at which it stood then.
    `num_events`: of its stream, so far.
    """

    request: Request
    body: dict[str, Any]
    identity: Identity
    trail: Trail
    arrived_s: float
    call_id: str = ""
    key: str = ""
    num_bytes: int = 0
    wished_priority: int = 0
    tokens_by_rule: int = 0
    first_token_s: float | None = None
    num_events: int = 0
    account: Account = Account()  # noqa: RUF009 - frozen
    outcome: Outcome = Outcome.DISCONNECTED
    reason: str = "client disconnected"
    noted: bool = False
    closed: bool = False
    scope: CancelScope = field(default_factory=CancelScope)
    tenant: str = ""
    engine_id: str = ""
    sent_s: float | None = None
    level: int | None = None

    def end(self, outcome: Outcome, reason: str = "", account: Account | None = None) -> None:
        """It has come out like this."""
        self.outcome, self.reason = outcome, reason
        self.account = account or self.account


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What the relays of all APIs share.

    `scopes`: the work of each call, by its id in the table, from its arrival until it has come out.
    """

    table: ProcessTable
    pool: EnginePool
    transport: EngineTransport
    models: Models
    balancer: LoadBalancer
    sessions: Sessions
    lifetimes: Lifetimes
    prompt_length: PromptLength
    metrics: GatewayMetrics
    max_body_bytes: int
    normalise_preambles: bool
    scopes: dict[str, CancelScope] = field(default_factory=dict)
    tenants: Tenants = field(default_factory=Tenants)
    budgets: Budgets = field(default_factory=Budgets)
    admission: Admission
    weighing: Weighing
    observer: Observer = field(default_factory=Observer)
