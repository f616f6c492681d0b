"""What `deploy/` holds: it is valid by Kubernetes' schemas, and its parts fit one another and the commands that they start."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kubernetes_validate  # type: ignore[import-untyped]
import promql_parser
import pytest
import typer
import yaml  # type: ignore[import-untyped]

from agentix.cli import app
from agentix.engine.command import SCHEDULER_CLASS
from agentix.engine.compat import TESTED_VLLM
from agentix.engine.settings import PluginSettings
from agentix.gateway.concurrency import EngineLoad
from agentix.gateway.engines_file import load_engines
from agentix.gateway.metrics import GatewayMetrics
from idle_gateway import idle_exposition

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
KUBERNETES_VERSION = "1.31"  # no older one is served by anybody any more
FILES = [p.name for p in sorted(KUBERNETES.glob("*.yaml")) if p.name not in {"kustomization.yaml", "prometheus-adapter.yaml"}]
SECRETS = {"api-key", "engine-key", "salt-secret", "valkey-password"}


@cache
def documents(name: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all((KUBERNETES / name).read_text()) if document]


def every(kind: str) -> list[dict[str, Any]]:
    return [document for name in FILES for document in documents(name) if document["kind"] == kind]


def named(kind: str, name: str) -> dict[str, Any]:
    [found] = [document for document in every(kind) if document["metadata"]["name"] == name]
    return found


def workloads() -> list[dict[str, Any]]:
    return [*every("Deployment"), *every("StatefulSet")]


def containers() -> Iterator[dict[str, Any]]:
    for workload in workloads():
        yield from workload["spec"]["template"]["spec"]["containers"]


def container(name: str) -> dict[str, Any]:
    [found] = [c for c in containers() if c["name"] == name]
    return found


def entrypoint(stage: str) -> list[str]:
    """The command of an image, as the Dockerfile has it."""
    text = DOCKERFILE.read_text().partition(f"AS {stage}\n")[2].replace("\\\n", " ")
    command: list[str] = json.loads(re.search(r"^ENTRYPOINT (.+)$", text, re.MULTILINE)[1])  # type: ignore[index]
    return command


def serve_command() -> Any:
    return typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", FILES)
def test_every_manifest_is_what_kubernetes_takes(name: str) -> None:
    for document in documents(name):
        kubernetes_validate.validate(document, KUBERNETES_VERSION, strict=True)


def test_kustomize_finds_every_file_and_there_is_none_besides() -> None:
    [kustomization] = documents("kustomization.yaml")
    assert sorted(kustomization["resources"]) == FILES
    files = {file for generator in kustomization["configMapGenerator"] for file in generator["files"]}
    besides = {"kustomization.yaml", "prometheus-adapter.yaml"}
    assert {p.name for p in KUBERNETES.iterdir() if p.is_file()} == files | set(FILES) | besides
    volumes = [volume for w in workloads() for volume in w["spec"]["template"]["spec"].get("volumes", ())]
    mounted = {volume["configMap"]["name"] for volume in volumes if "configMap" in volume}
    assert mounted == {generator["name"] for generator in kustomization["configMapGenerator"]}
    built = {image["name"] for image in kustomization["images"]}
    assert built <= {c["image"] for c in containers()}


def test_selectors_find_their_pods_and_ports_their_names() -> None:
    pods = {w["metadata"]["name"]: w["spec"]["template"] for w in workloads()}
    labels = {tuple(sorted(pod["metadata"]["labels"].items())) for pod in pods.values()}
    for workload in workloads():
        selected = workload["spec"]["selector"]["matchLabels"]
        assert selected == workload["spec"]["template"]["metadata"]["labels"]
    for service in every("Service"):
        assert tuple(sorted(service["spec"]["selector"].items())) in labels
    for budget in every("PodDisruptionBudget"):
        assert tuple(sorted(budget["spec"]["selector"]["matchLabels"].items())) in labels
    ports = {
        w["metadata"]["name"]: {p["name"] for c in pod["spec"]["containers"] for p in c["ports"]}
        for w in workloads()
        for pod in [w["spec"]["template"]]
    }
    for policy in every("NetworkPolicy"):
        selected = policy["spec"]["podSelector"].get("matchLabels", {})
        for rule in policy["spec"].get("ingress", ()):
            assert {port["port"] for port in rule["ports"]} <= ports[selected["app"]]
    protected = {p["spec"]["podSelector"].get("matchLabels", {}).get("app") for p in every("NetworkPolicy")}
    assert protected == {None, *pods}, "every pod has a rule, and what has none gets nothing"


def test_the_gateways_know_every_engine_that_the_autoscaler_may_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTIX_ENGINE_KEY", "k")
    targets = load_engines(KUBERNETES / "engines.toml")
    scaler, engine = named("HorizontalPodAutoscaler", "engine"), named("StatefulSet", "engine")
    assert scaler["spec"]["scaleTargetRef"]["name"] == engine["metadata"]["name"]
    assert scaler["spec"]["minReplicas"] == engine["spec"]["replicas"]
    service, [port] = engine["spec"]["serviceName"], container("engine")["ports"]
    expected = [(f"engine-{n}", f"http://engine-{n}.{service}:{port['containerPort']}") for n in range(8)]
    assert scaler["spec"]["maxReplicas"] == len(expected)
    assert [(t.engine_id, t.url) for t in targets] == expected, "the names that pods of a StatefulSet have"
    assert all(t.plugin and t.api_key_env == "AGENTIX_ENGINE_KEY" for t in targets)
    assert {e["name"] for e in container("gateway")["env"]} >= {"AGENTIX_ENGINE_KEY", "AGENTIX_API_KEY"}


def test_the_gateways_share_the_table_that_there_is() -> None:
    environment = {e["name"]: e.get("value") for e in container("gateway")["env"]}
    table = urlsplit((environment["AGENTIX_TABLE"] or "").replace("$(VALKEY_PASSWORD)", "secret"))
    [port] = named("Service", "valkey")["spec"]["ports"]
    assert (table.scheme, table.hostname, table.port, table.password) == ("redis", "valkey", port["port"], "secret")
    names = list(environment)
    assert names.index("VALKEY_PASSWORD") < names.index("AGENTIX_TABLE"), "only what stands before can be filled in"
    [option] = [p for p in serve_command().params if p.name == "table"]
    assert option.envvar == "AGENTIX_TABLE"


def test_keys_are_referred_to_and_nowhere_written() -> None:
    referred = set()
    for each in containers():
        for variable in each.get("env", ()):
            reference = variable.get("valueFrom", {}).get("secretKeyRef")
            if reference is not None:
                assert reference["name"] == "agentix"
                if not reference.get("optional"):
                    referred.add(reference["key"])
            else:
                assert not re.search(r"KEY|TOKEN|PASSWORD|SECRET", variable["name"]), variable["name"]
    assert referred == SECRETS
    told = (ROOT / "docs" / "deploy.md").read_text()
    assert set(re.findall(r"--from-literal=([a-z-]+)=", told)) - {"hf-token"} == SECRETS
    assert not every("Secret")


def test_nothing_runs_as_root_or_may_become_it() -> None:
    for workload in workloads():
        pod = workload["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        for each in pod["containers"]:
            assert each["securityContext"]["allowPrivilegeEscalation"] is False
            assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_gateway_s_command_line_is_one_that_agentix_takes() -> None:
    command = [*entrypoint("gateway"), *container("gateway")["args"]]
    assert command[:2] == ["agentix", "serve"]
    context = serve_command().make_context("serve", command[2:])
    assert context.params["host"] == "0.0.0.0"
    assert str(context.params["engines_file"]) == "/etc/agentix/engines.toml"


def test_the_engine_runs_the_plug_in_with_settings_that_it_takes() -> None:
    command = entrypoint("engine")
    assert command[command.index("--scheduler-cls") + 1] == SCHEDULER_CLASS
    [version] = re.findall(r"^FROM vllm/vllm-openai:v(\S+) AS engine$", DOCKERFILE.read_text(), re.MULTILINE)
    assert version in TESTED_VLLM
    [settings] = [e["value"] for e in container("engine")["env"] if e["name"] == "AGENTIX_PLUGIN"]
    assert PluginSettings.from_mapping(json.loads(settings)).preemption == "park"


def test_a_gateway_without_engines_is_not_ready_but_alive() -> None:
    probes = container("gateway")
    assert probes["readinessProbe"]["httpGet"]["path"] == "/health"
    assert "tcpSocket" in probes["livenessProbe"]


def test_the_autoscaler_asks_for_what_the_adapter_makes_of_metrics_that_exist() -> None:
    [values] = documents("prometheus-adapter.yaml")
    [rule] = values["rules"]["external"]
    [metric] = named("HorizontalPodAutoscaler", "engine")["spec"]["metrics"]
    assert metric["external"]["metric"]["name"] == rule["name"]["as"]
    query = rule["metricsQuery"].replace("<<.LabelMatchers>>", 'namespace="agentix"')
    promql_parser.parse(query)
    exposition = idle_exposition(GatewayMetrics(), "e")
    exposition._pool.states["e"].gauge.loaded(EngineLoad(0, 0), 0)
    known = {sample.name for family in exposition.collect() for sample in family.samples}
    asked = set(re.findall(r"agentix_gateway_\w+", query + rule["seriesQuery"]))
    assert asked
    assert asked <= known


def test_the_dockerfile_has_no_fault_that_hadolint_knows() -> None:
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}") or shutil.which("hadolint")
    assert hadolint is not None, "it comes with the packages for tests"
    command = [hadolint, "--failure-threshold", "style", str(DOCKERFILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_images_are_built_from_what_the_builder_is_given() -> None:
    """Every file that is copied from the tree is let through by the list beside the Dockerfile."""
    lines = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()
    listed = {line[1:] for line in lines if line.startswith("!")}
    copied: set[str] = set()
    for line in DOCKERFILE.read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            copied.update(word.removeprefix("./") for word in shlex.split(line)[1:-1])
    assert copied
    for path in copied:
        assert (ROOT / path).exists()
        assert path.split("/")[0] in listed
    users = re.findall(r"^USER (\S+)$", DOCKERFILE.read_text(), re.MULTILINE)
    assert users == ["10001", "10001"]


def failures() -> list[list[str]]:
    """Rows of the failure matrix, cell by cell."""
    section = (ROOT / "docs" / "deploy.md").read_text().partition("## What dies, and what is lost")[2]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows[1:]]


def test_each_row_of_the_failure_matrix_is_proven_by_a_test_that_exists() -> None:
    assert len(failures()) >= 12
    for what, happens, _, proofs in failures():
        assert what
        assert happens
        named_tests = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", proofs)
        assert named_tests, what
        for path, name in named_tests:
            assert re.search(rf"^(?:async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE), f"{path}::{name}"
