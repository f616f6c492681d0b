"""Batches of programs over one gateway, to the shortest makespan: bounded, repeated where they fail, resumable.

    import json
    from pathlib import Path

    from openai import AsyncOpenAI

    from agentix.offline import Job, OfflineConfig, Session, run_offline


    def solve(question: str) -> Job:
        async def run(session: Session) -> str | None:
            async with AsyncOpenAI(base_url=session.base_url, api_key="none") as openai:
                answer = await openai.chat.completions.create(model="m", messages=[{"role": "user", "content": question}])
            return answer.choices[0].message.content

        return Job(job_id=question, run=run)


    config = OfflineConfig(gateway="http://127.0.0.1:8080", out=Path("results.jsonl"))
    report = run_offline([solve(f"{n} times 7?") for n in range(100)], config)

A job runs within `agentix.program`, so its calls carry program, thread and parents by themselves (docs/client.md). Importing
this package needs no HTTP library; running a batch does (`pip install 'agentix[offline]'`). See docs/offline.md.
"""

from __future__ import annotations

from agentix.offline.batch import Progress
from agentix.offline.config import OfflineConfig
from agentix.offline.errors import GiveUp, OfflineError
from agentix.offline.job import Job, Session
from agentix.offline.results import Result, Status
from agentix.offline.run import Report, run_jobs, run_offline

__all__ = [
    "GiveUp",
    "Job",
    "OfflineConfig",
    "OfflineError",
    "Progress",
    "Report",
    "Result",
    "Session",
    "Status",
    "run_jobs",
    "run_offline",
]
