"""Client ids that are no UUIDs, which relying parties keep when they change providers (`clientId`)."""

from __future__ import annotations

import asyncio
import dataclasses
import time
import urllib.parse
from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests import client_signer, relying_party
from tests.api.test_entities import make as make_entity
from tests.api.test_entity_types import make as make_type
from tests.client_signer import new_key, public, signed
from tests.oauth2.devices import GRANTS, URL
from tests.oauth2.test_back_channel_logout import token_of
from tests.receiver import receiving
from tests.relying_party import PKCE, REDIRECT_URI, VERIFIER, RelyingParty, claims, page, response

FIELD = "application.oauthConfiguration.clientId"


@dataclasses.dataclass
class NamedParty(RelyingParty):
    """A relying party that keeps the client_id that it had at another provider."""

    name: str = ""

    @property
    def client_id(self) -> str:
        return self.name

    @property
    def application_id(self) -> str:
        return str(self.application["id"])


async def make(api: httpx.AsyncClient, name: str | None = None, **oauth: Any) -> NamedParty:
    name = name or f"https://shop.example.com/{new_id()}?a=b&c"
    made = await relying_party.make(api, clientId=name, **oauth)
    assert made.application["oauthConfiguration"]["clientId"] == name
    return NamedParty(made.tenant, made.application, made.user, api, name)


@pytest.fixture
async def named(api: httpx.AsyncClient) -> NamedParty:
    return await make(api)


async def change(party: NamedParty, method: str = "PATCH", **oauth: Any) -> httpx.Response:
    headers = {"X-FusionAuth-TenantId": party.tenant["id"]}
    body = {"application": {"name": party.application["name"], "oauthConfiguration": oauth}}
    return await party.api.request(method, f"/api/application/{party.application_id}", json=body, headers=headers)


async def create(api: httpx.AsyncClient, tenant_id: str, client_id: str, **members: Any) -> httpx.Response:
    body = {"application": {"name": new_id(), "oauthConfiguration": {"clientId": client_id}}, **members}
    return await api.post("/api/application", json=body, headers={"X-FusionAuth-TenantId": tenant_id})


def codes(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code == 400, answer.text
    return {field: errors[0]["code"] for field, errors in answer.json()["fieldErrors"].items()}


@pytest.mark.requirement("migrate-2")
async def test_tokens_are_for_the_client_id_that_was_presented(named, http, browser) -> None:
    tokens = await named.tokens(http, browser)
    refreshed = (await named.refresh(http, tokens["refresh_token"])).json()
    for token in (tokens["access_token"], tokens["id_token"], refreshed["access_token"], refreshed["id_token"]):
        assert claims(token)["aud"] == named.client_id
    assert claims(tokens["access_token"])["applicationId"] == named.application_id
    bearer = {"Authorization": f"Bearer {refreshed['access_token']}"}
    assert (await http.get("/oauth2/userinfo", headers=bearer)).json()["sub"] == named.user["id"]
    assert (await http.get("/api/jwt/validate", headers=bearer)).status_code == 200
    for token in (refreshed["access_token"], tokens["id_token"]):
        form = {"client_id": named.client_id, "client_secret": named.secret, "token": token}
        described = (await http.post("/oauth2/introspect", data=form)).json()
        assert (described["active"], described["aud"]) == (True, named.client_id)
    form = {"client_id": named.client_id, "client_secret": named.secret, "token": refreshed["access_token"]}
    assert (await http.post("/oauth2/revoke", data=form)).status_code == 200
    assert (await http.get("/oauth2/userinfo", headers=bearer)).status_code == 401


@pytest.mark.requirement("migrate-2")
async def test_the_id_of_the_application_stays_a_client_id(named, http, browser) -> None:
    by_id = RelyingParty(named.tenant, named.application, named.user, named.api)
    tokens = await by_id.tokens(http, browser)
    assert claims(tokens["id_token"])["aud"] == named.application_id
    described = await http.post(
        "/oauth2/introspect",
        data={"client_id": named.client_id, "client_secret": named.secret, "token": tokens["access_token"]},
    )
    assert described.json()["active"] is True
    refreshed = (await named.refresh(http, tokens["refresh_token"])).json()
    assert claims(refreshed["id_token"])["aud"] == named.client_id
    body = {"loginId": named.login_id, "password": relying_party.PASSWORD, "applicationId": named.application_id}
    headers = {"X-FusionAuth-TenantId": named.tenant["id"]}
    logged_in = await named.api.post("/api/login", json=body, headers=headers)
    assert claims(logged_in.json()["token"])["aud"] == named.application_id


@pytest.mark.requirement("migrate-2")
@pytest.mark.parametrize("response_type", ["code id_token", "token id_token"])
async def test_tokens_of_the_authorization_response_name_it_too(api, browser, response_type) -> None:
    party = await make(api, enabledGrants=["authorization_code", "implicit"], hybridResponseTypesEnabled=True)
    given = await party.log_in(browser, response_type=response_type, nonce="n-1", scope="openid")
    for name in {"id_token", "access_token"} & given.keys():
        assert claims(given[name])["aud"] == party.client_id


@pytest.mark.requirement("migrate-2")
async def test_basic_credentials_pushed_and_signed_requests(named, http, browser) -> None:
    key = new_key()
    assert (await change(named, jwks=public(key))).status_code == 200
    credentials = (urllib.parse.quote(named.client_id, safe=""), urllib.parse.quote(named.secret, safe=""))
    form = {name: value for name, value in named.query(**PKCE).items() if name != "client_id"}
    pushed = await http.post("/oauth2/par", data=form, auth=credentials)
    assert pushed.status_code == 201, pushed.text
    query = {"client_id": named.client_id, "request_uri": pushed.json()["request_uri"]}
    opened = await browser.get("/oauth2/authorize", params=query)
    shown = await browser.get(opened.headers["Location"])
    code = response(await named.submit(browser, shown))["code"]
    assert (await named.exchange(http, code, code_verifier=VERIFIER)).status_code == 200

    now = int(time.time())
    request = {**named.query(), "iss": named.client_id, "aud": named.tenant["issuer"], "iat": now, "exp": now + 60}
    query = {"client_id": named.client_id, "prompt": "none", "request": signed(key, {**request, "prompt": "none"})}
    assert "code" in response(await browser.get("/oauth2/authorize", params=query))
    query["request"] = signed(key, {**request, "prompt": "none", "iss": named.application_id})
    assert response(await browser.get("/oauth2/authorize", params=query))["error"] == "invalid_request_object"


@pytest.mark.requirement("migrate-2")
async def test_assertions_name_it_as_issuer_and_subject(api, http, browser) -> None:
    key = new_key()
    party = await make(api, clientAuthenticationMethods=["private_key_jwt"], jwks=public(key))
    code = await party.code(browser)
    mixed = client_signer.form(signed(key, client_signer.claims(party, iss=party.application_id)))
    assert (await party.exchange(http, code, **mixed)).status_code == 401
    assertion = client_signer.form(signed(key, client_signer.claims(party)))
    answer = await party.exchange(http, code, **assertion)
    assert answer.status_code == 200, answer.text
    assert claims(answer.json()["id_token"])["aud"] == party.client_id
    replayed = await party.refresh(http, answer.json()["refresh_token"], **assertion)
    assert replayed.json()["error"] == "invalid_client"


@pytest.mark.requirement("migrate-2")
async def test_a_device_gets_tokens_for_it(api, http, browser) -> None:
    settings = {"clientAuthenticationPolicy": "NotRequired", "deviceVerificationURL": URL, "enabledGrants": GRANTS}
    party = await make(api, **settings)
    begun = (await http.post("/oauth2/device_authorize", data={"client_id": party.client_id, "scope": "openid"})).json()
    described = await http.post(
        "/oauth2/device/user-code", data={"client_id": party.client_id, "user_code": begun["user_code"]}
    )
    assert described.json()["client_id"] == party.client_id, described.text
    password = {"grant_type": "password", "username": party.login_id, "password": relying_party.PASSWORD}
    token = (await party.token(http, client_secret=None, **password)).json()["access_token"]
    form = {"client_id": party.client_id, "user_code": begun["user_code"], "token": token}
    assert (await http.post("/oauth2/device/approve", data=form)).status_code == 200
    poll = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": begun["device_code"]}
    tokens = await party.token(http, client_secret=None, **poll)
    assert claims(tokens.json()["id_token"])["aud"] == party.client_id


@pytest.mark.requirement("migrate-2")
async def test_logout_by_hint_and_client_id_notifies_it_by_its_name(named, http, browser) -> None:
    async with receiving() as receiver:
        assert (await change(named, backChannelLogoutURL=receiver.url)).status_code == 200
        tokens = await named.tokens(http, browser)
        for client_id in (named.client_id, named.application_id, None):
            query = {"id_token_hint": tokens["id_token"], "post_logout_redirect_uri": REDIRECT_URI}
            query |= {} if client_id is None else {"client_id": client_id}
            headers = {"Sec-Fetch-Site": "cross-site"}
            answer = await browser.get("/oauth2/logout", params=query, headers=headers)
            assert (answer.status_code, answer.headers["Location"]) == (302, REDIRECT_URI)
        (request,) = await receiver.wait_for(1)
        assert claims(token_of(request))["aud"] == named.client_id


@pytest.mark.requirement("migrate-2")
async def test_pages_of_a_login_keep_it(named, http, browser, clock) -> None:
    """Forms and links of the pages repeat the client_id, so that the response is for the client that asked."""
    shown = await named.authorize(browser)
    assert page(shown).forms[0]["fields"]["client_id"] == named.client_id
    departure = await browser.get(f"/app/login/{urllib.parse.quote(named.client_id, safe='')}")
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(departure.headers["Location"]).query))
    assert query["client_id"] == named.client_id


@pytest.mark.requirement("migrate-2")
@pytest.mark.parametrize(
    ("client_id", "code"),
    [("with a space", "invalid"), ("umläut", "invalid"), ("x" * 256, "tooLong"), ("line\nbreak", "invalid")],
)
async def test_characters_and_length_are_those_of_the_protocol(api, tenant, client_id, code) -> None:
    assert codes(await create(api, tenant["id"], client_id)) == {FIELD: f"[{code}]{FIELD}"}


@pytest.mark.requirement("migrate-2")
async def test_a_uuid_or_none_stands_for_the_id_and_an_update_keeps_it(api, tenant, named) -> None:
    for client_id in (new_id(), "", new_id().upper()):
        made = (await create(api, tenant["id"], client_id)).json()["application"]
        assert made["oauthConfiguration"]["clientId"] == made["id"]
    for method in ("PUT", "PATCH"):
        kept = (await change(named, method, debug=True)).json()["application"]
        assert kept["oauthConfiguration"]["clientId"] == named.client_id
    copied = await create(api, named.tenant["id"], "", sourceApplicationId=named.application_id)
    application = copied.json()["application"]
    assert application["oauthConfiguration"]["clientId"] == application["id"]
    reset = (await change(named, clientId=named.application_id)).json()["application"]
    assert reset["oauthConfiguration"]["clientId"] == named.application_id


@pytest.mark.requirement("migrate-2")
async def test_a_changed_client_id_applies_at_once(named, http, browser) -> None:
    former, later = named.client_id, f"later-{new_id()}"
    assert (await named.authorize(browser)).status_code == 200
    assert (await change(named, clientId=later)).status_code == 200
    refused = await named.authorize(browser)
    assert (refused.status_code, "invalid_client_id" in refused.text) == (400, True)
    named.name = later
    assert claims((await named.tokens(http, browser))["id_token"])["aud"] == later
    assert (await create(named.api, named.tenant["id"], former)).status_code == 200


@pytest.mark.requirement("migrate-2")
async def test_it_is_unique_among_applications_and_entities_of_the_instance(api, tenant, named) -> None:
    assert codes(await create(api, tenant["id"], named.client_id)) == {FIELD: f"[duplicate]{FIELD}"}
    kind = await make_type(api)
    entity = {"name": new_id(), "type": {"id": kind["id"]}, "clientId": named.client_id}
    answer = await api.post("/api/entity", json={"entity": entity})
    assert codes(answer) == {"entity.clientId": "[duplicate]entity.clientId"}
    taken = await make_entity(api, kind, clientId=f"entity-{new_id()}")
    assert codes(await create(api, tenant["id"], taken["clientId"])) == {FIELD: f"[duplicate]{FIELD}"}
    assert codes(await change(named, clientId=taken["clientId"])) == {FIELD: f"[duplicate]{FIELD}"}


@pytest.mark.requirement("migrate-2")
async def test_of_an_application_and_an_entity_one_gets_a_client_id(api, tenant) -> None:
    """No index covers both collections."""
    kind = await make_type(api)

    async def race(wanted: str) -> list[int]:
        entity = {"name": new_id(), "type": {"id": kind["id"]}, "clientId": wanted}
        answers = await asyncio.gather(
            create(api, tenant["id"], wanted), api.post("/api/entity", json={"entity": entity})
        )
        return sorted(answer.status_code for answer in answers)

    for _ in range(4):
        assert await asyncio.gather(*(race(f"raced-{new_id()}") for _ in range(8))) == [[200, 400]] * 8


@pytest.mark.requirement("migrate-2")
async def test_of_64_racers_one_gets_a_client_id(api, tenant) -> None:
    wanted = f"raced-{new_id()}"
    type_id = (await make_type(api))["id"]
    entity = {"type": {"id": type_id}, "clientId": wanted}
    racers = [create(api, tenant["id"], wanted) for _ in range(32)]
    racers += [api.post("/api/entity", json={"entity": {"name": new_id(), **entity}}) for _ in range(32)]
    answers = await asyncio.gather(*racers)
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 63
    assert {errors[0]["code"] for answer in answers if answer.status_code == 400
            for errors in answer.json()["fieldErrors"].values()} <= {
        f"[duplicate]{FIELD}", "[duplicate]entity.clientId"}  # fmt: skip
