"""Gateways of others: which release, how it is installed, and how it is started in front of the mock engine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.gateway.mock_engine import MODEL
from benchmarks.gateway.process import BenchmarkError


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One of them.

    requirement  what pip installs
    script       the program in its environment
    arguments    for an engine's address, a port to listen on, and a folder for files
    env          variables it is started with
    """

    name: str
    requirement: str
    script: str
    arguments: Callable[[str, int, Path], list[str]]
    env: Mapping[str, str] = field(default_factory=dict)


def _litellm(engine_url: str, port: int, work: Path) -> list[str]:
    engine = {"model": f"openai/{MODEL}", "api_base": f"{engine_url}/v1", "api_key": "none"}
    models = [{"model_name": MODEL, "litellm_params": engine}]
    config = work / "litellm.json"  # JSON is YAML
    config.write_text(json.dumps({"model_list": models, "litellm_settings": {"telemetry": False}}), encoding="utf-8")
    return ["--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]


def _router(engine_url: str, port: int, work: Path) -> list[str]:
    """Both routers have these; they would share a port for metrics."""
    metrics = ["--prometheus-host", "127.0.0.1", "--prometheus-port", str(port - 1)]
    return [
        "--worker-urls",
        engine_url,
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--policy",
        "round_robin",
        "--log-level",
        "error",
        *metrics,
    ]


def _smg(engine_url: str, port: int, work: Path) -> list[str]:
    return ["launch", *_router(engine_url, port, work)]


PEERS = {
    peer.name: peer
    for peer in (
        Peer(
            name="litellm",
            requirement="litellm[proxy]==1.106.12",
            script="litellm",
            arguments=_litellm,
            env={
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # nothing is looked up in the network
                "LITELLM_LOG": "ERROR",  # nor is a line written for each call
                "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",  # on loopback, in front of a mock
            },
        ),
        Peer(name="vllm-router", requirement="vllm-router==0.1.17", script="vllm-router", arguments=_router),
        Peer(name="smg", requirement="smg==1.13.0", script="smg", arguments=_smg),
    )
}


def install(peer: Peer, venvs: Path) -> Path:
    """Its program, in a virtual environment below `venvs` that is made if it is not there. Raises BenchmarkError."""
    venv = venvs / peer.name
    executable = venv / "bin" / peer.script
    if executable.exists():
        return executable
    for command in (
        [sys.executable, "-m", "venv", str(venv)],
        [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--only-binary", ":all:", peer.requirement],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BenchmarkError(f"{peer.requirement} does not install: {(done.stderr or done.stdout).strip()[-500:]}")
    if not executable.exists():
        raise BenchmarkError(f"{peer.requirement} has no program {peer.script!r}")
    return executable
