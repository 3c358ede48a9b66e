"""/api/user/forgot-password and /api/user/change-password over HTTP, with real mails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from identity.ids import new_id
from identity.operations.limits import failed_login_limits, message_limits
from identity.operations.two_factor import two_factor_trust
from tests import relying_party
from tests.conftest import EMAIL_TEMPLATE, checking_client
from tests.password_reset import NEW_PASSWORD, PasswordReset, codes, id_in, make_template, password_reset
from tests.relying_party import PASSWORD


@pytest.fixture
async def scenario(service, api):
    async with password_reset(service, api) as found:
        yield found


@pytest.mark.requirement("users-7-1", "users-7-10", "users-7-21", "users-7-3")
async def test_mailed_id_changes_password_once_and_logs_in_once(scenario: PasswordReset) -> None:
    change_id = await scenario.mailed_id(state={"back": "/home"})
    assert "back=/home" in scenario.mailbox.mails[0].part("plain")
    assert (await scenario.anonymous.get(f"/api/user/change-password/{change_id}")).status_code == 200
    answer = await scenario.change(change_id)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body.keys() == {"oneTimePassword", "state"} and body["state"] == {"back": "/home"}
    assert (await scenario.change(change_id)).status_code == 404
    assert (await scenario.log_in()).status_code == 404
    assert (await scenario.log_in(NEW_PASSWORD)).status_code == 200
    once = await scenario.log_in_once(body["oneTimePassword"])
    assert once.status_code == 200, once.text
    assert once.json()["state"] == {"back": "/home"} and "refreshToken" in once.json()
    assert (await scenario.log_in_once(body["oneTimePassword"])).status_code == 404


# Forgotten


@pytest.mark.requirement("users-7-1", "users-7-15", "users-7-4")
async def test_api_key_receives_or_chooses_change_id(scenario: PasswordReset) -> None:
    chosen = f"chosen-{new_id()}"
    assert await scenario.change_id(changePasswordId=chosen) == chosen
    taken = {"loginId": scenario.rp.login_id, "sendForgotPasswordMessage": False, "changePasswordId": chosen}
    answer = await scenario.key.post("/api/user/forgot-password", json=taken)
    assert codes(answer) == {"changePasswordId": ["duplicate"]}
    found = await scenario.key.get("/api/user", params={"changePasswordId": chosen})
    assert found.json()["user"]["id"] == scenario.rp.user["id"]
    assert (await scenario.key.get("/api/user", params={"changePasswordId": "unknown"})).status_code == 404
    sent = await scenario.key.post("/api/user/forgot-password", json={"loginId": scenario.rp.login_id})
    (mail,) = await scenario.mailbox.wait_for(1)
    assert id_in(mail.part("plain")) == sent.json()["changePasswordId"]


@pytest.mark.requirement("users-7-2")
async def test_deprecated_login_id_parameters_limit_lookup(scenario: PasswordReset) -> None:
    name = f"name-{new_id()}"
    user = await scenario.user(username=name)
    for body, status in (({"email": user["email"]}, 200), ({"username": name}, 200), ({"email": name}, 404)):
        answer = await scenario.key.post("/api/user/forgot-password", json={**body, "sendForgotPasswordEmail": False})
        assert answer.status_code == status, body
    typed = {"loginId": name, "loginIdTypes": ["email"], "sendForgotPasswordEmail": False}
    assert (await scenario.key.post("/api/user/forgot-password", json=typed)).status_code == 404


@pytest.mark.requirement("attack-44", "core-3-4", "users-7-7")
async def test_attack_44_only_api_key_learns_whether_user_exists(scenario: PasswordReset) -> None:
    """Attack 44: without a key every login id looks alike."""
    without_address = f"name-{new_id()}"
    await scenario.user(email=None, username=without_address)
    gone = await scenario.user()
    await scenario.key.delete(f"/api/user/{gone['id']}")
    for login_id, status in ((without_address, 422), (gone["email"], 404), ("unknown@example.com", 404)):
        body = {"loginId": login_id}
        answer = await scenario.key.post("/api/user/forgot-password", json=body)
        assert (answer.status_code, answer.content) == (status, b""), login_id
        hidden = await scenario.anonymous.post("/api/user/forgot-password", json=body)
        assert (hidden.status_code, hidden.content) == (200, b""), login_id
    known = await scenario.anonymous.post("/api/user/forgot-password", json={"loginId": scenario.rp.login_id})
    varying = {"date", "content-length", "x-request-id"}
    assert {k: v for k, v in known.headers.items() if k not in varying} == {
        k: v for k, v in hidden.headers.items() if k not in varying
    }
    (mail,) = await scenario.mailbox.wait_for(1)
    assert mail.recipients == [scenario.rp.login_id]


@pytest.mark.requirement("users-7-6")
async def test_without_template_only_unsent_ids_are_created(scenario: PasswordReset) -> None:
    await scenario.rp.configure_tenant(emailConfiguration={"forgotPasswordEmailTemplateId": None})
    body = {"loginId": scenario.rp.login_id}
    for client in (scenario.key, scenario.anonymous):
        answer = await client.post("/api/user/forgot-password", json=body)
        assert (answer.status_code, answer.content) == (403, b"")
    # Without a key a mail is always meant.
    quiet = await scenario.anonymous.post("/api/user/forgot-password", json={**body, "sendForgotPasswordEmail": False})
    assert quiet.status_code == 403
    assert await scenario.change_id()


@pytest.mark.requirement("users-7-3")
async def test_application_template_precedes_template_of_tenant(scenario: PasswordReset, api) -> None:
    template_id = await make_template(api, "${application.name}: /password/change/${changePasswordId}")
    mails = {"forgotPasswordEmailTemplateId": template_id}
    await scenario.rp.patch(f"/api/application/{scenario.rp.client_id}", {"application": {"emailConfiguration": mails}})
    await scenario.mailed_id(applicationId=scenario.rp.client_id)
    await scenario.mailed_id()
    texts = [mail.part("plain") for mail in scenario.mailbox.mails]
    assert texts[0].startswith(scenario.rp.application["name"]) and texts[1].startswith("Go to")


@pytest.mark.requirement("users-7-4", "users-7-5")
async def test_invalid_forgot_password_requests_are_refused(scenario: PasswordReset) -> None:
    async def forgot_password(client, **body):
        return await client.post("/api/user/forgot-password", json=body)

    assert codes(await forgot_password(scenario.anonymous)) == {"loginId": ["missing"]}
    login = {"loginId": scenario.rp.login_id}
    assert codes(await forgot_password(scenario.anonymous, **login, applicationId=new_id())) == {
        "applicationId": ["invalid"]
    }
    assert codes(await forgot_password(scenario.anonymous, **login, state={"long": "x" * 10_001})) == {
        "state": ["tooLong"]
    }
    # A caller that chooses the id needs an API key.
    assert (await forgot_password(scenario.anonymous, **login, changePasswordId="mine")).status_code == 401
    wrong = await scenario.anonymous.post("/api/user/forgot-password", json=login, headers={"Authorization": "no key"})
    assert wrong.status_code == 401
    # Not even a mail went out, nor is there an id.
    assert (await scenario.anonymous.get("/api/user/change-password/mine")).status_code == 404
    assert scenario.mailbox.mails == []


@pytest.mark.requirement("users-7-8")
async def test_forgot_password_requests_are_limited_by_tenant(scenario: PasswordReset) -> None:
    limit = {"forgotPassword": {"enabled": True, "limit": 2, "timePeriodInSeconds": 60}}
    await scenario.rp.configure_tenant(rateLimitConfiguration=limit)
    for login_id in (scenario.rp.login_id, "unknown@example.com"):
        answers = [
            await scenario.anonymous.post("/api/user/forgot-password", json={"loginId": login_id}) for _ in range(3)
        ]
        assert [answer.status_code for answer in answers] == [200, 200, 503], login_id
    mails = await scenario.mailbox.wait_for(2)
    assert {mail.recipients[0] for mail in mails} == {scenario.rp.login_id}
    refused = await scenario.key.post("/api/user/forgot-password", json={"loginId": scenario.rp.login_id})
    assert refused.status_code == 503


@pytest.mark.requirement("users-7-8")
async def test_mails_per_network_address_are_limited(scenario: PasswordReset, monkeypatch) -> None:
    monkeypatch.setattr(message_limits, "ADDRESS_MESSAGES", 3)
    logins = [f"unknown-{index}@example.com" for index in range(4)]
    answers = [await scenario.anonymous.post("/api/user/forgot-password", json={"loginId": one}) for one in logins]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 503]


# The id


@pytest.mark.requirement("attack-46", "users-7-14")
async def test_attack_46_change_id_expires(scenario: PasswordReset, clock) -> None:
    settings = {"changePasswordIdTimeToLiveInSeconds": 1}
    await scenario.rp.configure_tenant(externalIdentifierConfiguration=settings)
    change_id = await scenario.change_id()
    key = scenario.key_of(change_id)
    assert 0 < await scenario.redis.client.pttl(key) <= 1000
    await scenario.redis.client.delete(key)
    assert (await scenario.anonymous.get(f"/api/user/change-password/{change_id}")).status_code == 404
    assert (await scenario.change(change_id)).status_code == 404


@pytest.mark.requirement("attack-46", "users-7-14")
async def test_attack_46_change_id_follows_tenant_generator_and_is_hashed_in_redis(scenario: PasswordReset) -> None:
    generator = {"changePasswordIdGenerator": {"type": "randomAlphaNumeric", "length": 12}}
    await scenario.rp.configure_tenant(externalIdentifierConfiguration=generator)
    change_id = await scenario.change_id()
    assert len(change_id) == 12 and change_id.isalnum()
    keys = [key async for key in scenario.redis.client.scan_iter(match="*change-password*")]
    assert keys and not [key for key in keys if change_id in str(key)]


@pytest.mark.requirement("attack-46", "users-7-14")
async def test_attack_46_of_64_uses_of_change_id_one_succeeds(scenario: PasswordReset) -> None:
    change_id = await scenario.change_id()
    passwords = [f"battery number {index}" for index in range(64)]
    answers = await asyncio.gather(*(scenario.change(change_id, password) for password in passwords))
    statuses = [answer.status_code for answer in answers]
    assert (statuses.count(200), statuses.count(404)) == (1, 63)
    assert (await scenario.log_in(passwords[statuses.index(200)])).status_code == 200


@pytest.mark.requirement("attack-46", "users-5-6", "users-7-21")
async def test_attack_46_of_64_uses_of_one_time_password_one_logs_in(scenario: PasswordReset) -> None:
    once = (await scenario.change(await scenario.change_id())).json()["oneTimePassword"]
    answers = await asyncio.gather(*(scenario.log_in_once(once) for _ in range(64)))
    statuses = [answer.status_code for answer in answers]
    assert (statuses.count(200), statuses.count(404)) == (1, 63)


@pytest.mark.requirement("attack-46", "users-7-16")
async def test_attack_46_password_change_invalidates_all_change_ids(scenario: PasswordReset) -> None:
    other = await scenario.user()
    ids = [await scenario.change_id() for _ in range(3)]
    others = await scenario.change_id(loginId=other["email"])
    assert (await scenario.change(ids[1])).status_code == 200
    assert [(await scenario.change(one)).status_code for one in ids] == [404, 404, 404]
    later = await scenario.change_id()
    await scenario.rp.patch(f"/api/user/{scenario.rp.user['id']}", {"user": {"password": "set by an administrator"}})
    assert (await scenario.change(later)).status_code == 404
    assert (await scenario.change(others)).status_code == 200


@pytest.mark.requirement("attack-46")
async def test_attack_46_email_change_invalidates_mailed_change_id(scenario: PasswordReset) -> None:
    change_id = await scenario.mailed_id()
    await scenario.rp.patch(f"/api/user/{scenario.rp.user['id']}", {"user": {"email": f"{new_id()}@example.com"}})
    assert (await scenario.anonymous.get(f"/api/user/change-password/{change_id}")).status_code == 404
    assert (await scenario.change(change_id)).status_code == 404


@pytest.mark.requirement("attack-46")
async def test_attack_46_change_id_is_bound_to_user_and_tenant(scenario: PasswordReset, service, api) -> None:
    change_id = await scenario.change_id()
    async with password_reset(service, api) as elsewhere:
        assert (await elsewhere.change(change_id)).status_code == 404
        assert (await elsewhere.anonymous.get(f"/api/user/change-password/{change_id}")).status_code == 404
        assert (await elsewhere.key.get("/api/user", params={"changePasswordId": change_id})).status_code == 404
        once = (await scenario.change(change_id, loginId=elsewhere.rp.login_id)).json()["oneTimePassword"]
        assert (await elsewhere.log_in_once(once)).status_code == 404
        assert (await elsewhere.log_in(NEW_PASSWORD)).status_code == 404
    assert (await scenario.log_in_once(once)).status_code == 200


@pytest.mark.requirement("attack-46")
async def test_attack_46_wrong_change_ids_are_limited_per_address(scenario: PasswordReset, monkeypatch) -> None:
    monkeypatch.setattr(failed_login_limits, "ADDRESS_FAILURES", 3)
    change_id = await scenario.change_id()
    guesses = [await scenario.anonymous.get(f"/api/user/change-password/guess-{index}") for index in range(4)]
    assert [answer.status_code for answer in guesses] == [404, 404, 404, 503]
    assert (await scenario.change(change_id)).status_code == 503


@pytest.mark.requirement("attack-46")
async def test_attack_46_change_id_of_locked_or_deleted_user_is_invalid(scenario: PasswordReset) -> None:
    locked, gone = await scenario.user(), await scenario.user()
    ids = [await scenario.change_id(loginId=user["email"]) for user in (locked, gone)]
    await scenario.key.delete(f"/api/user/{locked['id']}")
    await scenario.key.delete(f"/api/user/{gone['id']}", params={"hardDelete": "true"})
    assert [(await scenario.change(one)).status_code for one in ids] == [404, 404]


async def test_attack_47_mailed_link_ignores_host_header(scenario: PasswordReset) -> None:
    headers = {"Host": "evil.example.com", "X-Forwarded-Host": "evil.example.com"}
    await scenario.anonymous.post("/api/user/forgot-password", json={"loginId": scenario.rp.login_id}, headers=headers)
    (mail,) = await scenario.mailbox.wait_for(1)
    assert b"evil.example.com" not in mail.raw


# The change


@pytest.mark.requirement("users-7-10")
async def test_path_body_and_current_password_are_validated(scenario: PasswordReset) -> None:
    change_id = await scenario.change_id()
    assert codes(await scenario.change(change_id, "")) == {"password": ["blank"]}
    missing = await scenario.anonymous.post(f"/api/user/change-password/{change_id}", json={})
    assert codes(missing) == {"password": ["blank"]}
    assert codes(await scenario.change(change_id, currentPassword="wrong")) == {"currentPassword": ["invalid"]}
    body = {"changePasswordId": change_id, "password": NEW_PASSWORD, "currentPassword": PASSWORD}
    # The body goes before the path.
    assert (await scenario.anonymous.post("/api/user/change-password/another", json=body)).status_code == 200
    nothing = await scenario.anonymous.post("/api/user/change-password", json={"password": NEW_PASSWORD})
    assert nothing.status_code == 401


RULES = {
    "tooShort": ({"minLength": 30, "maxLength": 64}, "too short"),
    "tooLong": ({"minLength": 1, "maxLength": 10}, "far too long to be kept"),
    "singleCase": ({"requireMixedCase": True}, "lower case alone"),
    "onlyAlpha": ({"requireNonAlpha": True}, "OnlyLetters1"),
    "requireNumber": ({"requireNumber": True}, "no digit in here"),
    "previouslyUsed": ({"rememberPreviousPasswords": {"enabled": True, "count": 2}}, PASSWORD),
    "containsEmail": ({"disallowUserLoginId": True}, "my ada@example.com password"),
    "containsUsername": ({"disallowUserLoginId": True}, "my lovelace-1 password"),
    "containsPhoneNumber": ({"disallowUserLoginId": True}, "my +15555550123 password"),
    "breachedCommonPassword": ({"breachDetection": {"enabled": True, "matchMode": "Low"}}, "Password123!"),
}


@pytest.mark.requirement("users-7-24")
async def test_password_rules_are_enforced_wherever_password_is_set(scenario: PasswordReset) -> None:
    names = {"email": "ada@example.com", "username": "lovelace-1", "phoneNumber": "+15555550123"}
    user = await scenario.user(**names)
    claims = {"loginId": user["email"], "password": PASSWORD, "applicationId": scenario.rp.client_id}
    for code, (rules, password) in RULES.items():
        await scenario.rp.configure_tenant(passwordValidationRules=rules)
        change_id = await scenario.change_id(loginId=user["email"])
        assert codes(await scenario.change(change_id, password)) == {"password": [code]}, code
        by_login_id = {"loginId": user["email"], "password": password}
        assert codes(await scenario.key.post("/api/user/change-password", json=by_login_id)) == {"password": [code]}, (
            code
        )
        token = (await scenario.key.post("/api/login", json=claims)).json()["token"]
        by_token = {"currentPassword": PASSWORD, "password": password}
        headers = {"Authorization": f"Bearer {token}"}
        answer = await scenario.anonymous.post("/api/user/change-password", json=by_token, headers=headers)
        assert codes(answer) == {"password": [code]}, code
        patched = await scenario.key.patch(f"/api/user/{user['id']}", json={"user": {"password": password}})
        assert codes(patched) == {"user.password": [code]}, code
        if code != "previouslyUsed":
            wanted = {"user": {"email": "ada2@example.com", "username": "lovelace-1", "password": password}}
            wanted["user"] |= {"phoneNumber": "+15555550123"} if code == "containsPhoneNumber" else {}
            wanted["user"] |= {"email": "ada@example.com"} if code == "containsEmail" else {}
            for path in ("/api/user", "/api/user/registration"):
                body = {**wanted, "registration": {"applicationId": scenario.rp.client_id}}
                created = codes(await scenario.key.post(path, json=body))
                assert created["user.password"] == [code], (code, path)
        usual = {
            "minLength": 8, "maxLength": 256, "requireMixedCase": False, "requireNonAlpha": False,
            "requireNumber": False, "rememberPreviousPasswords": {"enabled": False}, "disallowUserLoginId": False,
            "breachDetection": {"enabled": False},
        }  # fmt: skip
        await scenario.rp.configure_tenant(passwordValidationRules=usual)
    assert (await scenario.key.post("/api/login", json=claims)).status_code == 200


@pytest.mark.requirement("users-7-25")
async def test_minimum_password_age_applies_unless_change_is_required(scenario: PasswordReset) -> None:
    await scenario.rp.configure_tenant(minimumPasswordAge={"enabled": True, "seconds": 3600})
    assert codes(await scenario.change(await scenario.change_id())) == {"password": ["tooYoung"]}
    await scenario.rp.patch(f"/api/user/{scenario.rp.user['id']}", {"user": {"passwordChangeRequired": True}})
    forced = (await scenario.log_in()).json()
    assert forced["changePasswordReason"] == "Administrative"
    assert (await scenario.change(forced["changePasswordId"])).status_code == 200
    await scenario.rp.configure_tenant(minimumPasswordAge={"enabled": False})
    assert (await scenario.change(await scenario.change_id())).status_code == 200


@pytest.mark.requirement("core-3-4", "users-5-9", "users-7-18", "users-7-21", "users-7-22")
async def test_login_requiring_password_change_continues_with_one_time_password(scenario: PasswordReset) -> None:
    await scenario.rp.patch(f"/api/user/{scenario.rp.user['id']}", {"user": {"passwordChangeRequired": True}})
    waiting = await scenario.log_in()
    assert waiting.status_code == 203
    once = (await scenario.change(waiting.json()["changePasswordId"])).json()["oneTimePassword"]
    done = await scenario.log_in_once(once)
    assert done.status_code == 200
    claims = relying_party.claims(done.json()["token"])
    assert claims["authenticationType"] == "ONE_TIME_PASSWORD"
    stored = await scenario.stored()
    assert stored["passwordChangeRequired"] is False and "passwordChangeReason" not in stored


@pytest.mark.requirement("users-7-17")
@pytest.mark.parametrize("is_on", [True, False])
async def test_password_change_ends_sessions_and_refresh_tokens_if_configured(
    scenario: PasswordReset, http, is_on
) -> None:
    policy = {"refreshTokenRevocationPolicy": {"onPasswordChanged": is_on}}
    await scenario.rp.configure_tenant(jwtConfiguration=policy)
    async with checking_client(str(scenario.anonymous.base_url)) as browser:
        await scenario.rp.log_in(browser)
        kept = (await scenario.log_in()).json()
        assert (await scenario.change(await scenario.change_id())).status_code == 200
        refreshed = await scenario.anonymous.post("/api/jwt/refresh", json={"refreshToken": kept["refreshToken"]})
        assert refreshed.status_code == (400 if is_on else 200)
        # The login page again: no user is signed in.
        assert (await scenario.rp.authorize(browser)).status_code == 200


@pytest.mark.requirement("users-7-19")
@pytest.mark.parametrize(("is_allowed", "is_mailed"), [(True, True), (False, True), (True, False)])
async def test_mailed_change_id_verifies_address_if_configured(
    scenario: PasswordReset, is_allowed: bool, is_mailed: bool
) -> None:
    mails = {
        "verifyEmail": True, "verificationEmailTemplateId": EMAIL_TEMPLATE,
        "implicitEmailVerificationAllowed": is_allowed,
    }  # fmt: skip
    body = {"user": {"email": f"{new_id()}@example.com", "password": PASSWORD}}
    user = (await scenario.key.post("/api/user", json=body)).json()["user"]
    await scenario.rp.configure_tenant(emailConfiguration=mails)
    forgot_password = scenario.mailed_id if is_mailed else scenario.change_id
    assert (await scenario.change(await forgot_password(loginId=user["email"]))).status_code == 200
    stored = await scenario.stored(user["id"])
    assert stored["verified"] is (is_allowed and is_mailed)
    if stored["verified"]:
        assert stored["identities"][0]["verifiedReason"] == "Implicit"


@pytest.mark.requirement("users-7-30")
async def test_user_is_notified_of_password_change(scenario: PasswordReset, api) -> None:
    reset, update = await make_template(api, "was reset"), await make_template(api, "was updated")
    await scenario.rp.configure_tenant(emailConfiguration={"passwordUpdateEmailTemplateId": update})
    await scenario.change(await scenario.change_id())
    await scenario.mailbox.wait_for(1)
    await scenario.rp.configure_tenant(emailConfiguration={"passwordResetSuccessEmailTemplateId": reset})
    await scenario.change(await scenario.change_id(), "a third battery")
    await scenario.mailbox.wait_for(2)
    body = {"loginId": scenario.rp.login_id, "password": "a fourth battery"}
    await scenario.key.post("/api/user/change-password", json=body)
    mails = await scenario.mailbox.wait_for(3)
    assert [mail.part("plain").strip() for mail in mails] == ["was updated", "was reset", "was updated"]


# By login id, with a key


@pytest.mark.requirement("users-7-11")
async def test_api_key_changes_password_by_login_id(scenario: PasswordReset) -> None:
    async def change(**members):
        return await scenario.key.post("/api/user/change-password", json={"password": NEW_PASSWORD, **members})

    login_id = scenario.rp.login_id
    assert codes(await change()) == {"loginId": ["missing"]}
    assert codes(await change(loginId="unknown@example.com")) == {"loginId": ["invalid"]}
    assert codes(await change(loginId=login_id, loginIdTypes=["username"])) == {"loginId": ["invalid"]}
    assert codes(await change(loginId=login_id, currentPassword="wrong")) == {"currentPassword": ["invalid"]}
    done = await change(loginId=login_id, currentPassword=PASSWORD)
    assert (done.status_code, done.content) == (200, b"")
    assert (await scenario.log_in(NEW_PASSWORD)).status_code == 200
    anonymous = await scenario.anonymous.post(
        "/api/user/change-password", json={"loginId": login_id, "password": "mine"}, headers={"Authorization": "no key"}
    )
    assert anonymous.status_code == 401


@pytest.mark.requirement("users-7-11")
async def test_attack_48_wrong_current_password_counts_as_failed_login(scenario: PasswordReset) -> None:
    limit = {"failedLogin": {"enabled": True, "limit": 2, "timePeriodInSeconds": 60}}
    await scenario.rp.configure_tenant(rateLimitConfiguration=limit)
    body = {"loginId": scenario.rp.login_id, "password": NEW_PASSWORD, "currentPassword": "wrong"}
    answers = [await scenario.key.post("/api/user/change-password", json=body) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [400, 400, 503]
    assert (await scenario.log_in()).status_code == 503


# By access token


@pytest.mark.requirement("users-7-12", "users-7-21", "users-7-9")
@pytest.mark.parametrize("with_refresh_token", [True, False])
async def test_password_change_keeps_presented_tokens(scenario: PasswordReset, with_refresh_token: bool) -> None:
    session = (await scenario.log_in()).json()
    body = {"currentPassword": PASSWORD, "password": NEW_PASSWORD}
    if with_refresh_token:
        body["refreshToken"] = session["refreshToken"]
    headers = {"Authorization": f"Bearer {session['token']}"}
    assert (await scenario.anonymous.get("/api/user/change-password", headers=headers)).status_code == 200
    answer = await scenario.anonymous.post("/api/user/change-password", json=body, headers=headers)
    assert answer.json().keys() == {"oneTimePassword"}
    done = await scenario.log_in_once(answer.json()["oneTimePassword"])
    assert done.status_code == 200
    assert ("refreshToken" in done.json()) is with_refresh_token


@pytest.mark.requirement("users-7-12")
async def test_access_token_requires_current_password_and_own_refresh_token(scenario: PasswordReset) -> None:
    session, other = (await scenario.log_in()).json(), await scenario.user()
    foreign = (await scenario.log_in(loginId=other["email"])).json()["refreshToken"]
    headers = {"Authorization": f"JWT {session['token']}"}

    async def change(**members):
        body = {"password": NEW_PASSWORD, **members}
        return await scenario.anonymous.post("/api/user/change-password", json=body, headers=headers)

    assert codes(await change()) == {"currentPassword": ["missing"]}
    assert codes(await change(currentPassword="wrong")) == {"currentPassword": ["invalid"]}
    assert codes(await change(currentPassword=PASSWORD, refreshToken=foreign)) == {"refreshToken": ["invalid"]}
    assert (await scenario.log_in()).status_code == 200
    wrong = {"Authorization": "Bearer nonsense"}
    for method in ("GET", "POST"):
        answer = await scenario.anonymous.request(
            method, "/api/user/change-password", headers=wrong, json={"password": "x"}
        )
        assert (answer.status_code, answer.content) == (401, b"")


# Second factors


@pytest.mark.requirement("users-7-13", "users-7-9")
async def test_password_change_with_second_factor_requires_trust_token(scenario: PasswordReset) -> None:
    method = {"method": "email", "email": "second@example.com"}
    multi = {"email": {"enabled": True, "templateId": EMAIL_TEMPLATE}}
    await scenario.rp.configure_tenant(multiFactorConfiguration=multi)
    user = await scenario.user(twoFactor={"methods": [method]})
    change_id = await scenario.change_id(loginId=user["email"])
    required = {"": ["[TrustTokenRequired]"]}
    assert codes(await scenario.anonymous.get(f"/api/user/change-password/{change_id}")) == required
    by_login_id = await scenario.key.get("/api/user/change-password", params={"loginId": user["email"]})
    assert codes(by_login_id) == required
    by_username = await scenario.key.get("/api/user/change-password", params={"username": user["email"]})
    assert codes(by_username) == required, "the name that official clients before 1.61 send"
    assert codes(await scenario.change(change_id)) == required
    assert codes(await scenario.change(change_id, trustToken="guess")) == {"trustToken": ["invalid"]}
    token = await trust_token(scenario, user, "the challenge")
    assert codes(await scenario.change(change_id, trustToken=token)) == {"trustToken": ["invalid"]}
    wrong = await scenario.change(change_id, trustToken=token, trustChallenge="another")
    assert codes(wrong) == {"trustToken": ["invalid"]}
    foreign = await trust_token(scenario, scenario.rp.user, "the challenge")
    stolen = await scenario.change(change_id, trustToken=foreign, trustChallenge="the challenge")
    assert codes(stolen) == {"trustToken": ["invalid"]}
    done = await scenario.change(change_id, trustToken=token, trustChallenge="the challenge")
    assert done.status_code == 200, done.text
    # The second factor was there: the login that follows asks for none.
    once = await scenario.log_in_once(done.json()["oneTimePassword"])
    assert once.status_code == 200, once.text
    again = await scenario.change_id(loginId=user["email"])
    used = await scenario.change(again, "a third battery", trustToken=token, trustChallenge="the challenge")
    assert codes(used) == {"trustToken": ["invalid"]}
    # The API key stands for it.
    body = {"loginId": user["email"], "password": "a fourth battery"}
    assert (await scenario.key.post("/api/user/change-password", json=body)).status_code == 200
    await scenario.rp.configure_tenant(multiFactorConfiguration={"loginPolicy": "Disabled"})
    assert (
        await scenario.anonymous.get(f"/api/user/change-password/{await scenario.change_id(loginId=user['email'])}")
    ).is_success


async def trust_token(scenario: PasswordReset, user: dict[str, Any], challenge: str) -> str:
    """The trust token of a completed two-factor login."""
    services = scenario.service.services
    tenant = await services.configuration.tenants.get(None, scenario.tenant_id)
    return await two_factor_trust.issue_trust_token(services, tenant, user, challenge)


# First passwords


@pytest.mark.requirement("users-7-23")
@pytest.mark.parametrize("path", ["/api/user", "/api/user/registration"])
async def test_new_user_sets_first_password_by_mail(scenario: PasswordReset, path: str, api) -> None:
    template_id = await make_template(api, "verify ${verificationId}")
    mails = {"verifyEmail": True, "verificationEmailTemplateId": template_id}
    await scenario.rp.configure_tenant(emailConfiguration=mails, minimumPasswordAge={"enabled": True, "seconds": 3600})
    user = {"email": f"{new_id()}@example.com", "password": "dropped anyway"}
    body = {"user": user, "sendSetPasswordEmail": True, "registration": {"applicationId": scenario.rp.client_id}}
    made = await scenario.key.post(path, json=body)
    assert made.status_code == 200, made.text
    assert "token" not in made.json() and not made.json()["user"]["verified"]
    assert (await scenario.log_in("dropped anyway", loginId=user["email"])).status_code == 404
    (mail,) = await scenario.mailbox.wait_for(1)
    change_id = id_in(mail.part("plain"))
    seconds = await scenario.redis.client.ttl(scenario.key_of(change_id))
    assert 86_000 < seconds <= 86_400
    assert (await scenario.change(change_id)).status_code == 200
    logged_in = await scenario.log_in(NEW_PASSWORD, loginId=user["email"])
    assert logged_in.status_code == (200 if path.endswith("registration") else 202)
    assert (await scenario.stored(made.json()["user"]["id"]))["verified"]
    assert len(scenario.mailbox.mails) == 1


@pytest.mark.requirement("users-2-4", "users-7-23")
async def test_password_is_required_without_template_or_address(scenario: PasswordReset) -> None:
    named = {"user": {"username": f"name-{new_id()}"}, "sendSetPasswordEmail": True}
    assert codes(await scenario.key.post("/api/user", json=named)) == {"user.password": ["blank"]}
    addressed = {"user": {"email": f"{new_id()}@example.com"}, "sendSetPasswordEmail": True}
    unwanted = {**addressed, "sendSetPasswordIdentityType": "doNotSend"}
    assert codes(await scenario.key.post("/api/user", json=unwanted)) == {"user.password": ["blank"]}
    await scenario.rp.configure_tenant(emailConfiguration={"setPasswordEmailTemplateId": None})
    assert codes(await scenario.key.post("/api/user", json=addressed)) == {"user.password": ["blank"]}
    given = {**addressed, "user": {**addressed["user"], "password": PASSWORD}}
    made = await scenario.key.post("/api/user", json=given)
    assert made.status_code == 200 and "token" in made.json()
    assert (await scenario.log_in(loginId=given["user"]["email"])).status_code == 202
    assert scenario.mailbox.mails == []


@pytest.mark.requirement("users-7-20")
@pytest.mark.parametrize("is_wanted", [True, False])
async def test_password_reset_ends_failed_login_lock(scenario: PasswordReset, is_wanted: bool) -> None:
    definition = {"name": new_id(), "temporal": True, "preventLogin": True}
    made = await scenario.rp.api.post("/api/user-action", json={"userAction": definition})
    locks = {
        "userActionId": made.json()["userAction"]["id"], "tooManyAttempts": 2, "actionDuration": 5,
        "actionCancelPolicy": {"onPasswordReset": is_wanted},
    }  # fmt: skip
    await scenario.rp.configure_tenant(failedAuthenticationConfiguration=locks)
    assert [(await scenario.log_in("wrong")).status_code for _ in range(2)] == [404, 404]
    assert (await scenario.log_in()).status_code == 409
    done = await scenario.change(await scenario.change_id())
    assert done.status_code == 200
    expected = 200 if is_wanted else 409
    assert (await scenario.log_in_once(done.json()["oneTimePassword"])).status_code == expected
    assert (await scenario.log_in(NEW_PASSWORD)).status_code == expected
