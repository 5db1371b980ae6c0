"""Alert rules and the Grafana dashboard: they name metrics that are served, and Prometheus agrees with them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster_server.domain.states import NodeState, TrialState
from muster_server.telemetry.families import FAMILIES

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy/monitoring"
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "grafana/muster.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [rule["expr"] for rule in RULES] + [
    target["expr"] for panel in PANELS for target in panel["targets"]
]
SERVED = {family.name: set(family.labels) for family in FAMILIES}
OF_PROMETHEUS = {"job", "instance", "le"}
"""Labels that Prometheus or a histogram adds."""
STATES = {state.value for kind in (NodeState, TrialState) for state in kind}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_and_label_is_served(expression: str) -> None:
    names = {
        re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"muster_\w+", expression)
    }
    assert names or expression.startswith(("up{", "sum(up{"))
    assert names <= set(SERVED), names - set(SERVED)
    labels = {
        label.strip()
        for found in re.findall(r"\bby \(([^)]*)\)", expression)
        for label in found.split(",")
    } | set(re.findall(r"[{,]\s*(\w+)\s*(?:=~|!~|!=|=)", expression))
    assert labels <= OF_PROMETHEUS.union(*(SERVED[name] for name in names)), labels
    for states in re.findall(r'state(?:=|=~|!~|!=)"([^"]*)"', expression):
        assert set(states.split("|")) <= STATES


def test_the_reference_lists_the_rules() -> None:
    page = (ROOT / "docs/reference/metrics.md").read_text().split("## What to alert on")[1]
    assert re.findall(r"^\| `(.*?)` ?.*? \|", page, re.MULTILINE) == [r["expr"] for r in RULES]


def test_every_alert_says_what_to_do_and_has_a_test() -> None:
    tests = yaml.safe_load((FOLDER / "alerts_test.yml").read_text())["tests"]
    tried = [case for test in tests for case in test["alert_rule_test"]]
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "description"}
        outcomes = {"exp_alerts" in case for case in tried if case["alertname"] == rule["alert"]}
        assert outcomes == {True, False}, f"{rule['alert']} is to fire in a test, and not to fire"


@pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool: install prometheus")
@pytest.mark.parametrize("command", ["check rules alerts.yml", "test rules alerts_test.yml"])
def test_prometheus_agrees(command: str, tmp_path: Path) -> None:
    # It syncs its scratch database to disk again and again, which takes minutes on some disks.
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    result = subprocess.run(
        ["promtool", *command.split()], cwd=FOLDER, env=environment,
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_dashboard_can_be_imported_into_any_grafana() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    places: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        grid = panel["gridPos"]
        assert grid["x"] + grid["w"] <= 24
        mine = {
            (x, y)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not mine & places, f"{panel['title']} lies on another panel"
        places |= mine
    (source,) = DASHBOARD["templating"]["list"]
    assert source["type"] == "datasource"
    for panel in PANELS:
        for of in (panel, *panel["targets"]):
            assert of["datasource"]["uid"] == f"${{{source['name']}}}"
