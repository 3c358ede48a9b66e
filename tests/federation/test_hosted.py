"""Logins through identity providers on the hosted pages."""

from __future__ import annotations

import json
import re

import pytest

from identity.ids import new_id
from tests import client_signer, relying_party, two_factor
from tests.federation.hosted import CALLBACK, departure
from tests.hosted import steps
from tests.relying_party import REDIRECT_URI


@pytest.mark.requirement("contract-authorize-idp_hint")
async def test_idp_hint_redirects_to_the_provider(hosted, service) -> None:
    left = await hosted.leave(login_hint="ada@example.com")
    assert left.url == f"{hosted.fake.issuer}/authorize"
    once = {name: left.parameters.pop(name) for name in ("code_challenge", "nonce", "state")}
    assert all(len(value) == 43 for value in once.values())
    assert left.parameters == {
        "client_id": hosted.fake.client_id,
        "code_challenge_method": "S256",
        "login_hint": "ada@example.com",
        "redirect_uri": f"{service.base_url}{CALLBACK}",
        "response_type": "code",
        "scope": "openid email",
    }
    again = await hosted.leave()
    assert all(again[name] != value for name, value in once.items())


@pytest.mark.requirement("core-11-15")
async def test_login_through_a_provider_returns_to_the_application(hosted, service) -> None:
    left = await hosted.leave()
    answer = relying_party.response(await hosted.come_back(left))
    assert set(answer) == {"code", "state", "userState", "iss"}
    assert answer["state"] == "the-state"
    assert answer["userState"] == "Authenticated"
    tokens = await hosted.rp.exchange(hosted.scenario.public, answer["code"])
    assert tokens.status_code == 200, tokens.text
    claims = relying_party.claims(tokens.json()["access_token"])
    assert claims["authenticationType"] == "OPENID_CONNECT"
    user = await hosted.scenario.user(claims["sub"])
    assert user["email"] == hosted.fake.userinfo["email"]
    assert [one["applicationId"] for one in user["registrations"]] == [hosted.rp.client_id]
    (link,) = await hosted.scenario.links(claims["sub"])
    assert link["identityProviderUserId"] == "person"
    form = hosted.fake.form()
    assert form["redirect_uri"] == f"{service.base_url}{CALLBACK}"
    assert form["code"] == "the-code"
    assert len(form["code_verifier"]) == 43


@pytest.mark.requirement("core-11-15")
async def test_login_through_a_provider_creates_a_session(hosted) -> None:
    await hosted.walk()
    claims = await hosted.claims(await hosted.rp.authorize(hosted.browser))
    assert claims["authenticationType"] == "PING"
    assert (await hosted.scenario.user(claims["sub"]))["email"] == hosted.fake.userinfo["email"]


@pytest.mark.requirement("oauth-1.8-18")
async def test_amr_is_in_tokens_of_login_and_session(hosted) -> None:
    await hosted.rp.configure(authenticationMethodsEnabled=True)
    await hosted.walk()
    code = relying_party.response(await hosted.rp.authorize(hosted.browser))["code"]
    tokens = (await hosted.rp.exchange(hosted.scenario.public, code)).json()
    assert relying_party.claims(tokens["id_token"])["amr"] == ["fed"]


async def test_returning_user_must_match_the_request(hosted) -> None:
    wanted = json.dumps({"id_token": {"sub": {"value": hosted.rp.user["id"]}}})
    error = relying_party.response(await hosted.come_back(await hosted.leave(claims=wanted)))
    assert (error["error"], error["error_reason"]) == ("login_required", "authentication_required")
    assert relying_party.response(await hosted.rp.authorize(hosted.browser, prompt="none"))["error"] == "login_required"


@pytest.mark.requirement("certification-authorize-11")
async def test_the_first_button_logs_in_without_a_provider(hosted) -> None:
    shown = await hosted.rp.authorize(hosted.browser)
    first, *others = re.findall(r"<button [^>]*type=\"submit\"[^>]*>", shown.text)
    assert "name=" not in first
    assert all('name="identityProviderId"' in other for other in others)
    assert others


@pytest.mark.requirement("core-11-12")
async def test_login_page_has_a_button_for_the_provider(hosted) -> None:
    shown = await hosted.rp.authorize(hosted.browser)
    assert "Login with OpenID Connect" in shown.text
    form = relying_party.page(shown).forms[0]
    pressed = await hosted.browser.post(
        form["action"],
        data={**form["fields"], "identityProviderId": hosted.provider_id, "rememberDevice": "true", "loginId": "x"},
    )
    left = departure(pressed)
    assert left.url == f"{hosted.fake.issuer}/authorize"
    back = await hosted.come_back(left)
    assert "code" in relying_party.response(back)
    (cookie,) = [value for value in back.headers.get_list("Set-Cookie") if value.startswith("fusionauth.sso=")]
    assert "Max-Age=3600" in cookie


async def test_pushed_request_through_a_provider_gets_one_response(hosted) -> None:
    rp = hosted.rp
    answer = await hosted.scenario.public.post("/oauth2/par", data={**rp.query(), "client_secret": rp.secret})
    query = {"client_id": rp.client_id, "request_uri": answer.json()["request_uri"]}
    place = (await hosted.browser.get("/oauth2/authorize", params=query)).headers["Location"]
    form = relying_party.page(await hosted.browser.get(place)).forms[0]
    assert "redirect_uri" not in form["fields"]
    pressed = {**form["fields"], "identityProviderId": hosted.provider_id}
    left = departure(await hosted.browser.post(form["action"], data=pressed))
    again = departure(await hosted.browser.post(form["action"], data=pressed))
    assert relying_party.response(await hosted.come_back(left))["state"] == "the-state"
    assert relying_party.response(await hosted.come_back(again))["error"] == "invalid_request_uri"
    assert "invalid_request_uri" in (await hosted.browser.get(place)).text


async def test_password_login_works_next_to_the_button(hosted) -> None:
    shown = await hosted.rp.authorize(hosted.browser)
    answer = await hosted.rp.submit(hosted.browser, shown)
    assert answer.headers["Location"].startswith(REDIRECT_URI)


@pytest.mark.requirement("contract-authorize-idp_hint")
async def test_prompt_login_is_answered_by_the_provider_and_prompt_none_by_an_error(hosted) -> None:
    refused = relying_party.response(
        await hosted.rp.authorize(hosted.browser, idp_hint=hosted.provider_id, prompt="none")
    )
    assert (refused["error"], refused["error_reason"]) == ("login_required", "authentication_required")
    await hosted.walk()
    at_once = await hosted.rp.authorize(hosted.browser, idp_hint=hosted.provider_id)
    assert "code" in relying_party.response(at_once)
    left = await hosted.leave(prompt="login")
    assert left["prompt"] == "login"
    claims = await hosted.claims(await hosted.come_back(left))
    assert claims["authenticationType"] == "OPENID_CONNECT"


@pytest.mark.requirement("contract-authorize-idp_hint", "oauth-1.2-row-21")
@pytest.mark.parametrize("hint", ["unknown", "no uuid", "disabled", "another type"])
async def test_unknown_idp_hint_shows_an_error(hosted, hint) -> None:
    provider_id = {"unknown": new_id(), "no uuid": "x"}.get(hint, hosted.provider_id)
    if hint == "disabled":
        await hosted.scenario.change(applicationConfiguration={hosted.rp.client_id: {"enabled": False}})
    if hint == "another type":
        provider_id = (await hosted.scenario.add_provider(type="ExternalJWT", headerKeyParameter="kid"))["id"]
    shown = await hosted.rp.authorize(hosted.browser, idp_hint=provider_id)
    assert shown.status_code == 200
    assert "does not exist" in relying_party.page(shown).text
    assert ("Login with OpenID Connect" in shown.text) is (hint != "disabled")


@pytest.mark.requirement("core-11-12")
async def test_buttons_are_sorted_and_per_application(hosted) -> None:
    place = {"buttonText": "Zebra <b>works</b>", "buttonImageURL": "https://images.example.com/zebra.png"}
    await hosted.scenario.change(
        name="zebra", buttonText="not this", applicationConfiguration={hosted.rp.client_id: place}
    )
    oauth2 = {"issuer": hosted.fake.issuer, "client_id": "a", "client_secret": "b"}
    usual = {"type": "OpenIDConnect", "oauth2": oauth2}
    for name, members in {
        "Apple tree": {"buttonText": "Apple tree", "buttonImageURL": "http://images.example.com/plain.png"},
        "birch": {"buttonText": "Birch", "buttonImageURL": "https://images.example.com:8443/birch.png?a=1;b"},
        "off": {"buttonText": "Off", "enabled": False},
        "elsewhere": {"buttonText": "Elsewhere", "place": {"enabled": False}},
    }.items():
        await hosted.scenario.add_provider(**usual, name=f"{name} {new_id()}", **members)
    await hosted.scenario.add_provider(type="Google", oauth2={}, client_id="x", buttonText="Google", name=None)
    shown = await hosted.rp.authorize(hosted.browser)
    texts = ["Apple tree", "Birch", "Zebra &lt;b&gt;works&lt;/b&gt;"]
    assert re.findall(r"<span>(.*?)</span>", shown.text) == texts
    images = re.findall(r'<img src="(.*?)"', shown.text)
    assert images == ["https://images.example.com:8443/birch.png?a=1;b", "https://images.example.com/zebra.png"]
    policy = dict(part.split(" ", 1) for part in shown.headers["Content-Security-Policy"].split("; "))
    assert policy["img-src"] == "'self' https://images.example.com https://images.example.com:8443"


@pytest.mark.requirement("core-11-12")
async def test_login_page_without_providers_is_unchanged(hosted) -> None:
    await hosted.scenario.change(enabled=False)
    shown = await hosted.rp.authorize(hosted.browser)
    assert "identityProviderId" not in shown.text
    assert "img-src 'self';" in shown.headers["Content-Security-Policy"]
    assert 'name="password"' in shown.text


@pytest.mark.requirement("contract-authorize-login_hint")
@pytest.mark.parametrize("hint", ["Ada@Managed.Example.com", "managed.example.com"])
async def test_login_hint_with_a_managed_domain_redirects_to_its_provider(hosted, hint) -> None:
    domain = f"{new_id()}.example.com"
    await hosted.scenario.change(domains=[domain])
    hosted.fake.userinfo["email"] = f"ada@{domain}"
    hint = hint.replace("Managed.Example.com", domain).replace("managed.example.com", domain)
    left = departure(await hosted.rp.authorize(hosted.browser, login_hint=hint))
    assert left.url == f"{hosted.fake.issuer}/authorize"
    assert left["login_hint"] == hint
    assert "code" in relying_party.response(await hosted.come_back(left))


@pytest.mark.requirement("contract-authorize-login_hint")
async def test_login_hint_with_an_unmanaged_domain_prefills_the_page(hosted) -> None:
    await hosted.scenario.change(domains=[f"{new_id()}.example.com"])
    shown = await hosted.rp.authorize(hosted.browser, login_hint="ada@elsewhere.example.com")
    assert relying_party.page(shown).forms[0]["fields"]["loginId"] == "ada@elsewhere.example.com"
    refused = await hosted.rp.authorize(hosted.browser, login_hint=f"x@{hosted.scenario.provider['id']}", prompt="none")
    assert relying_party.response(refused)["error"] == "login_required"


@pytest.mark.requirement("core-11-13")
async def test_managed_domains_ask_for_the_login_id_first(hosted) -> None:
    domain = f"{new_id()}.example.com"
    await hosted.scenario.change(domains=[domain])
    first = await hosted.rp.authorize(hosted.browser)
    form = relying_party.page(first).forms[0]
    assert set(form["fields"]) >= {"loginId", "csrf_token"}
    assert "password" not in form["fields"]
    second = await hosted.browser.post(form["action"], data={**form["fields"], "loginId": hosted.rp.login_id})
    fields = relying_party.page(second).forms[0]["fields"]
    assert (fields["loginId"], fields["password"]) == (hosted.rp.login_id, "")
    assert 'role="alert"' not in second.text
    answer = await hosted.rp.submit(hosted.browser, second)
    assert "code" in relying_party.response(answer)


@pytest.mark.requirement("core-11-57")
async def test_provider_with_domains_has_no_button(hosted) -> None:
    shown = await hosted.rp.authorize(hosted.browser)
    assert f'value="{hosted.provider_id}"' in shown.text
    await hosted.scenario.change(domains=[f"{new_id()}.example.com"])
    shown = await hosted.rp.authorize(hosted.browser)
    assert hosted.provider_id not in shown.text
    assert "providers" not in relying_party.page(shown).text
    assert (await hosted.leave()).url == f"{hosted.fake.issuer}/authorize", "idp_hint still leads there"


@pytest.mark.requirement("core-11-13")
async def test_password_of_a_managed_domain_is_ignored(hosted) -> None:
    domain = f"{new_id()}.example.com"
    user = await hosted.scenario.make_user(email=f"ada@{domain}")
    await hosted.scenario.change(domains=[domain])
    shown = await hosted.rp.authorize(hosted.browser)
    for password in (relying_party.PASSWORD, "wrong"):
        answer = await hosted.rp.submit(hosted.browser, shown, loginId=user["email"].upper(), password=password)
        left = departure(answer)
        assert left.url == f"{hosted.fake.issuer}/authorize"
        assert left["login_hint"] == user["email"].upper()


@pytest.mark.requirement("core-11-13")
async def test_tenant_provider_takes_precedence_over_a_shared_one(hosted) -> None:
    domain = f"{new_id()}.example.com"
    await hosted.scenario.change(domains=[domain])
    names = ("authorization_endpoint", "token_endpoint", "userinfo_endpoint")
    endpoints = {name: f"https://own.example.com/{name}?fixed=1" for name in names}
    oauth2 = {**endpoints, "client_id": "a", "client_secret": "b"}
    own = {"domains": [domain], "oauth2": oauth2, "tenantId": hosted.rp.tenant["id"]}
    await hosted.scenario.add_provider(type="OpenIDConnect", **own)
    left = departure(await hosted.rp.authorize(hosted.browser, login_hint=domain))
    assert left.url == "https://own.example.com/authorization_endpoint"
    assert left["fixed"] == "1"
    assert "nonce" not in left.parameters, "without an issuer no ID token counts"


async def test_provider_without_issuer_may_send_iss(hosted) -> None:
    issuer = hosted.fake.issuer
    endpoints = {f"{name}_endpoint": f"{issuer}/{name}" for name in ("authorization", "token", "userinfo")}
    await hosted.scenario.change(oauth2={**endpoints, "issuer": None, "client_secret": "the secret"})
    left = await hosted.leave()
    assert "nonce" not in left.parameters
    assert "code" in relying_party.response(await hosted.come_back(left, iss=issuer))


async def test_scope_without_openid_sends_no_nonce(hosted) -> None:
    await hosted.scenario.change(oauth2={"scope": "profile email"})
    left = await hosted.leave()
    assert left["scope"] == "profile email"
    assert "nonce" not in left.parameters
    assert "code" in relying_party.response(await hosted.come_back(left))


@pytest.mark.requirement("core-11-14")
@pytest.mark.parametrize("modes", [None, ["query"], ["query", "form_post"], "form_post"])
async def test_post_request_uses_forms_in_both_directions(hosted, modes) -> None:
    await hosted.scenario.change(postRequest=True)
    hosted.fake.published = {"response_modes_supported": modes}
    answer = await hosted.rp.authorize(hosted.browser, idp_hint=hosted.provider_id)
    assert answer.status_code == 200
    policy = answer.headers["Content-Security-Policy"]
    assert f"form-action https: {hosted.fake.issuer}" in policy
    left = departure(answer)
    assert left.url == f"{hosted.fake.issuer}/authorize"
    assert left.parameters.get("response_mode") == ("form_post" if modes == ["query", "form_post"] else None)
    assert "code" in relying_party.response(await hosted.come_back(left))


@pytest.mark.requirement("core-11-14")
async def test_form_post_response_is_reposted_with_the_cookie(hosted, service, http) -> None:
    left = await hosted.leave()
    hosted.fake.id_claims = hosted.fake.claims(nonce=left["nonce"])
    given = {"code": "the-code", "state": left["state"], "unheard-of": "x"}
    # Browsers send no SameSite=Lax cookie with a form of another site.
    page = await http.post(CALLBACK, data=given)
    assert page.status_code == 200
    form = relying_party.page(page).forms[0]
    assert form["action"] == f"{service.base_url}{CALLBACK}"
    assert form["fields"] == {"code": "the-code", "state": left["state"], "again": "true"}
    assert (await http.post(CALLBACK, data=form["fields"])).status_code == 400, "once more without the cookie"
    assert "code" in relying_party.response(await hosted.browser.post(CALLBACK, data=form["fields"]))


@pytest.mark.requirement("core-11-15")
async def test_provider_login_passes_the_same_steps_as_other_logins(hosted) -> None:
    await hosted.scenario.configure(oauthConfiguration={"relationship": "ThirdParty"}, scopes=[])
    answer = await hosted.walk(scope="openid profile")
    assert answer.headers["Location"].startswith("/oauth2/consent?")
    shown = await hosted.browser.get(answer.headers["Location"])
    form = relying_party.page(shown).forms[0]
    allowed = await hosted.browser.post(form["action"], data={**form["fields"], "action": "allow"})
    claims = await hosted.claims(allowed)
    assert claims["authenticationType"] == "OPENID_CONNECT"


@pytest.mark.requirement("oauth-1.9-9")
async def test_second_factor_follows_the_provider_and_amr_has_both(hosted, clock) -> None:
    oauth = {"authenticationMethodsEnabled": True}
    await hosted.scenario.configure(oauthConfiguration=oauth)
    await hosted.walk()
    (user_id,) = [user["id"] for user in await users_of(hosted)]
    methods = {"user": {"twoFactor": {"methods": [two_factor.authenticator()]}}}
    await hosted.rp.patch(f"/api/user/{user_id}", methods)
    hosted.browser.cookies.delete("fusionauth.sso")
    shown = await steps.follow(hosted.browser, await hosted.walk())
    assert steps.path(shown) == "/oauth2/two-factor"
    assert "fusionauth.sso" not in hosted.browser.cookies
    answer = await steps.send(hosted.browser, shown, code=two_factor.code(clock.now()), trustComputer="true")
    tokens = await hosted.rp.exchange(hosted.scenario.public, relying_party.response(answer)["code"])
    found = relying_party.claims(tokens.json()["id_token"])
    assert (found["sub"], found["amr"]) == (user_id, ["fed", "otp", "mfa"])
    hosted.browser.cookies.delete("fusionauth.sso")
    trusted = await hosted.walk()
    answer = await steps.follow(hosted.browser, trusted)
    assert (await hosted.claims(answer))["authenticationType"] == "OPENID_CONNECT"


async def users_of(hosted) -> list[dict]:
    """The users of the tenant who are not the relying party's own."""
    headers = {"X-FusionAuth-TenantId": hosted.rp.tenant["id"]}
    found = await hosted.rp.api.get("/api/user/search", params={"queryString": "*"}, headers=headers)
    return [user for user in found.json()["users"] if user["id"] != hosted.rp.user["id"]]


@pytest.mark.requirement("core-11-15")
async def test_response_mode_form_post_is_respected(hosted) -> None:
    answer = await hosted.walk(response_mode="form_post")
    assert answer.status_code == 200
    assert (await hosted.claims(answer))["authenticationType"] == "OPENID_CONNECT"


async def test_require_registration_applies_to_provider_logins(hosted) -> None:
    await hosted.scenario.configure(oauthConfiguration={"requireRegistration": True})
    await hosted.scenario.change(applicationConfiguration={hosted.rp.client_id: {"createRegistration": False}})
    answer = await hosted.walk()
    assert answer.headers["Location"].startswith("/oauth2/authorized-not-registered?")
    shown = await hosted.browser.get(answer.headers["Location"])
    assert "not registered" in relying_party.page(shown).text


@pytest.mark.requirement("core-11-15")
async def test_pushed_request_goes_to_the_provider_and_back(hosted, http) -> None:
    pushed = await http.post(
        "/oauth2/par",
        data={**hosted.rp.query(idp_hint=hosted.provider_id), "client_secret": hosted.rp.secret},
    )
    assert pushed.status_code == 201, pushed.text
    given = {"client_id": hosted.rp.client_id, "request_uri": pushed.json()["request_uri"]}
    left = departure(await hosted.browser.get("/oauth2/authorize", params=given))
    shown = await hosted.come_back(left, code=None, error="access_denied")
    assert "canceled" in relying_party.page(shown).text
    fields = relying_party.page(shown).forms[0]["fields"]
    assert fields["request_uri"] != given["request_uri"]
    assert "redirect_uri" not in fields
    assert "code" in relying_party.response(await hosted.rp.submit(hosted.browser, shown))


async def test_pushed_request_is_answered_after_the_provider(hosted, http) -> None:
    pushed = await http.post(
        "/oauth2/par",
        data={**hosted.rp.query(idp_hint=hosted.provider_id), "client_secret": hosted.rp.secret},
    )
    given = {"client_id": hosted.rp.client_id, "request_uri": pushed.json()["request_uri"]}
    left = departure(await hosted.browser.get("/oauth2/authorize", params=given))
    assert relying_party.response(await hosted.come_back(left))["state"] == "the-state"


@pytest.mark.requirement("oauth-12-8")
async def test_signed_request_goes_to_the_provider_and_back(hosted) -> None:
    key, rp = client_signer.new_key(), hosted.rp
    await rp.configure(jwks=client_signer.public(key), requireSignedRequestObject=True)
    said = {**client_signer.claims(rp, sub=None), **rp.query(idp_hint=hosted.provider_id)}
    given = {"client_id": rp.client_id, "request": client_signer.signed(key, said)}
    left = departure(await hosted.browser.get("/oauth2/authorize", params=given))
    shown = await hosted.come_back(left, code=None, error="access_denied")
    fields = relying_party.page(shown).forms[0]["fields"]
    assert "request_uri" in fields
    assert fields.keys().isdisjoint({"redirect_uri", "request", "scope"})
    assert "code" in relying_party.response(await rp.submit(hosted.browser, shown))
    again = {**given, "request": client_signer.signed(key, {**said, "prompt": "login"})}
    left = departure(await hosted.browser.get("/oauth2/authorize", params=again))
    assert relying_party.response(await hosted.come_back(left))["state"] == "the-state"


@pytest.mark.requirement(
    "event-user.create-3",
    "event-user.identity-provider.link-2",
    "event-user.login.new-device",
    "event-user.login.success",
)
async def test_first_login_sends_the_events_of_other_logins(hosted, receiver) -> None:
    await hosted.scenario.subscribe(receiver)
    assert "code" in relying_party.response(await hosted.walk())
    kinds = {"user.create", "user.registration.create"}
    logins = {"user.login.new-device", "user.login.success"}
    expected = {*kinds, *(f"{kind}.complete" for kind in kinds), "user.identity-provider.link", *logins}
    events = {request.event["type"]: request.event for request in await receiver.wait_for(len(expected))}
    assert set(events) == expected
    success = events["user.login.success"]
    assert (success["identityProviderId"], success["authenticationType"]) == (hosted.provider_id, "OPENID_CONNECT")
    assert success["applicationId"] == hosted.rp.client_id


async def test_debug_log_has_the_steps_and_no_secret(hosted) -> None:
    await hosted.scenario.change(debug=True)
    left = await hosted.leave()
    await hosted.come_back(left)
    (row,) = await hosted.event_logs(hosted.provider_id)
    assert row["type"] == "Debug"
    assert "ended as LoggedIn" in row["message"]
    assert f'email="{hosted.fake.userinfo["email"]}"' in row["message"]
    secrets = (left["state"], hosted.fake.form()["code_verifier"], "the-code", "the-access-token", "the secret")
    assert not [secret for secret in secrets if secret in row["message"]]


async def test_tenant_path_and_universal_applications_are_restored(hosted) -> None:
    universal = {"universalConfiguration": {"universal": True}}
    await hosted.rp.patch(f"/api/application/{hosted.rp.client_id}", {"application": universal})
    path = f"/{hosted.rp.tenant['id']}/oauth2/authorize"
    left = departure(await hosted.browser.get(path, params=hosted.rp.query(idp_hint=hosted.provider_id)))
    shown = await hosted.come_back(left, code=None, error="access_denied")
    assert relying_party.page(shown).forms[0]["fields"]["tenantId"] == hosted.rp.tenant["id"]
    assert "code" in relying_party.response(await hosted.rp.submit(hosted.browser, shown))
    left = departure(
        await hosted.browser.get(path, params=hosted.rp.query(idp_hint=hosted.provider_id, prompt="login"))
    )
    assert "code" in relying_party.response(await hosted.come_back(left))
