"""The parts of a gateway that nobody calls, for what only reads them."""

from __future__ import annotations

import httpx2

from agentix.core import ProcessTable
from agentix.gateway.admission import Admission
from agentix.gateway.admission_settings import AdmissionSettings
from agentix.gateway.budgets import Budgets
from agentix.gateway.config import EngineTarget
from agentix.gateway.engines import EnginePool
from agentix.gateway.exposition import Exposition
from agentix.gateway.metrics import GatewayMetrics


def idle_exposition(metrics: GatewayMetrics, *engine_ids: str) -> Exposition:
    """What shows these metrics, beside engines that nobody has to run."""
    table = ProcessTable()
    targets = tuple(EngineTarget(engine_id=engine_id, url="http://127.0.0.1:9") for engine_id in engine_ids)
    pool = EnginePool(targets, httpx2.AsyncClient(trust_env=False, verify=False), 60.0)
    return Exposition(metrics, table, pool, Admission(table, pool, AdmissionSettings(), Budgets()))
