"""An admission without a network: its calls by name, and what it decides."""

from __future__ import annotations

from typing import Any

import httpx2

from agentix.core import ProcessTable, SchedulerConfig
from agentix.core.events import CallArrived, CallFinished, Event, Placed, log_line
from agentix.gateway.admission import Admission
from agentix.gateway.admission_settings import AdmissionSettings
from agentix.gateway.budgets import Budgets
from agentix.gateway.config import EngineTarget
from agentix.gateway.decision_log import DecisionLog, LoggedTable
from agentix.gateway.engines import EnginePool
from agentix.gateway.fit import Needs
from agentix.gateway.tenants import Tenant

SCHEDULER = SchedulerConfig(policy="plas", quanta_s=(1.0, 2.0), starvation_ratio=None)


def tenant(name: str, **fields: Any) -> Tenant:
    return Tenant(name=name, key_digests=(name.encode(),), **fields)


class Gateway:
    """An admission before engines e0, e1, … that do nothing; `log` has every decision, and so has `decision_log`."""

    def __init__(
        self,
        num_engines: int = 1,
        *,
        tenants: tuple[Tenant, ...] = (),
        plugin: bool = False,
        decision_log: DecisionLog | None = None,
        **settings: Any,
    ) -> None:
        targets = tuple(EngineTarget(engine_id=f"e{n}", url=f"http://e{n}", plugin=plugin) for n in range(num_engines))
        self.now = 0.0
        self.table = ProcessTable() if decision_log is None else LoggedTable(decision_log)
        self.pool = EnginePool(targets, httpx2.AsyncClient(trust_env=False, verify=False), 1.0)
        self.log: list[tuple[str | None, str]] = []
        self.decision_log = decision_log
        self.admission = Admission(
            self.table,
            self.pool,
            AdmissionSettings(**{"scheduler": SCHEDULER, **settings}),
            Budgets(tenants),
            on_decision=self.decided,
            clock=lambda: self.now,
        )

    def decided(self, queue: str | None, event: Event, placed: list[Placed]) -> None:
        self.log.append((queue, log_line(event, placed)))
        if self.decision_log is not None:
            self.decision_log.decided(queue, event, placed)

    def arrive(
        self,
        call_id: str,
        now: float = 0.0,
        *,
        engine_id: str = "e0",
        tenant: str = "",
        needs: Needs | None = None,
        num_bytes: int = 0,
        **fields: Any,
    ) -> str:
        """A call of the program that its first letter names."""
        event = CallArrived(now=now, call_id=call_id, program_id=call_id[0], engine_id=engine_id, **fields)
        place = self.admission.arrive(event, tenant=tenant, needs=needs, engine_ids=(engine_id,), num_bytes=num_bytes)
        return place.key

    def finish(self, call_id: str, now: float, service_s: float = 0.0) -> None:
        self.admission.over(CallFinished(now=now, call_id=call_id, service_s=service_s, waiting_s=0.0))
        self.admission.validate()

    @property
    def sent(self) -> list[str]:
        return [p.key for p in self.admission.places.values() if p.sent_s is not None]

    @property
    def held(self) -> list[str]:
        return [p.key for p in self.admission.places.values() if p.sent_s is None]

    def had(self, **service_s: float) -> None:
        """Programs that have had so much."""
        for program_id, had_s in service_s.items():
            self.table.apply(CallArrived(now=0.0, call_id=f"{program_id}/before", program_id=program_id))
            self.table.apply(CallFinished(now=0.0, call_id=f"{program_id}/before", service_s=had_s, waiting_s=0.0))
