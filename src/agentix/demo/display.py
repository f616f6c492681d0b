"""Both arms side by side on the terminal, a row per program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from agentix.demo.programs import PROGRAMS, DemoProgram
from agentix.demo.run import Arm
from agentix.ui.columns import duration

_SIGNS = "■▶◷·"  # of a call: done, with the server, held, not made yet
_LEGEND = "■ done  ▶ with the server  ◷ waits for its turn  · to come"


def board(arms: Sequence[Arm]) -> Table:
    """The state of all programs under each policy. An arm that has not begun is blank."""
    table = Table(box=None, pad_edge=False, caption=_LEGEND, caption_justify="left")
    table.add_column("PROGRAM", no_wrap=True)
    for arm in arms:
        table.add_column(f"CALLS, {arm.policy}", no_wrap=True)
        table.add_column("WAITED", justify="right", no_wrap=True)
        table.add_column("DONE", justify="right", no_wrap=True)
    for program in PROGRAMS:
        table.add_row(Text(program.name), *(cell for arm in arms for cell in _cells(program, arm)))
    return table


def _cells(program: DemoProgram, arm: Arm) -> Iterator[Text]:
    if not arm.began:
        yield from (Text(""), Text(""), Text(""))
        return
    standing = arm.watch.standing(program.name, arm.now_s())
    counts = [standing.num_done, standing.num_running, standing.num_held]
    counts.append(program.num_calls - sum(counts))
    yield Text("".join(sign * count for sign, count in zip(_SIGNS, counts, strict=True)))
    yield Text(duration(standing.waited_s))
    done_s = arm.done_s.get(program.name)
    yield Text("" if done_s is None else duration(done_s), style="bold")
