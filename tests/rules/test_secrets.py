"""No answer holds a secret that is write-only, whatever is retrieved, listed, searched, patched or refused."""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import httpx
import prometheus_client
import pytest
import structlog

from identity import app
from identity.ids import new_id
from identity.schemas import FOLDER, load
from identity.web import application
from identity.web.endpoint import Access
from tests import internals
from tests.conftest import DEFAULT_TENANT, MANAGER_KEY, SUPER_KEY, checking_client

Document = dict[str, Any]


@pytest.mark.requirement("management-5")
def test_the_secrets_of_the_schemas_are_write_only() -> None:
    """A new secret that is not marked is found here, or is listed here by decision."""
    # Those of identity providers are hidden by the operation from callers who may not change the provider.
    shown = {
        "application.oauthConfiguration.clientSecret",
        "clientSecret",  # a new one of an application
        "entities.clientSecret",
        "entity.clientSecret",
        "identityProvider.client_secret",
        "identityProvider.consumerSecret",
        "identityProvider.oauth2.client_secret",
        "oauthConfiguration.clientSecret",
        "oneTimePassword",  # for the login after a change of the password, shown once
        "secret",  # a new one of a webhook, shown once
        "messenger.httpAuthenticationPassword",
        "theme.pageTemplates.password",  # the template of a page
        "connector.httpAuthenticationPassword",
        "connector.systemAccountPassword",
        "webhook.httpAuthenticationPassword",
    }
    suspicious = re.compile(r"(?i)(secret|password|privateKey|salt)$")

    def walk(node: Any, path: str) -> Iterator[str]:
        for name, child in node.get("properties", {}).items():
            full = f"{path}.{name}" if path else name
            if child.get("type") == "string" and suspicious.search(name) and not child.get("writeOnly"):
                yield full
            yield from walk(child, full)
            yield from walk(child.get("items") or {}, full)

    found = {path for file in (FOLDER / "api").glob("*.json") for path in walk(load(f"api/{file.name}"), "")}
    assert found == shown


@pytest.fixture(scope="module")
async def planted(service: app.Service) -> tuple[dict[str, str], list[str]]:
    """Objects that hold secrets in every place there is: their ids, and the secrets."""
    mark = new_id()
    secrets = [f"{mark} {name}" for name in ("smtp", "captcha", "password", "totp", "hmac of 32 bytes and some more")]
    secrets[3] = base64.b64encode(secrets[3].encode()).decode()
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": DEFAULT_TENANT}
    async with checking_client(service.base_url, headers=headers) as api:
        tenant = {
            "name": mark,
            "emailConfiguration": {"password": secrets[0]},
            "captchaConfiguration": {"secretKey": secrets[1]},
        }
        tenant_id = (await api.post("/api/tenant", json={"tenant": tenant})).json()["tenant"]["id"]
        key = {"name": mark, "type": "HMAC", "algorithm": "HS256", "secret": secrets[4]}
        key_id = (await api.post("/api/key/import", json={"key": key})).json()["key"]["id"]
        pair = await api.post("/api/key/generate", json={"key": {"name": f"{mark} b", "algorithm": "ES256"}})
        stored = await internals.store(service, "keys").get(None, pair.json()["key"]["id"])
        secrets.append(stored["privateKey"].splitlines()[1])
        application_id = (await api.post("/api/application", json={"application": {"name": mark}})).json()[
            "application"
        ]["id"]
        method = {"method": "authenticator", "secret": secrets[3]}
        body = {
            "user": {"username": mark, "password": secrets[2], "twoFactor": {"methods": [method]}},
            "registration": {"applicationId": application_id},
        }
        made = await api.post("/api/user/registration", json=body)
        assert made.status_code == 200, made.text
        user = made.json()["user"]
        stored_user = await internals.store(service, "users").get(DEFAULT_TENANT, user["id"])
        secrets += [text for text in hashes(stored_user.get("private", {})) if mark not in text]
        hook = {"url": "https://example.com", "connectTimeout": 1, "readTimeout": 1}
        webhook_id = (await api.post("/api/webhook", json={"webhook": hook})).json()["webhook"]["id"]
        acl = {"name": mark, "entries": [{"startIPAddress": "*", "action": "Allow"}]}
        acl_id = (await api.post("/api/ip-acl", json={"ipAccessControlList": acl})).json()["ipAccessControlList"]["id"]
    async with checking_client(service.base_url, headers={"Authorization": MANAGER_KEY}) as manager:
        hidden = {"apiKey": {"retrievable": False, "name": mark}}
        api_key = (await manager.post("/api/api-key", json=hidden)).json()["apiKey"]
    secrets.append(api_key["key"])
    ids = {
        "application": application_id,
        "tenant": tenant_id,
        "key": key_id,
        "user": user["id"],
        "webhook": webhook_id,
        "ip-acl": acl_id,
        "api-key": api_key["id"],
    }
    return ids, secrets


def hashes(value: Any) -> Iterator[str]:
    """Every longer text in the private part of a stored user: the hash of the password, its salt, sealed secrets."""
    if isinstance(value, dict):
        for name, member in value.items():
            if not name.lower().endswith(("scheme", "login", "id", "name")):
                yield from hashes(member)
    elif isinstance(value, list):
        for item in value:
            yield from hashes(item)
    elif isinstance(value, str) and len(value) > 12:
        yield value


def members(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        for member in value.values():
            yield from members(member)
    elif isinstance(value, list):
        for item in value:
            yield from members(item)


GETS = [
    route
    for route in application.routes(prometheus_client.CollectorRegistry())
    if route.template.startswith(("/api/", "/.well-known"))
    and hasattr(route.handler.get, "endpoint")
    and route.handler.get.endpoint.access is not Access.BROWSER
    and route.template != "/api/openapi.json"  # names every secret, and holds none
]


@pytest.mark.requirement("attack-56", "core-8-emailConfiguration", "management-5")
@pytest.mark.parametrize("route", GETS, ids=lambda route: route.template)
async def test_no_answer_holds_a_write_only_secret(service, planted, route) -> None:
    ids, secrets = planted
    own = next((ids[part] for part in route.template.split("/") if part in ids), new_id())
    path = route.template.replace("{user_id}", ids["user"])
    path = re.sub(r"\{\w+\}", ids["application"] if "/registration/" in path else own, path)
    headers = {"Authorization": MANAGER_KEY, "X-FusionAuth-TenantId": DEFAULT_TENANT}
    if path.startswith(("/api/tenant", "/api/api-key")):
        del headers["X-FusionAuth-TenantId"]
    async with checking_client(service.base_url, headers=headers) as client:
        for query in ("", "?numberOfResults=10000", "?queryString=*&numberOfResults=1000", "?inactive=true"):
            answer = await client.get(path + query)
            look_through(answer, secrets)


@pytest.mark.requirement("management-5")
async def test_neither_do_the_answers_to_changes(service, planted) -> None:
    ids, secrets = planted
    headers = {"Authorization": SUPER_KEY}
    async with checking_client(service.base_url, headers=headers) as client:
        for name, wrapper in (("tenant", "tenant"), ("user", "user"), ("application", "application"), ("key", "key")):
            path = f"/api/{name}/{ids[name]}"
            shown = (await client.get(path)).json()[wrapper]
            for method, body in (("PATCH", {"data": {"a": 1}}), ("PUT", shown), ("PUT", {"nonsense": 1})):
                look_through(await client.request(method, path, json={wrapper: body}), secrets)


@pytest.mark.requirement("attack-56")
async def test_and_neither_does_the_log(service, caplog) -> None:
    """Nor a refusal: what a caller sends as a secret is not said again."""
    # Request lines are formatted where a handler is enabled.
    caplog.set_level(logging.DEBUG, logger="identity.access")
    secret = f"secret {new_id()}"
    with structlog.testing.capture_logs() as logs:
        async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as client:
            requests: list[tuple[str, Document]] = [
                ("/api/tenant", {"tenant": {"emailConfiguration": {"password": secret, "port": "x"}}}),
                ("/api/tenant", {"tenant": {"emailConfiguration": {"password": [secret]}}}),
                ("/api/key/import", {"key": {"name": "x", "type": "HMAC", "algorithm": "RS256", "secret": secret}}),
                ("/api/key/import", {"key": {"name": "x", "type": "RSA", "privateKey": secret}}),
                ("/api/user", {"user": {"password": secret}}),
                ("/api/user", {"user": {"username": "x", "password": {"a": secret}}}),
                ("/api/webhook", {"webhook": {"httpAuthenticationPassword": [secret], "headers": {"a": [secret]}}}),
            ]
            for path, body in requests:
                answer = await client.post(path, json=body)
                assert secret not in answer.text
        async with checking_client(service.base_url, headers={"Authorization": secret}) as client:
            assert (await client.get("/api/tenant")).status_code == 401
    assert logs
    assert secret not in str(logs)


def look_through(answer: httpx.Response, secrets: list[str]) -> None:
    for secret in secrets:
        assert secret not in answer.text
        assert json.dumps(secret)[1:-1] not in answer.text
    if answer.headers.get("Content-Type") == "application/json":
        shown = set(members(answer.json()))
        assert "private" not in shown
        assert "_id" not in shown
        forbidden = {"privateKey", "secretKey", "salt", "fingerprint"} & shown
        assert not forbidden
