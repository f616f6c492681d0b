"""How far answers are the same, and the table that says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.greedy_equality.arms import ALONE, STOCK
from benchmarks.greedy_equality.measure import Served


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A call whose answer is another than the reference's: the first token that differs, from 0.

    `margin` is how far the reference's token stood above the next best there, in nats, if that is known: a tie that
    rounding decides has a margin of about nothing, a wrong KV block has any.
    """

    call: int
    position: int
    margin: float | None


def differences(answers: Sequence[Sequence[int]], reference: Served) -> list[Difference]:
    """All calls of which the answers are not the same, token for token."""
    found = []
    for call, (ours, theirs) in enumerate(zip(answers, reference.answers, strict=True)):
        position = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b), None)
        if position is not None:
            margin = reference.margins[call][position] if reference.margins else None
            found.append(Difference(call=call, position=position, margin=margin))
    return found


def table(served: Mapping[str, Served]) -> str:
    """Arm by arm, in Markdown."""
    columns = ["arm", "calls", "tokens", f"same as {ALONE}", f"same as {STOCK}", "parks", "resumes", "evictions"]
    columns += ["vLLM's preemptions", "promotions", "demotions", "seconds"]
    lines = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    for name, arm in served.items():
        counted = ("num_parks", "num_resumes", "num_evictions", "num_preemptions", "num_promotions", "num_demotions")
        same = [len(arm.answers) - len(differences(arm.answers, served[base])) for base in (ALONE, STOCK)]
        numbers = [len(arm.answers), sum(map(len, arm.answers)), *same, *(arm.counts.get(key, 0) for key in counted)]
        lines.append(f"| {name} | {' | '.join(f'{n:,}' for n in numbers)} | {arm.duration_s:.0f} |")
    return "\n".join(lines)
