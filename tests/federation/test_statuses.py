"""Statuses of federated logins other than 200: required steps and errors."""

from __future__ import annotations

from typing import Any

import pytest

from identity.ids import new_id
from identity.operations.limits import failed_login_limits
from tests import internals, relying_party, two_factor
from tests.conftest import UNKNOWN_ID
from tests.receiver import answers, receiving
from tests.relying_party import claims
from tests.subscriber import Subscriber

Document = dict[str, Any]


async def linked_user(federated: Any, fake: Any, **members: Any) -> Document:
    user = await federated.make_user(registered=True, **members)
    fake.userinfo = {"sub": new_id(), "email": user["email"], "email_verified": True}
    await federated.logged_in()
    return user


@pytest.mark.requirement("core-11-32", "core-11-6")
async def test_unregistered_user_gets_202_and_a_token_without_roles(federated, fake) -> None:
    place = {federated.application["id"]: {"createRegistration": False}}
    await federated.change(applicationConfiguration=place)
    await federated.configure(loginConfiguration={"generateRefreshTokens": True})
    answer = await federated.logged_in(202)
    assert answer["user"]["registrations"] == []
    claims = relying_party.claims(answer["token"])
    assert claims["sub"] == answer["user"]["id"]
    assert {"roles", "applicationId"}.isdisjoint(claims)
    assert "refreshToken" not in answer


async def test_existing_registration_is_unchanged(federated, fake) -> None:
    user = await federated.make_user(registered=True)
    before = (await federated.user(user["id"]))["registrations"][0]
    fake.userinfo = {"sub": "x", "email": user["email"], "email_verified": True}
    (after,) = (await federated.logged_in())["user"]["registrations"]
    assert (after["id"], after["roles"], after["verified"]) == (before["id"], before["roles"], before["verified"])


@pytest.mark.requirement("core-11-31")
async def test_refresh_token_is_issued_if_the_application_enables_it(federated, fake, http) -> None:
    await federated.configure(
        loginConfiguration={"generateRefreshTokens": True, "allowTokenRefresh": True},
        oauthConfiguration={"enabledGrants": ["refresh_token"]},
    )
    device = {"name": "Phone", "type": "MOBILE", "description": "A phone"}
    answer = await federated.log_in(metaData={"device": device})
    body = answer.json()
    assert relying_party.claims(body["token"])["sid"] == body["refreshTokenId"]
    cookies = {cookie.name: cookie for cookie in answer.cookies.jar}
    assert cookies["access_token"].value == body["token"]
    assert cookies["access_token"].expires is None
    assert cookies["refresh_token"].value == body["refreshToken"]
    assert cookies["refresh_token"].expires is not None
    assert all(cookie.has_nonstandard_attr("HttpOnly") for cookie in cookies.values())
    form = {
        "grant_type": "refresh_token",
        "refresh_token": body["refreshToken"],
        "client_id": federated.application["id"],
        "client_secret": federated.application["oauthConfiguration"]["clientSecret"],
    }
    refreshed = await http.post("/oauth2/token", data=form)
    assert refreshed.status_code == 200, refreshed.text
    assert relying_party.claims(refreshed.json()["access_token"])["sub"] == body["user"]["id"]


@pytest.mark.requirement("core-11-29")
async def test_no_jwt_option_returns_no_tokens(federated) -> None:
    await federated.configure(loginConfiguration={"generateRefreshTokens": True})
    answer = await federated.log_in(noJWT=True)
    assert set(answer.json()) == {"user"}
    assert not answer.cookies


@pytest.mark.requirement("core-11-32")
async def test_locked_user_gets_423_without_changes(federated, fake) -> None:
    user = await linked_user(federated, fake)
    await federated.api.delete(f"/api/user/{user['id']}")
    before = await federated.user(user["id"])
    answer = await federated.log_in()
    assert (answer.status_code, answer.content) == (423, b"")
    assert await federated.user(user["id"]) == before


@pytest.mark.requirement("core-11-33", "users-11-8")
async def test_user_with_a_preventing_action_gets_409_without_changes(federated, fake) -> None:
    user = await linked_user(federated, fake)
    wanted = {"name": new_id(), "temporal": True, "preventLogin": True}
    made = (await federated.api.post("/api/user-action", json={"userAction": wanted})).json()["userAction"]
    who = {"actioneeUserId": user["id"], "actionerUserId": user["id"], "userActionId": made["id"]}
    taken = await federated.api.post("/api/user/action", json={"action": {**who, "expiry": 2**63 - 1}})
    before = await federated.user(user["id"])
    answer = await federated.logged_in(409)
    assert [one["actionId"] for one in answer["actions"]] == [taken.json()["action"]["id"]]
    assert await federated.user(user["id"]) == before


@pytest.mark.requirement("core-11-32")
async def test_an_expired_user_is_410(federated, fake, service) -> None:
    user = await linked_user(federated, fake)
    past = internals.now(service) - 1000
    await federated.api.patch(f"/api/user/{user['id']}", json={"user": {"expiry": past}})
    answer = await federated.log_in()
    assert (answer.status_code, answer.content) == (410, b"")


@pytest.mark.requirement("core-11-32")
async def test_second_factor_is_required(federated, fake) -> None:
    user = await linked_user(federated, fake)
    method = {"method": "email", "email": "second@example.com"}
    await federated.api.patch(f"/api/user/{user['id']}", json={"user": {"twoFactor": {"methods": [method]}}})
    answer = await federated.logged_in(242)
    assert set(answer) == {"methods", "twoFactorId"}
    assert answer["methods"][0]["email"] == "s***@example.com"


@pytest.mark.requirement("users-9-23")
async def test_a_second_factor_completes_the_login_of_the_provider(federated, fake, http, clock, service) -> None:
    user = await linked_user(federated, fake)
    methods = [two_factor.authenticator()]
    await federated.api.patch(f"/api/user/{user['id']}", json={"user": {"twoFactor": {"methods": methods}}})
    waiting = await federated.logged_in(242)
    body = {"twoFactorId": waiting["twoFactorId"], "code": two_factor.code(clock.now()), "trustComputer": True}
    async with receiving() as receiver:
        subscriber = Subscriber(federated.api, receiver, federated.tenant["id"])
        await subscriber.subscribe(["user.login.success"])
        answer = await http.post("/api/two-factor/login", json=body)
        (found,) = await subscriber.received("user.login.success")
    assert answer.status_code == 200, answer.text
    assert claims(answer.json()["token"])["authenticationType"] == "OPENID_CONNECT"
    assert (found["authenticationType"], found["identityProviderId"]) == ("OPENID_CONNECT", federated.provider["id"])
    assert found["identityProviderName"] == federated.provider["name"]
    federated.public.cookies.set("fusionauth.trust", answer.json()["twoFactorTrustId"])
    assert (await federated.logged_in(200))["user"]["id"] == user["id"]


@pytest.mark.requirement("core-18-lambdas-35")
async def test_lambda_decides_about_logins_of_a_provider(federated, fake) -> None:
    user = await linked_user(federated, fake)
    method = {"method": "email", "email": "second@example.com"}
    await federated.api.patch(f"/api/user/{user['id']}", json={"user": {"twoFactor": {"methods": [method]}}})
    body = "function checkRequired(result, user, registration, context) { result.required = user.data.risky === true; }"
    wanted = {"lambda": {"name": new_id(), "type": "MFARequirement", "body": body}}
    lambda_id = (await federated.api.post("/api/lambda", json=wanted)).json()["lambda"]["id"]
    await federated.configure(lambdaConfiguration={"multiFactorRequirementId": lambda_id})
    await federated.logged_in(200)
    await federated.api.patch(f"/api/user/{user['id']}", json={"user": {"data": {"risky": True}}})
    await federated.logged_in(242)


@pytest.mark.requirement("core-11-33")
async def test_required_password_change_does_not_apply(federated, fake) -> None:
    user = await linked_user(federated, fake)
    await federated.api.patch(f"/api/user/{user['id']}", json={"user": {"passwordChangeRequired": True}})
    await federated.logged_in()


@pytest.mark.requirement("core-11-32")
async def test_unverified_gated_email_gets_212_without_tokens(federated, fake) -> None:
    gated = {"verifyEmail": True, "unverified": {"behavior": "Gated"}}
    gated["verificationEmailTemplateId"] = await federated.make_template()
    await federated.configure_tenant(emailConfiguration=gated)
    person = {"email": f"{new_id()}@example.com", "username": new_id(), "password": relying_party.PASSWORD}
    user = (await federated.api.post("/api/user", json={"user": person})).json()["user"]
    # A link by email would verify the address.
    await federated.change(linkingStrategy="LinkByUsername")
    fake.userinfo = {"sub": "x", "preferred_username": user["username"]}
    answer = await federated.logged_in(212)
    assert set(answer) == {"user"}
    assert answer["user"]["id"] == user["id"]
    assert "lastLoginInstant" not in await federated.user(user["id"])
    await federated.change(linkingStrategy="LinkByEmail")
    fake.userinfo = {"sub": "y", "email": f"{new_id()}@example.com", "email_verified": True}
    await federated.logged_in(200)


@pytest.mark.requirement("core-11-32")
async def test_unverified_gated_registration_gets_213_without_tokens(federated, receiver) -> None:
    template_id = await federated.make_template()
    gated = {"verifyRegistration": True, "unverified": {"behavior": "Gated"}}
    await federated.configure(**gated, verificationEmailTemplateId=template_id)
    await federated.subscribe(receiver)
    answer = await federated.logged_in(213)
    assert set(answer) == {"user"}
    assert answer["user"]["registrations"][0]["verified"] is False
    shown = (await federated.api.get(f"/api/user/{answer['user']['id']}")).json()
    assert shown["registrationVerificationIds"].keys() == {federated.application["id"]}
    kinds = {request.event["type"] for request in await receiver.wait_for(5)}
    assert kinds == {
        *("user.create", "user.create.complete", "user.identity-provider.link"),
        *("user.registration.create", "user.registration.create.complete"),
    }


@pytest.mark.requirement("core-11-35")
@pytest.mark.parametrize("is_new", [True, False])
async def test_veto_gets_504_and_stores_nothing(federated, fake, receiver, is_new) -> None:
    email = f"{new_id()}@example.com"
    before = None
    if not is_new:
        user = await federated.make_user(email=email)
        before = await federated.user(user["id"])
    fake.userinfo = {"sub": "x", "email": email, "email_verified": True}
    receiver.behaviour = answers(500)
    await federated.subscribe(receiver, "AbsoluteMajority")
    answer = await federated.log_in()
    assert answer.status_code == 504
    assert answer.json()["generalErrors"][0]["code"] == "[WebhookTransactionException]"
    assert await federated.count_users() == (0 if before is None else 1)
    if before is not None:
        assert await federated.user(before["id"]) == before
        assert await federated.links(before["id"]) == []


@pytest.mark.requirement("core-11-35", "core-18-lambdas-19", "core-18-lambdas-21", "core-3-14")
async def test_failing_lambda_gets_512_and_stores_nothing(federated) -> None:
    reconcile = await federated.make_lambda("function reconcile(user) { throw new Error('no'); }")
    await federated.change(lambdaConfiguration={"reconcileId": reconcile})
    assert (await federated.log_in()).status_code == 512
    assert await federated.count_users() == 0


@pytest.mark.requirement("core-11-9", "core-18-lambdas-19")
async def test_invalid_values_of_a_lambda_are_ignored(federated, api, receiver) -> None:
    body = """
    function reconcile(user, registration) {
      user.birthDate = 'yesterday';
      user.firstName = 'Ada';
      user.timezone = 'Mars/Olympus';
      user.mobilePhone = 'none';
      registration.roles = ['emperor'];
      registration.data.kept = true;
    }
    """
    await federated.change(lambdaConfiguration={"reconcileId": await federated.make_lambda(body)}, debug=True)
    user = (await federated.logged_in())["user"]
    assert user["firstName"] == "Ada"
    assert {"birthDate", "mobilePhone", "timezone"}.isdisjoint(user)
    (registration,) = user["registrations"]
    assert (registration["roles"], registration["data"]) == (["user"], {})


async def test_members_removed_by_a_lambda_are_removed(federated, fake) -> None:
    user = await federated.make_user(firstName="Ada", data={"a": 1}, preferredLanguages=["en"])
    fake.userinfo = {"sub": "x", "email": user["email"], "email_verified": True}
    body = "function reconcile(user) { delete user.firstName; delete user.data; user.preferredLanguages = []; }"
    await federated.change(lambdaConfiguration={"reconcileId": await federated.make_lambda(body)})
    after = (await federated.logged_in())["user"]
    assert "firstName" not in after
    assert (after["data"], after["preferredLanguages"]) == ({}, [])


async def test_lambda_gets_an_empty_registration_for_an_unregistered_user(federated) -> None:
    body = "function reconcile(user, registration) { registration.roles = ['admin']; user.firstName = 'Ada'; }"
    place = {federated.application["id"]: {"createRegistration": False}}
    reconcile = await federated.make_lambda(body)
    await federated.change(applicationConfiguration=place, lambdaConfiguration={"reconcileId": reconcile})
    user = (await federated.logged_in(202))["user"]
    assert (user["firstName"], user["registrations"]) == ("Ada", [])


@pytest.mark.requirement("core-11-9")
async def test_a_lambda_must_be_of_the_provider_s_type(federated) -> None:
    wrong = await federated.make_lambda("function populate(jwt, user) {}", "JWTPopulate")
    body = {"identityProvider": {"lambdaConfiguration": {"reconcileId": wrong}}}
    answer = await federated.api.patch(f"/api/identity-provider/{federated.provider['id']}", json=body)
    path = "identityProvider.lambdaConfiguration.reconcileId"
    assert answer.json()["fieldErrors"][path][0]["code"] == f"[invalid]{path}"
    right = await federated.make_lambda("function reconcile(user) {}")
    await federated.change(lambdaConfiguration={"reconcileId": right})
    answer = await federated.api.delete(f"/api/lambda/{right}")
    assert answer.json()["fieldErrors"]["lambdaId"][0]["code"] == "[inUse]lambdaId"


# Refusals before the provider is asked


async def refused(answer: Any) -> set[str]:
    assert answer.status_code == 400, (answer.status_code, answer.text)
    return {error["code"] for errors in answer.json()["fieldErrors"].values() for error in errors}


@pytest.mark.requirement("core-11-29")
async def test_empty_request_reports_both_missing_ids(http) -> None:
    answer = await http.post("/api/identity-provider/login", json={})
    assert await refused(answer) == {"[missing]applicationId", "[missing]identityProviderId"}


@pytest.mark.requirement("core-11-29")
async def test_code_and_redirect_uri_are_required(federated) -> None:
    assert await refused(await federated.log_in(data={"code": "", "redirect_uri": ""})) == {
        "[blank]data.code",
        "[blank]data.redirect_uri",
    }


@pytest.mark.parametrize("member", ["applicationId", "identityProviderId"])
@pytest.mark.parametrize(("value", "kind"), [("x", "couldNotConvert"), (UNKNOWN_ID, "invalid")])
async def test_unknown_ids_are_rejected(federated, member, value, kind) -> None:
    assert await refused(await federated.log_in(**{member: value})) == {f"[{kind}]{member}"}


@pytest.mark.requirement("core-11-4")
async def test_a_provider_must_be_enabled_for_the_application(federated, fake) -> None:
    application_id = federated.application["id"]
    for members in (
        {"applicationConfiguration": {application_id: {"enabled": False}}},
        {"applicationConfiguration": {application_id: None}},
        {"applicationConfiguration": {application_id: {"enabled": True}}, "enabled": False},
    ):
        await federated.change(**members)
        assert await refused(await federated.log_in()) == {"[invalid]identityProviderId"}
    assert fake.receiver.requests == []


async def test_an_application_must_be_active_and_of_the_tenant_that_is_named(federated, api, http) -> None:
    other = (await api.post("/api/tenant", json={"tenant": {"name": new_id()}})).json()["tenant"]
    http.headers["X-FusionAuth-TenantId"] = other["id"]
    assert await refused(await federated.log_in()) == {"[invalid]applicationId"}
    http.headers["X-FusionAuth-TenantId"] = federated.tenant["id"]
    await federated.logged_in()
    del http.headers["X-FusionAuth-TenantId"]
    await federated.api.delete(f"/api/application/{federated.application['id']}")
    assert await refused(await federated.log_in()) == {"[invalid]applicationId"}


@pytest.mark.requirement("core-11-5")
async def test_provider_of_another_tenant_is_rejected(federated, api, fake) -> None:
    """Also where the configuration of the provider names the application, which it could not do by the API."""
    other = (await api.post("/api/tenant", json={"tenant": {"name": new_id()}})).json()["tenant"]
    headers = {"X-FusionAuth-TenantId": other["id"]}
    oauth2 = {"issuer": fake.issuer, "client_id": "c", "client_secret": "s"}
    wanted = {"type": "OpenIDConnect", "name": new_id(), "enabled": True, "tenantId": other["id"], "oauth2": oauth2}
    answer = await api.post("/api/identity-provider", json={"identityProvider": wanted}, headers=headers)
    provider_id = answer.json()["identityProvider"]["id"]
    assert await refused(await federated.log_in(identityProviderId=provider_id)) == {"[invalid]identityProviderId"}


@pytest.mark.requirement("core-11-3")
async def test_types_without_login_support_are_rejected(federated) -> None:
    key = await federated.api.post("/api/key/generate", json={"key": {"name": new_id(), "algorithm": "ES256"}})
    key_id = key.json()["key"]["id"]
    await federated.add_provider(type="SAMLv2IdPInitiated", issuer="x", keyId=key_id, tenantId=federated.tenant["id"])
    answer = await federated.log_in(data={"token": "x"})
    assert await refused(answer) == {"[invalid]identityProviderId"}
    assert "SAMLv2IdPInitiated" in answer.text


@pytest.mark.requirement("core-11-29")
async def test_stated_ip_address_is_in_events(federated, receiver) -> None:
    await federated.subscribe(receiver)
    federated.public.headers["Authorization"] = federated.api.headers["Authorization"]
    await federated.logged_in(ipAddress="198.51.100.7", eventInfo={"deviceName": "Phone"})
    await receiver.wait_for(6)
    success = next(r.event for r in receiver.requests if r.event["type"] == "user.login.success")
    assert success["info"]["ipAddress"] == success["ipAddress"] == "198.51.100.7"
    assert success["info"]["deviceName"] == "Phone"


@pytest.mark.requirement("core-11-29", "event-user.login.success-5")
@pytest.mark.parametrize("is_new_device", [True, False])
async def test_new_device_event_follows_the_request(federated, receiver, is_new_device) -> None:
    await federated.subscribe(receiver)
    await federated.logged_in(newDevice=is_new_device)
    expected = 7 if is_new_device else 6
    kinds = [request.event["type"] for request in await receiver.wait_for(expected)]
    assert ("user.login.new-device" in kinds) is is_new_device


@pytest.mark.requirement("core-11-4")
async def test_debug_log_has_the_steps_and_no_secrets(federated, fake, service) -> None:
    await federated.change(debug=True)
    fake.token_answer = {"refresh_token": "a refresh token"}
    await federated.logged_in()
    fake.broken, fake.status = "/token", 500
    await federated.log_in()
    where = {"message": {"$regex": federated.provider["id"]}}
    rows = [row async for row in internals.database(service).collection("event_logs").find(where)]
    messages = [row["message"] for row in rows]
    assert [row["type"] for row in rows] == ["Debug", "Debug"]
    assert any("status 200" in message and fake.userinfo["email"] in message for message in messages)
    assert any("refused with 400" in message and "answered 500" in message for message in messages)
    for secret in ("the secret", "the-access-token", "a refresh token"):
        assert secret not in str(messages)


@pytest.mark.requirement("core-11-4")
async def test_without_debug_nothing_is_written(federated, service) -> None:
    await federated.logged_in()
    where = {"message": {"$regex": federated.provider["id"]}}
    assert [row async for row in internals.database(service).collection("event_logs").find(where)] == []


@pytest.mark.requirement("core-11-35")
async def test_address_with_too_many_failures_is_limited(federated, fake, http, monkeypatch) -> None:
    monkeypatch.setattr(failed_login_limits, "ADDRESS_FAILURES", 3)
    http.headers["X-Forwarded-For"] = "203.0.113.77"
    await federated.logged_in()
    good = fake.userinfo
    fake.userinfo = {"sub": None}
    for _ in range(3):
        assert (await federated.log_in()).status_code == 401
    fake.userinfo = good
    asked = len(fake.receiver.requests)
    assert (await federated.log_in()).status_code == 503
    assert len(fake.receiver.requests) == asked
    http.headers["X-Forwarded-For"] = "203.0.113.78"
    await federated.logged_in()


@pytest.mark.requirement("core-18-lambdas-17")
@pytest.mark.parametrize("is_new", [True, False])
async def test_login_rejected_by_a_lambda_gets_400_and_stores_nothing(federated, fake, receiver, is_new) -> None:
    email = f"{new_id()}@example.com"
    fake.userinfo = {"sub": "x", "email": email, "email_verified": True}
    user = None if is_new else await federated.make_user(email=email)
    refusing = await federated.make_lambda(
        "function validate(result, user, registration, context) {"
        " result.errors.generalErrors.push({code: '[Closed]',"
        " message: context.authenticationType + ' ' + context.identityProvider.identityProviderType}) }",
        "LoginValidation",
    )
    await federated.subscribe(receiver)
    await federated.configure_tenant(lambdaConfiguration={"loginValidationId": refusing})
    answer = await federated.log_in()
    assert answer.status_code == 400
    assert answer.json() == {"generalErrors": [{"code": "[Closed]", "message": "OPENID_CONNECT OpenIDConnect"}]}
    assert await federated.count_users() == (1 if user else 0)
    if user is not None:
        assert await federated.links(user["id"]) == []
        (received,) = await receiver.wait_for(1)
        assert (received.event["type"], received.event["reason"]["code"]) == ("user.login.failed", "lambdaValidation")
        assert received.event["authenticationType"] == "OPENID_CONNECT"


@pytest.mark.requirement("core-18-lambdas-12")
async def test_the_token_of_a_federated_login_is_populated(federated) -> None:
    populate = await federated.make_lambda("function populate(jwt) { jwt.colour = 'blue' }", "JWTPopulate")
    await federated.configure(lambdaConfiguration={"accessTokenPopulateId": populate})
    assert claims((await federated.logged_in())["token"])["colour"] == "blue"


@pytest.mark.requirement("core-11-58")
@pytest.mark.parametrize("is_trusted", [True, False])
async def test_lambda_sets_the_address_for_a_provider_without_one(federated, fake, receiver, is_trusted) -> None:
    fake.userinfo = {"sub": new_id(), "upn": f"Ada-{new_id()}@example.com"}
    body = "function reconcile(user, registration, userInfo) { user.email = userInfo.upn; }"
    reconcile = {"reconcileId": await federated.make_lambda(body)}
    await federated.change(lambdaConfiguration=reconcile, linkingStrategy="LinkAnonymously", trustEmail=is_trusted)
    await federated.subscribe(receiver)
    user = (await federated.logged_in())["user"]
    assert (user["email"], user["verified"]) == (fake.userinfo["upn"].lower(), is_trusted)
    found = await federated.api.get("/api/user", params={"email": user["email"]})
    assert found.json()["user"]["id"] == user["id"]
    assert (await federated.logged_in())["user"]["email"] == user["email"]


@pytest.mark.requirement("core-11-58")
async def test_lambda_takes_no_address_of_another_user_or_domain(federated, fake) -> None:
    """It neither leads to the other user nor replaces an address of the provider."""
    other = await federated.make_user()
    domain = f"{new_id()}.example.com"
    body = "function reconcile(user, registration, userInfo) { user.email = userInfo.upn; }"
    reconcile = {"reconcileId": await federated.make_lambda(body)}
    await federated.change(lambdaConfiguration=reconcile, linkingStrategy="LinkAnonymously", domains=[domain])
    await federated.configure_tenant(registrationConfiguration={"blockedDomains": [f"blocked.{domain}"]})
    for upn in (other["email"], f"a@{new_id()}.example.com", f"a@blocked.{domain}", "no address", 7, None):
        fake.userinfo = {"sub": new_id(), "upn": upn}
        user = (await federated.logged_in())["user"]
        assert "email" not in user, upn
        assert user["id"] != other["id"]
    fake.userinfo = {"sub": new_id(), "email": f"ada@{domain}", "email_verified": True, "upn": f"eve@{domain}"}
    await federated.change(linkingStrategy="LinkByEmail")
    assert (await federated.logged_in())["user"]["email"] == f"ada@{domain}"
