"""A gateway without keys: no page of another site, no name pointed here, nobody elsewhere gets anything done on any path."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from agentix.gateway import EngineTarget, GatewayConfig, create_app
from asgi_calls import Answer, ask
from fake_engine import FakeEngine
from gateway_system import gateway
from tenant_keys import bearer, tenants

EVIL = b"http://evil.example"
PROBED = ["/health", "/metrics"]


def application(**config: Any) -> Starlette:
    """A gateway that nobody serves: what it refuses never gets further than the door."""
    return create_app(GatewayConfig(engines=(EngineTarget(engine_id="e0", url="http://127.0.0.1:9"),), **config))


def requests_to(app: Starlette) -> Iterator[tuple[str, str]]:
    """A request of every method to every route, and to what is none."""
    for route in app.routes:
        if isinstance(route, Mount):
            yield from (("GET", f"{route.path}/{rest}") for rest in ("", "app.js"))
        elif isinstance(route, Route):
            path = route.path
            for name in route.param_convertors:
                path = re.sub(rf"\{{{name}(:\w+)?\}}", "x", path)
            yield from ((method, path) for method in sorted((route.methods or {"GET", "POST"}) - {"HEAD"}))
    yield from (("GET", "/"), ("POST", "/nowhere"), ("OPTIONS", "/v1/chat/completions"))


def code_of(answer: Answer) -> Any:
    return httpx2.Response(answer.status, content=answer.body).json()["error"].get("code")


@pytest.mark.parametrize(
    "headers",
    [
        [(b"origin", EVIL)],
        [(b"origin", b"null")],
        [(b"origin", EVIL), (b"content-type", b"application/json")],
        [(b"origin", b"http://localhost:3000"), (b"sec-fetch-site", b"same-site")],  # another server on this machine
        [(b"sec-fetch-site", b"cross-site")],  # no Origin: an image, a script, a form that is sent by GET
        [(b"sec-fetch-site", b"same-site")],
        [(b"sec-fetch-site", b"cross-site"), (b"sec-fetch-mode", b"navigate"), (b"sec-fetch-dest", b"iframe")],
    ],
)
async def test_no_path_is_for_pages_of_other_sites(headers: list[tuple[bytes, bytes]]) -> None:
    app, seen = application(), 0
    for method, path in requests_to(app):
        answer = await ask(app, method, path, [b"{}"], headers=headers)
        assert (answer.status, code_of(answer)) == (403, None if path.startswith("/v1/messages") else "foreign_origin"), path
        seen += 1
    assert seen > 30
    assert app.state.table.rows == {}


@pytest.mark.parametrize("host", [b"evil.example", b"evil.example:8080", b"localhost.evil.example", b"127.0.0.1.evil.example"])
async def test_no_path_answers_to_a_name_that_was_pointed_here(host: bytes) -> None:
    app = application()
    for method, path in requests_to(app):
        answer = await as_host(app, host, method, path)
        if path in PROBED:
            assert answer.status in {200, 503}, path
        else:
            assert answer.status == 403, path
    assert app.state.table.rows == {}


async def as_host(app: Starlette, host: bytes, method: str, path: str) -> Answer:
    """A request to the app by this name, from a page that was loaded from it: to the browser it is the same origin."""

    async def renamed(scope: Any, receive: Any, send: Any) -> None:
        own = [(name, value) for name, value in scope["headers"] if name != b"host"]
        await app({**scope, "headers": [(b"host", host), *own]}, receive, send)

    return await ask(renamed, method, path, [b"{}"], headers=[(b"origin", b"http://" + host)])  # type: ignore[arg-type]


async def test_probes_by_any_name_see_that_it_lives_and_no_more() -> None:
    async with gateway(FakeEngine()) as system:
        probe = await system.client.get("/health", headers={"host": "agentix.svc.cluster.local:8080"})
        assert (probe.status_code, probe.json().keys()) == (200, {"status", "version"})
        assert "engines" in (await system.client.get("/health")).json()
        scraped = await system.client.get("/metrics", headers={"host": "agentix.svc.cluster.local:8080"})
        assert "agentix_gateway" in scraped.text


async def test_this_machine_s_names_numbers_and_those_that_are_told_pass() -> None:
    hosts = ("localhost", "LOCALHOST:8080", "localhost.:80", "agents.localhost", "127.0.0.2:1", "[::1]:8080", "GPU-1:8")
    async with gateway(FakeEngine(), allowed_hosts=("gpu-1",)) as system:
        for host in hosts:
            answer = await system.client.get("/v1/programs", headers={"host": host, "origin": f"http://{host}"})
            assert answer.status_code == 200, host
        refused = await system.client.get("/v1/programs", headers={"host": "gpu-2"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "unknown_host")
        assert "--allow-host" in refused.json()["error"]["message"]


@pytest.mark.parametrize("origins", [("https://a.example",), ("*",)])
async def test_pages_that_the_operator_lets_in_may_call(origins: tuple[str, ...]) -> None:
    async with gateway(FakeEngine(), cors_origins=origins) as system:
        headers = {"Origin": "https://a.example", "Sec-Fetch-Site": "cross-site"}
        answer = await system.chat(headers)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, origins[0])
        other = await system.chat({**headers, "Origin": "https://b.example"})
        assert other.status_code == (200 if origins == ("*",) else 403)


async def test_a_link_to_the_dashboard_may_be_followed() -> None:
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    async with gateway(FakeEngine()) as system:
        assert (await system.client.get("/ui/", headers=followed)).status_code == 200
        assert (await system.client.get("/ui/", headers={"Sec-Fetch-Site": "none"})).status_code == 200
        assert (await system.client.get("/v1/programs", headers={"Sec-Fetch-Site": "same-origin"})).status_code == 200
        assert (await system.client.get("/v1/programs", headers=followed)).status_code == 403
        assert (await system.client.post("/ui/", headers=followed)).status_code == 403


FORWARDED = [  # and who of those that it names is elsewhere
    ({"X-Forwarded-For": "192.0.2.1"}, "192.0.2.1"),
    ({"X-Forwarded-For": "127.0.0.1, 192.0.2.1"}, "192.0.2.1"),  # the first is what the client says of itself
    ({"X-Real-IP": "192.0.2.1"}, "192.0.2.1"),
    ({"Forwarded": "for=192.0.2.43;proto=http"}, "192.0.2.43"),
    ({"Forwarded": 'proto=https;For="[2001:db8::17]:4711"'}, "[2001:db8::17]:4711"),
    ({"Forwarded": "for=127.0.0.1, for=_hidden"}, "_hidden"),
    ({"X-Forwarded-For": "127.0.0.1"}, ""),
    ({"X-Forwarded-For": "::ffff:127.0.0.1, [::1]:80, 127.0.0.1:4711"}, ""),
    ({"Forwarded": 'for="[::1]";by=203.0.113.43'}, ""),
    ({"Forwarded": "by=203.0.113.43"}, ""),
]


async def test_whoever_comes_through_a_proxy_from_elsewhere_is_not_local() -> None:
    async with gateway(FakeEngine()) as system:
        for headers, elsewhere in FORWARDED:
            answer = await system.chat(headers)
            assert answer.status_code == (403 if elsewhere else 200), headers
            if elsewhere:
                error = answer.json()["error"]
                assert error["code"] == "not_local"
                assert repr(elsewhere) in error["message"]
                assert "agentix key" in error["message"]


async def test_if_the_operator_wants_it_they_may_call_but_not_change_engines() -> None:
    async with gateway(FakeEngine(), remote_clients=True) as system:
        for headers, elsewhere in FORWARDED:
            assert (await system.chat(headers)).status_code == 200
            undrained = await system.client.post("/v1/engines/e0/undrain", json={}, headers=headers)
            assert undrained.status_code == (403 if elsewhere else 200), headers


async def test_with_keys_pages_names_and_proxies_do_not_matter() -> None:
    headers = {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}
    headers |= {"host": "api.example", "x-forwarded-for": "192.0.2.1"}
    async with gateway(FakeEngine(), tenants=tenants()) as system:
        assert (await system.chat(bearer("acme", **headers))).status_code == 200
        assert (await system.chat(headers)).status_code == 401


async def test_what_is_refused_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with gateway(FakeEngine()) as system:
        anthropic = await system.post("/v1/messages", {}, {"Origin": "http://evil.example"})
        assert (anthropic.status_code, anthropic.json()["error"]["type"]) == (403, "permission_error")
        metrics = (await system.client.get("/metrics")).text
        assert 'agentix_gateway_rejections_total{reason="forbidden",tenant=""} 1.0' in metrics
    assert "POST from 127.0.0.1 to '/v1/messages': 403, not for pages of 'http://evil.example'" in caplog.text


async def test_a_client_that_has_connected_from_elsewhere_is_refused() -> None:
    app = application()

    async def from_elsewhere(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "client": ("192.0.2.7", 5)}, receive, send)

    answer = await ask(from_elsewhere, "GET", "/v1/programs")  # type: ignore[arg-type]
    assert (answer.status, code_of(answer)) == (403, "not_local")
