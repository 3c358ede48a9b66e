"""Metrics of logins, tokens, stores and the process; the dashboard and the alert rules name only what exists."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.relying_party import PASSWORD

ROOT = Path(__file__).resolve().parent.parent.parent
DASHBOARD = ROOT / "deploy" / "grafana" / "identity.json"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
PAGE = ROOT / "docs" / "deploy" / "monitoring.md"

_NAME = re.compile(r"\b((?:identity|http)_[a-z0-9_]+)")


async def samples(api: httpx.AsyncClient) -> dict[str, float]:
    text = (await api.get("/api/prometheus/metrics")).text
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


async def families(api: httpx.AsyncClient) -> dict[str, str]:
    """The type of each metric by its name."""
    text = (await api.get("/api/prometheus/metrics")).text
    return dict(line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE"))


def exists(name: str, found: dict[str, str]) -> bool:
    """Whether there is a metric, or a histogram that this is a series of."""
    stem = re.sub("_(bucket|count|sum)$", "", name)
    return name in found or found.get(stem) == "histogram"


async def increase(api: httpx.AsyncClient, send: Any) -> dict[str, float]:
    before = await samples(api)
    await send
    return {name: value - before.get(name, 0) for name, value in (await samples(api)).items()}


@pytest.mark.requirement("operate-3")
async def test_logins_are_counted_by_method_and_result(api, key, rp):
    login = {"loginId": rp.login_id, "password": PASSWORD, "applicationId": rp.client_id}
    moved = await increase(api, key.post("/api/login", json=login))
    assert moved['identity_logins_total{method="PASSWORD",result="logged_in"}'] == 1
    assert moved['identity_logins_total{method="PASSWORD",result="wrong_credentials"}'] == 0
    moved = await increase(api, key.post("/api/login", json={**login, "password": "wrong"}))
    assert moved['identity_logins_total{method="PASSWORD",result="wrong_credentials"}'] == 1


@pytest.mark.requirement("operate-3")
@pytest.mark.parametrize(
    ("form", "label"),
    [
        ({"grant_type": "password"}, 'grant_type="password",result="invalid_client"'),
        ({"grant_type": "a-grant-that-a-caller-made-up"}, 'grant_type="other",result="unsupported_grant_type"'),
    ],
)
async def test_token_requests_are_counted_with_bounded_labels(api, http, rp, form, label):
    form = {"client_id": rp.client_id, "client_secret": "wrong", **form}
    moved = await increase(api, http.post("/oauth2/token", data=form))
    assert moved[f"identity_token_requests_total{{{label}}}"] == 1
    assert "made-up" not in str(moved)


@pytest.mark.requirement("operate-3")
async def test_stores_and_caches_are_measured(api, http, browser, rp):
    moved = await increase(api, rp.tokens(http, browser))
    for store in ("mongodb", "redis"):
        assert moved[f'identity_store_seconds_count{{store="{store}"}}'] >= 1
        assert f'identity_store_errors_total{{store="{store}"}}' in moved
    assert moved['identity_cache_hits_total{collection="applications"}'] >= 1


def expressions() -> dict[str, str]:
    """The expressions of the dashboard and of the rules, by their titles."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    found = {panel["title"]: target["expr"] for panel in panels for target in panel.get("targets", ())}
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    return found | {rule["alert"]: rule["expr"] for rule in rules}


@pytest.mark.requirement("operate-4")
async def test_every_metric_of_dashboard_and_rules_exists(api):
    found = await families(api)
    named = {name for text in expressions().values() for name in _NAME.findall(re.sub(r'"[^"]*"', "", text))}
    assert len(named) > 15
    assert sorted(name for name in named if not exists(name, found)) == []


@pytest.mark.requirement("operate-4")
async def test_every_metric_of_the_page_exists_and_every_other_is_documented(api):
    found = await families(api)
    documented = set(re.findall(r"`((?:identity|http)_[a-z0-9_]+)[{`]", PAGE.read_text()))
    assert sorted(name for name in documented if not exists(name, found)) == []
    own = {name for name, kind in found.items() if not name.endswith("_created") and "_webhook" not in name}
    assert sorted(own - documented) == []


@pytest.mark.requirement("operate-4")
def test_rules_have_a_summary_and_a_remedy():
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        for rule in group["rules"]:
            assert rule["annotations"].keys() == {"remedy", "summary"}
            assert rule["labels"]["severity"] in {"critical", "warning"}


@pytest.mark.requirement("operate-4")
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_the_rules():
    subprocess.run(["promtool", "check", "rules", str(ALERTS)], check=True)
