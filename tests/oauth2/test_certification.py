"""What the OpenID Connect certification profiles ask for, over HTTP, where no other file of this folder says it whole.

docs/requirements.yaml lists all of them, in the sections about certification.
"""

from __future__ import annotations

import base64
import html.parser
import json
import re
import urllib.parse

import pytest

from identity.ids import new_id
from tests import internals, relying_party
from tests.oauth2 import consenting
from tests.relying_party import CHALLENGE, REDIRECT_URI, claims, half_hash, header, page, response

CONFIGURATION = "/.well-known/openid-configuration"
ADDRESS = {"street_address": "1 Main Street", "locality": "Wellington", "country": "NZ"}
MEMBERS = {
    "username": "ada", "firstName": "Ada", "middleName": "King", "lastName": "Lovelace", "fullName": "Ada Lovelace",
    "birthDate": "1815-12-10", "imageUrl": "https://example.com/ada.png", "mobilePhone": "+441234567890",
    "preferredLanguages": ["en_GB"], "timezone": "Europe/London",
    "data": {
        "nickname": "Countess", "profile": "https://example.com/ada", "website": "https://ada.example.com",
        "gender": "female", "address": ADDRESS,
    },
}  # fmt: skip
TOLD = {
    "given_name": "Ada", "middle_name": "King", "family_name": "Lovelace", "name": "Ada Lovelace",
    "birthdate": "1815-12-10", "picture": "https://example.com/ada.png", "phone_number": "+441234567890",
    "locale": "en-GB", "zoneinfo": "Europe/London", "nickname": "Countess", "profile": "https://example.com/ada",
    "website": "https://ada.example.com", "gender": "female", "address": ADDRESS, "preferred_username": "ada",
    "email_verified": True,
}  # fmt: skip
ALL_SCOPES = "openid profile email address phone"
MINIMAL = {"iss", "sub", "aud", "exp", "iat", "auth_time", "jti", "sid", "nonce", "authenticationType", "tid"}
PROTOCOL = MINIMAL | {"gty", "tty", "scope"}


@pytest.fixture
async def ada(rp, api):
    """The relying party of a user who has a value for every claim."""
    rp.user = await relying_party.make_user(api, rp.tenant["id"], rp.client_id, **MEMBERS)
    return rp


def everything(rp) -> dict:
    """Each standard claim of the user, updated_at in seconds."""
    return {**TOLD, "email": rp.login_id, "updated_at": rp.user["lastUpdateInstant"] // 1000}


class _Buttons(html.parser.HTMLParser):
    """The submit buttons of a page in their order, with their names."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str | None] = []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if (tag in {"button", "input"}) and given.get("type") == "submit":
            self.names.append(given.get("name"))


@pytest.mark.requirement("certification-discovery-1")
async def test_issuer_with_a_tenant_path_prefixes_the_discovery_of_that_tenant(http, api, service):
    tenant_id = new_id()
    issuer = f"{service.base_url}/{tenant_id}"
    made = await api.post(f"/api/tenant/{tenant_id}", json={"tenant": {"name": tenant_id, "issuer": issuer}})
    assert made.status_code == 200, made.text
    assert (await http.get(issuer + CONFIGURATION)).json()["issuer"] == issuer


@pytest.mark.requirement("certification-discovery-2")
async def test_metadata_has_the_members_that_strict_clients_require(http):
    document = (await http.get(CONFIGURATION)).json()
    assert "RS256" in document["id_token_signing_alg_values_supported"]
    assert {"sub", "iss", "auth_time", "acr", *TOLD, "email", "updated_at"} <= set(document["claims_supported"])
    assert {"authorization_code", "implicit", "refresh_token"} <= set(document["grant_types_supported"])
    assert {"query", "fragment", "form_post"} == set(document["response_modes_supported"])
    assert "public" in document["subject_types_supported"]
    assert isinstance(document["request_parameter_supported"], bool)
    assert isinstance(document["request_uri_parameter_supported"], bool)


@pytest.mark.requirement("certification-discovery-4")
async def test_id_tokens_are_signed_with_rs256_by_default(rp, browser, http):
    tokens = await rp.tokens(http, browser)
    assert header(tokens["id_token"])["alg"] == "RS256"


@pytest.mark.requirement("certification-authorize-2")
async def test_errors_follow_the_order_of_the_specification(rp, browser):
    await rp.configure(enabledGrants=["implicit"])
    wrong = {
        "client_id": new_id(), "redirect_uri": "https://evil.example.com/", "registration": "{}",
        "response_type": "id_token code", "response_mode": "query", "scope": "openid unheard-of", "nonce": None,
        "prompt": "none login", "max_age": "x", "claims": "[",
    }  # fmt: skip
    found = []
    for right in (
        {"client_id": rp.client_id}, {"redirect_uri": REDIRECT_URI}, {"registration": None},
        {"response_type": "id_token"}, {"response_mode": None}, {"scope": "openid"}, {"nonce": "n"},
        {"prompt": "none"}, {"max_age": "1"}, {"claims": None},
    ):  # fmt: skip
        answer = await browser.get(
            "/oauth2/authorize", params=rp.query(**wrong), headers={"Accept": "application/json"}
        )
        is_local = answer.status_code == 400
        error = answer.json() if is_local else response(answer)
        found.append((is_local, error["error"], error.get("error_reason")))
        wrong |= right
    assert found == [
        (True, "invalid_request", "invalid_client_id"),
        (True, "invalid_request", "invalid_redirect_uri"),
        (False, "registration_not_supported", None),
        (False, "unsupported_response_type", "invalid_response_type"),
        (False, "invalid_request", "invalid_response_mode"),
        (False, "invalid_scope", "unknown_scope"),
        (False, "invalid_request", "unknown"),
        (False, "invalid_request", "invalid_prompt"),
        (False, "invalid_request", "unknown"),
        (False, "invalid_request", "unknown"),
    ]
    assert response(await rp.authorize(browser, **wrong))["error"] == "login_required"


@pytest.mark.requirement("certification-authorize-1")
async def test_login_form_of_a_posted_request_has_the_complete_request(rp, browser, http):
    request = {
        "nonce": "n-1", "acr_values": "1", "claims": json.dumps({"id_token": {"email": None}}), "max_age": "1000",
        "response_mode": "form_post", "login_hint": rp.login_id, "code_challenge": CHALLENGE,
        "code_challenge_method": "S256", "ui_locales": "en", "prompt": "login",
    }  # fmt: skip
    shown = await browser.post("/oauth2/authorize", data=rp.query(**request))
    fields = page(shown).forms[0]["fields"]
    assert {name: fields[name] for name in request if name != "login_hint"} == {
        name: value for name, value in request.items() if name != "login_hint"
    }
    answer = response(await rp.submit(browser, shown))
    tokens = (await rp.exchange(http, answer["code"], code_verifier=relying_party.VERIFIER)).json()
    assert claims(tokens["id_token"])["nonce"] == "n-1"
    assert claims(tokens["id_token"])["email"] == rp.login_id


@pytest.mark.requirement("certification-authorize-6")
async def test_hints_are_accepted_with_and_without_session(rp, browser):
    hints = {"display": "touch", "ui_locales": "xx-XX", "claims_locales": "xx", "acr_values": "a b", "foo": "bar"}
    assert "code" in await rp.log_in(browser, **hints)
    assert "code" in response(await rp.authorize(browser, **hints, login_hint="unknown@example.com"))
    assert "code" in response(await rp.authorize(browser, **hints, prompt="none"))


@pytest.mark.requirement("certification-authorize-3", "certification-token-5")
async def test_prompt_consent_with_offline_access_gives_a_refresh_token(rp, browser, http):
    tokens = await rp.tokens(http, browser, scope="openid offline_access", prompt="consent")
    assert tokens["refresh_token"]
    await rp.configure(relationship="ThirdParty", consentMode="RememberDecision")
    for _ in range(2):
        answer = await consenting.agree(rp, browser, "email", scope="openid offline_access email", prompt="consent")
        assert (await rp.exchange(http, answer["code"])).json()["refresh_token"]


@pytest.mark.requirement("certification-authorize-11")
async def test_error_page_names_the_parameter(rp, browser):
    shown = await rp.authorize(browser, redirect_uri="https://evil.example.com/")
    assert "redirect_uri" in page(shown).text
    for changes, name in (
        ({"response_type": None}, "response_type"),
        ({"response_type": "x"}, "response_type"),
        ({"response_type": "id_token", "nonce": None}, "nonce"),
    ):
        await rp.configure(enabledGrants=["authorization_code", "implicit"])
        assert name in response(await rp.authorize(browser, **changes))["error_description"]


@pytest.mark.requirement("certification-authorize-11")
async def test_first_button_of_the_login_page_logs_in(rp, browser):
    shown = await rp.authorize(browser)
    text = page(shown).text
    assert re.search(r"Sign in|Log in", text)
    buttons = _Buttons()
    buttons.feed(shown.text)
    assert buttons.names[0] is None, "a button with a name is one of an identity provider"


@pytest.mark.requirement("certification-token-1")
async def test_basic_credentials_are_form_decoded(rp, browser, http):
    secret = "p%lus+ /=:ä&"
    await rp.configure(clientSecret=secret)
    half = urllib.parse.quote_plus
    encoded = base64.b64encode(f"{half(rp.client_id)}:{half(secret)}".encode()).decode()
    form = {"grant_type": "authorization_code", "code": await rp.code(browser), "redirect_uri": REDIRECT_URI}
    answer = await http.post("/oauth2/token", data=form, headers={"Authorization": f"Basic {encoded}"})
    assert answer.status_code == 200, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    assert type(answer.json()["expires_in"]) is int


@pytest.mark.requirement("certification-token-2")
async def test_late_replay_is_rejected_and_revokes_the_tokens(rp, browser, http, service):
    code = await rp.code(browser)
    tokens = (await rp.exchange(http, code)).json()
    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    lives = [
        await internals.redis(service).client.ttl(key)
        async for key in internals.redis(service).client.scan_iter(f"*{rp.tenant['id']}*")
        if "code" in str(key)
    ]
    assert min(lives) > 30, "what is known of a used code has to outlive the 30 seconds of the certification"
    replayed = await rp.exchange(http, code)
    assert (replayed.status_code, replayed.json()["error"]) == (400, "invalid_grant")
    assert (await http.get("/oauth2/userinfo", headers=bearer)).status_code == 401
    assert (await rp.refresh(http, tokens["refresh_token"])).json()["error"] == "invalid_grant"


@pytest.mark.requirement("audit-b2", "certification-token-6")
async def test_id_token_has_the_claims_of_its_scopes(ada, browser, http):
    answer = await ada.log_in(browser, scope=f"{ALL_SCOPES} offline_access", nonce="n")
    tokens = (await ada.exchange(http, answer["code"])).json()
    without_address = {name: value for name, value in everything(ada).items() if name != "address"}
    for token in (tokens, (await ada.refresh(http, tokens["refresh_token"])).json()):
        id_token = claims(token["id_token"])
        assert {name: value for name, value in id_token.items() if name in everything(ada)} == without_address
        assert (id_token["authenticationType"], id_token["tid"]) == (
            "PASSWORD" if token is tokens else "REFRESH_TOKEN", ada.tenant["id"],
        )  # fmt: skip
    id_token = claims(tokens["id_token"])
    assert id_token.keys() == PROTOCOL | {"at_hash", "c_hash"} | without_address.keys()
    assert id_token["c_hash"] == half_hash(answer["code"])
    assert id_token["aud"] == ada.client_id


@pytest.mark.requirement("audit-b2")
async def test_minimal_id_token_has_no_scope_claims(ada, browser, http):
    await ada.configure(idTokenClaims="Minimal")
    tokens = await ada.tokens(http, browser, scope=ALL_SCOPES, nonce="n")
    assert claims(tokens["id_token"]).keys() == MINIMAL | {"at_hash", "c_hash"}
    assert header(tokens["id_token"]).keys() == {"alg", "kid", "typ"}
    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    assert (await http.get("/oauth2/userinfo", headers=bearer)).json().keys() == {"sub", *everything(ada)}
    form = {"client_id": ada.client_id, "client_secret": ada.secret, "token": tokens["id_token"]}
    for hint in ({}, {"token_type_hint": "id_token"}):
        answer = await http.post("/oauth2/introspect", data={**form, **hint})
        assert answer.json()["active"] is True
    revoked = await http.post("/oauth2/revoke", data=form)
    assert (revoked.status_code, revoked.json()["error"]) == (400, "unsupported_token_type")
    hinted = await browser.get("/oauth2/logout", params={"id_token_hint": tokens["id_token"]})
    assert hinted.status_code == 302


@pytest.mark.requirement("audit-b2", "certification-token-6")
async def test_address_is_in_an_id_token_without_access_token(ada, browser):
    await ada.configure(enabledGrants=["implicit"])
    answer = await ada.log_in(browser, response_type="id_token", scope=ALL_SCOPES, nonce="n")
    id_token = claims(answer["id_token"])
    assert {name: value for name, value in id_token.items() if name not in PROTOCOL} == everything(ada)
    assert type(id_token["updated_at"]) is int
    await ada.configure(idTokenClaims="Minimal")
    answer = await ada.log_in(browser, response_type="id_token", scope=ALL_SCOPES, nonce="n", prompt="login")
    assert claims(answer["id_token"]).keys() == MINIMAL | everything(ada).keys()
    answer = await ada.log_in(browser, response_type="id_token token", scope=ALL_SCOPES, nonce="n", prompt="login")
    assert claims(answer["id_token"]).keys() == MINIMAL | {"at_hash"}


@pytest.mark.requirement("certification-token-7")
async def test_userinfo_returns_all_standard_claims_by_all_methods(ada, browser, http):
    tokens = await ada.tokens(http, browser, scope=ALL_SCOPES)
    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    for answer in (
        await http.get("/oauth2/userinfo", headers=bearer),
        await http.post("/oauth2/userinfo", headers=bearer),
        await http.post("/oauth2/userinfo", data={"access_token": tokens["access_token"]}),
    ):
        assert answer.headers["Content-Type"].startswith("application/json")
        assert answer.json() == {"sub": claims(tokens["id_token"])["sub"], **everything(ada)}


@pytest.mark.requirement("certification-token-7")
async def test_claims_without_a_value_are_left_out(rp, browser, http, api):
    rp.user = await relying_party.make_user(api, rp.tenant["id"], rp.client_id)
    tokens = await rp.tokens(http, browser, scope=ALL_SCOPES)
    userinfo = (
        await http.get("/oauth2/userinfo", headers={"Authorization": f"Bearer {tokens['access_token']}"})
    ).json()
    assert userinfo.keys() == {"sub", "email", "email_verified", "updated_at"}
