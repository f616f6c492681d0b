"""The application that Ray Serve runs in tests: the gateway, with stand-ins for its engines."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentix.cluster.ray_serve import ServeArguments, deployment
from agentix.engine.launcher import EngineOptions

FAKE = Path(__file__).with_name("ray_engine_process.py")


class StandIns(ServeArguments):
    def engine_options(self) -> EngineOptions:
        return replace(super().engine_options(), command=(sys.executable, str(FAKE)))


def app(arguments: Mapping[str, Any]) -> Any:
    return deployment(StandIns.read(arguments))
