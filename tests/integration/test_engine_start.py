"""A real engine with the small model: converts, starts, answers, stops, leaves nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from agentix.engine.launcher import EngineOptions, start_engines, stop
from agentix.engine.model import BUILT_IN, resolve_model
from agentix.engine.process_group import members

pytestmark = [pytest.mark.engine, pytest.mark.slow]


async def test_a_stock_engine_answers_and_leaves_nothing(tmp_path: Path) -> None:
    directory = resolve_model(BUILT_IN)
    said: list[str] = []
    options = EngineOptions(model=directory, served_model_name=BUILT_IN, vllm_args=("--max-model-len", "2048"))
    [engine] = await start_engines([options], on_progress=said.append, timeout_s=300, log_dir=tmp_path)
    try:
        answer = await _ask(engine.url, "What is the capital of France?")
        assert len(said) > 2
        assert engine.poll() is None
    finally:
        await stop([engine])
    assert "Paris" in answer["choices"][0]["message"]["content"]
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["metrics"]["queue_time_ms"] >= 0
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert members(engine.pid) == []
    assert engine.poll() == 0


async def _ask(url: str, question: str) -> dict[str, Any]:
    body = {"model": BUILT_IN, "messages": [{"role": "user", "content": question}], "max_tokens": 40, "temperature": 0}
    async with httpx2.AsyncClient(trust_env=False, timeout=120) as client:
        response = await client.post(f"{url}/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer
