"""Many runs into one file of numbers: what is there already is not played again, and progress is shown."""

from __future__ import annotations

import json
import os
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any

from agentix.sim.processes import num_cores

Runs = dict[str, Any]
Task = tuple[Any, ...]  # arguments of the function that plays it


def add_options(parser: ArgumentParser, *, out: Path) -> None:
    """The options that every study has."""
    parser.add_argument("--jobs", type=int, default=num_cores(), help="processes (default: one per core)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the programs of every run")
    parser.add_argument("--again", default="", metavar="NAME,…", help="policies or variants to play anew, or all")
    parser.add_argument("--out", type=Path, default=out, help="file of the numbers; the page is written beside it")


def names(parser: ArgumentParser, given: str, known: Iterable[str]) -> list[str]:
    """The names in a comma-separated list; one that is not known ends the program with an error."""
    chosen, known = given.split(","), list(known)
    for name in chosen:
        if name not in known:
            parser.error(f"unknown {name!r}; known: {', '.join(known)}")
    return chosen


def open_document(
    parser: ArgumentParser, args: Namespace, *, name_of: Callable[[str], str] = lambda key: key.partition(" ")[2]
) -> dict[str, Any]:
    """The numbers so far, without those that are to be played again. A file of another scale is an error.

    `name_of`: the policy or variant in a run's key.
    """
    document: dict[str, Any] = json.loads(args.out.read_text(encoding="utf-8")) if args.out.exists() else {}
    if document.setdefault("scale", args.scale) != args.scale:
        parser.error(f"{args.out} holds runs of scale {document['scale']}; give another --out, or that scale")
    again = args.again.split(",") if args.again else []
    runs = document.setdefault("runs", {})
    document["runs"] = {key: run for key, run in runs.items() if "all" not in again and name_of(key) not in again}
    return document


def play_missing(
    play: Callable[..., Any], tasks: Mapping[str, Task], into: Runs, *, num_processes: int, on_done: Callable[[], None]
) -> None:
    """Play every task whose key is not in `into` yet; `on_done` is called after each, e.g. to save.

    However this ends, and even if this process is killed, no process is left behind; Ctrl-C waits for the runs under way.
    """
    missing = {key: task for key, task in tasks.items() if key not in into}

    def done(key: str, result: Any, num_done: int) -> None:
        into[key] = result
        on_done()
        print(f"\r{num_done} of {len(missing)} runs: {key:<60}", end="", file=sys.stderr, flush=True)

    if num_processes == 1:
        for number, (key, task) in enumerate(missing.items(), start=1):
            done(key, play(*task), number)
    else:
        executor = ProcessPoolExecutor(num_processes, mp_context=get_context("spawn"), initializer=_end_with_parent)
        try:
            futures = {executor.submit(play, *task): key for key, task in missing.items()}
            for number, future in enumerate(as_completed(futures), start=1):
                done(futures[future], future.result(), number)
        finally:
            executor.shutdown(cancel_futures=True)
    if missing:
        print(file=sys.stderr)


def save(path: Path, document: Mapping[str, Any]) -> None:
    """Write the numbers, all or nothing."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    new.replace(path)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    head = list(head)
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---|" * (len(head) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def minutes(runs: Mapping[str, Any]) -> float:
    """What all these runs took, in minutes of one core."""
    return sum(float(run["cpu_s"]) for run in runs.values()) / 60


def _end_with_parent() -> None:
    """Leave Ctrl-C to the parent, and go when it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os._exit(1)

    Thread(target=wait, daemon=True).start()
