"""How one engine is started: its command line and environment. Nothing here starts a process.

Two rules keep a user in charge: an environment variable that is already set is never changed, and a vLLM argument that
the user gives replaces ours of the same name.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from agentix.core.errors import ConfigError
from agentix.engine.model import BUILT_IN, TINY

ENGINE_COMMAND = (sys.executable, "-m", "agentix.engine.child")
SCHEDULER_CLASS = "agentix.engine.scheduler.ProgramScheduler"

# A CPU engine without these works badly: it compiles for minutes, caches only 128-token blocks, batches too widely.
CPU_ARGS: dict[str, str | None] = {
    "--enforce-eager": None,
    "--block-size": "32",
    "--max-num-seqs": "32",
}
# vLLM refuses calls with tools unless it is told how a model writes tool calls; of a user's model only the user knows.
TOOL_ARGS: dict[str, str | None] = {"--enable-auto-tool-choice": None, "--tool-call-parser": "hermes"}
CPU_ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
ENVIRONMENT = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}

_GIB = 2**30
_RUNTIME_GIB = 1.5  # Python, torch and vLLM in both processes of an engine


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """What one engine runs.

    model              a directory or a hub name, as vLLM takes it
    served_model_name  the name that clients ask for
    vllm_args          more arguments for vLLM; they win over ours of the same name
    scheduler          settings for the program-aware scheduler; None starts stock vLLM
    host               the address that it listens on; on any but loopback others reach it too
    command            what the arguments are appended to: a prefix such as `taskset -c 0` goes before, tests put a small
                       script here
    """

    model: str
    served_model_name: str
    vllm_args: tuple[str, ...] = ()
    scheduler: Mapping[str, Any] | None = None
    host: str = "127.0.0.1"
    command: tuple[str, ...] = ENGINE_COMMAND


def pinned(command: Sequence[str], cpus: str | None) -> tuple[str, ...]:
    """The command, held to CPUs as `taskset -c` takes them (`0`, `0-3,6`); None: as it is. Raises ConfigError."""
    if cpus is None:
        return tuple(command)
    if not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", cpus):
        raise ConfigError(f"CPUs must be numbers and ranges separated by commas, such as 0 or 0-3,6, not {cpus!r}")
    if not shutil.which("taskset"):
        raise ConfigError("holding an engine to some CPUs needs the program taskset (of util-linux)")
    return ("taskset", "-c", cpus, *command)


def is_cpu_build() -> bool:
    """Whether the installed vLLM computes on the CPU. Read from package metadata; vLLM is not imported."""
    for distribution, marker in (("vllm-cpu", ""), ("vllm", "+cpu")):
        try:
            if marker in version(distribution):
                return True
        except PackageNotFoundError:
            continue
    return False


def cpu_dtype(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The data type this CPU computes fast in: x86 without AVX-512 has no fast bfloat16, and prefills 4x slower in it."""
    try:
        words = set(cpuinfo.read_text().split())
    except OSError:
        words = set()
    return "float32" if "avx2" in words and "avx512f" not in words else "bfloat16"


def engine_command(options: EngineOptions, port: int) -> list[str]:
    """The whole command line of an engine on its host's `port`. Raises ConfigError for an argument that is ours to set."""
    ours: dict[str, str | None] = {
        "--host": options.host,
        "--port": str(port),
        "--model": options.model,
        "--served-model-name": options.served_model_name,
    }
    if options.scheduler is not None:
        ours["--scheduler-cls"] = SCHEDULER_CLASS
        ours["--additional-config"] = json.dumps({"agentix": dict(options.scheduler)})
    given = {_flag(arg) for arg in options.vllm_args if arg.startswith("--")}
    if taken := sorted(given & ours.keys()):
        raise ConfigError(f"vLLM arguments that the launcher sets itself cannot be given: {', '.join(taken)}")

    defaults: dict[str, str | None] = {"--enable-per-request-metrics": None, "--enable-prompt-tokens-details": None}
    if is_cpu_build():
        defaults |= CPU_ARGS | {"--dtype": cpu_dtype()}
    if options.served_model_name in {BUILT_IN, TINY}:
        defaults |= TOOL_ARGS
    ours |= {flag: value for flag, value in defaults.items() if flag not in given}
    flat = [part for flag, value in ours.items() for part in (flag, value) if part is not None]
    return [*options.command, *flat, *options.vllm_args]


def engine_environment(options: EngineOptions, *, num_engines: int) -> dict[str, str]:
    """This process's environment plus the defaults of whatever is not set in it."""
    defaults = dict(ENVIRONMENT)
    if Path(options.model).is_dir():
        defaults["HF_HUB_OFFLINE"] = "1"
    if is_cpu_build():
        # Threads of a step wait for one another; one core too many and each step waits for gateway and API server too.
        defaults |= CPU_ENVIRONMENT | {"OMP_NUM_THREADS": str(max(1, (_num_cores() - 1) // num_engines))}
    return defaults | os.environ


def check_memory(options: Sequence[EngineOptions]) -> None:
    """Refuse to start CPU engines that cannot fit: KV cache, twice the weights (load and use), the runtime itself."""
    if not is_cpu_build():
        return  # a GPU's memory is vLLM's own to check
    kv_gib = _kv_gib(os.environ.get("VLLM_CPU_KVCACHE_SPACE", CPU_ENVIRONMENT["VLLM_CPU_KVCACHE_SPACE"]))
    models = Counter(option.model for option in options)
    needed_gib = sum(n * (kv_gib + 2 * _size_gib(Path(model)) + _RUNTIME_GIB) for model, n in models.items())
    available_gib = psutil.virtual_memory().available / _GIB
    if needed_gib > available_gib:
        raise ConfigError(
            f"{len(options)} engine(s) need about {needed_gib:.1f} GiB of memory, {available_gib:.1f} GiB are available; "
            f"start fewer engines, or lower VLLM_CPU_KVCACHE_SPACE (now {kv_gib:g} GiB each)"
        )


def _flag(arg: str) -> str:
    """The name an argument sets, as vLLM's parser reads it: --block_size=64 is --block-size, --no-x and --x.y are --x."""
    name = "--" + arg.removeprefix("--").partition("=")[0].partition(".")[0].replace("_", "-")
    return "--" + name.removeprefix("--no-") if name.startswith("--no-") else name


def _kv_gib(setting: str) -> float:
    try:
        return float(setting)
    except ValueError:
        raise ConfigError(f"VLLM_CPU_KVCACHE_SPACE must be a number of GiB, not {setting!r}") from None


def _size_gib(model: Path) -> float:
    """Size of a local model on disk; 0 for a hub name, whose size nobody knows yet."""
    return sum(file.stat().st_size for file in model.rglob("*") if file.is_file()) / _GIB if model.is_dir() else 0.0


def _num_cores() -> int:
    """Cores this process may use: a container's share, not the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
