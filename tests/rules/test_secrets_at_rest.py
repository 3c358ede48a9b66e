"""What is secret lies sealed or hashed in MongoDB and Redis, wherever it came in."""

from __future__ import annotations

import base64
from typing import Any

import httpx
import pytest

from identity import app
from identity.ids import new_id
from tests import internals, relying_party
from tests.conftest import DEFAULT_TENANT, MANAGER_KEY, SUPER_KEY, checking_client


async def put(api: httpx.AsyncClient, path: str, wrapper: str, **members: Any) -> dict[str, Any]:
    answer = await api.post(path, json={wrapper: members})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()[wrapper])


@pytest.fixture(scope="module")
async def secrets(service: app.Service) -> dict[str, str]:
    """Where each secret came in -> the secret, all of them stored by now."""
    mark = new_id()
    found: dict[str, str] = {}

    def secret(name: str) -> str:
        found[name] = f"{name} {mark} with at least thirty-two bytes"
        return found[name]

    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": DEFAULT_TENANT}
    async with checking_client(service.base_url, headers=headers) as api:
        await put(
            api,
            "/api/tenant",
            "tenant",
            name=mark,
            emailConfiguration={"password": secret("smtp")},
            captchaConfiguration={"secretKey": secret("captcha")},
        )
        await put(api, "/api/key/import", "key", name=mark, type="HMAC", algorithm="HS256", secret=secret("hmac key"))
        pair = await put(api, "/api/key/generate", "key", name=f"{mark} pair", algorithm="ES256")
        stored = await internals.store(service, "keys").get(None, pair["id"])
        found["private key"] = stored["privateKey"].splitlines()[1]
        application = await put(
            api, "/api/application", "application", name=mark, oauthConfiguration={"clientSecret": secret("client")}
        )
        totp = base64.b64encode(secret("totp").encode()).decode()
        found["totp"] = totp
        await put(
            api,
            "/api/user",
            "user",
            username=mark,
            password=secret("password"),
            twoFactor={"methods": [{"method": "authenticator", "secret": totp}]},
        )
        hook = {"url": "https://example.com", "connectTimeout": 1, "readTimeout": 1}
        webhook = await put(
            api,
            "/api/webhook",
            "webhook",
            **hook,
            httpAuthenticationUsername="someone",
            httpAuthenticationPassword=secret("basic"),
            headers={"Authorization": f"Bearer {secret('header')}", "X.Api.Key": secret("header with stops")},
        )
        await put(
            api,
            "/api/messenger",
            "messenger",
            name=mark,
            type="Generic",
            **hook,
            httpAuthenticationUsername="someone",
            httpAuthenticationPassword=secret("messenger"),
            headers={"X-Api-Key": secret("header of a messenger")},
        )
        for name in ("webhook secret", "webhook secret that replaces it"):
            found[name] = (await api.post(f"/api/webhook/{webhook['id']}/secret", json={})).json()["secret"]
        entity_type = await put(api, "/api/entity/type", "entityType", name=mark)
        await put(
            api, "/api/entity", "entity", name=mark, type={"id": entity_type["id"]}, clientSecret=secret("entity")
        )
        await put(
            api,
            "/api/identity-provider",
            "identityProvider",
            type="OpenIDConnect",
            name=mark,
            oauth2={
                "client_id": "one",
                "client_secret": secret("provider"),
                "authorization_endpoint": "https://example.com/authorize",
                "token_endpoint": "https://example.com/token",
                "userinfo_endpoint": "https://example.com/userinfo",
            },
        )
    async with checking_client(service.base_url, headers={"Authorization": MANAGER_KEY}) as manager:
        made = await manager.post("/api/api-key", json={"apiKey": {"key": secret("api key")}})
        assert made.status_code == 200
    assert application["oauthConfiguration"]["clientSecret"] == found["client"]
    return found


async def everything(service: app.Service) -> str:
    """All that MongoDB and Redis hold of this instance, as one text."""
    parts = []
    database = internals.database(service)
    for name in await database.motor.list_collection_names():
        parts += [repr(document) async for document in database.motor[name].find({})]
    client = internals.redis(service).client
    async for key in client.scan_iter(match=internals.redis(service).key("*"), count=1000):
        parts.append(key)
        kind = await client.type(key)
        if kind == "string":
            parts.append(repr(await client.get(key)))
        elif kind == "hash":
            parts.append(repr(await client.hgetall(key)))
    return "\n".join(parts)


@pytest.mark.requirement("design-state-8", "management-6")
async def test_no_secret_lies_open_in_the_stores(service, secrets):
    text = await everything(service)
    assert len(secrets) >= 14
    for name, secret in secrets.items():
        assert secret not in text, name
        assert base64.b64encode(secret.encode()).decode() not in text, name
    # What looks for them sees what is there.
    assert all(name in text for name in ("sealed:1:", "oauthConfiguration", "httpAuthenticationUsername"))


@pytest.mark.requirement("management-6")
async def test_no_token_of_a_login_lies_open_in_the_stores(service, api):
    """Codes, sessions, access and refresh tokens: each is found again by its hash."""
    party = await relying_party.make(api)
    async with checking_client(service.base_url) as browser:
        spent = await party.code(browser)
        fresh = await party.code(browser)
        answer = await party.exchange(browser, spent)
        cookies = [cookie.value or "" for cookie in browser.cookies.jar if len(cookie.value or "") > 20]
    assert answer.status_code == 200, answer.text
    assert cookies
    text = await everything(service)
    for secret in (spent, fresh, answer.json()["access_token"], answer.json()["refresh_token"], *cookies):
        assert secret not in text
