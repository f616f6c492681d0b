"""A run of `agentix bench`, as reports need it; the files of single runs that `agentix ab` leaves are of the same kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from agentix.ab.compare import group_programs
from agentix.metrics import distribution
from agentix.report.breakdown import shares_of_time
from agentix.report.model import ALL, MAKESPAN, METRICS, STATISTICS, CallSpan, Numbers, Run, Source

Document = Mapping[str, Any]


def read_bench(document: Document, *, name: str, label: str) -> Source:
    """The result as a source of one run, whose arm is `label`. Raises KeyError or TypeError for what is no such result."""
    rate_per_s = document["rate_per_s"]
    return Source(
        name=name,
        kind="agentix bench",
        facts=(
            ("workload", document["workload"]),
            ("programs", str(document["num_programs"])),
            ("model", document["model"]),
            ("rate", rate_text(rate_per_s)),
            ("seed", str(document["seed"])),
            ("started", document["started_at"]),
            ("agentix", document["agentix_version"]),
            ("machine", machine_text(document["machine"])),
        ),
        warnings=tuple(_warnings(document)),
        runs=(read_run(document, arm=label, point=rate_text(rate_per_s), repeat=f"seed {document['seed']}"),),
    )


def read_run(document: Document, *, arm: str, point: str, repeat: str) -> Run:
    """The run's numbers, of all programs and of the groups that a comparison shows too, and what its calls tell."""
    numbers = {group: _numbers(programs) for group, programs in group_programs(document).items()}
    numbers[ALL] = {**numbers[ALL], MAKESPAN: document["summary"]["makespan_s"]}
    calls = _by_program(document)
    ended_well = [program for program in document["programs"] if program["status"] == "ok"]
    return Run(
        arm=arm,
        point=point,
        rate_per_s=document["rate_per_s"],
        repeat=repeat,
        groups=numbers,
        samples={metric: [p[metric] for p in ended_well if p[metric] is not None] for metric in METRICS},
        shares=shares_of_time((p["arrival_s"], calls[p["program_id"]]) for p in ended_well),
        calls=[
            CallSpan(
                program_id=program["program_id"],
                sent_s=call["sent_s"],
                first_token_s=call["first_token_s"],
                end_s=call["end_s"],
            )
            for program in sorted(document["programs"], key=lambda p: p["arrival_s"])
            for call in calls[program["program_id"]]
            if call["sent_s"] is not None and call["end_s"] is not None
        ],
    )


def rate_text(rate_per_s: float | None) -> str:
    """The load of a point in words."""
    return "all at once" if rate_per_s is None else f"{rate_per_s:g} programs/s"


def machine_text(machine: Mapping[str, Any]) -> str:
    """The machine in words."""
    return f"{machine['num_cpus']} CPUs, {machine['platform']}"


def _numbers(programs: Sequence[Mapping[str, Any]]) -> Numbers:
    numbers: dict[str, float | None] = {}
    for metric in METRICS:
        values = distribution(program[metric] for program in programs)
        numbers |= {f"{metric}.{statistic}": getattr(values, statistic) for statistic in STATISTICS}
    return numbers


def _by_program(document: Document) -> Mapping[str, list[Mapping[str, Any]]]:
    calls: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for call in document["calls"]:
        calls[call["program_id"]].append(call)
    return calls


def _warnings(document: Document) -> list[str]:
    """What the reader must know before trusting the numbers."""
    summary = document["summary"]
    found = [
        (not document["complete"], "the run was interrupted: the result holds what was measured until then"),
        (summary["num_calls"]["failed"], f"{summary['num_calls']['failed']} calls failed; their programs are in no latency"),
        (summary["num_short_answers"], f"{summary['num_short_answers']} answers are shorter than asked for"),
        (document["num_skipped_too_long"], f"{document['num_skipped_too_long']} programs did not fit and were left out"),
        (document["num_repeated"], f"{document['num_repeated']} programs are repeats of others"),
    ]
    return [text for holds, text in found if holds]
