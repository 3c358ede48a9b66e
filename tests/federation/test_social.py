"""Logins through the published providers on the hosted pages and over the API: each type, each path."""

from __future__ import annotations

import dataclasses
import urllib.parse
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from identity.ids import new_id
from identity.web.console import layouts
from tests import plain_http, relying_party
from tests.fake_social import CLIENT_ID, CONFIGURATIONS, SECRET, TEAM_ID, TOKEN_ENDPOINTS, WEB_API_KEY, FakeSocial
from tests.federation.conftest import Scenario
from tests.federation.hosted import CALLBACK, LINK_PAGE, Departure, departure
from tests.relying_party import RelyingParty

Document = dict[str, Any]

CLIENT = {"client_id": CLIENT_ID, "client_secret": SECRET}


def preset_values(kind: str) -> Document:
    """The settings with which the console creates a provider of a kind."""
    preset = layouts.load("identity-providers").preset(kind)
    assert preset is not None
    oauth2 = {**preset.values["oauth2"], **CLIENT}
    if kind == "EntraID":
        oauth2["issuer"] = TOKEN_ENDPOINTS[kind][1]
    return {name: value for name, value in preset.values.items() if name != "name"} | {"oauth2": oauth2}


SETTINGS: dict[str, Document] = {
    "Apple": {"servicesId": CLIENT_ID, "teamId": TEAM_ID, "bundleId": "our-bundle"},
    "EpicGames": CLIENT,
    "Facebook": {"appId": CLIENT_ID, "client_secret": SECRET},
    "Google": CLIENT,
    "LinkedIn": CLIENT,
    "Nintendo": CLIENT,
    "SonyPSN": CLIENT,
    "Steam": {"client_id": CLIENT_ID, "webAPIKey": WEB_API_KEY},
    "Twitch": CLIENT,
    "Twitter": {"consumerKey": CLIENT_ID, "consumerSecret": SECRET},
    "Xbox": CLIENT,
}
PUBLISHED = tuple(SETTINGS)
PRESETS = ("Discord", "EntraID", "GitHub", "GitLab", "Slack")
SETTINGS |= {kind: preset_values(kind) for kind in PRESETS}
AUTHORIZATION = {
    "Apple": "https://appleid.apple.com/auth/authorize",
    "EpicGames": "https://www.epicgames.com/id/authorize",
    "Facebook": "https://www.facebook.com/v23.0/dialog/oauth",
    "Google": "https://accounts.google.com/o/oauth2/v2/auth",
    "LinkedIn": "https://www.linkedin.com/oauth/v2/authorization",
    "Nintendo": "https://accounts.nintendo.com/connect/1.0.0/authorize",
    "SonyPSN": "https://auth.api.sonyentertainmentnetwork.com/2.0/oauth/authorize",
    "Steam": "https://steamcommunity.com/openid/login",
    "Twitch": "https://id.twitch.tv/oauth2/authorize",
    "Twitter": "https://api.twitter.com/oauth/authenticate",
    "Xbox": "https://login.live.com/oauth20_authorize.srf",
    "Discord": "https://discord.com/oauth2/authorize",
    "GitHub": "https://github.com/login/oauth/authorize",
    **{kind: authorization for kind, (authorization, _) in CONFIGURATIONS.items()},
}
AUTHENTICATION_TYPES = {
    **{kind: kind.upper() for kind in ("Apple", "Facebook", "Google", "LinkedIn", "Twitter")},
    **dict.fromkeys(PRESETS, "OPENID_CONNECT"),
    **{kind: kind for kind in ("EpicGames", "Nintendo", "SonyPSN", "Steam", "Twitch", "Xbox")},
}
BY_MAIL = ["Apple", "Facebook", "Google", "LinkedIn", "Twitch", "Twitter", *PRESETS]
WITH_CODE = sorted(TOKEN_ENDPOINTS)
WITH_ISSUER = [kind for kind in WITH_CODE if TOKEN_ENDPOINTS[kind][1]]
UNTRUSTWORTHY = [
    (kind, change)
    for kind in WITH_ISSUER
    for change in ({"iss": "https://evil.example.com"}, {"aud": "another-client"}, {"exp": 1}, {"nonce": "another"})
    # LinkedIn ignores the nonce.
    if (kind, *change) != ("LinkedIn", "nonce")
]
BY_TOKEN = ["Apple", "EpicGames", "Facebook", "Google", "Nintendo", "SonyPSN", "Steam", "Twitch", "Xbox"]


@dataclasses.dataclass
class Login:
    """A browser that logs in to an application at a published provider."""

    kind: str
    rp: RelyingParty
    scenario: Scenario
    social: FakeSocial
    browser: httpx.AsyncClient

    async def leave(self, **changes: str) -> Departure:
        """Go to the provider by idp_hint."""
        return departure(await self.rp.authorize(self.browser, idp_hint=self.scenario.provider["id"], **changes))

    async def come_back(self, response: Document, browser: httpx.AsyncClient | None = None) -> httpx.Response:
        """Come back from the provider: from Apple with a form of another site, which our page sends again."""
        browser = browser or self.browser
        if self.kind != "Apple":
            return await browser.get(CALLBACK, params=response)
        held, browser.cookies = browser.cookies, httpx.Cookies()
        relayed = relying_party.page(await browser.post(CALLBACK, data=response)).forms[0]
        browser.cookies = held
        return await browser.post(CALLBACK, data=relayed["fields"])

    async def walk(self, **changes: str) -> httpx.Response:
        """Go to the provider, sign in there, and return."""
        left = await self.leave(**changes)
        return await self.come_back(self.social.approve(self.kind, left.parameters))

    async def claims(self, answer: httpx.Response) -> Document:
        """The claims of the access token of an authorization response."""
        tokens = await self.rp.exchange(self.scenario.public, relying_party.response(answer)["code"])
        assert tokens.status_code == 200, tokens.text
        return relying_party.claims(tokens.json()["access_token"])

    async def data(self, *, token: bool = False, client_id: str = CLIENT_ID) -> Document:
        """The data of the API login with a code, or with a token that was issued to a client."""
        if self.kind == "Twitter":
            answer = self.social.twitter_token(None)[1]  # type: ignore[arg-type]
            given = dict(pair.split("=") for pair in str(answer).split("&"))
            return {"oauth_token": given["oauth_token"], "oauth_token_secret": given["oauth_token_secret"]}
        if token and self.kind in {"Apple", "Google"}:
            name = "id_token" if self.kind == "Apple" else "token"
            return {name: await self.social.id_token(self.kind, aud=client_id)}
        if token:
            return {"token": await self.social.issue(self.kind, client_id)}
        request = {
            "response_type": "code", "client_id": CLIENT_ID, "redirect_uri": relying_party.REDIRECT_URI, "state": "x",
            "scope": "openid", **({"response_mode": "form_post"} if self.kind == "Apple" else {}),
        }  # fmt: skip
        return {**self.social.approve(self.kind, request), "redirect_uri": relying_party.REDIRECT_URI}

    async def api_login(self, data: Document) -> httpx.Response:
        """Log in over the API."""
        wanted = {"applicationId": self.rp.client_id, "identityProviderId": self.scenario.provider["id"]}
        return await self.scenario.public.post("/api/identity-provider/login", json={**wanted, "data": data})

    async def event_log(self, text: str) -> list[Document]:
        """The rows about this identity provider that have a text."""
        query = {"message": f"*{self.scenario.provider['id']}*"}
        answer = await self.rp.api.get("/api/system/event-log/search", params=query)
        return [one for one in answer.json()["eventLogs"] if text in one["message"]]


@pytest.fixture
def social(social_providers: FakeSocial) -> FakeSocial:
    """The published providers, with a new account."""
    social_providers.reset()
    return social_providers


@pytest.fixture
async def arrange(api: Any, tenant: Document, tenant_api: Any, http: Any, social: FakeSocial, browser: Any) -> Any:
    """A function that adds a provider of a type to a new application."""

    async def arranged(kind: str, **members: Any) -> Login:
        rp = await relying_party.make(api, tenant=tenant)
        scenario = Scenario(tenant, rp.application, tenant_api, http)
        settings = dict(SETTINGS[kind])
        if kind == "Apple":
            pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
                Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
            )
            body = {"key": {"name": new_id(), "type": "EC", "kid": new_id()[:10], "privateKey": pem.decode()}}
            social.apple_key = (await api.post("/api/key/import", json=body)).json()["key"]
            settings["keyId"] = social.apple_key["id"]
        usual = {"linkingStrategy": "LinkByEmail" if kind in BY_MAIL else "LinkAnonymously"}
        # They do not state whether an address is verified.
        trust = {"trustEmail": True} if kind in {"EntraID", "Facebook"} else {}
        await scenario.add_provider(**{"type": kind, **settings, **usual, **trust, **members})
        return Login(kind, rp, scenario, social, browser)

    return arranged


# On the hosted pages


@pytest.mark.requirement("core-11-3")
@pytest.mark.parametrize("kind", SETTINGS)
async def test_user_of_a_provider_signs_in(arrange, kind) -> None:
    login = await arrange(kind)
    left = await login.leave(login_hint="ada@example.com")
    assert left.url == AUTHORIZATION[kind]
    assert ("login_hint" in left.parameters) is (kind in {"Google", *PRESETS})
    answer = await login.come_back(login.social.approve(kind, left.parameters))
    claims = await login.claims(answer)
    assert claims["authenticationType"] == AUTHENTICATION_TYPES[kind]
    user = await login.scenario.user(claims["sub"])
    assert user.get("email") == (login.social.email if kind in BY_MAIL else None)
    assert user.get("firstName") == ("Ada" if kind in {"Apple", "Facebook", "Google", "LinkedIn"} else None)
    (link,) = await login.scenario.links(claims["sub"])
    assert link["identityProviderUserId"] == login.social.account
    again = await login.claims(await login.walk(prompt="login"))
    assert again["sub"] == claims["sub"]


@pytest.mark.requirement("core-11-3")
@pytest.mark.parametrize("kind", BY_MAIL)
async def test_existing_user_with_the_address_is_linked_and_keeps_their_name(arrange, kind) -> None:
    login = await arrange(kind)
    user = await login.scenario.make_user(email=login.social.email, firstName="Augusta", verified=True)
    claims = await login.claims(await login.walk())
    assert claims["sub"] == user["id"]
    assert (await login.scenario.user(user["id"]))["firstName"] == "Augusta"


@pytest.mark.requirement("core-11-3")
@pytest.mark.parametrize("kind", SETTINGS)
async def test_account_without_user_waits_for_its_link(arrange, kind) -> None:
    login = await arrange(kind, linkingStrategy="CreatePendingLink")
    answer = await login.walk()
    assert answer.status_code == 302
    assert LINK_PAGE in answer.headers["Location"]
    assert await login.scenario.count_users() == 1


@pytest.mark.requirement("core-11-3")
@pytest.mark.parametrize("kind", SETTINGS)
async def test_user_who_declines_returns_to_the_login_page(arrange, kind) -> None:
    login = await arrange(kind)
    left = await login.leave()
    shown = await login.come_back(login.social.deny(kind, left.parameters))
    assert shown.status_code == 200
    assert "canceled or denied" in relying_party.page(shown).text
    assert {one["type"] for one in await login.event_log("failed")} == {"Information"}
    again = await login.come_back(login.social.deny(kind, left.parameters))
    assert "expired" in again.text


@pytest.mark.requirement("core-11-3")
@pytest.mark.parametrize("kind", BY_MAIL)
async def test_unverified_address_is_not_linked(arrange, kind) -> None:
    login = await arrange(kind, trustEmail=False)
    login.social.is_verified = False
    user = await login.scenario.make_user(email=login.social.email)
    shown = await login.walk()
    assert shown.status_code == 200
    assert await login.scenario.links(user["id"]) == []
    assert await login.event_log("email")


@pytest.mark.requirement("core-11-3")
@pytest.mark.parametrize("kind", SETTINGS)
async def test_response_in_another_browser_is_refused(arrange, service, kind) -> None:
    login = await arrange(kind)
    response = login.social.approve(kind, (await login.leave()).parameters)
    async with plain_http.client(service.base_url) as stranger:
        # A login of its own does not help: the state belongs to the browser that left.
        await login.rp.authorize(stranger, idp_hint=login.scenario.provider["id"])
        refused = await login.come_back(response, stranger)
    assert refused.status_code == 400
    assert "another browser" in refused.text
    assert "code" in relying_party.response(await login.come_back(response))


@pytest.mark.requirement("core-11-3")
@pytest.mark.parametrize("kind", WITH_CODE)
async def test_code_of_another_provider_is_refused(arrange, kind) -> None:
    login = await arrange(kind)
    response = login.social.approve(kind, (await login.leave()).parameters)
    other = next(name for name in WITH_CODE if name != kind)
    login.social.codes[response["code"]] = other, login.social.codes[response["code"]][1]
    shown = await login.come_back(response)
    assert shown.status_code == 200
    assert await login.scenario.count_users() == 1


@pytest.mark.requirement("core-11-3")
@pytest.mark.parametrize("kind", WITH_ISSUER)
async def test_response_of_another_issuer_is_refused_before_its_code_is_sent(arrange, kind) -> None:
    login = await arrange(kind)
    response = login.social.approve(kind, (await login.leave()).parameters)
    shown = await login.come_back({**response, "iss": "https://evil.example.com"})
    assert shown.status_code == 200
    assert await login.event_log("mix-up")
    assert login.social.requests_to(TOKEN_ENDPOINTS[kind][0]) == []


@pytest.mark.requirement("core-11-3")
@pytest.mark.parametrize(("kind", "change"), UNTRUSTWORTHY)
async def test_untrustworthy_id_token_is_refused(arrange, kind, change) -> None:
    login = await arrange(kind)
    login.social.id_claims = change
    shown = await login.walk()
    assert shown.status_code == 200
    assert await login.scenario.count_users() == 1


@pytest.mark.requirement("core-11-3")
@pytest.mark.parametrize("kind", WITH_CODE)
async def test_provider_out_of_order_is_reported_without_secrets(arrange, kind) -> None:
    login = await arrange(kind)
    login.social.broken = TOKEN_ENDPOINTS[kind][0]
    left = await login.leave()
    shown = await login.come_back(login.social.approve(kind, left.parameters))
    assert shown.status_code == 200
    (log,) = await login.event_log("answered 500")
    assert SECRET not in log["message"]


async def test_assertion_of_steam_is_good_once_and_for_this_login(arrange) -> None:
    login = await arrange("Steam")
    left = await login.leave()
    response = login.social.approve("Steam", left.parameters)
    for changes in (
        {"openid.claimed_id": "https://steamcommunity.com/openid/id/1"},
        {
            "openid.claimed_id": "https://evil.example/openid/id/1",
            "openid.identity": "https://evil.example/openid/id/1",
        },
        {"openid.op_endpoint": "https://evil.example.com"},
        {"openid.return_to": "https://evil.example.com"},
        {"openid.signed": "claimed_id"},
        {"openid.response_nonce": "another"},
    ):
        again = await login.leave()
        forged = {**login.social.approve("Steam", again.parameters), **changes}
        assert (await login.come_back(forged)).status_code == 200, changes
    assert await login.scenario.count_users() == 1
    assert "code" in relying_party.response(await login.come_back(response))


async def test_assertion_of_steam_is_not_accepted_by_the_api(arrange) -> None:
    """An assertion for the site of an attacker would otherwise be a login here."""
    login = await arrange("Steam")
    return_to = "https://evil.example.com/callback"
    request = {"openid.return_to": return_to, "openid.realm": "https://evil.example.com", "openid.ns": "x"}
    answer = await login.api_login({**login.social.assertion(request), "redirect_uri": return_to})
    assert answer.status_code == 400
    assert set(answer.json()["fieldErrors"]) == {"data.token"}


async def test_settings_of_the_application_take_precedence(arrange) -> None:
    login = await arrange("Google", place={"client_id": "its-own", "scope": "openid", "buttonText": "Go to Google"})
    left = await login.leave()
    assert (left["client_id"], left["scope"]) == ("its-own", "openid")
    assert "Go to Google" in (await login.rp.authorize(login.browser)).text


async def test_managed_domain_leads_to_google(arrange) -> None:
    domain = f"{new_id()}.example.com"
    login = await arrange("Google", domains=[domain])
    left = departure(await login.rp.authorize(login.browser, login_hint=f"ada@{domain}"))
    assert left.url == AUTHORIZATION["Google"]
    found = await login.scenario.public.get("/api/identity-provider/lookup", params={"domain": domain})
    assert found.json()["identityProvider"]["id"] == login.scenario.provider["id"]


async def test_reconcile_lambda_receives_the_claims(arrange) -> None:
    login = await arrange("Google")
    body = "function reconcile(user, registration, claims) { user.fullName = claims.given_name + ' of ' + claims.iss; }"
    lambda_id = await login.scenario.make_lambda(body, "GoogleReconcile")
    await login.scenario.change(lambdaConfiguration={"reconcileId": lambda_id})
    claims = await login.claims(await login.walk())
    assert (await login.scenario.user(claims["sub"]))["fullName"] == "Ada of https://accounts.google.com"


@pytest.mark.parametrize("kind", PUBLISHED)
async def test_button_names_the_provider_in_the_language_of_the_page(arrange, kind) -> None:
    login = await arrange(kind)
    login.browser.headers["Accept-Language"] = "de"
    shown = await login.rp.authorize(login.browser)
    label = {"EpicGames": "Epic Games", "SonyPSN": "PlayStation", "Twitter": "X"}.get(kind, kind)
    assert f"<span>Mit {label} anmelden</span>" in shown.text
    assert '<svg class="symbol" viewBox="0 0 24 24" aria-hidden="true"' in shown.text
    assert "style=" not in shown.text
    assert "unsafe-inline" not in shown.headers["Content-Security-Policy"]


@pytest.mark.parametrize("kind", PRESETS)
async def test_button_of_a_preset_has_the_symbol_of_its_host(arrange, kind) -> None:
    shown = await (login := await arrange(kind)).rp.authorize(login.browser)
    assert f"<span>Sign in with {'Microsoft' if kind == 'EntraID' else kind}</span>" in shown.text
    assert '<svg class="symbol"' in shown.text


async def test_google_without_secret_has_no_button_and_exchanges_no_codes(arrange) -> None:
    login = await arrange("Google", client_secret=None)
    assert "identityProviderId" not in (await login.rp.authorize(login.browser)).text
    assert (await login.api_login(await login.data())).status_code == 400
    assert (await login.api_login(await login.data(token=True))).status_code == 200


@pytest.mark.parametrize("body", ["oauth_token=a", "oauth_token=a&oauth_token_secret=b", "é"])
async def test_temporary_credentials_of_x_must_be_complete_and_confirmed(arrange, monkeypatch, body) -> None:
    login = await arrange("Twitter")
    monkeypatch.setattr(login.social, "twitter_token", lambda _request: (200, body))
    hints = {"idp_hint": login.scenario.provider["id"], "login_hint": "ada@example.com"}
    shown = await login.rp.authorize(login.browser, **hints)
    assert shown.status_code == 200
    assert 'value="ada@example.com"' in shown.text
    assert await login.event_log("failed")


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Facebook", "/graph.facebook.com/v23.0/debug_token"),
        ("Facebook", "/graph.facebook.com/v23.0/me"),
        ("Twitch", "/id.twitch.tv/oauth2/validate"),
        ("Twitter", "/api.twitter.com/1.1/account/verify_credentials.json"),
        ("Steam", "/api.steampowered.com/ISteamUser/GetPlayerSummaries/v2/"),
    ],
)
async def test_platform_out_of_order_is_an_error_of_the_api_login(arrange, kind, path) -> None:
    login = await arrange(kind)
    login.social.broken = path
    answer = await login.api_login(await login.data(token=True))
    assert answer.status_code == 400
    assert "[ExternalAuthenticationException]" in answer.json()["generalErrors"][0]["code"]


async def test_steam_out_of_order_confirms_no_assertion(arrange) -> None:
    login = await arrange("Steam")
    login.social.broken = "/steamcommunity.com/openid/login"
    assert (await login.walk()).status_code == 200
    assert await login.event_log("answered 500")


async def test_link_with_x_keeps_the_access_token(arrange) -> None:
    login = await arrange("Twitter")
    left = await login.leave()
    claims = await login.claims(await login.come_back(login.social.approve("Twitter", left.parameters)))
    (link,) = await login.scenario.links(claims["sub"])
    assert link["token"] in login.social.secrets
    assert link["token"] != left["oauth_token"]


async def test_key_of_an_application_must_sign(arrange, api, tenant) -> None:
    login = await arrange("Apple")
    key = (await api.post("/api/key/generate", json={"key": {"name": new_id(), "algorithm": "ES256"}})).json()["key"]
    public = {key_name: key[key_name] for key_name in ("name", "publicKey")}
    body = {"key": {**public, "name": new_id(), "type": "EC", "kid": new_id()}}
    imported = (await api.post("/api/key/import", json=body)).json()["key"]
    place = {"enabled": True, "keyId": imported["id"]}
    wanted = {"identityProvider": {"applicationConfiguration": {login.rp.client_id: place}}}
    path = f"/api/identity-provider/{login.scenario.provider['id']}"
    refused = await api.patch(path, json=wanted, headers={"Content-Type": "application/merge-patch+json"})
    assert set(refused.json()["fieldErrors"]) == {
        f"identityProvider.applicationConfiguration.{login.rp.client_id}.keyId"
    }


# Unlinking

REVOCATION = {
    "Apple": "/appleid.apple.com/auth/revoke",
    "GitLab": "/gitlab.com/oauth/revoke",
    "Google": "/oauth2.googleapis.com/revoke",
    "LinkedIn": "/www.linkedin.com/oauth/v2/revoke",
}


async def unlink(login: Login, user_id: str) -> None:
    (link,) = await login.scenario.links(user_id)
    names = ("identityProviderId", "identityProviderUserId", "userId")
    answer = await login.scenario.api.delete("/api/identity-provider/link", params={name: link[name] for name in names})
    assert answer.status_code == 200, answer.text
    assert await login.scenario.links(user_id) == []


@pytest.mark.parametrize("kind", SETTINGS)
async def test_unlinking_revokes_the_token(arrange, kind) -> None:
    login = await arrange(kind)
    user_id = (await login.claims(await login.walk()))["sub"]
    await unlink(login, user_id)
    requests = [one for path in REVOCATION.values() for one in login.social.requests_to(path)]
    assert [one.path for one in requests] == ([REVOCATION[kind]] if kind in REVOCATION else [])
    for request in requests:
        form = dict(urllib.parse.parse_qsl(request.body.decode()))
        hint = "access_token" if kind == "LinkedIn" else "refresh_token"
        assert form["token_type_hint"] == hint
        assert form["token"] == "the-refresh-token" or form["token"] in login.social.issued
        assert login.social.is_client(kind, request, form, is_basic=False)


async def test_account_is_unlinked_although_the_provider_does_not_revoke(arrange) -> None:
    login = await arrange("Google")
    user_id = (await login.claims(await login.walk()))["sub"]
    login.social.broken = REVOCATION["Google"]
    await unlink(login, user_id)
    (log,) = await login.event_log("did not revoke")
    assert "the-refresh-token" not in log["message"]


# Over the API


@pytest.mark.requirement("core-11-3")
@pytest.mark.parametrize("kind", [*WITH_CODE, "Twitter"])
async def test_api_login_with_a_code(arrange, kind) -> None:
    login = await arrange(kind)
    answer = await login.api_login(await login.data())
    assert answer.status_code == 200, answer.text
    user = answer.json()["user"]
    (link,) = await login.scenario.links(user["id"])
    assert link["identityProviderUserId"] == login.social.account
    assert relying_party.claims(answer.json()["token"])["authenticationType"] == AUTHENTICATION_TYPES[kind]


@pytest.mark.requirement("core-11-3")
@pytest.mark.parametrize("kind", BY_TOKEN)
async def test_api_login_with_a_token_of_our_client_only(arrange, kind) -> None:
    login = await arrange(kind)
    answer = await login.api_login(await login.data(token=True))
    assert answer.status_code == 200, answer.text
    # Xbox does not state the client of a token.
    foreign = await login.api_login(await login.data(token=True, client_id="another-client"))
    assert foreign.status_code == (200 if kind == "Xbox" else 401)
    for token in ("unknown", "not\nprintable", "é"):
        refused = await login.api_login({"token": token})
        assert refused.status_code in {400, 401}, token


@pytest.mark.parametrize("kind", SETTINGS)
async def test_api_login_names_what_is_missing(arrange, kind) -> None:
    login = await arrange(kind)
    answer = await login.api_login({})
    names = {name: {"code", "redirect_uri"} for name in ("LinkedIn", *PRESETS)}
    names |= {"Twitter": {"oauth_token", "oauth_token_secret"}}
    assert answer.status_code == 400
    assert set(answer.json()["fieldErrors"]) == {f"data.{name}" for name in names.get(kind, {"token"})}


async def test_steam_session_ticket_takes_precedence_over_a_token(arrange) -> None:
    login = await arrange("Steam")
    ticket = login.social.consoles.issue_ticket(login.social.account)
    answer = await login.api_login({"appId": "480", "sessionTicket": ticket, "token": "unknown"})
    assert answer.status_code == 200, answer.text


async def test_apple_app_logs_in_with_its_bundle(arrange) -> None:
    login = await arrange("Apple")
    native = {"isNativeApp": "true", "appleUser": '{"name": {"firstName": "Ada"}, "email": "other@example.com"}'}
    token = await login.social.id_token("Apple", aud="our-bundle")
    assert (await login.api_login({"id_token": token})).status_code == 401
    answer = await login.api_login({"id_token": token, **native})
    assert answer.status_code == 200, answer.text
    assert answer.json()["user"]["firstName"] == "Ada"
    assert answer.json()["user"]["email"] == login.social.email


@pytest.mark.parametrize("user", ["no json", "[]", '{"name": 7}', '{"name": {"firstName": 7}}', "[" * 5000])
async def test_unusable_name_of_apple_is_ignored(arrange, user) -> None:
    login = await arrange("Apple")
    answer = await login.api_login({**await login.data(token=True), "appleUser": user})
    assert answer.status_code == 200
    assert "firstName" not in answer.json()["user"]


@pytest.mark.requirement("core-11-52")
@pytest.mark.parametrize("kind", BY_MAIL)
async def test_address_of_an_unmanaged_domain_is_refused_for_every_type(arrange, kind) -> None:
    login = await arrange(kind, domains=[f"{new_id()}.example.com"])
    user = await login.scenario.make_user(email=login.social.email)
    shown = await login.walk()
    assert shown.status_code == 200
    assert await login.event_log("does not manage the domain")
    assert await login.scenario.links(user["id"]) == []


REAUTHENTICATION = {
    "Facebook": ("auth_type", "reauthenticate"),
    "Twitter": ("force_login", "true"),
    "Xbox": ("prompt", "login"),
}


@pytest.mark.requirement("core-11-54")
@pytest.mark.parametrize("kind", REAUTHENTICATION)
async def test_prompt_login_has_the_form_of_the_provider(arrange, kind) -> None:
    login = await arrange(kind)
    name, value = REAUTHENTICATION[kind]
    assert name not in (await login.leave()).parameters
    assert (await login.leave(prompt="login")).parameters[name] == value
    await login.scenario.change(forwardPrompt=False)
    assert name not in (await login.leave(prompt="login")).parameters
