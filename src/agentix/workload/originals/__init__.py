"""The public files that traces come from, each format in one small file: `ORIGINALS.resolve("sharegpt")(path)`.

`save_programs` writes what they give as a trace file.
"""

from __future__ import annotations

from agentix.core.registry import Registry
from agentix.workload.originals.azure import load_azure
from agentix.workload.originals.bfcl import load_bfcl
from agentix.workload.originals.mooncake import load_mooncake
from agentix.workload.originals.sharegpt import load_sharegpt
from agentix.workload.originals.swe_agent import load_swe_agent
from agentix.workload.originals.tau_bench import load_tau_bench
from agentix.workload.trace import Program

ORIGINALS: Registry[tuple[Program, ...]] = Registry("trace format")
ORIGINALS.register("sharegpt", load_sharegpt)
ORIGINALS.register("bfcl", load_bfcl)
ORIGINALS.register("tau_bench", load_tau_bench)
ORIGINALS.register("swe_agent", load_swe_agent)
ORIGINALS.register("mooncake", load_mooncake)
ORIGINALS.register("azure", load_azure)

__all__ = ["ORIGINALS", "load_azure", "load_bfcl", "load_mooncake", "load_sharegpt", "load_swe_agent", "load_tau_bench"]
