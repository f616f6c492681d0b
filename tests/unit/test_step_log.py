"""The step log: what a step computed, and reading it back."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from agentix.core import ConfigError
from agentix.cost import EngineFacts, Step
from agentix.engine.step_log import StepRecord, facts_line, read_step_log, step_line, work_of

FACTS = EngineFacts(
    device="a processor",
    vllm_version="0.32.0",
    dtype="float32",
    max_num_seqs=8,
    max_batch_tokens=2048,
    block_size=32,
    num_blocks=727,
    max_model_len=4096,
    prefix_cache=True,
    async_scheduling=False,
)
RECORD = StepRecord(began_s=1.0, started_s=1.5, returned_s=2.0, num_calls=1, step=Step(num_decodes=1, decode_context_tokens=9))


def test_the_work_of_a_step() -> None:
    """vLLM has counted the step's tokens as computed when it is asked."""
    requests = {
        "whole prompt": SimpleNamespace(num_prompt_tokens=3, num_computed_tokens=3),
        "second chunk": SimpleNamespace(num_prompt_tokens=9, num_computed_tokens=7),
        "last token of the prompt": SimpleNamespace(num_prompt_tokens=5, num_computed_tokens=5),
        "first decode": SimpleNamespace(num_prompt_tokens=5, num_computed_tokens=6),
        "answer again": SimpleNamespace(num_prompt_tokens=5, num_computed_tokens=8),
    }
    scheduled = {"whole prompt": 3, "second chunk": 2, "last token of the prompt": 1, "first decode": 1, "answer again": 2}
    assert work_of(scheduled, requests) == Step(
        prefill_tokens=3 + 2 + 1 + 2,
        prefill_pairs=(1 + 2 + 3) + (6 + 7) + 5 + (7 + 8),
        num_decodes=1,
        decode_context_tokens=6,
    )


def test_a_log_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "steps"
    path.write_text(f"{facts_line(FACTS)}\n{step_line(RECORD)}\n")
    assert read_step_log(path) == (FACTS, [RECORD])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("{}\n", "line 1"),
        (f"{step_line(RECORD)}\n", "line 1"),
        (f"{facts_line(FACTS)}\nnonsense\n", "line 2"),
        (f"{facts_line(FACTS)}\n[]\n", "line 2"),
        (f"{facts_line(FACTS)}\n{step_line(RECORD)[:-9]}\n", "line 2"),
    ],
)
def test_what_is_no_step_log_is_refused_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "steps"
    path.write_text(text)
    with pytest.raises(ConfigError, match=f"steps.*{problem}"):
        read_step_log(path)


def test_a_log_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="steps: the step log cannot be read"):
        read_step_log(tmp_path / "steps")
