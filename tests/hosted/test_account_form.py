"""The account page with the form of its application."""

from __future__ import annotations

from typing import Any

import pytest

from identity.ids import new_id
from tests.api.test_consents import make as make_consent
from tests.api.test_forms import make_field, make_form
from tests.hosted.signing_up import press
from tests.hosted.test_account import NEW_PASSWORD, enter, place
from tests.hosted.test_registration_forms import EMAIL, FIELDS, FIRST_NAME, SECRET, consents_of
from tests.relying_party import PASSWORD, RelyingParty, page, response

Document = dict[str, Any]


async def use_form(rp: RelyingParty, *fields: str, **settings: bool) -> None:
    """Let the account page of the application have these fields."""
    form = await make_form(rp.api, list(fields), type="selfServiceUser")
    configuration = {"selfServiceFormId": form["id"], "selfServiceFormConfiguration": settings}
    await rp.patch(f"/api/application/{rp.client_id}", {"application": {"formConfiguration": configuration}})


async def stored(rp: RelyingParty) -> Document:
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    return dict((await rp.api.get(f"/api/user/{rp.user['id']}", headers=headers)).json()["user"])


@pytest.mark.requirement("self-service-21")
async def test_form_changes_user_registration_and_consents(rp, browser):
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"data": {"color": "red", "kept": {"a": 1}, "old": "x"}}})
    registered = {"applicationId": rp.client_id, "data": {"seat": 7, "kept": True}}
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    path = f"/api/user/registration/{rp.user['id']}"
    await rp.api.delete(f"{path}/{rp.client_id}", headers=headers)
    assert (await rp.api.post(path, json={"registration": registered}, headers=headers)).status_code == 200
    consent = await make_consent(rp.api, defaultMinimumAgeForSelfConsent=0)
    fields = [
        await make_field(rp.api, control="select", options=["red", "blue"]),
        await make_field(rp.api, key="user.data.old"),
        await make_field(rp.api, key="registration.data.seat", type="number", control="number"),
        await make_field(rp.api, key="user.data.tags", control="checkbox", options=["a", "b"]),
        await make_field(rp.api, type="consent", consentId=consent["id"]),
    ]
    await use_form(rp, FIRST_NAME, *(field["id"] for field in fields))
    shown = await enter(rp, browser, "/account/edit")
    form = page(shown).forms[0]["fields"]
    assert (form["user.data.old"], form["registration.data.seat"]) == ("x", "7")
    key = f"consents['{consent['id']}']"
    answers = {"user.firstName": "Grace", "user.data.color": "blue", "user.data.old": "", "user.data.tags#1": "b"}
    changed = await press(browser, shown, **answers, **{"registration.data.seat": "8", key: "true"})
    assert changed.status_code == 302, changed.text
    user = await stored(rp)
    assert user["firstName"] == "Grace"
    assert user["data"] == {"color": "blue", "kept": {"a": 1}, "tags": ["b"]}
    assert user["registrations"][0]["data"] == {"seat": 8, "kept": True}
    assert await consents_of(rp, user) == [(consent["id"], "Active")]
    shown = await enter(rp, browser, "/account/edit")
    changed = await press(browser, shown, **{key: "", "user.data.color": "blue", "user.data.tags#0": ""})
    assert changed.status_code == 302, changed.text
    assert await consents_of(rp, user) == [(consent["id"], "Revoked")]


async def test_new_username_requires_the_password_and_a_phone_number_cannot_be_changed(rp, browser):
    await use_form(rp, FIELDS["user.username"], FIELDS["user.phoneNumber"])
    shown = await enter(rp, browser, "/account/edit")
    assert "user.phoneNumber" not in page(shown).forms[0]["fields"]
    wanted = {"user.username": new_id(), "user.phoneNumber": "+4930123456"}
    refused = await press(browser, shown, **wanted)
    assert 'id="currentPassword-errors"' in refused.text
    assert (await press(browser, shown, **wanted, currentPassword=PASSWORD)).status_code == 302
    user = await stored(rp)
    assert (user["username"], "phoneNumber" in user) == (wanted["user.username"], False)


async def test_unchanged_form_changes_nothing(rp, browser):
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"firstName": "Ada", "preferredLanguages": ["de_CH", "en"]}})
    await use_form(rp, EMAIL, FIRST_NAME, SECRET, FIELDS["user.preferredLanguages"])
    shown = await enter(rp, browser, "/account/edit")
    assert '<option value="de_CH" selected>' in shown.text
    before = await stored(rp)
    sent = await press(browser, shown, **{"user.preferredLanguages": "de_CH"})
    assert sent.status_code == 302, sent.text
    after = await stored(rp)
    assert after["lastUpdateInstant"] == before["lastUpdateInstant"]
    assert after["preferredLanguages"] == ["de_CH", "en"]


async def test_new_address_requires_the_password_and_stays_pending(rp, browser):
    await use_form(rp, EMAIL, FIRST_NAME)
    shown = await enter(rp, browser, "/account/edit")
    email = f"{new_id()}@example.com"
    refused = await press(browser, shown, **{"user.email": email, "user.firstName": "Grace"})
    assert 'id="currentPassword-errors"' in refused.text
    assert "firstName" not in await stored(rp)
    sent = await press(browser, refused, **{"user.email": email, "currentPassword": PASSWORD})
    assert sent.status_code == 302, sent.text
    user = await stored(rp)
    assert (user["email"], user["firstName"]) == (rp.login_id, "Grace")
    assert email in page(await enter(rp, browser)).text


@pytest.mark.requirement("self-service-21")
async def test_application_may_require_the_current_password_for_a_new_one(rp, browser):
    await use_form(rp, SECRET, FIRST_NAME, requireCurrentPasswordOnPasswordChange=True)
    shown = await enter(rp, browser, "/account/edit")
    new = {"user.password": NEW_PASSWORD, "confirm.user.password": NEW_PASSWORD}
    for wrong in ({}, {"currentPassword": "wrong"}):
        refused = await press(browser, shown, **new, **wrong)
        assert 'id="currentPassword-errors"' in refused.text
    different = await press(browser, shown, **{**new, "confirm.user.password": "x"}, currentPassword=PASSWORD)
    assert 'id="confirm.user.password-errors"' in different.text
    changed = await press(browser, shown, **new, currentPassword=PASSWORD)
    assert changed.status_code == 302, changed.text
    assert (await browser.get("/account", params=place(rp))).status_code == 302
    assert response(await rp.submit(browser, await rp.authorize(browser), password=NEW_PASSWORD))["code"]


async def test_new_password_obeys_the_rules_of_the_tenant(rp, browser):
    await use_form(rp, SECRET)
    shown = await enter(rp, browser, "/account/edit")
    refused = await press(browser, shown, **{"user.password": "short", "confirm.user.password": "short"})
    assert 'id="user.password-errors"' in refused.text
    assert "short" not in page(refused).forms[0]["fields"].values()


@pytest.mark.parametrize(
    "hostile",
    [
        {"user.verified": "false"},
        {"registration.roles": "admin"},
        {"user.data.role": "admin"},
        {"user.username": "root"},
    ],
    ids=str,
)
async def test_members_that_the_form_does_not_have_stay(rp, browser, hostile):
    await use_form(rp, FIRST_NAME)
    shown = await enter(rp, browser, "/account/edit")
    before = await stored(rp)
    sent = await press(browser, shown, **hostile)
    assert sent.status_code == 302
    assert await stored(rp) == before


async def test_errors_are_shown_at_their_fields_and_change_nothing(rp, browser):
    number = await make_field(rp.api, key="user.data.age", type="number")
    needed = await make_field(rp.api, key="user.data.nick", required=True)
    await use_form(rp, FIRST_NAME, FIELDS["user.birthDate"], number["id"], needed["id"])
    shown = await enter(rp, browser, "/account/edit")
    answers = {"user.firstName": "Grace", "user.birthDate": "soon", "user.data.age": "old"}
    refused = await press(browser, shown, **answers)
    for key in ("user.birthDate", "user.data.age", "user.data.nick"):
        assert f'id="{key}-errors"' in refused.text
    assert page(refused).forms[0]["fields"]["user.firstName"] == "Grace"
    assert "firstName" not in await stored(rp)
