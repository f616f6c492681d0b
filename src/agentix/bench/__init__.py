"""The benchmark: replays recorded programs against an OpenAI-compatible server and measures them.

Importing this package needs no HTTP library; running a benchmark does (`pip install 'agentix[bench]'`).
"""

from __future__ import annotations

from agentix.bench.config import BenchConfig
from agentix.bench.errors import BenchError
from agentix.bench.result import BenchResult
from agentix.bench.run import run_bench

__all__ = ["BenchConfig", "BenchError", "BenchResult", "run_bench"]
