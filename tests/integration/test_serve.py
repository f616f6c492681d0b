"""`agentix serve` as a process: in front of a fake engine, and when something is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import agentix.serve
from agentix.core import ConfigError
from agentix.core.policies import POLICIES
from fake_engine import FakeEngine, served


async def _start(*arguments: str, cwd: Path | None = None) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "agentix", "serve", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=cwd,
        env={**os.environ, "AGENTIX_STATE_DIR": str(cwd or Path.cwd())},
    )


@asynccontextmanager
async def serving(*arguments: str, cwd: Path | None = None) -> AsyncIterator[tuple[asyncio.subprocess.Process, Any]]:
    """A running `agentix serve --json`, and what it said when it was ready."""
    process = await _start("--json", "--port", "0", *arguments, cwd=cwd)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = await process.stdout.readline()
        assert line, (await process.stderr.read()).decode()
        yield process, json.loads(line)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def failure(*arguments: str, cwd: Path | None = None) -> tuple[int | None, str]:
    """Exit status and standard error of an `agentix serve` that cannot start."""
    process = await _start(*arguments, cwd=cwd)
    _, stderr = await process.communicate()
    return process.returncode, stderr.decode()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
async def test_it_serves_running_engines_until_it_is_told_to_stop(signum: signal.Signals) -> None:
    engine = FakeEngine()
    async with served(engine.app) as url, serving("--engine-url", f"{url}/v1") as (process, ready):
        assert ready["model"] == "fake"
        assert ready["engines"] == [{"id": "engine-0", "url": url, "program_scheduling": False}]
        async with httpx2.AsyncClient(trust_env=False) as client:
            answer = await client.post(f"{ready['url']}/chat/completions", json={"messages": []}, headers={"X-Session-ID": "p"})
            assert answer.json()["choices"][0]["message"]["content"] == "héllo"
            assert engine.last_headers["x-session-id"] == "p"
        process.send_signal(signum)
        assert await process.wait() == 0


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_in_flight_does_not_keep_it_from_stopping(stream: bool) -> None:
    engine = FakeEngine(mode="hang")
    async with served(engine.app) as url, serving("--engine-url", url) as (process, ready):
        async with httpx2.AsyncClient(trust_env=False) as client:
            call = asyncio.create_task(client.post(f"{ready['url']}/chat/completions", json={"stream": stream}, timeout=60))
            while engine.num_active == 0:
                await asyncio.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
            answer = await call
        assert answer.status_code == (200 if stream else 503)
        assert json.loads(answer.text.split("data: ")[-1])["error"]["code"] == 503
        assert process.stderr is not None
        assert "Traceback" not in (await process.stderr.read()).decode()
        while engine.num_active:
            await asyncio.sleep(0.01)


async def test_nohup_keeps_it_running() -> None:
    signal_before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        async with served(FakeEngine().app) as url, serving("--engine-url", url) as (process, ready):
            process.send_signal(signal.SIGHUP)
            async with httpx2.AsyncClient(trust_env=False) as client:
                assert (await client.get(f"{ready['url']}/programs")).status_code == 200
            assert process.returncode is None
    finally:
        signal.signal(signal.SIGHUP, signal_before)


def _tenants_file(path: Path, key: str) -> None:
    path.write_text(f'[tenant.acme]\nkeys_sha256 = ["{hashlib.sha256(key.encode()).hexdigest()}"]\n')


async def test_sighup_reads_the_tenants_again(tmp_path: Path) -> None:
    path, keys = tmp_path / "tenants.toml", ("a" * 40, "b" * 40)
    _tenants_file(path, keys[0])
    engine = FakeEngine()
    preamble = "x-anthropic-billing-header: cch=1;\n"
    body = {"model": "fake", "messages": [{"role": "system", "content": f"{preamble}Be brief."}]}
    arguments = ("--tenants", str(path), "--normalise-preambles")
    async with served(engine.app) as url, serving("--engine-url", url, *arguments) as (process, ready):
        assert process.stderr is not None
        async with httpx2.AsyncClient(base_url=ready["url"], trust_env=False) as client:

            async def statuses() -> list[int]:
                bearers = [{"Authorization": f"Bearer {key}"} for key in keys]
                return [(await client.post("/chat/completions", json=body, headers=b)).status_code for b in bearers]

            assert await statuses() == [200, 401]
            assert engine.last_body["messages"] == [{"role": "system", "content": "Be brief."}]
            _tenants_file(path, keys[1])
            for says in (b"the tenants were read again from", b"the tenants stay as they were"):
                process.send_signal(signal.SIGHUP)
                line = b""
                while says not in line:
                    line = await asyncio.wait_for(process.stderr.readline(), 30)
                    assert line, says
                assert await statuses() == [401, 200]
                path.write_text("[broken")
        assert process.returncode is None


async def test_without_keys_it_goes_by_the_names_that_it_is_told() -> None:
    async with (
        served(FakeEngine().app) as url,
        serving("--engine-url", url, "--allow-host", "gpu-1") as (_, ready),
        httpx2.AsyncClient(base_url=ready["url"], trust_env=False) as client,
    ):
        for host, status in (("gpu-1:80", 200), (socket.gethostname(), 200), ("gpu-2", 403)):
            assert (await client.get("/programs", headers={"host": host})).status_code == status


async def test_a_second_ctrl_c_does_not_cut_the_first_short(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[Any] = []

    async def interrupted(*arguments: Any) -> list[Any]:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)
        return []

    async def stop(engines: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0.05)
        stopped.append(engines)

    monkeypatch.setattr(agentix.serve, "_start_local", interrupted)
    monkeypatch.setattr(agentix.serve, "stop", stop)
    options = agentix.serve.ServeOptions(model="m", port=0)
    await asyncio.create_task(agentix.serve.serve(options, on_progress=print, on_ready=print))
    assert stopped == [[]]


def test_answers_do_not_wait_for_the_client_to_acknowledge_their_head() -> None:
    with agentix.serve._bind("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP  # what asyncio asks before it switches Nagle's algorithm off


async def test_two_that_start_at_once_cannot_have_one_port() -> None:
    with agentix.serve._bind("127.0.0.1", 0) as first, pytest.raises(ConfigError, match="Address already in use"):
        agentix.serve._bind("127.0.0.1", first.getsockname()[1])


async def test_a_user_s_own_balancer_is_found(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from agentix.core.balancers.least_used import LeastUsed as Balancer\n")
    async with (
        served(FakeEngine().app) as url,
        serving("--engine-url", url, "--balancer", "mine:Balancer", cwd=tmp_path) as (_, ready),
    ):
        assert ready["model"] == "fake"


async def test_a_taken_port_is_an_error_before_anything_starts() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        status, stderr = await failure("smollm2-135m", "--port", str(port))
    assert status == 2
    assert stderr == f"agentix: cannot listen on 127.0.0.1 port {port}: Address already in use; choose another with --port\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give either a MODEL"),
        (("m", "--engine-url", "http://x"), "give either a MODEL"),
        (("--engine-url", "localhost:8000"), "url must start with http:// or https://"),
        (("m", "--policy", "nope"), f"unknown policy 'nope'; known: {', '.join(POLICIES.names)}, your_module:YourClass"),
        (("m", "--policy", "srpt"), "needs knowledge of the future"),
        (("m", "--policy", "no_module:X"), "No module named 'no_module'"),
        (("--engine-url", "http://x", "--preemption", "none"), "are for engines that agentix starts"),
        (("--engine-url", "http://x", "--stock"), "are for engines that agentix starts"),
        (("--engine-url", "http://x", "--policy", "srpt"), "needs knowledge of the future"),
        (("--engine-url", "http://x", "--tier", "3"), "tier must be one of auto, 0, 1, 2, not '3'"),
        (("m", "--balancer", "nope"), "unknown balancer 'nope'"),
        (("m", "--quanta", "1,x"), "quanta_s"),
        (("m", "--quanta", "0"), "positive"),
        (("m", "--", "--port", "1"), "the launcher sets itself"),
        (("m", "--decision-log", "/dev/null/x"), "cannot create the directory /dev/null/x"),
    ],
)
async def test_bad_arguments_are_named_in_one_line(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    status, stderr = await failure("--port", "0", *arguments, cwd=tmp_path)
    assert status == 2
    assert message in stderr
    assert "Traceback" not in stderr


@pytest.mark.engine
async def test_an_engine_that_dies_while_starting_is_explained_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "not-a-model").mkdir()
    process = await _start(str(tmp_path / "not-a-model"), "--port", "0", cwd=tmp_path)
    family: set[psutil.Process] = set()
    reading = asyncio.create_task(process.communicate())
    while not reading.done():
        with contextlib.suppress(psutil.NoSuchProcess):
            family.update(psutil.Process(process.pid).children(recursive=True))
        await asyncio.sleep(0.2)
    _, stderr = reading.result()
    assert process.returncode == 2
    assert "engine-0 exited with status" in stderr.decode()
    assert "config.json" in stderr.decode()
    assert family
    assert psutil.wait_procs(list(family), timeout=10)[1] == []


async def test_it_does_not_open_itself_to_a_network_without_keys() -> None:
    status, stderr = await failure("--engine-url", "http://127.0.0.1:1", "--host", "0.0.0.0", "--port", "0")
    assert status == 2
    assert "on 0.0.0.0 everybody who reaches this machine could call: give --tenants FILE" in stderr
    assert "--insecure" in stderr


async def test_with_a_tenants_file_it_wants_keys(tmp_path: Path) -> None:
    key = "agx-" + "0123456789" * 4
    file = tmp_path / "tenants.toml"
    file.write_text(f'[tenant.acme]\nkeys_sha256 = ["{hashlib.sha256(key.encode()).hexdigest()}"]\n')
    options = ("--tenants", str(file), "--host", "0.0.0.0")
    async with served(FakeEngine().app) as url, serving("--engine-url", url, *options) as (_, ready):
        port = httpx2.URL(ready["url"]).port
        async with httpx2.AsyncClient(trust_env=False, base_url=f"http://127.0.0.1:{port}") as client:
            for headers, status in (({}, 401), ({"Authorization": f"Bearer {key}"}, 200)):
                answer = await client.post("/v1/chat/completions", json={"messages": []}, headers=headers)
                assert answer.status_code == status


@pytest.mark.skipif(shutil.which("openssl") is None, reason="a certificate is made with openssl")
async def test_it_speaks_tls(tmp_path: Path) -> None:
    made = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out cert.pem -subj /CN=localhost"
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    openssl = await asyncio.create_subprocess_exec(
        "openssl", *made.split(), *names, cwd=tmp_path, stderr=asyncio.subprocess.DEVNULL
    )
    assert await openssl.wait() == 0
    options = ("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    async with served(FakeEngine().app) as url, serving("--engine-url", url, *options) as (_, ready):
        assert ready["url"].startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        async with httpx2.AsyncClient(trust_env=False, verify=context) as client:
            answer = await client.post(f"{ready['url']}/chat/completions", json={"messages": []})
            assert answer.json()["choices"][0]["message"]["content"] == "héllo"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--tenants", "none.toml"), "cannot read the tenants file none.toml"),
        (("--tls-cert", "c.pem"), "--tls-cert and --tls-key go together"),
        (("--tls-cert", "c.pem", "--tls-key", "k.pem"), "cannot use c.pem with the key k.pem for TLS"),
        (("--engine-key-env", "NO_SUCH_KEY"), "the environment variable 'NO_SUCH_KEY' (its key) is not set"),
    ],
)
async def test_bad_access_settings_are_named(options: tuple[str, ...], message: str, tmp_path: Path) -> None:
    status, stderr = await failure("--engine-url", "http://127.0.0.1:1", "--port", "0", *options, cwd=tmp_path)
    assert (status, message in stderr, "Traceback" in stderr) == (2, True, False), stderr


async def test_every_call_is_a_line_of_json_if_asked_for_and_traces_go_to_a_collector() -> None:
    collected = asyncio.Event()

    async def collect(request: Request) -> Response:
        if b"invoke_agent" in await request.body():  # the program's own span, exported when it is over
            collected.set()
        return Response()

    collector = Starlette(routes=[Route("/v1/traces", collect, methods=["POST"])])
    async with served(FakeEngine().app) as url, served(collector) as otlp:
        options = ("--engine-url", url, "--log-calls", "--log-format", "json", "--otlp-endpoint", otlp)
        async with serving(*options) as (process, ready), httpx2.AsyncClient(trust_env=False) as client:
            await client.post(f"{ready['url']}/chat/completions", json={"messages": []}, headers={"X-Session-ID": "p"})
            assert process.stderr is not None
            line = json.loads(await process.stderr.readline())
            assert (line["logger"], line["program"], line["engine"]) == ("agentix.calls", "p", "engine-0")
            assert (line["outcome"], line["output_tokens"]) == ("finished", 3)
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
            await collected.wait()
