"""JSON of each figure's numbers, and the page that is written from all of them."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentix import __version__
from benchmarks.paper import setup
from benchmarks.paper.figure import Figure, Finding
from benchmarks.paper.figures import FIGURES
from benchmarks.paper.notes import INTRODUCTION, NOTES
from benchmarks.paper.point import Outcome

Document = dict[str, Any]


def document(figure: Figure, numbers: Any, *, scale: float, runs: Sequence[Outcome]) -> Document:
    """Everything about one figure, ready for JSON."""
    return {
        "figure": figure.number,
        "title": figure.title,
        "command": f"python -m benchmarks.paper {figure.number}",
        "agentix": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "num_runs": len(runs),
        "core_s": round(sum(outcome.cpu_s for outcome in runs), 1),
        "scale": scale,
        "seeds": sorted({point.seed for point in figure.points(scale)}) or [0],
        "setup": {
            "device": setup.DEVICE,
            "model": setup.MODEL,
            "engines": {s.label: asdict(s.engine) for s in (setup.VLLM, setup.VLLM_OPT, setup.MLFQ, setup.PLAS)},
        },
        "numbers": numbers,
    }


def save(folder: Path, done: Document) -> None:
    """Write one figure's numbers."""
    text = json.dumps(rounded(done), indent=1, allow_nan=False)
    (folder / f"figure-{done['figure']}.json").write_text(text + "\n", encoding="utf-8")


def load(folder: Path, number: str) -> Document | None:
    """What `save` wrote, if it did."""
    path = folder / f"figure-{number}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def write_page(folder: Path) -> None:
    """README.md of the folder, from its JSON files."""
    documents = {number: done for number in FIGURES if (done := load(folder, number)) is not None}
    sections = [_section(FIGURES[number], done) for number, done in documents.items()]
    (folder / "README.md").write_text(
        "\n\n".join([INTRODUCTION.strip(), _table(documents), *sections]) + "\n", encoding="utf-8"
    )


def _table(documents: dict[str, Document]) -> str:
    rows = ["| figure | | claims that hold |", "|---|---|---|"]
    for number, done in documents.items():
        judged = [finding.holds for finding in FIGURES[number].findings(done["numbers"]) if finding.holds is not None]
        rows.append(f"| [{number}](#figure-{number}) | {done['title']} | {sum(judged)} of {len(judged)} |")
    return "\n".join(rows)


def _section(figure: Figure, done: Document) -> str:
    findings = figure.findings(done["numbers"])
    lines = [
        f"## Figure {figure.number}",
        f"**{figure.title}.** The paper: {figure.claim}.",
        f"![Figure {figure.number}](figure-{figure.number}.svg)",
        "\n".join(f"- {_sentence(finding)}" for finding in findings),
    ]
    if figure.number in NOTES:
        lines.append(NOTES[figure.number].strip())
    seeds = ", ".join(map(str, done["seeds"]))
    lines.append(
        f"`{done['command']}`: {done['num_runs']} runs, seed {seeds}; {done['core_s']:.0f} s of one core ({done['machine']}, "
        f"Python {done['python']}). Numbers and settings: [figure-{figure.number}.json](figure-{figure.number}.json)."
    )
    return "\n\n".join(lines)


def _sentence(finding: Finding) -> str:
    if finding.holds is None:
        return finding.text
    verdict = "**The claim holds.**" if finding.holds else "**The claim does not hold here.**"
    return f"{finding.text} {verdict}" + (f" {finding.why}" if finding.why and not finding.holds else "")


def rounded(value: Any) -> Any:
    """Four significant digits: enough to draw, and small differences of platforms do not show."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {str(key): rounded(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [rounded(each) for each in value]
    return value
