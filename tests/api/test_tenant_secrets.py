"""The secrets of tenants in responses, which `api_keys.show_tenant_secrets` enables (docs/compatibility.md)."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests import plain_http
from tests.conftest import MANAGER_KEY, SUPER_KEY, Build

SECRETS = {"emailConfiguration": "password", "captchaConfiguration": "secretKey"}
TENANT = {
    "emailConfiguration": {"host": "mail.example.com", "port": 25, "username": "me", "password": "a mail password"},
    "captchaConfiguration": {
        "enabled": True, "captchaMethod": "HCaptcha", "siteKey": "site", "secretKey": "a captcha secret",
    },
}  # fmt: skip


def shown(tenant: dict[str, Any]) -> dict[str, str]:
    """Return the secrets that a response contains."""
    return {section: tenant[section][name] for section, name in SECRETS.items() if name in tenant[section]}


async def found_by(http: httpx.AsyncClient, key: str, tenant_id: str) -> list[dict[str, str]]:
    """Return the secrets that a key finds in each kind of response."""
    headers = {"Authorization": key}
    one = (await http.get(f"/api/tenant/{tenant_id}", headers=headers)).json()["tenant"]
    found = [shown(one)]
    for path in ("/api/tenant", f"/api/tenant/search?name={one['name']}"):
        answer = await http.get(path, headers=headers)
        tenants = answer.json()["tenants"] if answer.is_success else []
        found += [shown(tenant) for tenant in tenants if tenant["id"] == tenant_id]
    return found


@pytest.mark.requirement("core-8-emailConfiguration")
@pytest.mark.parametrize("is_on", [True, False])
async def test_only_keys_that_may_change_all_tenants_read_secrets_and_only_with_the_setting(
    build: Build, is_on: bool
) -> None:
    everything = {"emailConfiguration": "a mail password", "captchaConfiguration": "a captcha secret"}
    async with (
        build(api_keys__show_tenant_secrets=is_on) as service,
        plain_http.client(service.base_url, timeout=60) as http,
    ):
        body = {"tenant": {"name": new_id(), **TENANT}}
        made = await http.post("/api/tenant", json=body, headers={"Authorization": SUPER_KEY})
        assert made.status_code == 200, made.text
        tenant = made.json()["tenant"]
        assert shown(tenant) == (everything if is_on else {})
        keys = {}
        for name, settings in {
            "tenant": {"tenantId": tenant["id"]},
            "reader": {"permissions": {"endpoints": {"/api/tenant": ["GET"], "/api/tenant/search": ["GET"]}}},
            "writer": {"permissions": {"endpoints": {"/api/tenant": ["GET", "PATCH"], "/api/tenant/search": ["GET"]}}},
        }.items():
            created = await http.post("/api/api-key", json={"apiKey": settings}, headers={"Authorization": MANAGER_KEY})
            keys[name] = created.json()["apiKey"]["key"]
        assert await found_by(http, keys["writer"], tenant["id"]) == [everything if is_on else {}] * 3
        assert not any(await found_by(http, keys["tenant"], tenant["id"]))
        assert not any(await found_by(http, keys["reader"], tenant["id"]))
        patched = await http.patch(f"/api/tenant/{tenant['id']}", json={}, headers={"Authorization": SUPER_KEY})
        assert shown(patched.json()["tenant"]) == (everything if is_on else {})
        if is_on:
            again = await http.put(
                f"/api/tenant/{tenant['id']}", json={"tenant": tenant}, headers={"Authorization": SUPER_KEY}
            )
            changed = again.json()["tenant"]
            assert {**changed, "lastUpdateInstant": 0} == {**tenant, "lastUpdateInstant": 0}, "the second plan is empty"
