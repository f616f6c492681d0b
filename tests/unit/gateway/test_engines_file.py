"""Engines as people write them down."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentix.core.errors import ConfigError
from agentix.gateway.config import EngineTarget, HostedLimits
from agentix.gateway.engines_file import load_engines, read_engine
from agentix.gateway.upstream import forwarded_headers
from agentix.serve import ServeOptions, _targets

GOOD = """
[engine.local]
url = "http://127.0.0.1:8000/v1"
plugin = true

[engine.cloud]
url = "https://api.example.com/api/v1"
api_key_env = "CLOUD_KEY"
requests_per_minute = 500
concurrency = 8

[engine.other]
url = "https://other.example.com"
hosted = true
"""


def test_a_file_of_engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUD_KEY", "secret")
    path = tmp_path / "engines.toml"
    path.write_text(GOOD)
    assert load_engines(path) == (
        EngineTarget(engine_id="local", url="http://127.0.0.1:8000", plugin=True),
        EngineTarget(
            engine_id="cloud",
            url="https://api.example.com/api",
            api_key_env="CLOUD_KEY",
            hosted=HostedLimits(requests_per_minute=500, concurrency=8),
        ),
        EngineTarget(engine_id="other", url="https://other.example.com", hosted=HostedLimits()),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[engine.a", "engines.toml"),
        ("", "no engine in it"),
        ("engine = 3", "no engine in it"),
        ("[engines.a]\nurl = 'http://x'", "unknown table 'engines'"),
        ("[engine.a]", "engine 'a' has no url"),
        ("[engine.a]\nurl = 3", "url must be a str, not 3"),
        ("[engine.a]\nurl = 'http://x'\nplugin = 1", "plugin must be a bool, not 1"),
        ("[engine.a]\nurl = 'x'", "must start with http"),
        ("[engine.a]\nurl = 'http://x'\nrpm = 3", "unknown field of engine 'a' 'rpm'; known: api_key_env, api_key_header"),
        ("[engine.a]\nurl = 'http://x'\nconcurrency = 0", "concurrency must be a number above 0"),
        ("[engine.a]\nurl = 'http://x'\napi_key_env = 'NOT_SET_ANYWHERE'", "'NOT_SET_ANYWHERE'"),
        ("[engine.'a/b']\nurl = 'http://x'", "without a slash"),
        ("[engine]\na = 3", "is no table"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "engines.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"engines\.toml") as raised:
        load_engines(path)
    assert message in str(raised.value)


def test_serve_takes_them_alone_or_beside_others() -> None:
    more = (read_engine("cloud", {"url": "https://cloud.example.com/v1", "concurrency": 2}),)
    assert _targets(ServeOptions(more_engines=more), []) == more
    beside = _targets(ServeOptions(engine_urls=("http://127.0.0.1:1",), more_engines=more), [])
    assert [e.engine_id for e in beside] == ["engine-0", "cloud"]
    with pytest.raises(ConfigError, match="either a MODEL"):
        ServeOptions()


@pytest.mark.parametrize("engine_id", [None, 3, "", "a/b", "x" * 257, "a\nb"])
def test_ids_are_checked(engine_id: object) -> None:
    with pytest.raises(ConfigError, match="an engine's id is"):
        read_engine(engine_id, {"url": "http://x"})


@pytest.mark.parametrize(
    ("header", "sent", "asked"),
    [
        ("authorization", {"authorization": "Bearer secret"}, {}),
        ("x-api-key", {"x-api-key": "secret"}, {"anthropic-version": "2023-06-01"}),
        ("api-key", {"api-key": "secret"}, {}),
    ],
)
def test_an_engine_gets_its_key_where_it_looks_for_it(
    header: str, sent: dict[str, str], asked: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUD_KEY", "secret")
    target = read_engine("cloud", {"url": "https://a", "api_key_env": "CLOUD_KEY", "api_key_header": header})
    assert target.credentials() == sent
    assert target.question_headers() == {**sent, **asked}
    raw = [(b"authorization", b"Bearer mine"), (b"x-api-key", b"mine"), (b"api-key", b"mine"), (b"anthropic-version", b"v")]
    forwarded = [(name.decode(), value.decode()) for name, value in forwarded_headers(raw, target)]
    assert forwarded == [("anthropic-version", "v"), ("accept-encoding", "identity"), *sent.items()]
    assert EngineTarget(engine_id="e", url="https://a", api_key_header=header).question_headers() == {}


def test_a_header_that_no_engine_looks_for_its_key_in_is_refused() -> None:
    with pytest.raises(ConfigError, match="api_key_header must be one of authorization, x-api-key, api-key, not 'cookie'"):
        read_engine("cloud", {"url": "https://a", "api_key_header": "cookie"})
