"""/api/system-configuration: every member with its default and limits, the three patches, and their effect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity import app
from identity.ids import new_id
from tests.conftest import MANAGER_KEY, SUPER_KEY, checking_client

PATH = "/api/system-configuration"
JSON_PATCH = {"Content-Type": "application/json-patch+json"}
MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}

MINIMAL = {"systemConfiguration": {"reportTimezone": "Europe/Paris"}}
DEFAULTS: dict[str, Any] = {
    "auditLogConfiguration": {"delete": {"enabled": False, "numberOfDaysToRetain": 365}},
    "corsConfiguration": {
        "allowCredentials": False,
        "allowedHeaders": [],
        "allowedMethods": [],
        "allowedOrigins": [],
        "debug": False,
        "enabled": False,
        "exposedHeaders": [],
        "preflightMaxAgeInSeconds": 1800,
    },
    "data": {},
    "eventLogConfiguration": {"numberToRetain": 10_000},
    "loginRecordConfiguration": {"delete": {"enabled": False, "numberOfDaysToRetain": 365}},
    "reportTimezone": "Europe/Paris",
    "trustedProxyConfiguration": {"trustPolicy": "All", "trusted": []},
    "uiConfiguration": {},
    "usageDataConfiguration": {"enabled": False, "numberOfDaysToRetain": 30},
    "webhookEventLogConfiguration": {"delete": {"enabled": True, "numberOfDaysToRetain": 30}, "enabled": True},
}
EVERYTHING: dict[str, Any] = {
    "auditLogConfiguration": {"delete": {"enabled": True, "numberOfDaysToRetain": 7}},
    "corsConfiguration": {
        "allowCredentials": True,
        "allowedHeaders": ["Authorization"],
        "allowedMethods": ["GET", "PATCH"],
        "allowedOrigins": ["https://app.example.com"],
        "debug": True,
        "enabled": True,
        "exposedHeaders": ["X-Shown"],
        "preflightMaxAgeInSeconds": 0,
    },
    "data": {"owner": {"team": ["a", 1]}},
    "eventLogConfiguration": {"numberToRetain": 20_000},
    "loginRecordConfiguration": {"delete": {"enabled": True, "numberOfDaysToRetain": 8}},
    "reportTimezone": "US/Mountain",
    "trustedProxyConfiguration": {"trustPolicy": "OnlyConfigured", "trusted": ["10.0.0.1", "2001:db8::/32"]},
    "uiConfiguration": {"headerColor": "#fff", "logoURL": "https://example.com/l.png", "menuFontColor": "#000"},
    "usageDataConfiguration": {"enabled": False, "numberOfDaysToRetain": 9},
    "webhookEventLogConfiguration": {"delete": {"enabled": False, "numberOfDaysToRetain": 1}, "enabled": False},
}


@pytest.fixture
async def before(api: httpx.AsyncClient) -> AsyncIterator[dict[str, Any]]:
    """The configuration before the test, which comes back afterwards."""
    found = (await api.get(PATH)).json()
    yield found
    assert (await api.put(PATH, json=found)).status_code == 200


def errors(answer: httpx.Response) -> dict[str, list[str]]:
    assert answer.status_code == 400, answer.text
    return {path: [e["code"] for e in entries] for path, entries in answer.json().get("fieldErrors", {}).items()}


def without_instants(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    found = dict(answer.json()["systemConfiguration"])
    assert found.pop("insertInstant") <= found.pop("lastUpdateInstant")
    return found


@pytest.mark.requirement("core-17-2", "personal-2")
async def test_new_instance_has_documented_defaults_and_cors_enabled(build: Any) -> None:
    async with build() as fresh, checking_client(fresh.base_url, headers={"Authorization": SUPER_KEY}) as client:
        found = without_instants(await client.get(PATH))
    cors = {**DEFAULTS["corsConfiguration"], "enabled": True}
    retention = {
        "loginRecordConfiguration": {"delete": {"enabled": True, "numberOfDaysToRetain": 400}},
        "auditLogConfiguration": {"delete": {"enabled": True, "numberOfDaysToRetain": 730}},
    }
    assert found == {**DEFAULTS, **retention, "corsConfiguration": cors, "reportTimezone": "America/Denver"}


@pytest.mark.requirement("core-17-1", "core-17-18", "core-17-2", "core-17-7")
async def test_put_replaces_everything(api: httpx.AsyncClient, before: dict[str, Any]) -> None:
    assert without_instants(await api.put(PATH, json={"systemConfiguration": EVERYTHING})) == EVERYTHING
    assert without_instants(await api.get(PATH)) == EVERYTHING
    assert without_instants(await api.put(PATH, json=MINIMAL)) == DEFAULTS


async def test_instants_are_read_only(api: httpx.AsyncClient, before: dict[str, Any]) -> None:
    body = {"systemConfiguration": {**MINIMAL["systemConfiguration"], "insertInstant": 1, "lastUpdateInstant": 1}}
    found = (await api.put(PATH, json=body)).json()["systemConfiguration"]
    assert found["insertInstant"] == before["systemConfiguration"]["insertInstant"]
    assert found["lastUpdateInstant"] > before["systemConfiguration"]["lastUpdateInstant"]
    assert "id" not in found


@pytest.mark.requirement("core-17-1")
async def test_three_kinds_of_patch(api: httpx.AsyncClient, before: dict[str, Any]) -> None:
    await api.put(PATH, json=MINIMAL)
    wanted = {"systemConfiguration": {"corsConfiguration": {"allowedOrigins": ["https://a.example.com"]}}}
    await api.patch(PATH, json=wanted)
    wanted = {"systemConfiguration": {"corsConfiguration": {"allowedOrigins": ["https://b.example.com"]}}}
    found = without_instants(await api.patch(PATH, json=wanted))
    assert found["corsConfiguration"]["allowedOrigins"] == ["https://a.example.com", "https://b.example.com"]
    found = without_instants(await api.patch(PATH, json=wanted, headers=MERGE_PATCH))
    assert found["corsConfiguration"]["allowedOrigins"] == ["https://b.example.com"]
    operations = [{"op": "replace", "path": "/systemConfiguration/reportTimezone", "value": "Asia/Tokyo"}]
    found = without_instants(await api.patch(PATH, json=operations, headers=JSON_PATCH))
    assert found["reportTimezone"] == "Asia/Tokyo"
    assert found["corsConfiguration"]["allowedOrigins"] == ["https://b.example.com"]


@pytest.mark.requirement("core-17-1")
async def test_patch_is_validated_like_put(api: httpx.AsyncClient, before: dict[str, Any]) -> None:
    answer = await api.patch(PATH, json={"systemConfiguration": {"reportTimezone": "Mars/Base"}})
    assert errors(answer) == {"systemConfiguration.reportTimezone": ["[invalid]systemConfiguration.reportTimezone"]}
    assert (await api.get(PATH)).json() == before


def nested(path: str, value: Any) -> dict[str, Any]:
    """A configuration with one member set, deep inside."""
    inner: Any = value
    for step in reversed(path.split(".")):
        inner = {step: inner}
    return {**MINIMAL["systemConfiguration"], **inner}


ORIGINS = "corsConfiguration.allowedOrigins"


@pytest.mark.requirement("core-17-12", "core-17-3", "core-17-8", "webhooks-10-15")
@pytest.mark.parametrize(
    ("path", "value", "kind", "where"),
    [
        ("reportTimezone", "Mars/Base", "invalid", None),
        ("reportTimezone", [5], "invalidJSON", None),
        ("auditLogConfiguration.delete.numberOfDaysToRetain", 0, "invalid", None),
        ("auditLogConfiguration.delete.enabled", "yes", "invalidJSON", None),
        ("loginRecordConfiguration.delete.numberOfDaysToRetain", 0, "invalid", None),
        ("webhookEventLogConfiguration.delete.numberOfDaysToRetain", 0, "invalid", None),
        ("eventLogConfiguration.numberToRetain", 0, "invalid", None),
        ("corsConfiguration.preflightMaxAgeInSeconds", -1, "invalid", None),
        ("corsConfiguration.allowedMethods", ["TRACE"], "invalid", "[0]"),
        ("corsConfiguration.allowedMethods", "GET", "invalidJSON", None),
        ("corsConfiguration.allowedHeaders", ["X Header"], "invalid", "[0]"),
        ("corsConfiguration.exposedHeaders", ["A", "B\r\nSet-Cookie: x"], "invalid", "[1]"),
        (ORIGINS, ["https://a.example.com", "*"], "invalid", None),
        (ORIGINS, ["example.com"], "invalid", None),
        (ORIGINS, ["https://a.example.com/path"], "invalid", None),
        (ORIGINS, ["https://user@a.example.com"], "invalid", None),
        (ORIGINS, ["https://*.example.com"], "invalid", None),
        (ORIGINS, ["null"], "invalid", None),
        (ORIGINS, ["https://"], "invalid", None),
        ("trustedProxyConfiguration.trustPolicy", "Some", "invalid", None),
        ("trustedProxyConfiguration.trusted", ["10.0.0.0/8", "proxy.example.com"], "invalid", None),
        ("trustedProxyConfiguration.trusted", ["10.0.0.0/33"], "invalid", None),
        ("data", [], "invalidJSON", None),
    ],
)
async def test_invalid_value_is_reported_on_its_field(
    api: httpx.AsyncClient, path: str, value: Any, kind: str, where: str | None
) -> None:
    stored = (await api.get(PATH)).json()
    field = f"systemConfiguration.{path}{where or ''}"
    code = "[invalidJSON]" if kind == "invalidJSON" else f"[{kind}]{field}"
    answer = await api.put(PATH, json={"systemConfiguration": nested(path, value)})
    assert errors(answer) == {field: [code]}
    assert (await api.get(PATH)).json() == stored


@pytest.mark.requirement("core-17-3")
async def test_time_zone_is_required_and_all_errors_are_reported(api: httpx.AsyncClient) -> None:
    blank = {"systemConfiguration.reportTimezone": ["[blank]systemConfiguration.reportTimezone"]}
    assert errors(await api.put(PATH, json={"systemConfiguration": {}})) == blank
    assert errors(await api.put(PATH, json={})) == {"systemConfiguration": ["[missing]systemConfiguration"]}
    wanted = {
        "corsConfiguration": {"allowedOrigins": ["x"], "preflightMaxAgeInSeconds": -1},
        "trustedProxyConfiguration": {"trusted": ["x"]},
    }
    found = errors(await api.put(PATH, json={"systemConfiguration": wanted}))
    assert set(found) == {
        "systemConfiguration.reportTimezone",
        "systemConfiguration.corsConfiguration.allowedOrigins",
        "systemConfiguration.corsConfiguration.preflightMaxAgeInSeconds",
        "systemConfiguration.trustedProxyConfiguration.trusted",
    }


@pytest.mark.requirement("core-17-12")
async def test_credentials_are_not_allowed_for_any_origin(api: httpx.AsyncClient, before: dict[str, Any]) -> None:
    wanted = nested("corsConfiguration", {"allowCredentials": True, "allowedOrigins": ["*"]})
    path = "systemConfiguration.corsConfiguration.allowCredentials"
    assert errors(await api.put(PATH, json={"systemConfiguration": wanted})) == {path: [f"[invalid]{path}"]}
    for members in ({"allowCredentials": False, "allowedOrigins": ["*"]}, {"allowCredentials": True}):
        answer = await api.put(PATH, json={"systemConfiguration": nested("corsConfiguration", members)})
        assert answer.status_code == 200


async def test_origins_are_normalized_as_browsers_send_them(api: httpx.AsyncClient, before: dict[str, Any]) -> None:
    given = [
        " HTTPS://App.Example.com/ ",
        "https://app.example.com:443",
        "http://localhost:3000",
        "http://a.example.com:80",
        "https://[2001:DB8::1]:8443",
        "capacitor://localhost",
    ]
    found = without_instants(await api.put(PATH, json={"systemConfiguration": nested(ORIGINS, given)}))
    assert found["corsConfiguration"]["allowedOrigins"] == [
        "https://app.example.com",
        "http://localhost:3000",
        "http://a.example.com",
        "https://[2001:db8::1]:8443",
        "capacitor://localhost",
    ]


@pytest.mark.requirement("core-17-19")
async def test_usage_data_is_never_sent(api: httpx.AsyncClient, before: dict[str, Any]) -> None:
    wanted = nested("usageDataConfiguration.enabled", True)
    for answer in (
        await api.put(PATH, json={"systemConfiguration": wanted}),
        await api.patch(PATH, json={"systemConfiguration": {"usageDataConfiguration": {"enabled": True}}}),
    ):
        assert without_instants(answer)["usageDataConfiguration"]["enabled"] is False


@pytest.mark.requirement("core-17-1")
async def test_other_methods_are_not_allowed(api: httpx.AsyncClient) -> None:
    for method in ("POST", "DELETE"):
        answer = await api.request(method, PATH, json=MINIMAL)
        assert answer.status_code == 405
        assert answer.headers["Allow"] == "GET, HEAD, PUT, PATCH"


@pytest.mark.requirement("core-17-1")
async def test_concurrent_patches_are_all_kept(api: httpx.AsyncClient, before: dict[str, Any]) -> None:
    names = [new_id() for _ in range(8)]
    answers = await asyncio.gather(
        *(api.patch(PATH, json={"systemConfiguration": {"data": {name: True}}}) for name in names)
    )
    assert {answer.status_code for answer in answers} == {200}
    assert set(names) <= set((await api.get(PATH)).json()["systemConfiguration"]["data"])


# Trusted proxies


async def address(api: httpx.AsyncClient, service: app.Service, forwarded: str) -> bool:
    """Whether a key that only 198.51.100.9 may use works for a request with this X-Forwarded-For."""
    entries = [
        {"startIPAddress": "*", "action": "Block"},
        {"startIPAddress": "198.51.100.9", "endIPAddress": "198.51.100.9", "action": "Allow"},
    ]
    made = await api.post("/api/ip-acl", json={"ipAccessControlList": {"name": new_id(), "entries": entries}})
    body = {"apiKey": {"ipAccessControlListId": made.json()["ipAccessControlList"]["id"]}}
    headers = {"Authorization": MANAGER_KEY}
    key = (await api.post("/api/api-key", json=body, headers=headers)).json()["apiKey"]["key"]
    asked = {"Authorization": key, "X-Forwarded-For": forwarded}
    answer = await api.get("/api/system/version", headers=asked)
    assert answer.status_code in {200, 401}
    return answer.status_code == 200


async def proxies(api: httpx.AsyncClient, policy: str, *trusted: str) -> None:
    body = {"systemConfiguration": {"trustedProxyConfiguration": {"trustPolicy": policy, "trusted": list(trusted)}}}
    assert (await api.patch(PATH, json=body, headers=MERGE_PATCH)).status_code == 200


@pytest.mark.requirement("core-17-17", "core-6-9")
@pytest.mark.parametrize(
    ("policy", "trusted", "forwarded", "is_it"),
    [
        # The last hop is the client, unless it is a proxy of the deployment (here: loopback).
        ("All", [], "198.51.100.9", True),
        ("All", [], "203.0.113.5, 198.51.100.9", True),
        ("All", [], "198.51.100.9, 127.0.0.5", False),
        ("All", [], "198.51.100.9, 127.0.0.1", True),
        # The first address is not trusted.
        ("All", [], "198.51.100.9, 203.0.113.5", False),
        # What is configured narrows that, and never widens it.
        ("OnlyConfigured", ["127.0.0.1"], "198.51.100.9, 127.0.0.1", True),
        ("OnlyConfigured", ["10.0.0.0/8"], "198.51.100.9, 127.0.0.1", False),
        ("OnlyConfigured", [], "198.51.100.9", True),
        ("OnlyConfigured", ["0.0.0.0/0"], "198.51.100.9, 203.0.113.5", False),
        ("OnlyConfigured", ["203.0.113.5"], "198.51.100.9, 203.0.113.5", False),
    ],
)
async def test_trusted_proxies_are_limited_to_deployment(
    service: app.Service,
    api: httpx.AsyncClient,
    before: dict[str, Any],
    policy: str,
    trusted: list[str],
    forwarded: str,
    is_it: bool,
) -> None:
    await proxies(api, policy, *trusted)
    assert await address(api, service, forwarded) is is_it


@pytest.mark.parametrize("name", [name for name in DEFAULTS if name not in {"data", "reportTimezone"}])
@pytest.mark.parametrize("value", ["text", 5, []])
async def test_member_of_wrong_type_is_always_refused(api: httpx.AsyncClient, name: str, value: Any) -> None:
    wanted = {**MINIMAL["systemConfiguration"], name: value}
    found = errors(await api.put(PATH, json={"systemConfiguration": wanted}))
    assert found == {f"systemConfiguration.{name}": ["[invalidJSON]"]}
