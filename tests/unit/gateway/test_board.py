"""The Grafana board and the alerts: they load, and ask only for metrics that exist, by labels that these have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml  # type: ignore[import-untyped]

from agentix.engine.telemetry import COUNTERS
from agentix.gateway.accounting import Account
from agentix.gateway.metrics import GatewayMetrics
from agentix.gateway.outcome import Outcome
from idle_gateway import idle_exposition

DEPLOY = Path(__file__).parents[3] / "deploy"
BOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "agentix.json").read_text())
ALERTS: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
WIDTH = 24  # columns of Grafana's grid
FROM_PROMETHEUS = {"job", "instance"}


def gateway_metrics() -> dict[str, set[str]]:
    """Every sample that the gateway can show, with its labels."""
    metrics = GatewayMetrics()
    metrics.program_over("c", 1.0, token_latency_s=1.0, slowdown=1.0, wait_s=1.0)
    metrics.call_over("e", Outcome.FINISHED, Account(prompt_tokens=2, cached_tokens=1), latency_s=1.0, ttft_s=1.0, wait_s=1.0)
    metrics.charge("t", Account(), 1.0)
    metrics.rejected(503, tenant="t")
    names: dict[str, set[str]] = {}
    for family in idle_exposition(metrics, "e").collect():
        for sample in family.samples:
            names.setdefault(sample.name, set()).update(sample.labels)
    return names


def engine_metrics() -> dict[str, set[str]]:
    """Every sample of the plug-in (docs/metrics.md)."""
    vllm = {"model_name", "engine"}
    counters = {f"agentix:{name.replace('_us', '_seconds')}_total": vllm for name in COUNTERS}
    return {**counters, "agentix:num_calls": {*vllm, "level", "state"}}


def panels() -> list[dict[str, Any]]:
    return list(BOARD["panels"])


def expressions() -> Iterator[tuple[str, str]]:
    """Each query, with Grafana's variables filled in, by where it stands."""
    for panel in panels():
        for target in panel.get("targets", ()):
            expr = target["expr"].replace("$__rate_interval", "1m")
            yield f"{panel['title']} {target['refId']}", re.sub(r'"\$\w+"', '".*"', expr)
    for group in ALERTS["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


def selectors(expression: str) -> list[promql_parser.VectorSelector]:
    found: list[promql_parser.VectorSelector] = []

    def visit(node: Any) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)

    promql_parser.walk(promql_parser.parse(expression), pre_visit=visit)
    return found


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_every_query_asks_for_metrics_that_exist(where: str, expression: str) -> None:
    known = gateway_metrics() | engine_metrics()
    asked = selectors(expression)
    assert asked
    for selector in asked:
        assert selector.name in known
        labels = {matcher.name for matcher in selector.matchers.matchers}
        assert labels <= known[selector.name] | FROM_PROMETHEUS


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_queries_group_by_labels_that_their_metrics_have(where: str, expression: str) -> None:
    known = gateway_metrics() | engine_metrics()
    available = {label for s in selectors(expression) for label in known[str(s.name)]} | FROM_PROMETHEUS
    grouped = {label.strip() for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression) for label in group.split(",")}
    assert grouped <= available


def test_every_metric_of_ours_is_on_the_board_or_in_no_need_of_it() -> None:
    asked = {str(s.name) for _, expression in expressions() for s in selectors(expression)}
    shown = {re.sub(r"_(bucket|sum|count|created)$", "", name) for name in asked}
    ours = {re.sub(r"_(bucket|sum|count|created)$", "", name) for name in gateway_metrics() | engine_metrics()}
    assert ours - shown == {
        "agentix_gateway_active_calls",  # engine_calls and held_calls tell its two parts
        "agentix_gateway_call_latency_seconds",  # programs' latencies matter here; the parts of a call's are shown
    }


def test_legends_name_labels_that_the_query_keeps() -> None:
    for panel in panels():
        for target in panel.get("targets", ()):
            kept = {g.strip() for group in re.findall(r"by \(([^)]*)\)", target["expr"]) for g in group.split(",")}
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept, panel["title"]


def test_ids_are_unique_and_panels_are_whole() -> None:
    ids = [panel["id"] for panel in panels()]
    assert len(set(ids)) == len(ids)
    for panel in panels():
        assert panel["title"]
        if panel["type"] != "row":
            assert panel["description"], panel["title"]
            assert panel["targets"], panel["title"]
            assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
            refs = [target["refId"] for target in panel["targets"]]
            assert len(set(refs)) == len(refs)


def test_panels_lie_in_the_grid_and_do_not_overlap() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in panels():
        at = panel["gridPos"]
        assert at["x"] >= 0
        assert at["x"] + at["w"] <= WIDTH, panel["title"]
        for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])):
            assert cell not in taken, (panel["title"], taken.get(cell))
            taken[cell] = panel["title"]


def test_rows_tell_the_story_in_order() -> None:
    rows = [panel["title"] for panel in panels() if panel["type"] == "row"]
    assert rows == ["Overview", "Queue and levels", "Engines", "Tenants and rejections"]


def test_any_prometheus_will_do() -> None:
    variables = {v["name"]: v for v in BOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["datasource"]["query"] == "prometheus"
    known = gateway_metrics()
    for name in variables.keys() - {"datasource"}:
        metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variables[name]["definition"]).groups()  # type: ignore[union-attr]
        assert label == name
        assert label in known[metric]
    wanted = {"type": "prometheus", "uid": "${datasource}"}
    for panel in panels():
        if panel["type"] != "row":
            assert [panel["datasource"], *(t["datasource"] for t in panel["targets"])] == [wanted] * (1 + len(panel["targets"]))
    used = set(re.findall(r"\$(\w+)", json.dumps(panels()))) - {"__rate_interval"}
    assert used == variables.keys() - {"datasource"}
    assert BOARD["id"] is None  # Grafana gives it
    assert (BOARD["uid"], BOARD["title"]) == ("agentix", "Agentix")


def test_alerts_say_what_is_wrong_and_for_how_long() -> None:
    (group,) = ALERTS["groups"]
    assert [rule["alert"] for rule in group["rules"]] == ["AgentixNoEngine", "AgentixCallsRefused", "AgentixProgramsWait"]
    for rule in group["rules"]:
        assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+m", rule["for"])
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert rule["annotations"].keys() == {"summary", "description"}
