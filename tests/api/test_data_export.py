"""/api/user/data-export: everything about a user, and no credentials."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests import two_factor
from tests.conftest import SUPER_KEY, UNKNOWN_ID, checking_client
from tests.relying_party import PASSWORD, RelyingParty

Document = dict[str, Any]
PATH = "/api/user/data-export"


async def send(client: httpx.AsyncClient, method: str, path: str, body: Document | None = None) -> Document:
    answer = await client.request(method, path, json=body)
    assert answer.status_code == 200, f"{path}: {answer.text}"
    return dict(answer.json()) if answer.content else {}


async def fill(key: httpx.AsyncClient, browser: httpx.AsyncClient, rp: RelyingParty, now: int) -> Document:
    """Give the user something of everything; return the secrets and the ids."""
    user_id = rp.user["id"]
    await rp.configure(generateRefreshTokens=True, enabledGrants=["authorization_code", "refresh_token"])
    tokens = await rp.tokens(browser, browser)
    group = (await send(key, "POST", "/api/group", {"group": {"name": f"Group {new_id()}"}}))["group"]
    await send(key, "POST", "/api/group/member", {"members": {group["id"]: [{"userId": user_id, "data": {"a": 1}}]}})
    await send(key, "POST", "/api/user/comment", {
        "userComment": {"userId": user_id, "commenterId": user_id, "comment": "Called twice."}
    })  # fmt: skip
    consent = {"name": f"Consent {new_id()}", "defaultMinimumAgeForSelfConsent": 13}
    made = (await send(key, "POST", "/api/consent", {"consent": consent}))["consent"]
    await send(key, "PATCH", f"/api/user/{user_id}", {"user": {"birthDate": "1980-01-01"}})
    given = {"consentId": made["id"], "userId": user_id, "giverUserId": user_id}
    await send(key, "POST", "/api/user/consent", {"userConsent": given})
    family = {"familyMember": {"userId": user_id, "role": "Adult", "owner": True}}
    await send(key, "POST", "/api/user/family", family)
    row = {"insertUser": "support", "message": f"Wrote to {rp.login_id}", "newValue": {"letter": 1}}
    await send(key, "POST", "/api/system/audit-log", {"auditLog": row})
    other = {"insertUser": "support", "message": f"Wrote to not-{rp.login_id}"}
    await send(key, "POST", "/api/system/audit-log", {"auditLog": other})
    assert (await rp.log_in_by_api(key, password="wrong")).status_code == 404
    method = {"method": "authenticator", "secret": two_factor.SECRET, "code": two_factor.code(now)}
    await send(key, "POST", f"/api/user/two-factor/{user_id}", method)
    return {
        "refresh": tokens["refresh_token"],
        "secret": method["secret"],
        "group": group["name"],
        "consent": made["id"],
    }


@pytest.mark.requirement("personal-3")
async def test_export_has_everything_and_no_credentials(key, browser, rp, clock) -> None:
    filled = await fill(key, browser, rp, clock.now())
    user_id = rp.user["id"]
    answer = await key.get(f"{PATH}/{user_id}")
    exported = answer.json()["userData"]
    assert exported["user"]["email"] == rp.login_id
    assert [one["applicationId"] for one in exported["user"]["registrations"]] == [rp.client_id]
    assert [(one["name"], one["data"]) for one in exported["groups"]] == [(filled["group"], {"a": 1})]
    assert [one["comment"] for one in exported["comments"]] == ["Called twice."]
    assert [one["consentId"] for one in exported["consents"]] == [filled["consent"]]
    assert [one["method"] for one in exported["user"]["twoFactor"]["methods"]] == ["authenticator"]
    assert [one["role"] for one in exported["families"]] == ["Adult"]
    assert [(one["message"], one["newValue"]) for one in exported["auditLogs"]] == [
        (f"Wrote to {rp.login_id}", {"letter": 1})
    ]
    for name in ("devices", "failedLogins", "logins", "sessions"):
        assert exported[name], name
    for secret in (
        filled["refresh"],
        filled["secret"],
        PASSWORD,
        '"password":',
        '"salt"',
        '"token"',
        '"private"',
        '"secret"',
    ):
        assert secret not in answer.text, secret


@pytest.mark.requirement("personal-3")
async def test_export_of_another_tenant_or_of_nobody_is_not_found(key, service, tenant, rp) -> None:
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": tenant["id"]}
    async with checking_client(service.base_url, headers=headers) as other:
        assert (await other.get(f"{PATH}/{rp.user['id']}")).status_code == 404
    assert (await key.get(f"{PATH}/{UNKNOWN_ID}")).status_code == 404


@pytest.mark.requirement("personal-3")
async def test_rows_of_the_instance_are_exported_to_callers_without_a_tenant_only(service, key, rp) -> None:
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as glob:
        row = {"insertUser": "support", "message": f"About {rp.user['id']}"}
        await send(glob, "POST", "/api/system/audit-log", {"auditLog": row})
        assert row["message"] in json.dumps((await glob.get(f"{PATH}/{rp.user['id']}")).json())
    assert row["message"] not in json.dumps((await key.get(f"{PATH}/{rp.user['id']}")).json())
