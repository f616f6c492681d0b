"""The gateway: one OpenAI-compatible address in front of many engines, with a process table behind it."""

from __future__ import annotations

from agentix.gateway.app import create_app
from agentix.gateway.config import EngineTarget, GatewayConfig

__all__ = ["EngineTarget", "GatewayConfig", "create_app"]
