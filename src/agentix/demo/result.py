"""What came of a demonstration: two lines, a document, a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentix.demo.programs import PROGRAMS
from agentix.demo.run import Arm, Demo
from agentix.sim.gantt import gantt_svg

SCHEMA = "agentix-demo/1"
_SAME = 0.02  # a difference of means below this share is none
_STEADY = 1.2  # makespans that differ by a larger factor are the server's, not the policies'


def result_lines(demo: Demo) -> list[str]:
    """A line per arm; the second one says how it compares with the first."""
    first, second = demo.arms
    width = max(len(arm.policy) for arm in demo.arms)
    lines = [
        f"{arm.policy:<{width}}  mean JCT {arm.mean_jct_s:.1f} s, waiting {_waiting_s(arm):.1f} s, all done after"
        f" {arm.makespan_s:.1f} s"
        for arm in demo.arms
    ]
    change = second.mean_jct_s / first.mean_jct_s - 1
    num_sooner = sum(second.done_s[name] < first.done_s[name] for name in first.done_s)
    words = "no difference" if abs(change) < _SAME else f"{abs(change):.0%} {'sooner' if change < 0 else 'later'} in the mean"
    lines[1] += f": {words}, {num_sooner} of {len(PROGRAMS)} programs sooner"
    return lines


def note(demo: Demo) -> str | None:
    """What to know of the two lines: both arms are the same work for the server, so both should take it about as long."""
    first, second = (arm.makespan_s for arm in demo.arms)
    if max(first, second) <= _STEADY * min(first, second):
        return None
    return "The server was not equally fast in both runs, perhaps because of other work: the times do not compare. Try again."


def document(demo: Demo, picture: Path) -> dict[str, Any]:
    """Everything as JSON. Times in seconds since the arm began; `sent_s` is None for a call that never went to the server."""
    return {
        "schema": SCHEMA,
        "server": demo.server.target.url,
        "model": demo.server.model,
        "num_slots": demo.num_slots,
        "quantum_s": demo.quantum_s,
        "arms": [_arm_document(arm) for arm in demo.arms],
        "picture": str(picture),
    }


def write_picture(demo: Demo, path: Path) -> None:
    """Both arms on one time axis, as SVG. The old file or the whole new one."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(gantt_svg({arm.policy: arm.watch for arm in demo.arms}), encoding="utf-8")
    partial.replace(path)


def _arm_document(arm: Arm) -> dict[str, Any]:
    return {
        "policy": arm.policy,
        "mean_jct_s": arm.mean_jct_s,
        "makespan_s": arm.makespan_s,
        "programs": [
            {
                "program": program.name,
                "jct_s": arm.done_s[program.name],
                "waiting_s": arm.watch.standing(program.name, arm.makespan_s).waited_s,
                "calls": [
                    {
                        "call_id": call.call_id.partition("/")[2],
                        "arrived_s": call.arrived_s,
                        "sent_s": call.served[0][0] if call.served else None,
                        "over_s": call.ended_s,
                    }
                    for call in arm.watch.of(program.name)
                ],
            }
            for program in PROGRAMS
        ],
    }


def _waiting_s(arm: Arm) -> float:
    """Mean over programs of the time that their calls waited, in sum."""
    return sum(arm.watch.standing(p.name, arm.makespan_s).waited_s for p in PROGRAMS) / len(PROGRAMS)
