"""How many calls of recorded programs does the gateway put into the right program, if nothing but their messages tells?

`AGENTIX_TRACE_DIR=… python -m benchmarks.lineage` prints the table of docs/results/gateway.md. The ids are stripped, the
programs interleaved: so many are live at a time, and a random one of them makes its next call. A call is right if it lands in
the program that the first call of its own program opened; each trace is played by two tenants at once.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentix.gateway.apis import Dialect
from agentix.gateway.identity import Lineage, make_trail, read_answers, read_prompt
from agentix.workload import Program, full_messages, load_programs

CONVERSATIONS = {
    "chat (MT-Bench-101)": "mtbench101_chat",
    "ReAct (HotpotQA)": "react_hotpotqa_fireact",
    "ReAct, tools (tau-bench)": "tau_bench_airline",
    "ReAct, tools (BFCL)": "bfcl_multi_turn_oracle",
    "coding (SWE-agent)": "coding_swe_agent_text",
}
TREE_SEARCH = {"tree of thoughts (game of 24)": "tot_game24", "LATS (WebShop)": "lats_real_logs"}
TENANTS = ("a", "b")


@dataclass(slots=True)
class Outcome:
    """Where the calls of a trace went. `crossed`: into a program of the other tenant."""

    num_programs: int = 0
    num_calls: int = 0
    right: int = 0
    split: int = 0  # began a program of their own, though theirs had begun
    joined: int = 0  # went into another one
    crossed: int = 0
    calls_s: list[float] = field(default_factory=list)

    @property
    def right_share(self) -> float:
        """Share of the calls that landed in the right program."""
        return self.right / self.num_calls


def play(programs: Sequence[Program], num_live: int, seed: int = 1) -> Outcome:
    """Play `programs` for both tenants, `num_live` at a time. The same seed gives the same order."""
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    waiting = [(tenant, program) for program in programs for tenant in TENANTS]
    rng.shuffle(waiting)
    live: list[tuple[str, Program, int]] = []
    lineage, outcome = Lineage(), Outcome(num_programs=len(waiting))
    opened: dict[str, tuple[str, str]] = {}  # what the lineage calls a program, to whose first call opened it
    while live or waiting:
        while waiting and len(live) < num_live:
            live.append((*waiting.pop(), 0))
        place = rng.randrange(len(live))
        tenant, program, number = live[place]
        found, took_s = _call(lineage, tenant, program, number, f"call-{outcome.num_calls}")
        outcome.num_calls += 1
        outcome.calls_s.append(took_s)
        mine = tenant, program.program_id
        if found not in opened:
            opened[found] = mine if number == 0 else ("", "")
            outcome.right += number == 0
            outcome.split += number != 0
        else:
            outcome.right += opened[found] == mine
            outcome.joined += opened[found] != mine
            outcome.crossed += opened[found][0] not in {tenant, ""}
        if number + 1 < len(program.calls):
            live[place] = tenant, program, number + 1
        else:
            live.pop(place)
    return outcome


def _call(lineage: Lineage, tenant: str, program: Program, number: int, call_id: str) -> tuple[str, float]:
    """The program that the lineage gives a call, and the seconds that this and remembering the answer took."""
    call = program.calls[number]
    body = {"messages": full_messages(program, call)}
    answer = {"choices": [{"message": {"content": call.output_text or f"(not recorded: {program.program_id} {number})"}}]}
    began = time.thread_time()
    trail = make_trail(tenant, read_prompt(Dialect.CHAT, body))
    match = lineage.find(trail)
    found = match.program_id if match else call_id
    if match:
        lineage.continued(match.program_id, match.call_id)
    lineage.add(trail, read_answers(Dialect.CHAT, answer), program_id=found, thread_id="", call_id=call_id)
    return found, time.thread_time() - began


def main() -> None:
    """Print one line for each trace and each number of live programs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--live", type=int, nargs="+", default=[16, 64, 10**6], help="programs live at a time")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    folder = os.environ.get("AGENTIX_TRACE_DIR")
    if not folder:
        sys.exit("set AGENTIX_TRACE_DIR to the folder with the traces")
    print(
        "| trace | programs | live at a time | calls | right | split off | in another program | of another tenant | ms a call |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for title, name in {**CONVERSATIONS, **TREE_SEARCH}.items():
        programs = load_programs(Path(folder) / f"{name}.jsonl.gz")
        for num_live in options.live:
            outcome = play(programs, num_live, options.seed)
            live = "all" if num_live >= outcome.num_programs else str(num_live)
            call_ms = 1000 * sum(outcome.calls_s) / len(outcome.calls_s)
            print(
                f"| {title} | {outcome.num_programs:,} | {live} | {outcome.num_calls:,} | {outcome.right_share:.1%} "
                f"| {outcome.split:,} | {outcome.joined:,} | {outcome.crossed} | {call_ms:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
