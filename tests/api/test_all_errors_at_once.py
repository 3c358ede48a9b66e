"""All errors of a request or form are reported together."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests.relying_party import PASSWORD, RelyingParty, page


def codes(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 400, answer.text
    return {error["code"] for errors in answer.json()["fieldErrors"].values() for error in errors}


@pytest.mark.requirement("audit-c1-errors")
async def test_application_reports_schema_rule_reference_and_duplicate_errors_together(key, rp):
    oauth = {
        "authorizedRedirectURLs": ["https://app.example.com/callback", "no url"],
        "clientAuthenticationPolicy": "Sometimes",
        "consentMode": 5,
        "logoutURL": "no url either",
    }
    application = {
        "name": rp.application["name"],
        "oauthConfiguration": oauth,
        "themeId": new_id(),
        "verifyRegistration": True,
        "roles": [{"name": "admin"}, {"name": "admin"}, {"name": 5, "isDefault": "perhaps"}],
    }
    found = codes(await key.post("/api/application", json={"application": application}))
    path = "application.oauthConfiguration"
    assert found >= {
        f"[invalid]{path}.authorizedRedirectURLs[1]",
        f"[invalid]{path}.logoutURL",
        "[duplicate]application.name",
        "[invalid]application.themeId",
        "[missing]application.verificationEmailTemplateId",
    }
    assert any(code.endswith(f"{path}.clientAuthenticationPolicy") for code in found)
    assert any("isDefault" in code or code == "[invalidJSON]" for code in found)
    updated = codes(await key.put(f"/api/application/{rp.client_id}", json={"application": {**application}}))
    assert updated == found - {"[duplicate]application.name"}


@pytest.mark.requirement("audit-c1-errors")
async def test_invalid_member_is_reported_once_and_not_as_missing(key):
    application = {"name": 5.5, "oauthConfiguration": "none", "scopes": [{"name": "openid"}, {}]}
    answer = await key.post("/api/application", json={"application": application})
    paths = answer.json()["fieldErrors"]
    assert all(len(errors) == 1 for errors in paths.values()), paths
    assert "application.scopes[1].name" in paths


@pytest.mark.requirement("audit-c1-errors")
@pytest.mark.parametrize(
    ("path", "more"), [("/api/user", {}), ("/api/user/registration", {"registration": {"applicationId": None}})]
)
async def test_user_reports_schema_password_and_duplicate_errors_together(key, rp, path, more):
    if more:
        more = {"registration": {"applicationId": rp.client_id}}
    user: dict[str, Any] = {"email": rp.login_id, "password": "short", "birthDate": "never", "expiry": "later"}
    found = codes(await key.post(path, json={"user": user, **more}))
    assert found >= {"[duplicate]user.email", "[tooShort]user.password", "[couldNotConvert]user.birthDate"}
    assert len(found) == 4


@pytest.mark.requirement("audit-c1-errors")
async def test_registration_form_reports_all_fields_together(rp: RelyingParty, browser):
    fields = {name: {"enabled": True, "required": True} for name in ("firstName", "birthDate")}
    configuration = {"enabled": True, "confirmPassword": True, **fields}
    await rp.patch(f"/api/application/{rp.client_id}", {"application": {"registrationConfiguration": configuration}})
    shown = await browser.get("/oauth2/register", params=rp.query())
    form = page(shown).forms[0]
    filled = {
        **form["fields"],
        "user.email": rp.login_id,
        "user.password": "short",
        "passwordConfirm": PASSWORD,
        "user.birthDate": "never",
    }
    answer = await browser.post(form["action"], data=filled)
    assert answer.status_code == 200
    for name in ("user.email", "user.password", "passwordConfirm", "user.birthDate", "user.firstName"):
        assert f'id="{name}-errors"' in answer.text, name
