"""The configurations in docs/recipes.md: each in the format that the tool documents, and each leads to the gateway's routes."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from gateway_system import gateway
from recorded_engine import RecordedEngine

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text()
GATEWAY = "http://127.0.0.1:8080"
MODEL = "smollm2-135m"
CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "x"}], "stream": True}

# What the tools document, as far as a client of a gateway may need it (the pages are linked in docs/recipes.md).
CLAUDE_CODE_VARIABLES = {
    "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_MODEL", "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_DEFAULT_OPUS_MODEL", "ANTHROPIC_DEFAULT_SONNET_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL",
}  # fmt: skip
CODEX_PROVIDER_KEYS = {
    "name", "base_url", "env_key", "wire_api", "query_params", "http_headers", "env_http_headers", "request_max_retries",
    "stream_max_retries", "stream_idle_timeout_ms",
}  # fmt: skip
OPENCODE_PROVIDER_KEYS = {"npm", "name", "options", "models"}
OPENCODE_OPTIONS = {"baseURL", "apiKey", "headers", "timeout"}


def recipe(tool: str, language: str) -> str:
    """The configuration under the heading."""
    section = PAGE.split(f"## {tool}\n")[1].split("\n## ")[0]
    (block,) = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    return str(block)


async def program_of(base_url: str, path: str, body: Any, headers: dict[str, str]) -> str:
    """To which program a gateway at the address counts the call that the tool makes there."""
    assert base_url.startswith(GATEWAY)
    async with gateway(RecordedEngine(models=(MODEL,))) as system:
        await system.models_known()
        response = await system.post(base_url.removeprefix(GATEWAY) + path, body, headers)
        assert response.status_code == 200, response.text
        return response.headers["x-agentix-program"]


async def test_claude_code() -> None:
    (settings,) = json.loads(recipe("Claude Code", "json")).items()
    assert settings[0] == "env"
    variables = settings[1]
    assert set(variables) <= CLAUDE_CODE_VARIABLES
    assert all(isinstance(value, str) for value in variables.values())
    body = {**CHAT, "model": variables["ANTHROPIC_MODEL"], "max_tokens": 4}
    headers = {"authorization": f"Bearer {variables['ANTHROPIC_AUTH_TOKEN']}", "x-claude-code-session-id": "s"}
    assert await program_of(variables["ANTHROPIC_BASE_URL"], "/v1/messages?beta=true", body, headers) == "s"
    assert variables["ANTHROPIC_DEFAULT_HAIKU_MODEL"] == MODEL


async def test_codex() -> None:
    config = tomllib.loads(recipe("Codex", "toml"))
    assert set(config) == {"model", "model_provider", "model_providers"}
    provider = config["model_providers"][config["model_provider"]]
    assert config["model_provider"] not in {"openai", "ollama", "lmstudio"}, "these are built in and cannot be overridden"
    assert set(provider) <= CODEX_PROVIDER_KEYS
    assert provider["wire_api"] == "responses"
    body = {"model": config["model"], "input": "x", "stream": True, "store": False}
    assert await program_of(provider["base_url"], "/responses", body, {"session-id": "s", "thread-id": "s"}) == "s"


async def test_opencode() -> None:
    config = json.loads(recipe("OpenCode", "json"))
    assert set(config) == {"$schema", "model", "provider"}
    name, _, model = config["model"].partition("/")
    provider = config["provider"][name]
    assert set(provider) <= OPENCODE_PROVIDER_KEYS
    assert set(provider["options"]) <= OPENCODE_OPTIONS
    assert provider["npm"] == "@ai-sdk/openai-compatible"
    assert model in provider["models"]
    headers = {"authorization": "Bearer none", "x-session-id": "s", "x-session-affinity": "s"}
    assert await program_of(provider["options"]["baseURL"], "/chat/completions", {**CHAT, "model": model}, headers) == "s"
