"""Dynamic client registration and management (RFC 7591, RFC 7592) over HTTP."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import Any

import httpx
import pytest

from tests import certificates, internals, relying_party
from tests.dpop import ClientKey
from tests.oauth2 import consenting
from tests.oauth2.extensions.software import statement
from tests.relying_party import PKCE, REDIRECT_URI, VERIFIER, page

METADATA = {"redirect_uris": [REDIRECT_URI], "scope": "openid email offline_access", "client_name": "Notebook",
            "grant_types": ["authorization_code", "refresh_token"], "contacts": ["ada@example.com"],
            "logo_uri": "https://app.example.com/logo.png", "software_id": "notebook"}  # fmt: skip
POST = {"token_endpoint_auth_method": "client_secret_post"}
UNNAMED = {name: value for name, value in METADATA.items() if name != "client_name"}


@dataclasses.dataclass
class Registry:
    """A tenant in which clients can be registered."""

    tenant: dict[str, Any]
    api: httpx.AsyncClient
    http: httpx.AsyncClient

    @property
    def path(self) -> str:
        return f"/{self.tenant['id']}/oauth2/register-client"

    @property
    def inside(self) -> dict[str, str]:
        return {"X-FusionAuth-TenantId": self.tenant["id"]}

    async def initial_token(self, **wanted: Any) -> dict[str, Any]:
        body = {"initialAccessToken": wanted}
        answer = await self.api.post("/api/initial-access-token", json=body, headers=self.inside)
        assert answer.status_code == 200, answer.text
        return answer.json()["initialAccessToken"]

    async def register(self, token: str | None, **metadata: Any) -> httpx.Response:
        return await self.http.post(self.path, json=metadata, headers=bearer(token))

    async def registered(self, **metadata: Any) -> dict[str, Any]:
        token = (await self.initial_token())["token"]
        answer = await self.register(token, **{**METADATA, **metadata})
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def application(self, client_id: str) -> dict[str, Any]:
        return (await self.api.get(f"/api/application/{client_id}", headers=self.inside)).json()["application"]


def bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def refused(answer: httpx.Response, error: str, status: int = 400) -> None:
    assert answer.status_code == status, (answer.request.content, answer.text)
    assert answer.json()["error"] == error, answer.text


async def make_registry(api: httpx.AsyncClient, http: httpx.AsyncClient) -> Registry:
    tenant = await relying_party.make_tenant(
        api, oauthConfiguration={"clientRegistrationEnabled": True}, passwordEncryptionConfiguration=relying_party.CHEAP
    )
    return Registry(tenant, api, http)


@pytest.fixture
async def registry(api: httpx.AsyncClient, http: httpx.AsyncClient) -> Registry:
    return await make_registry(api, http)


def path_of(information: dict[str, Any]) -> str:
    return httpx.URL(information["registration_client_uri"]).path


@pytest.mark.requirement("oauth-12-39")
async def test_registered_client_is_a_third_party_with_few_rights(registry, browser, http):
    information = await registry.registered(**POST)
    assert {name: information[name] for name in METADATA} == METADATA
    assert "initiate_login_uri" not in information
    assert information["client_secret_expires_at"] == 0
    assert information["token_endpoint_auth_method"] == "client_secret_post"
    application = await registry.application(information["client_id"])
    oauth = application["oauthConfiguration"]
    assert (oauth["relationship"], oauth["proofKeyForCodeExchangePolicy"]) == ("ThirdParty", "Required")
    assert oauth["authorizedURLValidationPolicy"] == "ExactMatch"
    assert (application["roles"], oauth["unknownScopePolicy"]) == ([], "Reject")
    user = await relying_party.make_user(registry.api, registry.tenant["id"])
    rp = relying_party.RelyingParty(registry.tenant, application, user, registry.api)
    shown = await consenting.ask(rp, browser, scope=METADATA["scope"], **PKCE)
    assert "Notebook" in page(shown).text
    answer = await consenting.send(browser, shown, "email")
    tokens = await rp.exchange(http, relying_party.response(answer)["code"], code_verifier=VERIFIER)
    assert tokens.status_code == 200, tokens.text
    assert {"access_token", "refresh_token", "id_token"} <= tokens.json().keys()


@pytest.mark.requirement("oauth-12-39")
async def test_metadata_are_mapped_to_the_application(registry):
    key, certificate = ClientKey(), certificates.make("client")
    information = await registry.registered(
        token_endpoint_auth_method="private_key_jwt",
        jwks={"keys": [{**key.jwk, "kid": "one"}]},
        dpop_bound_access_tokens=True,
        require_pushed_authorization_requests=True,
        post_logout_redirect_uris=["https://app.example.com/bye"],
        initiate_login_uri="https://start.example.com/login",
    )
    assert information["initiate_login_uri"] == "https://start.example.com/login"
    assert "client_secret" not in information
    oauth = (await registry.application(information["client_id"]))["oauthConfiguration"]
    assert oauth["clientAuthenticationMethods"] == ["private_key_jwt"]
    assert oauth["dpopBoundAccessTokens"] is oauth["requirePushedAuthorizationRequests"] is True
    assert oauth["authorizedRedirectURLs"] == [REDIRECT_URI, "https://app.example.com/bye"]
    assert information["redirect_uris"] == [REDIRECT_URI]
    both = await registry.registered(client_name="Both", post_logout_redirect_uris=[REDIRECT_URI])
    assert both["redirect_uris"] == both["post_logout_redirect_uris"] == [REDIRECT_URI]
    information = await registry.registered(
        client_name="Batch", token_endpoint_auth_method="tls_client_auth", tls_client_auth_san_dns="batch.example.com"
    )
    assert information["tls_client_auth_san_dns"] == "batch.example.com"
    registry = await make_registry(registry.api, registry.http)
    information = await registry.registered(
        client_name="Own", token_endpoint_auth_method="self_signed_tls_client_auth", jwks={"keys": [certificate.jwk]}
    )
    assert information["token_endpoint_auth_method"] == "self_signed_tls_client_auth"


@pytest.mark.requirement("oauth-12-40")
async def test_tokens_that_authorize_no_registration(registry, api, http, clock):
    for token, challenge in ((None, "Bearer"), ("", "Bearer"), ("x", 'Bearer error="invalid_token"')):
        answer = await registry.register(token, **METADATA)
        refused(answer, "invalid_token", 401)
        assert answer.headers["WWW-Authenticate"] == challenge
    foreign = (await (await make_registry(api, http)).initial_token())["token"]
    refused(await registry.register(foreign, **METADATA), "invalid_token", 401)
    deleted = await registry.initial_token()
    path = f"/api/initial-access-token/{deleted['id']}"
    assert (await registry.api.delete(path, headers=registry.inside)).status_code == 200
    assert (await registry.api.delete(path, headers=registry.inside)).status_code == 404
    refused(await registry.register(deleted["token"], **METADATA), "invalid_token", 401)
    used = (await registry.initial_token())["token"]
    assert (await registry.register(used, **METADATA)).status_code == 201
    refused(await registry.register(used, **UNNAMED), "invalid_token", 401)
    old = (await registry.initial_token(timeToLiveInSeconds=60))["token"]
    clock.advance(seconds=61)
    refused(await registry.register(old, **UNNAMED), "invalid_token", 401)


@pytest.mark.requirement("oauth-12-40")
async def test_initial_tokens_are_listed_without_their_values(registry):
    made = await registry.initial_token(description="for Ada", maximumUses=2)
    shown = await registry.api.get("/api/initial-access-token", headers=registry.inside)
    assert shown.json()["initialAccessTokens"] == [{k: v for k, v in made.items() if k != "token"}]
    assert made["remainingUses"] == 2
    for answer in [await registry.register(made["token"], **UNNAMED) for _ in range(2)]:
        assert answer.status_code == 201
    shown = await registry.api.get("/api/initial-access-token", headers=registry.inside)
    assert shown.json()["initialAccessTokens"] == []


@pytest.mark.requirement("oauth-12-40")
async def test_one_of_64_racing_registrations_succeeds(registry):
    token = (await registry.initial_token())["token"]
    answers = await asyncio.gather(*(registry.register(token, **UNNAMED) for _ in range(64)))
    assert sorted(answer.status_code for answer in answers) == [201] + [401] * 63


@pytest.mark.requirement("oauth-12-40")
async def test_refused_metadata_do_not_use_up_the_token(registry):
    token = (await registry.initial_token())["token"]
    refused(await registry.register(token, **{**METADATA, "redirect_uris": ["http://x"]}), "invalid_redirect_uri")
    assert (await registry.register(token, **METADATA)).status_code == 201


BAD = [
    ("invalid_redirect_uri", {"redirect_uris": ["javascript:alert(1)"]}),
    ("invalid_redirect_uri", {"redirect_uris": ["https://app.example.com/#x"]}),
    ("invalid_redirect_uri", {"redirect_uris": []}),
    ("invalid_client_metadata", {"redirect_uris": "https://app.example.com/"}),
    ("invalid_client_metadata", {"redirect_uris": [{}]}),
    ("invalid_client_metadata", {"grant_types": ["client_credentials"]}),
    ("invalid_client_metadata", {"grant_types": ["password"]}),
    ("invalid_client_metadata", {"token_endpoint_auth_method": "x"}),
    ("invalid_client_metadata", {"token_endpoint_auth_method": "private_key_jwt"}),
    ("invalid_client_metadata", {"token_endpoint_auth_method": "tls_client_auth"}),
    ("invalid_client_metadata", {"jwks_uri": "http://169.254.169.254/latest"}),
    ("invalid_client_metadata", {"jwks_uri": "https://10.0.0.1/keys"}),
    ("invalid_client_metadata", {"jwks_uri": "file:///etc/passwd"}),
    ("invalid_client_metadata", {"jwks_uri": "https://app.example.com/keys", "jwks": {"keys": [ClientKey().jwk]}}),
    ("invalid_client_metadata", {"jwks": {"keys": [{"kty": "oct", "k": "AAAA"}]}}),
    ("invalid_client_metadata", {"logo_uri": "https://10.0.0.1/logo.png"}),
    ("invalid_client_metadata", {"initiate_login_uri": "http://app.example.com/login"}),
    ("invalid_client_metadata", {"initiate_login_uri": "https://"}),
    ("invalid_client_metadata", {"initiate_login_uri": ["https://app.example.com/login"]}),
    ("invalid_client_metadata", {"scope": "openid admin"}),
    ("invalid_client_metadata", {"client_name": {"$ne": ""}}),
    ("invalid_client_metadata", {"client_name": "x" * 101}),
    ("invalid_client_metadata", {"contacts": [f"{number}@example.com" for number in range(21)]}),
]


@pytest.mark.requirement("oauth-12-41", "error-invalid_client_metadata", "error-invalid_redirect_uri")
async def test_refused_metadata(registry):
    token = (await registry.initial_token())["token"]
    for error, changes in BAD:
        refused(await registry.register(token, **{**UNNAMED, **changes}), error)
    for content in (b"[]", b"x", b""):
        answer = await registry.http.post(registry.path, content=content, headers=bearer(token))
        refused(answer, "invalid_request")
    applications = await registry.api.get("/api/application", headers=registry.inside)
    assert applications.json().get("applications", []) == []


@pytest.mark.requirement("oauth-12-41")
async def test_metadata_cannot_set_more_than_they_name(registry):
    more = {"relationship": "FirstParty", "roles": [{"name": "admin"}], "consentMode": "NeverPrompt", "id": "x",
            "tenantId": "x", "client_id": "11111111-0000-4000-8000-000000000001", "client_secret": "x",
            "oauthConfiguration": {"relationship": "FirstParty"},
            "sector_identifier_uri": "http://169.254.169.254/"}  # fmt: skip
    information = await registry.registered(**more)
    assert information["client_id"] != more["client_id"]
    assert information["client_secret"] != more["client_secret"]
    application = await registry.application(information["client_id"])
    assert application["tenantId"] == registry.tenant["id"]
    assert application["roles"] == []
    assert application["oauthConfiguration"]["relationship"] == "ThirdParty"
    assert application["oauthConfiguration"]["consentMode"] == "AlwaysPrompt"


@pytest.mark.requirement("oauth-12-41")
async def test_names_of_others_are_refused(registry):
    await registry.registered(client_name="Example Bank")
    token = (await registry.initial_token())["token"]
    for name in ("Example Bank", "EXAMPLE  bank", "\uff25xample Bank"):
        refused(await registry.register(token, **{**METADATA, "client_name": name}), "invalid_client_metadata")


@pytest.mark.requirement("oauth-12-41")
async def test_number_of_clients_is_bounded(registry):
    token = (await registry.initial_token(maximumUses=10))["token"]
    answers = await asyncio.gather(*(registry.register(token, **UNNAMED) for _ in range(5)))
    assert sorted(answer.status_code for answer in answers) == [201, 201, 201, 400, 400]
    shown = await registry.api.get("/api/initial-access-token", headers=registry.inside)
    assert shown.json()["initialAccessTokens"][0]["remainingUses"] == 7
    first = next(answer.json() for answer in answers if answer.status_code == 201)
    path = f"/api/application/{first['client_id']}?hardDelete=true"
    assert (await registry.api.delete(path, headers=registry.inside)).status_code == 200
    assert (await registry.register(token, **UNNAMED)).status_code == 201


@pytest.mark.requirement("oauth-12-40", "error-invalid_software_statement", "error-unapproved_software_statement")
async def test_software_statement_authorizes_and_takes_precedence(registry):
    answer = await registry.register(None, **{**METADATA, "software_statement": statement(client_name="Signed")})
    assert answer.status_code == 201, answer.text
    assert answer.json()["client_name"] == "Signed"
    now = int(time.time())
    for error, wrong in (
        ("unapproved_software_statement", statement(iss="https://other.example.com")),
        ("unapproved_software_statement", statement(iss=None)),
        ("invalid_software_statement", statement(ClientKey())),
        ("invalid_software_statement", statement(exp=now - 10)),
        ("invalid_software_statement", statement(nbf=now + 3600)),
        ("invalid_software_statement", "eyJhbGciOiJub25lIn0." + statement().split(".")[1] + "."),
        ("invalid_software_statement", statement()[:-4] + "AAAA"),
        ("invalid_software_statement", "x"),
    ):
        refused(await registry.register(None, **{**UNNAMED, "software_statement": wrong}), error)
    refused(await registry.register("x", **{**UNNAMED, "software_statement": statement()}), "invalid_token", 401)
    wrong = statement(redirect_uris=["javascript:alert(1)"])
    refused(await registry.register(None, **{**UNNAMED, "software_statement": wrong}), "invalid_redirect_uri")


@pytest.mark.requirement("oauth-12-42")
async def test_client_reads_updates_and_deletes_its_registration(registry, http):
    made = await registry.registered()
    path, token = path_of(made), made["registration_access_token"]
    assert (await http.get(path, headers=bearer(token))).json() == made
    changed = {**METADATA, "client_id": made["client_id"], "redirect_uris": ["https://app.example.com/new"],
               "client_name": "Notebook 2", "scope": "openid",
               "require_pushed_authorization_requests": True}  # fmt: skip
    updated = (await http.put(path, json=changed, headers=bearer(token))).json()
    assert {name: updated[name] for name in changed} == changed
    assert updated["client_secret"] == made["client_secret"]
    oauth = (await registry.application(made["client_id"]))["oauthConfiguration"]
    assert oauth["authorizedRedirectURLs"] == ["https://app.example.com/new"]
    refused(await http.get(path, headers=bearer(token)), "invalid_token", 401)
    token = updated["registration_access_token"]
    without = {**changed, "client_secret": made["client_secret"]}
    del without["require_pushed_authorization_requests"]
    updated = (await http.put(path, json=without, headers=bearer(token))).json()
    oauth = (await registry.application(made["client_id"]))["oauthConfiguration"]
    assert oauth["requirePushedAuthorizationRequests"] is False
    token = updated["registration_access_token"]
    assert (await http.delete(path, headers=bearer(token))).status_code == 204
    refused(await http.get(path, headers=bearer(token)), "invalid_token", 401)
    answer = await registry.api.get(f"/api/application/{made['client_id']}", headers=registry.inside)
    assert answer.status_code == 404


@pytest.mark.requirement("oauth-12-42")
async def test_only_the_own_token_manages_a_client(registry, api, http):
    one, other = await registry.registered(), await registry.registered(client_name="Other")
    initial = (await registry.initial_token())["token"]
    foreign = await (await make_registry(api, http)).registered()
    change = {**UNNAMED, "client_id": one["client_id"]}
    elsewhere = path_of(one).replace(registry.tenant["id"], foreign["registration_client_uri"].split("/")[3])
    attempts = [(path_of(one), token) for token in (
        None, "x", initial, one["client_secret"], other["registration_access_token"],
        foreign["registration_access_token"],
    )]  # fmt: skip
    for path, token in (*attempts, (elsewhere, one["registration_access_token"])):
        answer = await http.get(path, headers=bearer(token))
        refused(answer, "invalid_token", 401)
        challenge = "Bearer" if token is None else 'Bearer error="invalid_token"'
        assert answer.headers["WWW-Authenticate"] == challenge
        refused(await http.put(path, json=change, headers=bearer(token)), "invalid_token", 401)
        refused(await http.delete(path, headers=bearer(token)), "invalid_token", 401)
    own = bearer(one["registration_access_token"])
    for wrong in ({"client_id": other["client_id"]}, {"client_id": None}, {"client_secret": "x"}):
        refused(await http.put(path_of(one), json={**change, **wrong}, headers=own), "invalid_client_metadata")
    assert (await http.get(path_of(one), headers=own)).status_code == 200


@pytest.mark.requirement("oauth-12-42")
async def test_one_of_64_racing_updates_rotates_the_token(registry, http):
    made = await registry.registered()
    change = {**UNNAMED, "client_id": made["client_id"]}
    headers = bearer(made["registration_access_token"])
    answers = await asyncio.gather(*(http.put(path_of(made), json=change, headers=headers) for _ in range(64)))
    assert sorted(answer.status_code for answer in answers) == [200] + [401] * 63


@pytest.mark.requirement("oauth-12-42")
async def test_deletion_revokes_the_tokens_of_the_client(registry, http, browser):
    made = await registry.registered(**POST)
    application = await registry.application(made["client_id"])
    user = await relying_party.make_user(registry.api, registry.tenant["id"])
    rp = relying_party.RelyingParty(registry.tenant, application, user, registry.api)
    given = await consenting.agree(rp, browser, "email", scope=METADATA["scope"], **PKCE)
    tokens = (await rp.exchange(http, given["code"], code_verifier=VERIFIER)).json()
    await http.delete(path_of(made), headers=bearer(made["registration_access_token"]))
    answer = await http.get("/oauth2/userinfo", headers=bearer(tokens["access_token"]))
    assert answer.status_code == 401
    assert (await rp.refresh(http, tokens["refresh_token"])).status_code == 401


@pytest.mark.requirement("oauth-12-39")
async def test_tenants_have_to_allow_registration(registry, api, http):
    metadata = (await http.get(f"/{registry.tenant['id']}/.well-known/openid-configuration")).json()
    assert httpx.URL(metadata["registration_endpoint"]).path == registry.path
    token = (await registry.initial_token())["token"]
    change = {"tenant": {"oauthConfiguration": {"clientRegistrationEnabled": False}}}
    path = f"/api/tenant/{registry.tenant['id']}"
    assert (await api.patch(path, json=change, headers=registry.inside)).status_code == 200
    refused(await registry.register(token, **METADATA), "invalid_request", 404)
    metadata = (await http.get(f"/{registry.tenant['id']}/.well-known/openid-configuration")).json()
    assert "registration_endpoint" not in metadata


@pytest.mark.requirement("oauth-12-40")
async def test_tokens_are_stored_as_fingerprints(registry, service):
    initial = await registry.initial_token()
    made = await registry.registered()
    database = internals.database(service)
    for name in ("initial_access_tokens", "client_registrations"):
        rows = [row async for row in database.motor[name].find({"tenantId": registry.tenant["id"]})]
        assert rows
        for secret in (initial["token"], made["registration_access_token"], made["client_secret"]):
            assert secret not in str(rows)


@pytest.mark.requirement("oauth-12-41")
async def test_attempts_of_an_address_are_bounded(registry):
    answers = await asyncio.gather(*(registry.register(None, **METADATA) for _ in range(71)))
    assert sorted(answer.status_code for answer in answers) == [400] + [401] * 70
