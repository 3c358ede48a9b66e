"""Every alert of deploy/prometheus fires on the metrics of real processes of both roles, and none on those at rest.

promtool evaluates the rules. Its series are recorded: the metrics of a process with the role web and of one with the
role worker, read before and after the fault that an alert is about. Prometheus would read them every 15 seconds; the
increase between the two readings is repeated for as long as the alert has to wait.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import time
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from identity.ids import new_id
from identity.store.embedded.stores import EmbeddedStores
from identity.workers import webhook_delivery
from tests import plain_http, relying_party, webhooks
from tests.conftest import SUPER_KEY, Build, ShiftedClock
from tests.receiver import Receiver, answers, hangs, receiving
from tests.relying_party import RelyingParty
from tests.resp_relay import RespRelay, relaying

ALERTS: Final = Path(__file__).resolve().parent.parent.parent / "deploy" / "prometheus" / "alerts.yml"
RULES: Final = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
ROLES: Final = ("web", "worker")
_INTERVAL: Final = "15s"
_AT: Final = "20m"
_READINGS: Final = 100
_GAUGES: Final = frozenset({"gauge", "unknown"})

Reading = dict[str, tuple[float, bool]]
"""The value of each series of a process, and whether it is a counter."""

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


async def read(url: str, role: str) -> Reading:
    """Read the metrics as Prometheus does, with the labels that it adds."""
    found: Reading = {f'up{{job="identity",instance="{role}"}}': (0.0, False)}
    try:
        async with plain_http.client(url, timeout=30) as client:
            text = (await client.get("/api/prometheus/metrics")).text
    except httpx.TransportError:
        return found
    found[f'up{{job="identity",instance="{role}"}}'] = (1.0, False)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = {**sample.labels, "job": "identity", "instance": role}
            named = ",".join(f'{name}="{value}"' for name, value in labels.items())
            found[f"{sample.name}{{{named}}}"] = (sample.value, family.type not in _GAUGES)
    return found


def series(before: Reading, after: Reading) -> list[dict[str, str]]:
    """The series for promtool: gauges as they are, counters increasing as they did between the readings."""
    found = []
    for name, (value, is_counter) in after.items():
        increase = value - before.get(name, (0.0, True))[0] if is_counter else 0.0
        found.append({"series": name, "values": f"{value}+{max(increase, 0.0)}x{_READINGS}"})
    return found


class Faults:
    """A service of two processes, and what goes wrong with it."""

    def __init__(self, web: Any, worker: Any, relay: RespRelay, receiver: Receiver, api: httpx.AsyncClient) -> None:
        self.urls = {"web": web.base_url, "worker": worker.monitoring_url}
        self.worker, self.relay, self.receiver, self.api = worker, relay, receiver, api

    async def readings(self) -> dict[str, Reading]:
        return {role: await read(url, role) for role, url in self.urls.items()}

    async def break_store(self, rp: RelyingParty) -> None:
        """Redis refuses commands, and is slow."""
        body = {"applicationId": rp.client_id, "loginId": rp.login_id}
        headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
        self.relay.refusal = b"CLUSTERDOWN for a test"
        for _ in range(40):
            assert (await self.api.post("/api/passwordless/start", json=body, headers=headers)).status_code == 503
        self.relay.refusal, self.relay.delay_seconds = None, 0.3
        for _ in range(5):
            await asyncio.gather(
                *(self.api.post("/api/passwordless/start", json=body, headers=headers) for _ in range(2))
            )
        self.relay.delay_seconds = 0.0

    async def guess_passwords(self, rp: RelyingParty) -> None:
        """Many logins fail, and an account is locked."""
        action = {"name": f"Locked {new_id()}", "temporal": True, "preventLogin": True}
        made = (await self.api.post("/api/user-action", json={"userAction": action})).json()["userAction"]
        locking = {"userActionId": made["id"], "tooManyAttempts": 2, "actionDuration": 5}
        await rp.configure_tenant(failedAuthenticationConfiguration=locking)
        headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
        for login_id in [rp.login_id] * 2 + [f"{new_id()}@example.com" for _ in range(40)]:
            body = {"loginId": login_id, "password": "wrong", "applicationId": rp.client_id}
            await self.api.post("/api/login", json=body, headers=headers)

    async def lose_deliveries(self, rp: RelyingParty) -> None:
        """The receiver of events fails, so that a delivery is given up, and then hangs, so that others wait."""
        await webhooks.subscribe(self.api, rp.tenant, self.receiver.url, ["user.create"])
        await relying_party.make_user(self.api, rp.tenant["id"])
        await self.until("identity_webhook_given_up_total", 1)
        self.receiver.behaviour = hangs
        for _ in range(20):
            await relying_party.make_user(self.api, rp.tenant["id"])
        await self.until("identity_webhook_oldest_due_seconds", 301)

    async def until(self, metric: str, value: float) -> None:
        """Wait until a metric of the worker has at least this value."""
        name = f'{metric}{{job="identity",instance="worker"}}'
        async with asyncio.timeout(60):
            while (await read(self.urls["worker"], "worker")).get(name, (0.0, False))[0] < value:
                await asyncio.sleep(0.2)


@pytest.fixture(scope="module")
async def recorded(stores: EmbeddedStores, build: Build) -> tuple[list[Any], list[Any]]:
    """The series at rest, and those of the faults."""
    socket = urllib.parse.unquote(str(stores.redis_url).removeprefix("unix://"))
    ahead = ShiftedClock()
    ahead.advance(seconds=600)
    name = f"alerts_{new_id()[:8]}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(webhook_delivery, "_BACKLOG_METRICS_SECONDS", 0.2)
        async with (
            relaying(socket) as (relay, redis_url),
            receiving(answers(500)) as receiver,
            build(database=name, role="web", redis__url=redis_url, metrics__allowed_networks='["127.0.0.0/8"]') as web,
            build(
                database=name, role="worker", clock=ahead, data_dir=web.services.config.data_dir, kickstart=None,
                webhooks__schedule="[]", webhooks__max_concurrency=1,
            ) as worker,
            plain_http.client(web.base_url, timeout=60, headers={"Authorization": SUPER_KEY}) as api,
        ):  # fmt: skip
            faults = Faults(web, worker, relay, receiver, api)
            rp = await relying_party.make_for_every_login(api)
            at_rest = await faults.readings()
            await faults.break_store(rp)
            await faults.guess_passwords(rp)
            await faults.lose_deliveries(await relying_party.make(api))
            for _ in range(2):
                time.sleep(1.5)  # blocks the event loop of both, longer than the interval of its measurement
                await asyncio.sleep(1.2)
            broken = await faults.readings()
            await worker.stop()
            broken["worker"] |= (await faults.readings())["worker"]
    rest = [each for role in ROLES for each in series(at_rest[role], at_rest[role])]
    return rest, [each for role in ROLES for each in series(at_rest[role], broken[role])]


def expected(rule: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The alerts of a rule: its labels with those of its expression, and its annotations filled in."""
    by_rule: dict[str, list[dict[str, str]]] = {
        "IdentityProcessDown": [{"instance": "worker", "job": "identity"}],
        "IdentityStoreErrors": [{"store": "redis"}],
        "IdentityStoreSlow": [{"store": "redis"}],
        "IdentityEventLoopLag": [{"instance": "web"}, {"instance": "worker"}],
    }
    found = []
    for labels in by_rule.get(rule["alert"], [{}]):

        def filled(text: str, labels: Mapping[str, str] = labels) -> str:
            return re.sub(r"{{ \$labels\.(\w+) }}", lambda match: labels[match[1]], text)

        annotations = {name: filled(text) for name, text in rule["annotations"].items()}
        found.append({"exp_labels": {**rule["labels"], **labels}, "exp_annotations": annotations})
    return found


def check(folder: Path, recorded_series: list[dict[str, str]], alerts: list[dict[str, Any]]) -> None:
    """Let promtool evaluate the rules."""
    test = {"interval": _INTERVAL, "input_series": recorded_series, "alert_rule_test": alerts}
    document = {"rule_files": [str(ALERTS)], "evaluation_interval": _INTERVAL, "tests": [test]}
    (folder / "test.yml").write_text(yaml.safe_dump(document, width=1000))
    done = subprocess.run(
        ["promtool", "test", "rules", str(folder / "test.yml")], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr


@needs_promtool
@pytest.mark.requirement("operate-18")
def test_every_alert_fires_on_what_processes_of_both_roles_report(recorded, tmp_path) -> None:
    alerts = [{"eval_time": _AT, "alertname": rule["alert"], "exp_alerts": expected(rule)} for rule in RULES]
    check(tmp_path, recorded[1], alerts)


@needs_promtool
@pytest.mark.requirement("operate-18")
def test_no_alert_fires_at_rest(recorded, tmp_path) -> None:
    alerts = [{"eval_time": _AT, "alertname": rule["alert"], "exp_alerts": []} for rule in RULES]
    check(tmp_path, recorded[0], alerts)
