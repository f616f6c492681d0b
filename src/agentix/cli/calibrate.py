"""`agentix calibrate`: measure a real engine's step times."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from agentix.cli.extras import require

if TYPE_CHECKING:
    from agentix.calibrate.run import Calibration


def calibrate(
    model: Annotated[str, typer.Argument(help="Model: a directory, a hub name, or built in: smollm2-135m, tiny-random.")],
    out: Annotated[Path, typer.Option(help="The card (JSON), for agentix simulate --cost.")],
    vllm_args: Annotated[
        list[str] | None, typer.Argument(metavar="[-- VLLM_ARGS…]", help="Everything after -- goes to vLLM.")
    ] = None,
    minutes: Annotated[float, typer.Option(min=0, help="Measure about so long, at least one round.")] = 4.0,
    max_prompt_tokens: Annotated[
        int | None, typer.Option(min=64, help="Longest prompt; default: 1024, or half the model's context.")
    ] = None,
    start_timeout: Annotated[float, typer.Option(min=1, help="Seconds an engine may take to become healthy.")] = 600.0,
) -> None:
    """Start a real engine, drive it for a few minutes, and write how long its steps take.

    \b
    agentix calibrate smollm2-135m --out card.json -- --max-num-seqs 8
    agentix simulate --cost card.json --workload react --rate 0.2 --policy fcfs,plas
    """  # noqa: D301  (\b keeps click from reflowing the examples)
    require("gateway", "httpx2", "psutil")
    from agentix.calibrate.run import CalibrateConfig  # noqa: PLC0415 - heavy, and optional for other commands
    from agentix.calibrate.run import calibrate as run  # noqa: PLC0415

    config = CalibrateConfig(
        model=model,
        out=out,
        duration_s=60 * minutes,
        max_prompt_tokens=max_prompt_tokens,
        vllm_args=tuple(vllm_args or ()),
        start_timeout_s=start_timeout,
    )
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    with console.status("starting") if console.is_terminal else nullcontext() as status:

        def on_progress(line: str) -> None:
            if status is not None:
                status.update(line)
            else:
                console.print(line, markup=False)

        calibration = asyncio.run(run(config, on_progress=on_progress))
    _print(calibration, Console(highlight=False))


def _print(calibration: Calibration, console: Console) -> None:
    card, quality = calibration.card, calibration.card.cost.quality
    console.print(f"{card.model} in {card.engine.dtype} on {card.engine.device}, vLLM {card.engine.vllm_version}", markup=False)
    console.print(
        f"{card.engine.max_num_seqs} slots, {card.engine.kv_tokens} tokens of KV cache, "
        f"{card.engine.max_batch_tokens} tokens per step at most"
    )
    costs = Table(box=None, pad_edge=False, show_header=False)
    costs.add_column(justify="left")
    costs.add_column(justify="right")
    cost = card.cost
    for name, value_s in (
        ("a step", cost.per_step_s),
        ("+ per token of prefill", cost.per_prefill_token_s),
        ("+ per million pairs of prefill", 1e6 * cost.per_prefill_pair_s),
        ("+ per decode", cost.per_decode_s),
        ("+ per thousand tokens of context of decodes", 1e3 * cost.per_decode_context_token_s),
        ("a call, beside its steps", card.call_overhead_s),
    ):
        costs.add_row(name, f"{1e3 * value_s:.3g} ms")
    console.print(costs)
    if quality is not None:
        console.print(f"{quality.num_samples} steps; mean error of one {quality.mape:.1%}")
        for name in quality.undetermined:
            console.print(f"not determined by these steps: {name}")
    slowest, fastest = max(calibration.pace), min(calibration.pace)
    console.print(f"minute by minute, the machine took {fastest:.2f} to {slowest:.2f} of the estimated time")
    console.print("estimated ÷ measured time - 1, by kind of step:")
    console.print(", ".join(f"{kind}: {bias:+.1%}" for kind, bias in calibration.biases.items()))
