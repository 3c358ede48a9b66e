"""Identity providers: members, defaults, validation, tenancy, and lookups."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity import app
from identity.ids import new_id
from tests import internals, plain_http
from tests.conftest import DEFAULT_TENANT, SUPER_KEY, UNKNOWN_ID, checking_client

Document = dict[str, Any]
PATH = "/api/identity-provider"

PEM = """-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEMVdSFxOJrXMVVM6GnDdsVh5Cqtk6
5+jJIX/LHGA6ERokpsv0ayPojMqA2917vK1glzGbGYy5iuqkBK/p4b8NDw==
-----END PUBLIC KEY-----"""


def openid(**members: Any) -> Document:
    oauth2 = {
        "issuer": "https://provider.example.com",
        "client_id": "client",
        "client_secret": "secret",
        **members.pop("oauth2", {}),
    }
    return {"type": "OpenIDConnect", "name": new_id(), "oauth2": oauth2, **members}


def external(**members: Any) -> Document:
    return {"type": "ExternalJWT", "name": new_id(), **members}


async def made(api: httpx.AsyncClient, provider: Document, provider_id: str | None = None) -> Document:
    path = PATH if provider_id is None else f"{PATH}/{provider_id}"
    answer = await api.post(path, json={"identityProvider": provider})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["identityProvider"])


async def refused(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 400, (answer.status_code, answer.text)
    body = answer.json()
    return {entry["code"] for entries in body.get("fieldErrors", {}).values() for entry in entries} | {
        entry["code"] for entry in body.get("generalErrors", [])
    }


async def created_with(api: httpx.AsyncClient, provider: Document) -> set[str]:
    return await refused(await api.post(PATH, json={"identityProvider": provider}))


@pytest.fixture
async def application(tenant: Document, tenant_api: httpx.AsyncClient) -> Document:
    answer = await tenant_api.post("/api/application", json={"application": {"name": new_id()}})
    return dict(answer.json()["application"])


@pytest.fixture
async def key_client(service: app.Service, tenant: Document, manager: httpx.AsyncClient) -> AsyncIterator[Any]:
    """A client with a key of the fresh tenant."""
    key = (await manager.post("/api/api-key", json={"apiKey": {"tenantId": tenant["id"]}})).json()["apiKey"]["key"]
    async with checking_client(service.base_url, headers={"Authorization": key}) as client:
        yield client


@pytest.fixture
async def other_key_client(service: app.Service, api: httpx.AsyncClient, manager: httpx.AsyncClient) -> Any:
    """A client with a key of another tenant."""
    other = (await api.post("/api/tenant", json={"tenant": {"name": new_id()}})).json()["tenant"]
    key = (await manager.post("/api/api-key", json={"apiKey": {"tenantId": other["id"]}})).json()["apiKey"]["key"]
    async with checking_client(service.base_url, headers={"Authorization": key}) as client:
        yield client


# Members and defaults


@pytest.mark.requirement("core-11-11", "core-11-2")
async def test_openid_connect_has_its_defaults(api) -> None:
    provider = await made(api, openid(oauth2={"scope": "openid email"}))
    assert provider == {
        "applicationConfiguration": {},
        "buttonText": "Login with OpenID Connect",
        "data": {},
        "debug": False,
        "domains": [],
        "enabled": False,
        "id": provider["id"],
        "insertInstant": provider["insertInstant"],
        "lambdaConfiguration": {},
        "lastUpdateInstant": provider["insertInstant"],
        "linkingStrategy": "LinkByEmail",
        "name": provider["name"],
        "oauth2": {
            "clientAuthenticationMethod": "client_secret_basic",
            "client_id": "client",
            "client_secret": "secret",
            "emailClaim": "email",
            "emailVerifiedClaim": "email_verified",
            "issuer": "https://provider.example.com",
            "scope": "openid email",
            "uniqueIdClaim": "sub",
            "usernameClaim": "preferred_username",
        },
        "postRequest": False,
        "source": "System",
        "tenantConfiguration": {},
        "type": "OpenIDConnect",
    }
    assert (await api.get(f"{PATH}/{provider['id']}")).json() == {"identityProvider": provider}


@pytest.mark.requirement("core-11-2")
async def test_external_jwt_has_its_defaults_and_never_shows_its_keys(api) -> None:
    provider = await made(api, external(keys={"one": PEM}, claimMap={"given_name": "firstName"}))
    assert provider["headerKeyParameter"] == "kid"
    assert provider["claimMap"] == {"given_name": "firstName"}
    assert provider["verificationKeyIds"] == []
    assert provider["oauth2"] == {
        "emailClaim": "email",
        "emailVerifiedClaim": "email_verified",
        "uniqueIdClaim": "sub",
        "usernameClaim": "preferred_username",
    }
    assert "keys" not in provider
    assert "BEGIN" not in (await api.get(f"{PATH}/{provider['id']}")).text


@pytest.mark.requirement("core-11-10", "core-11-11", "core-11-6")
async def test_every_member_is_stored(api, application, tenant) -> None:
    wanted = openid(
        enabled=True,
        debug=True,
        buttonText="Company login",
        buttonImageURL="https://example.com/b.png",
        postRequest=True,
        domains=[f"{new_id()}.Example.COM ", f"a{new_id()}.example.com"],
        linkingStrategy="LinkByUsername",
        attributeMappings={"a": "b"},
        source="Terraform",
        data={"any": {"thing": 1}},
        applicationConfiguration={
            application["id"].upper(): {
                "enabled": True,
                "createRegistration": False,
                "buttonText": "For one",
                "data": {"x": 1},
                "oauth2": {"client_id": "own", "client_secret": "own secret", "scope": "openid"},
            }
        },
        tenantConfiguration={tenant["id"]: {"limitUserLinkCount": {"enabled": True}}},
        oauth2={
            "issuer": None,
            "authorization_endpoint": "https://provider.example.com/authorize",
            "token_endpoint": "https://provider.example.com/token",
            "userinfo_endpoint": "https://provider.example.com/userinfo",
            "clientAuthenticationMethod": "client_secret_post",
            "emailClaim": "mail",
            "emailVerifiedClaim": "mail_ok",
            "uniqueIdClaim": "id",
            "usernameClaim": "login",
        },
    )
    provider = await made(api, wanted, provider_id := new_id())
    assert provider["id"] == provider_id
    assert provider["domains"] == sorted(domain.strip().lower() for domain in wanted["domains"])
    assert provider["applicationConfiguration"] == {
        application["id"]: wanted["applicationConfiguration"][application["id"].upper()]
    }
    limit = {"enabled": True, "maximumLinks": 42}
    assert provider["tenantConfiguration"] == {tenant["id"]: {"limitUserLinkCount": limit}}
    assert provider["oauth2"] == {k: v for k, v in wanted["oauth2"].items() if v is not None}
    kept = (
        "attributeMappings",
        "buttonImageURL",
        "buttonText",
        "data",
        "debug",
        "enabled",
        "linkingStrategy",
        "source",
    )
    assert {name: provider[name] for name in kept} == {name: wanted[name] for name in kept}
    assert provider["postRequest"] is True


@pytest.mark.requirement("core-11-8")
@pytest.mark.parametrize(
    "strategy",
    [
        *("CreatePendingLink", "Disabled", "LinkAnonymously", "LinkByEmail", "LinkByEmailForExistingUser"),
        *("LinkByUsername", "LinkByUsernameForExistingUser", "Unsupported"),
    ],
)
async def test_every_linking_strategy_is_accepted(api, strategy) -> None:
    assert (await made(api, external(linkingStrategy=strategy)))["linkingStrategy"] == strategy


XBOX = "af53ab21-34c3-468a-8ba2-ecb3905f67f2"
STORED = {
    "Apple": {"servicesId": "services", "teamId": "team", "keyId": "?", "bundleId": "bundle"},
    "EpicGames": {"client_id": "a", "client_secret": "b", "buttonText": "Epic"},
    "Facebook": {"appId": "a", "client_secret": "b", "loginMethod": "UsePopup", "permissions": "email"},
    "Google": {"client_id": "a", "client_secret": "b", "properties": {"api": "x=y", "button": "z"}},
    "LinkedIn": {"client_id": "a", "client_secret": "b"},
    "Nintendo": {"client_id": "a", "client_secret": "b", "emailClaim": "mail"},
    "SAMLv2": {"name": "?", "keyId": "?", "idpEndpoint": "https://saml.example.com", "signRequest": False},
    "SAMLv2IdPInitiated": {"name": "?", "issuer": "urn:x", "keyId": "?", "useNameIdForEmail": True},
    "SonyPSN": {"client_id": "a", "client_secret": "b"},
    "Steam": {"client_id": "a", "webAPIKey": "b", "apiMode": "Public"},
    "Twitch": {"client_id": "a", "client_secret": "b"},
    "Twitter": {"consumerKey": "a", "consumerSecret": "b"},
    "Xbox": {"client_id": "a", "client_secret": "b"},
}


@pytest.mark.requirement("core-11-3")
@pytest.mark.parametrize("kind", STORED)
async def test_other_types_are_stored_and_returned(api, tenant_api, tenant, kind) -> None:
    """In a tenant of its own, because a type that goes by its own name is there once."""
    members = dict(STORED[kind])
    if "keyId" in members:
        key = {"key": {"name": new_id(), "algorithm": "ES256"}}
        members["keyId"] = (await api.post("/api/key/generate", json=key)).json()["key"]["id"]
    if "name" in members:
        members["name"] = new_id()
    wanted = {"type": kind, "tenantId": tenant["id"], "buttonImageURL": "https://x.example.com", **members}
    provider = await made(tenant_api, {**wanted, "claimMap": {"a": "UserData"}})
    assert {name: provider[name] for name in members} == members
    assert provider["name"] == members.get("name", kind)
    players = {"EpicGames", "Nintendo", "SonyPSN", "Steam", "Twitch", "Xbox"}
    assert provider["linkingStrategy"] == ("CreatePendingLink" if kind in players else "LinkByEmail")
    assert {"claimMap", "oauth2"}.isdisjoint(provider)
    assert ("buttonImageURL" in provider) is (kind == "SAMLv2")


async def test_provider_without_logins_of_its_type_is_refused_and_not_stored(api) -> None:
    hypr = {"type": "HYPR", "relyingPartyApplicationId": "a", "relyingPartyURL": "https://hypr.example.com"}
    assert await created_with(api, hypr) == {"[invalid]identityProvider.type"}
    found = (await api.get(PATH)).json()["identityProviders"]
    assert all(provider["type"] != "HYPR" for provider in found)


async def test_type_without_name_is_unique(tenant_api, tenant) -> None:
    google = {"type": "Google", "client_id": "a", "tenantId": tenant["id"]}
    await made(tenant_api, google)
    assert await created_with(tenant_api, google) == {"[duplicate]identityProvider.name"}


async def test_shared_type_without_name_has_the_published_id(api) -> None:
    xbox = {"type": "Xbox", "client_id": "a", "client_secret": "b"}
    named = await made(api, {**xbox, "name": new_id()})
    assert named["id"] != XBOX
    provider = await made(api, xbox)
    assert provider["id"] == XBOX
    assert any("[duplicate]" in code for code in await created_with(api, xbox))
    assert (await api.delete(f"{PATH}/{XBOX}")).status_code == 200


# Refusals


async def test_empty_provider_is_missing_type(api) -> None:
    assert await created_with(api, {}) == {"[missing]identityProvider.type"}


@pytest.mark.requirement("core-11-1")
@pytest.mark.parametrize(
    ("provider", "codes"),
    [
        ({"type": "Myspace"}, {"[invalid]identityProvider.type"}),
        ({"type": "OpenIDConnect"},
         {"name", "oauth2.client_id", "oauth2.client_secret", "oauth2.authorization_endpoint",
          "oauth2.token_endpoint", "oauth2.userinfo_endpoint"}),
        ({"type": "OpenIDConnect", "name": "x", "oauth2": {"issuer": "https://x.example.com", "client_id": "c"}},
         {"oauth2.client_secret"}),
        ({"type": "ExternalJWT"}, {"name"}),
        ({"type": "SAMLv2"}, {"name", "[missing]identityProvider.keyId"}),
        ({"type": "Apple"}, {"[missing]identityProvider.keyId", "servicesId", "teamId"}),
        ({"type": "Steam"}, {"client_id", "webAPIKey"}),
        ({"type": "Twitter"}, {"consumerKey", "consumerSecret"}),
        ({"type": "ExternalJWT", "name": "x", "linkingStrategy": "Guess"},
         {"[invalid]identityProvider.linkingStrategy"}),
        ({"type": "ExternalJWT", "name": "x", "claimMap": {"a": "password"}}, {"[invalid]identityProvider.claimMap.a"}),
        ({"type": "ExternalJWT", "name": "x", "keys": {"a": "no PEM"}}, {"[invalid]identityProvider.keys.a"}),
        ({"type": "ExternalJWT", "name": "x", "keys": {"a": "-----BEGIN CERTIFICATE-----\nAAAA"}},
         {"[invalid]identityProvider.keys.a"}),
        ({"type": "ExternalJWT", "name": "x", "defaultKeyId": UNKNOWN_ID}, {"[invalid]identityProvider.defaultKeyId"}),
        ({"type": "ExternalJWT", "name": "x", "verificationKeyIds": [UNKNOWN_ID]},
         {"[invalid]identityProvider.verificationKeyIds[0]"}),
        ({"type": "ExternalJWT", "name": "x", "lambdaConfiguration": {"reconcileId": UNKNOWN_ID}},
         {"[invalid]identityProvider.lambdaConfiguration.reconcileId"}),
        ({"type": "ExternalJWT", "name": "x", "tenantId": UNKNOWN_ID}, {"[invalid]identityProvider.tenantId"}),
        ({"type": "ExternalJWT", "name": "x", "domains": ["no domain"]}, {"[invalid]identityProvider.domains[0]"}),
        ({"type": "ExternalJWT", "name": "x", "applicationConfiguration": {"no-id": {}}},
         {"[couldNotConvert]identityProvider.applicationConfiguration"}),
        ({"type": "ExternalJWT", "name": "n" * 192}, {"[tooLong]identityProvider.name"}),
        ({"type": "ExternalJWT", "name": [7]}, {"[invalidJSON]"}),
    ],
)  # fmt: skip
async def test_all_errors_are_reported_together(api, provider, codes) -> None:
    expected = {code if code.startswith("[") else f"[blank]identityProvider.{code}" for code in codes}
    assert await created_with(api, provider) == expected


@pytest.mark.parametrize("member", ["applicationConfiguration", "tenantConfiguration"])
async def test_references_of_provider_must_exist(api, member) -> None:
    stranger = new_id()
    codes = await created_with(api, external(**{member: {stranger: {}}}))
    assert codes == {f"[invalid]identityProvider.{member}.{stranger}"}


async def test_tenant_provider_serves_only_its_tenant(api, tenant, application) -> None:
    other = (await api.post("/api/tenant", json={"tenant": {"name": new_id()}})).json()["tenant"]
    async with plain_http.client(api.base_url, headers={"Authorization": SUPER_KEY}) as every:
        answer = await every.post(
            PATH,
            json={
                "identityProvider": external(
                    tenantId=other["id"],
                    applicationConfiguration={application["id"]: {}},
                    tenantConfiguration={tenant["id"]: {}},
                )
            },
        )
    assert await refused(answer) == {
        f"[invalid]identityProvider.applicationConfiguration.{application['id']}",
        f"[invalid]identityProvider.tenantConfiguration.{tenant['id']}",
    }


@pytest.mark.parametrize("name", ["issuer", "token_endpoint", "userinfo_endpoint"])
@pytest.mark.parametrize(
    "url",
    ["http://169.254.169.254/", "ftp://example.com", "https://10.0.0.1", "http://example.com", "https://a@b.example"],
)
async def test_blocked_endpoint_address_is_refused_on_save(api, name, url) -> None:
    """Also one without TLS, unless it is named as an address that the operator has opened."""
    assert await created_with(api, openid(oauth2={name: url})) == {f"[invalid]identityProvider.oauth2.{name}"}


@pytest.mark.parametrize("url", ["javascript:alert(1)", "https://user@example.com/", "https://[", "/relative"])
async def test_browser_endpoints_must_be_http_urls(api, url) -> None:
    codes = await created_with(api, openid(oauth2={"authorization_endpoint": url}))
    assert codes == {"[invalid]identityProvider.oauth2.authorization_endpoint"}


@pytest.mark.parametrize("url", ["http://127.0.0.1:9999", "http://localhost:9999", "http://[::1]:9999"])
async def test_operator_setting_allows_named_internal_addresses_only(api, url) -> None:
    assert (await made(api, openid(oauth2={"issuer": url})))["oauth2"]["issuer"] == url
    assert await created_with(api, openid(oauth2={"issuer": "http://93.184.216.34"})) == {
        "[invalid]identityProvider.oauth2.issuer"
    }


@pytest.mark.requirement("core-11-19")
async def test_no_client_secret_without_client_authentication(api) -> None:
    provider = await made(api, openid(oauth2={"clientAuthenticationMethod": "none"}))
    assert "client_secret" not in provider["oauth2"]


@pytest.mark.requirement("core-11-1")
async def test_name_and_id_are_unique(api) -> None:
    first = await made(api, external())
    assert await created_with(api, external(name=first["name"])) == {"[duplicate]identityProvider.name"}
    answer = await api.post(f"{PATH}/{first['id']}", json={"identityProvider": external()})
    assert await refused(answer) == {"[duplicate]identityProviderId"}


@pytest.mark.requirement("core-11-37")
async def test_domain_belongs_to_one_provider(api, tenant, tenant_api) -> None:
    domain = f"{new_id()}.example.com"
    first = await made(api, external(domains=[domain, f"b{domain}"]))
    assert await created_with(api, openid(domains=[f"B{domain}"])) == {"[duplicate]identityProvider.domains"}
    second = await made(api, openid())
    changed = {"identityProvider": {**openid(name=second["name"]), "domains": [domain]}}
    assert await refused(await api.put(f"{PATH}/{second['id']}", json=changed)) == {
        "[duplicate]identityProvider.domains"
    }
    own = await made(tenant_api, external(domains=[domain], tenantId=tenant["id"]))
    assert own["domains"] == [domain]
    await api.patch(f"{PATH}/{first['id']}", json={"identityProvider": {"domains": None}})
    assert (await api.put(f"{PATH}/{second['id']}", json=changed)).status_code == 200


@pytest.mark.requirement("core-11-37")
async def test_of_64_concurrent_claims_of_domain_one_succeeds(api) -> None:
    domain = f"{new_id()}.example.com"
    claims = (api.post(PATH, json={"identityProvider": external(domains=[domain])}) for _ in range(64))
    statuses = [answer.status_code for answer in await asyncio.gather(*claims)]
    assert sorted(statuses) == [200] + [400] * 63


# Changes


@pytest.mark.requirement("core-11-1")
async def test_update_replaces_all_but_type_tenant_and_keys(api, service) -> None:
    first = await made(api, external(keys={"one": PEM}, domains=[f"{new_id()}.example.com"], debug=True))
    name = new_id()
    body = {"identityProvider": {"type": "ExternalJWT", "name": name, "tenantId": DEFAULT_TENANT}}
    changed = (await api.put(f"{PATH}/{first['id']}", json=body)).json()["identityProvider"]
    assert (changed["name"], changed["debug"], changed["domains"]) == (name, False, [])
    assert "tenantId" not in changed
    stored = await internals.store(service, "identity_providers").find(None, first["id"])
    assert stored["keys"] == {"one": PEM}
    await api.put(f"{PATH}/{first['id']}", json={"identityProvider": {**body["identityProvider"], "keys": {}}})
    stored = await internals.store(service, "identity_providers").find(None, first["id"])
    assert stored["keys"] == {}
    body = {"identityProvider": openid()}
    assert await refused(await api.put(f"{PATH}/{first['id']}", json=body)) == {"[invalid]identityProvider.type"}


@pytest.mark.requirement("core-11-25")
@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("application/json", {"identityProvider": {"debug": True, "oauth2": {"scope": "openid"}}}),
        ("application/merge-patch+json", {"identityProvider": {"debug": True, "oauth2": {"scope": "openid"}}}),
        (
            "application/json-patch+json",
            [
                {"op": "add", "path": "/identityProvider/debug", "value": True},
                {"op": "add", "path": "/identityProvider/oauth2/scope", "value": "openid"},
            ],
        ),
    ],
)
async def test_patch_keeps_other_members(api, kind, patch) -> None:
    first = await made(api, openid())
    answer = await api.request("PATCH", f"{PATH}/{first['id']}", json=patch, headers={"Content-Type": kind})
    assert answer.status_code == 200, answer.text
    changed = answer.json()["identityProvider"]
    expected = {**first, "debug": True, "oauth2": {**first["oauth2"], "scope": "openid"}}
    assert {**changed, "lastUpdateInstant": 0} == {**expected, "lastUpdateInstant": 0}


@pytest.mark.requirement("core-11-19")
async def test_secrets_are_sealed_at_rest(api, service, application) -> None:
    own = {application["id"]: {"oauth2": {"client_secret": "the own secret"}}}
    provider = await made(api, openid(oauth2={"client_secret": "the secret"}, applicationConfiguration=own))
    raw = await internals.database(service).collection("identity_providers").find_one({"_id": provider["id"]})
    assert "the secret" not in str(raw)
    assert "the own secret" not in str(raw)
    assert provider["oauth2"]["client_secret"] == "the secret"


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
async def test_unknown_provider_is_404(api, method) -> None:
    answer = await api.request(method, f"{PATH}/{new_id()}", json={"identityProvider": openid()})
    assert answer.status_code == 404


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
async def test_change_requires_id(api, method) -> None:
    assert await refused(await api.request(method, PATH, json={})) == {"[missing]identityProviderId"}


@pytest.mark.requirement("core-11-25")
async def test_deleted_provider_is_not_found(api) -> None:
    provider = await made(api, openid())
    assert (await api.delete(f"{PATH}/{provider['id']}")).status_code == 200
    assert (await api.get(f"{PATH}/{provider['id']}")).status_code == 404
    assert (await api.delete(f"{PATH}/{provider['id']}")).status_code == 404


@pytest.mark.requirement("core-11-6")
async def test_deleting_application_removes_it_from_providers(api, tenant_api, application) -> None:
    keeper = (await tenant_api.post("/api/application", json={"application": {"name": new_id()}})).json()["application"]
    both = {application["id"]: {"enabled": True}, keeper["id"]: {"enabled": True}}
    provider = await made(api, external(applicationConfiguration=both))
    assert (await tenant_api.delete(f"/api/application/{application['id']}?hardDelete=true")).status_code == 200
    left = (await api.get(f"{PATH}/{provider['id']}")).json()["identityProvider"]
    assert set(left["applicationConfiguration"]) == {keeper["id"]}
    found = (await api.get(f"{PATH}/search?applicationId={application['id']}")).json()
    assert found == {"identityProviders": [], "total": 0}


async def test_deleting_tenant_deletes_its_providers_and_keeps_shared_ones(
    api, tenant, tenant_api, application
) -> None:
    own = await made(tenant_api, external(tenantId=tenant["id"]))
    shared = await made(
        api,
        external(applicationConfiguration={application["id"]: {}}, tenantConfiguration={tenant["id"]: {}}),
    )
    assert (await api.delete(f"/api/tenant/{tenant['id']}")).status_code == 200
    assert (await api.get(f"{PATH}/{own['id']}")).status_code == 404
    left = (await api.get(f"{PATH}/{shared['id']}")).json()["identityProvider"]
    assert (left["applicationConfiguration"], left["tenantConfiguration"]) == ({}, {})


@pytest.mark.requirement("core-11-22")
@pytest.mark.parametrize("member", ["defaultKeyId", "verificationKeyIds"])
async def test_key_used_by_provider_cannot_be_deleted(api, member) -> None:
    key = (await api.post("/api/key/generate", json={"key": {"name": new_id(), "algorithm": "ES256"}})).json()["key"]
    provider = await made(api, external(**{member: key["id"] if member == "defaultKeyId" else [key["id"]]}))
    assert await refused(await api.delete(f"/api/key/{key['id']}")) == {"[inUse]keyId"}
    await api.delete(f"{PATH}/{provider['id']}")
    assert (await api.delete(f"/api/key/{key['id']}")).status_code == 200


# Who sees and changes which


@pytest.mark.requirement("core-11-5")
async def test_tenant_key_creates_providers_of_its_tenant(key_client, tenant) -> None:
    provider = await made(key_client, openid())
    assert provider["tenantId"] == tenant["id"]
    assert provider["oauth2"]["client_secret"] == "secret"
    changed = await key_client.patch(f"{PATH}/{provider['id']}", json={"identityProvider": {"debug": True}})
    assert changed.json()["identityProvider"]["debug"] is True
    assert await created_with(key_client, openid(tenantId=DEFAULT_TENANT)) == {"[invalid]identityProvider.tenantId"}
    assert (await key_client.delete(f"{PATH}/{provider['id']}")).status_code == 200


async def test_tenant_key_cannot_create_shared_provider(api, key_client, tenant) -> None:
    """A shared provider with applications of other tenants would speak for their users."""
    foreign = (await api.post("/api/application", json={"application": {"name": new_id()}},
                              headers={"X-FusionAuth-TenantId": DEFAULT_TENANT})).json()["application"]  # fmt: skip
    provider = await made(key_client, external(tenantId=None))
    assert provider["tenantId"] == tenant["id"]
    applied = external(tenantId=None, applicationConfiguration={foreign["id"]: {"enabled": True}})
    code = f"[invalid]identityProvider.applicationConfiguration.{foreign['id']}"
    assert await created_with(key_client, applied) == {code}
    for change in ({"identityProvider": {**provider, "tenantId": None}}, {"identityProvider": external()}):
        answer = await key_client.put(f"{PATH}/{provider['id']}", json=change)
        assert answer.json()["identityProvider"]["tenantId"] == tenant["id"]


@pytest.mark.requirement("core-11-5")
async def test_tenant_key_reads_shared_providers_without_secrets(api, key_client, application) -> None:
    own = {application["id"]: {"oauth2": {"client_id": "x", "client_secret": "the own secret"}}}
    shared = await made(api, openid(applicationConfiguration=own))
    path = f"{PATH}/{shared['id']}"
    for answer in (
        await key_client.get(path),
        await key_client.get(PATH),
        await key_client.get(f"{PATH}/search?name={shared['name']}"),
    ):
        assert shared["id"] in answer.text
        assert "client_secret" not in answer.text or "own secret" not in answer.text
    seen = (await key_client.get(path)).json()["identityProvider"]
    assert "client_secret" not in str({**seen, "oauth2": {**seen["oauth2"], "clientAuthenticationMethod": ""}})
    assert (await key_client.put(path, json={"identityProvider": openid()})).status_code == 401
    assert (await key_client.patch(path, json={"identityProvider": {"debug": True}})).status_code == 401
    assert (await key_client.delete(path)).status_code == 401
    assert (await api.get(path)).json()["identityProvider"] == shared


@pytest.mark.requirement("core-11-5")
async def test_provider_of_another_tenant_is_not_found(key_client, other_key_client) -> None:
    provider = await made(other_key_client, openid())
    path = f"{PATH}/{provider['id']}"
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        answer = await key_client.request(method, path, json={"identityProvider": openid()})
        assert answer.status_code == 404
    assert provider["id"] not in (await key_client.get(PATH)).text
    assert (await key_client.get(f"{PATH}/search?name={provider['name']}")).json()["total"] == 0
    assert (await other_key_client.get(path)).json()["identityProvider"] == provider


# Lists, search, look-up


@pytest.mark.requirement("core-11-25")
async def test_list_is_filtered_by_type(api) -> None:
    one, other = await made(api, openid()), await made(api, external())
    every = {entry["id"] for entry in (await api.get(PATH)).json()["identityProviders"]}
    assert {one["id"], other["id"]} <= every
    some = (await api.get(f"{PATH}?type=ExternalJWT")).json()["identityProviders"]
    assert {entry["type"] for entry in some} == {"ExternalJWT"}
    assert other["id"] in {entry["id"] for entry in some}
    assert await refused(await api.get(f"{PATH}?type=Myspace")) == {"[couldNotConvert]type"}


@pytest.mark.requirement("core-11-26")
@pytest.mark.parametrize("order", ["id", "insertInstant", "name", "enabled", "source", "tenantId", "type"])
async def test_search_filters_and_sorts_by_every_field(api, key_client, tenant, application, order) -> None:
    mark = new_id()
    shared = await made(
        api, openid(name=f"{mark} b", source=mark, applicationConfiguration={application["id"]: {"enabled": True}})
    )
    own = await made(key_client, external(name=f"{mark} a"))
    for criteria, expected in (
        ({"name": mark}, {shared["id"], own["id"]}),
        ({"name": f"{mark.upper()}*"}, {shared["id"], own["id"]}),
        ({"applicationId": application["id"]}, {shared["id"]}),
        ({"source": mark}, {shared["id"]}),
        ({"name": mark, "type": "ExternalJWT"}, {own["id"]}),
        ({"tenantId": tenant["id"]}, {own["id"]}),
    ):
        for answer in (
            await key_client.get(f"{PATH}/search", params={**criteria, "orderBy": order}),
            await key_client.post(f"{PATH}/search", json={"search": {**criteria, "orderBy": f"{order} DESC"}}),
        ):
            assert {found["id"] for found in answer.json()["identityProviders"]} == expected
            assert answer.json()["total"] == len(expected)
    page = await key_client.get(f"{PATH}/search", params={"name": mark, "numberOfResults": 1})
    assert [found["name"] for found in page.json()["identityProviders"]] == [f"{mark} a"]
    assert await refused(await key_client.get(f"{PATH}/search?orderBy=debug")) == {"[invalid]orderBy"}
    assert await refused(await key_client.get(f"{PATH}/search?applicationId=x")) == {"[couldNotConvert]applicationId"}


@pytest.mark.requirement("core-11-27")
async def test_lookup_returns_provider_of_domain(api, http, tenant, application, tenant_api) -> None:
    domain = f"{new_id()}.example.com"
    settings = {application["id"]: {"enabled": True}}
    provider = await made(api, openid(domains=[domain], enabled=True, applicationConfiguration=settings))
    for text in (domain, f"Ada@{domain.upper()}", f" {domain}"):
        found = await http.get(f"{PATH}/lookup", params={"domain": text})
        assert found.json() == {
            "identityProvider": {
                "applicationIds": [application["id"]],
                "id": provider["id"],
                "name": provider["name"],
                "oauth2": {"client_id": "client", "issuer": "https://provider.example.com"},
                "type": "OpenIDConnect",
            }
        }
    own = await made(tenant_api, external(domains=[domain], enabled=True, tenantId=tenant["id"]))
    found = (await http.get(f"{PATH}/lookup", params={"domain": domain, "tenantId": tenant["id"]})).json()
    assert found == {
        "identityProvider": {
            "applicationIds": [],
            "id": own["id"],
            "name": own["name"],
            "tenantId": tenant["id"],
            "type": "ExternalJWT",
        }
    }
    header = {"X-FusionAuth-TenantId": tenant["id"]}
    assert (await http.get(f"{PATH}/lookup", params={"domain": domain}, headers=header)).json() == found
    await api.patch(f"{PATH}/{provider['id']}", json={"identityProvider": {"enabled": False}})
    assert (await http.get(f"{PATH}/lookup", params={"domain": domain})).status_code == 404


@pytest.mark.requirement("core-11-27")
async def test_lookup_refuses_invalid_domain(http) -> None:
    assert await refused(await http.get(f"{PATH}/lookup")) == {"[blank]domain"}
    assert await refused(await http.get(f"{PATH}/lookup?domain=a.b&tenantId=x")) == {"[couldNotConvert]tenantId"}
    assert (await http.get(f"{PATH}/lookup?domain={new_id()}.example.com")).status_code == 404


@pytest.mark.requirement("core-11-28")
async def test_login_start_is_not_supported(api, http, application) -> None:
    settings = {application["id"]: {"enabled": True}}
    provider = await made(api, openid(enabled=True, applicationConfiguration=settings))
    body = {"applicationId": application["id"], "identityProviderId": provider["id"]}
    answer = await http.post(f"{PATH}/start", json=body)
    assert await refused(answer) == {"[invalid]identityProviderId"}
    assert "have no start" in answer.json()["fieldErrors"]["identityProviderId"][0]["message"]
    assert await refused(await http.post(f"{PATH}/start", json={})) == {
        "[missing]applicationId",
        "[missing]identityProviderId",
    }


@pytest.mark.requirement("audit-b4-start")
@pytest.mark.parametrize(
    ("provider", "reason"),
    [
        (openid(), "Logins of type OpenIDConnect have no start."),
        (
            {"type": "SAMLv2IdPInitiated", "issuer": "urn:y", "name": "Started"},
            "Users cannot log in through identity providers of type SAMLv2IdPInitiated here.",
        ),
    ],
)
async def test_start_reports_reason_of_refusal(
    api: httpx.AsyncClient, tenant_api: httpx.AsyncClient, application: Document, provider: Document, reason: str
) -> None:
    enabled = {"enabled": True, "applicationConfiguration": {application["id"]: {"enabled": True}}}
    if "issuer" in provider:
        key = {"key": {"name": new_id(), "algorithm": "ES256"}}
        enabled["keyId"] = (await api.post("/api/key/generate", json=key)).json()["key"]["id"]
    made = await api.post("/api/identity-provider", json={"identityProvider": {**provider, **enabled}})
    assert made.status_code == 200, made.text
    body = {"applicationId": application["id"], "identityProviderId": made.json()["identityProvider"]["id"]}
    answer = await tenant_api.post("/api/identity-provider/start", json=body)
    (error,) = answer.json()["fieldErrors"]["identityProviderId"]
    assert error["code"] == "[invalid]identityProviderId"
    assert error["message"].startswith(reason)
    removed = await api.delete(f"/api/identity-provider/{body['identityProviderId']}")
    assert removed.status_code == 200
