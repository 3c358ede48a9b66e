"""Isolation of tenants: own issuers and signing keys, and limits of tenant keys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity.ids import new_id
from identity.operations.messaging.webhook_keys import WebhookKeys
from identity.tokens.signing_keys import KeyRing
from tests import internals, relying_party
from tests.conftest import DEFAULT_TENANT, SUPER_KEY, checking_client
from tests.members import codes

Document = dict[str, Any]

SIGNING = ("accessTokenKeyId", "idTokenKeyId")
OTHERS_KEYS = ["another tenant's", "another tenant's own", "a webhook's", "an identity provider's", "unknown"]


async def make(api: httpx.AsyncClient, **members: Any) -> Document:
    answer = await api.post("/api/tenant", json={"tenant": {"name": f"Tenant {new_id()}", **members}})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["tenant"])


async def make_key(api: httpx.AsyncClient, algorithm: str = "ES256") -> str:
    body = {"key": {"name": f"Key {new_id()}", "algorithm": algorithm, "length": {"RS256": 2048}.get(algorithm)}}
    return str((await api.post("/api/key/generate", json=body)).json()["key"]["id"])


async def make_webhook(api: httpx.AsyncClient, key_id: str) -> httpx.Response:
    signature = {"enabled": True, "signingKeyId": key_id}
    body = {"url": "https://example.com", "connectTimeout": 1, "readTimeout": 1, "signatureConfiguration": signature}
    return await api.post("/api/webhook", json={"webhook": body})


async def make_provider(api: httpx.AsyncClient, key_id: str, **members: Any) -> httpx.Response:
    provider = {
        "type": "ExternalJWT", "name": f"Provider {new_id()}", "uniqueIdentityClaim": "sub",
        "verificationKeyIds": [key_id], **members,
    }  # fmt: skip
    return await api.post("/api/identity-provider", json={"identityProvider": provider})


@pytest.fixture
async def scoped(service: Any, manager: httpx.AsyncClient, tenant: Document) -> AsyncIterator[httpx.AsyncClient]:
    """A client with a key that is assigned to the fresh tenant."""
    made = await manager.post("/api/api-key", json={"apiKey": {"tenantId": tenant["id"]}})
    headers = {"Authorization": made.json()["apiKey"]["key"]}
    async with checking_client(service.base_url, headers=headers) as client:
        yield client


@pytest.fixture(scope="module")
async def foreign(service: Any) -> dict[str, str]:
    """Keys that do not belong to the fresh tenant."""
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as api:
        return await _foreign(api)


async def _foreign(api: httpx.AsyncClient) -> dict[str, str]:
    shared, webhook, provider = await make_key(api), await make_key(api), await make_key(api, "HS256")
    other = await make(api, jwtConfiguration=dict.fromkeys(SIGNING, shared))
    own = (await make(api))["jwtConfiguration"]["accessTokenKeyId"]
    assert other["jwtConfiguration"]["accessTokenKeyId"] == shared
    assert (await make_webhook(api, webhook)).status_code == 200
    assert (await make_provider(api, provider)).status_code == 200
    return dict(zip(OTHERS_KEYS, (shared, own, webhook, provider, await make_key(api)), strict=True))


# A new tenant


@pytest.mark.requirement("audit-a2-issuer", "core-7-default-key", "core-8-jwtConfiguration")
async def test_new_tenant_has_own_issuer_and_signing_key(service, api, http) -> None:
    one, other = await make(api), await make(api)
    assert one["issuer"] == f"{service.base_url}/{one['id']}"
    assert other["issuer"] == f"{service.base_url}/{other['id']}"
    settings, others = one["jwtConfiguration"], other["jwtConfiguration"]
    assert settings["accessTokenKeyId"] == settings["idTokenKeyId"] != others["accessTokenKeyId"]
    default = (await api.get(f"/api/tenant/{DEFAULT_TENANT}")).json()["tenant"]["jwtConfiguration"]
    assert settings["accessTokenKeyId"] != default["accessTokenKeyId"]
    key = (await api.get(f"/api/key/{settings['accessTokenKeyId']}")).json()["key"]
    assert (key["algorithm"], key["length"], key["issuer"]) == ("RS256", 2048, one["issuer"])
    published = (await http.get("/.well-known/jwks.json")).json()["keys"]
    assert key["kid"] in {entry["kid"] for entry in published}
    metadata = (await http.get(f"/{one['id']}/.well-known/openid-configuration")).json()
    assert metadata["issuer"] == one["issuer"]


@pytest.mark.requirement("audit-a2-issuer")
async def test_put_without_issuer_and_keys_keeps_both(api) -> None:
    made = await make(api)
    answer = await api.put(f"/api/tenant/{made['id']}", json={"tenant": {"name": made["name"]}})
    changed = answer.json()["tenant"]
    assert changed["issuer"] == made["issuer"]
    assert changed["jwtConfiguration"] == made["jwtConfiguration"]


@pytest.mark.requirement("audit-a2-issuer")
async def test_own_key_is_deleted_with_tenant(api) -> None:
    made = await make(api)
    path = f"/api/key/{made['jwtConfiguration']['accessTokenKeyId']}"
    assert codes(await api.delete(path)) == {"[inUse]keyId"}
    assert (await api.delete(f"/api/tenant/{made['id']}")).status_code == 200
    assert (await api.get(path)).status_code == 404


@pytest.mark.requirement("audit-a2-issuer")
async def test_refused_tenant_creates_no_key(service, api) -> None:
    made = await make(api)
    before = await internals.store(service, "keys").count(None)
    assert codes(await api.post("/api/tenant", json={"tenant": {"name": made["name"]}})) == {"[duplicate]tenant.name"}
    assert await internals.store(service, "keys").count(None) == before


# Issuers


@pytest.mark.requirement("audit-a2-issuer")
async def test_tenants_may_share_an_issuer(api) -> None:
    """Official clients create tenants with the public name of the service as issuer."""
    issuer = f"https://{new_id()}.example.com"
    first, second = await make(api, issuer=issuer), await relying_party.make_tenant(api)
    path = f"/api/tenant/{second['id']}"
    assert (await api.patch(path, json={"tenant": {"issuer": issuer}})).status_code == 200
    answer = await api.put(path, json={"tenant": {"name": second["name"], "issuer": issuer}})
    assert (answer.status_code, answer.json()["tenant"]["issuer"]) == (200, first["issuer"])


@pytest.mark.requirement("audit-a2-issuer")
async def test_unique_index_on_issuers_of_earlier_releases_is_dropped(service, api) -> None:
    collection = internals.database(service).collection("tenants")
    await collection.create_index("private.issuer", name="issuer", unique=True, sparse=True)
    await internals.store(service, "tenants").ensure_indexes()
    assert "issuer" not in await collection.index_information()


# What a key of a tenant may not change


@pytest.mark.requirement("audit-a2-keys")
async def test_tenant_key_cannot_change_issuer(api, scoped, tenant) -> None:
    path = f"/api/tenant/{tenant['id']}"
    other = await make(api)
    for issuer in (other["issuer"], f"https://{new_id()}.example.com"):
        refused = {"[notAllowed]tenant.issuer"}
        assert codes(await scoped.patch(path, json={"tenant": {"issuer": issuer}})) == refused
        assert codes(await scoped.put(path, json={"tenant": {"name": tenant["name"], "issuer": issuer}})) == refused
    for body in ({"name": tenant["name"]}, {"name": tenant["name"], "issuer": tenant["issuer"]}):
        answer = await scoped.put(path, json={"tenant": body})
        assert (answer.status_code, answer.json()["tenant"]["issuer"]) == (200, tenant["issuer"])


@pytest.mark.requirement("audit-a2-keys")
@pytest.mark.parametrize("whose", OTHERS_KEYS)
async def test_tenant_key_cannot_reference_foreign_keys(api, scoped, tenant, foreign, whose) -> None:
    key_id = foreign[whose]
    path = f"/api/tenant/{tenant['id']}"
    verifying = ("accessTokenVerificationKeyIds", "idTokenVerificationKeyIds")
    application = (await scoped.post("/api/application", json={"application": {"name": new_id()}})).json()[
        "application"
    ]
    for name, value, suffix in [*((n, key_id, "") for n in SIGNING), *((n, [key_id], "[0]") for n in verifying)]:
        settings = {"jwtConfiguration": {name: value}}
        refused = {f"[invalid]tenant.jwtConfiguration.{name}{suffix}"}
        assert codes(await scoped.patch(path, json={"tenant": settings})) == refused
        assert codes(await scoped.put(path, json={"tenant": {"name": tenant["name"], **settings}})) == refused
        refused = {f"[invalid]application.jwtConfiguration.{name}{suffix}"}
        wanted = {"name": new_id(), **settings}
        assert codes(await scoped.post("/api/application", json={"application": wanted})) == refused
        changed = await scoped.patch(f"/api/application/{application['id']}", json={"application": settings})
        assert codes(changed) == refused
    assert (await api.get(path)).json()["tenant"]["jwtConfiguration"] == tenant["jwtConfiguration"]


@pytest.mark.requirement("audit-a2-keys")
async def test_tenant_key_can_reference_own_keys(api, scoped, tenant) -> None:
    key_id = await make_key(api)
    own = {"jwtConfiguration": {"accessTokenVerificationKeyIds": [key_id]}}
    assert (await api.patch(f"/api/tenant/{tenant['id']}", json={"tenant": own})).status_code == 200
    wanted = {"enabled": True, "accessTokenKeyId": key_id, "idTokenKeyId": tenant["jwtConfiguration"]["idTokenKeyId"]}
    body = {"application": {"name": new_id(), "jwtConfiguration": wanted}}
    assert (await scoped.post("/api/application", json=body)).status_code == 200


@pytest.mark.requirement("audit-a2-keys")
@pytest.mark.parametrize("whose", OTHERS_KEYS)
async def test_tenant_key_cannot_reference_key_in_identity_provider(scoped, foreign, whose) -> None:
    refused = {"[invalid]identityProvider.verificationKeyIds[0]"}
    assert codes(await make_provider(scoped, foreign[whose])) == refused
    made = (await make_provider(scoped, foreign[whose], verificationKeyIds=[])).json()["identityProvider"]
    changed = {"identityProvider": {**made, "verificationKeyIds": [foreign[whose]]}}
    assert codes(await scoped.put(f"/api/identity-provider/{made['id']}", json=changed)) == refused


@pytest.mark.requirement("audit-a2-keys")
@pytest.mark.parametrize(("scheme", "most"), [("argon2id", 4), ("bcrypt", 13), ("salted-pbkdf2-hmac-sha256", 600_000)])
async def test_tenant_key_is_bound_by_instance_hashing_limit(api, scoped, tenant, scheme, most) -> None:
    path = f"/api/tenant/{tenant['id']}"

    def costing(factor: int) -> Document:
        return {"passwordEncryptionConfiguration": {"encryptionScheme": scheme, "encryptionSchemeFactor": factor}}

    assert (await scoped.patch(path, json={"tenant": costing(most)})).status_code == 200
    refused = {"[invalid]tenant.passwordEncryptionConfiguration.encryptionSchemeFactor"}
    assert codes(await scoped.patch(path, json={"tenant": costing(most + 1)})) == refused
    assert (await api.patch(path, json={"tenant": costing(most + 1)})).status_code == 200
    kept = await scoped.patch(path, json={"tenant": {"data": {"a": 1}}})
    assert kept.json()["tenant"]["passwordEncryptionConfiguration"]["encryptionSchemeFactor"] == most + 1


@pytest.mark.requirement("audit-a5")
async def test_tenant_key_cannot_read_or_change_webhooks(api, scoped, tenant) -> None:
    body = {"url": "https://example.com", "connectTimeout": 1, "readTimeout": 1, "tenantIds": [tenant["id"]]}
    webhook = (await api.post("/api/webhook", json={"webhook": body})).json()["webhook"]
    path = f"/api/tenant/{tenant['id']}"
    own = {"tenant": {"name": tenant["name"]}}
    answers = [
        await scoped.request(method, path, json={**own, "webhookIds": wanted})
        for method in ("PUT", "PATCH")
        for wanted in ([webhook["id"]], [new_id()], [], ["x"], 5)
    ]
    assert {answer.text for answer in answers} == {answers[0].text}
    assert codes(answers[0]) == {"[notAllowed]webhookIds"}
    for wanted in ({}, {"webhookIds": None}):
        assert (await scoped.put(path, json={**own, **wanted})).status_code == 200
        assert (await scoped.patch(path, json={**own, **wanted})).status_code == 200
    assert (await api.get(f"/api/webhook/{webhook['id']}")).json()["webhook"]["tenantIds"] == [tenant["id"]]


# Keys serve every purpose that they can


@pytest.mark.requirement("audit-a2-signatures")
async def test_key_generated_for_a_tenant_serves_no_other(api, tenant, foreign) -> None:
    key_id = foreign["another tenant's own"]
    settings = {"jwtConfiguration": {"accessTokenKeyId": key_id}}
    answer = await api.patch(f"/api/tenant/{tenant['id']}", json={"tenant": settings})
    assert codes(answer) == {"[invalid]tenant.jwtConfiguration.accessTokenKeyId"}
    body = {"application": {"name": new_id(), **settings}}
    answer = await api.post("/api/application", json=body, headers={"X-FusionAuth-TenantId": tenant["id"]})
    assert codes(answer) == {"[invalid]application.jwtConfiguration.accessTokenKeyId"}
    own = {"enabled": True, "accessTokenKeyId": key_id, "timeToLiveInSeconds": 60}
    body = {"entityType": {"name": new_id(), "jwtConfiguration": own}}
    assert codes(await api.post("/api/entity/type", json=body)) == {
        "[invalid]entityType.jwtConfiguration.accessTokenKeyId"
    }
    assert codes(await make_webhook(api, key_id)) == {"[invalid]webhook.signatureConfiguration.signingKeyId"}


@pytest.mark.requirement("audit-a2-signatures")
@pytest.mark.parametrize("algorithm", ["ES256", "RS256", "HS256"])
async def test_key_may_serve_several_purposes(api, http, algorithm) -> None:
    """As journeys of the official clients use one key for a tenant, an entity type, a webhook and a provider."""
    key_id = await make_key(api, algorithm)
    tenant = await make(api, jwtConfiguration=dict.fromkeys(SIGNING, key_id))
    rp = await relying_party.make(api, tenant=tenant)
    webhook = await make_webhook(api, key_id)
    assert webhook.status_code == 200, webhook.text
    assert (await make_provider(api, key_id)).status_code == 200
    own = {"enabled": True, "accessTokenKeyId": key_id, "timeToLiveInSeconds": 60}
    entity_type = await api.post("/api/entity/type", json={"entityType": {"name": new_id(), "jwtConfiguration": own}})
    assert entity_type.status_code == 200, entity_type.text
    other = await make(api, jwtConfiguration=dict.fromkeys(SIGNING, key_id))
    assert other["jwtConfiguration"]["accessTokenKeyId"] == key_id
    headers = {"X-FusionAuth-TenantId": tenant["id"]}
    login = {"loginId": rp.login_id, "password": relying_party.PASSWORD, "applicationId": rp.client_id}
    answer = await api.post("/api/login", json=login, headers=headers)
    assert answer.status_code == 200, answer.text
    bearer = {"Authorization": f"Bearer {answer.json()['token']}"}
    assert (await http.get("/api/jwt/validate", headers=bearer)).status_code == 200
    assert (await api.delete(f"/api/webhook/{webhook.json()['webhook']['id']}")).status_code == 200


# The key set


@pytest.mark.requirement("audit-b6-key-set")
async def test_key_set_contains_keys_used_by_tenant(service, api, http) -> None:
    tenants = [await make(api) for _ in range(2)]
    unused, application_key, webhook_key = [await make_key(api) for _ in range(3)]
    headers = {"X-FusionAuth-TenantId": tenants[0]["id"]}
    body = {"application": {"name": new_id(), "jwtConfiguration": {"accessTokenVerificationKeyIds": [application_key]}}}
    assert (await api.post("/api/application", json=body, headers=headers)).status_code == 200
    webhook = (await make_webhook(api, webhook_key)).json()["webhook"]

    async def kid(key_id: str) -> str:
        return str((await api.get(f"/api/key/{key_id}")).json()["key"]["kid"])

    async def published(prefix: str) -> set[str]:
        return {entry["kid"] for entry in (await http.get(f"{prefix}/.well-known/jwks.json")).json()["keys"]}

    own = [await kid(tenant["jwtConfiguration"]["accessTokenKeyId"]) for tenant in tenants]
    sets = [await published(f"/{tenant['id']}") for tenant in tenants]
    # Keys of global webhooks, which other tests may have left, are in every set.
    shared = sets[0] & sets[1]
    assert [each - shared for each in sets] == [{own[0], await kid(application_key)}, {own[1]}]
    every = await published("")
    assert {*own, await kid(application_key), await kid(webhook_key)} < every
    assert await kid(unused) not in every
    named = {"webhook": {**webhook, "tenantIds": [tenants[1]["id"]]}}
    assert (await api.put(f"/api/webhook/{webhook['id']}", json=named)).status_code == 200
    assert await published(f"/{tenants[1]['id']}") - shared == {own[1], await kid(webhook_key)}
    metadata = (await http.get(f"/{tenants[0]['id']}/.well-known/openid-configuration")).json()
    assert metadata["jwks_uri"] == f"{service.base_url}/{tenants[0]['id']}/.well-known/jwks.json"
    assert (await http.get(f"/{new_id()}/.well-known/jwks.json")).status_code == 404
    pems = (await http.get("/api/jwt/public-key")).json()["publicKeys"]
    assert await kid(webhook_key) in pems and await kid(unused) not in pems


@pytest.mark.requirement("audit-b6-key-set")
async def test_replaced_key_leaves_key_set_after_last_token_expires(api, http, clock) -> None:
    made, key_id = await make(api, jwtConfiguration={"timeToLiveInSeconds": 60}), await make_key(api)
    settings = {"jwtConfiguration": dict.fromkeys(SIGNING, key_id)}
    assert (await api.patch(f"/api/tenant/{made['id']}", json={"tenant": settings})).status_code == 200

    async def published() -> set[str]:
        keys = (await http.get(f"/{made['id']}/.well-known/jwks.json")).json()["keys"]
        return {key["kid"] for key in keys}

    replaced = (await api.get(f"/api/key/{made['jwtConfiguration']['accessTokenKeyId']}")).json()["key"]["kid"]
    before = await published()
    clock.advance(seconds=200)
    assert replaced in before
    assert before - await published() == {replaced}


# Signatures


@pytest.mark.requirement("audit-a2-signatures")
@pytest.mark.parametrize("whose", OTHERS_KEYS)
async def test_vend_refuses_foreign_key(service, scoped, tenant, foreign, whose) -> None:
    wanted = {"keyId": foreign[whose], "claims": {"sub": "anybody"}}
    assert codes(await scoped.post("/api/jwt/vend", json=wanted)) == {"[invalid]keyId"}
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": tenant["id"]}
    async with checking_client(service.base_url, headers=headers) as instance_wide:
        answer = await instance_wide.post("/api/jwt/vend", json=wanted)
        if whose == "unknown":
            assert answer.status_code == 200
        else:
            assert codes(answer) == {"[invalid]keyId"}


@pytest.mark.requirement("audit-a2-signatures")
async def test_every_signature_refuses_key_generated_for_another_tenant(service, api, http, foreign) -> None:
    """Even where the configuration names it, as after a restored backup."""
    rp, key_id = await relying_party.make(api), foreign["another tenant's own"]
    settings = dict.fromkeys((f"jwtConfiguration.{name}" for name in SIGNING), key_id)
    await internals.store(service, "tenants").update(None, {"_id": rp.tenant["id"]}, {"$set": settings})
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    assert codes(await api.post("/api/jwt/vend", json={}, headers=headers)) == {"[invalid]keyId"}
    tenant = await internals.store(service, "tenants").get(None, rp.tenant["id"])
    with pytest.raises(LookupError):
        await internals.store(service, "issuer").sign(key_id, {}, tenant)


@pytest.mark.requirement("audit-a2-signatures")
async def test_delivery_refuses_key_generated_for_a_tenant(service, foreign) -> None:
    stored = internals.store(service, "keys")
    keys = WebhookKeys(KeyRing(lambda key_id: stored.find_cached(None, key_id)), stored)
    with pytest.raises(LookupError):
        await keys.sign_jwt(foreign["another tenant's own"], {})
    with pytest.raises(LookupError):
        await keys.client_certificate(foreign["another tenant's own"])
