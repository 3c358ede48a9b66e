"""Discovery: metadata per tenant, the key set, caching and safety."""

from __future__ import annotations

import base64
import re

import pytest

from identity.ids import new_id
from tests import plain_http
from tests.conftest import DEFAULT_TENANT
from tests.relying_party import header

CONFIGURATION = "/.well-known/openid-configuration"
KEYS = "/.well-known/jwks.json"
CONTRACT = {
    "authorization_endpoint", "backchannel_logout_supported", "claims_supported", "device_authorization_endpoint",
    "end_session_endpoint", "frontchannel_logout_supported", "grant_types_supported",
    "id_token_signing_alg_values_supported", "issuer", "jwks_uri", "response_modes_supported",
    "response_types_supported", "scopes_supported", "subject_types_supported", "token_endpoint",
    "token_endpoint_auth_methods_supported", "userinfo_endpoint",
}  # fmt: skip


@pytest.mark.requirement(
    "certification-discovery-1",
    "certification-discovery-2",
    "contract-discovery-3",
    "contract-discovery-4",
    "contract-discovery-5",
    "oauth-4.4-9",
)
async def test_metadata_of_the_default_tenant_has_its_issuer(http, service):
    document = (await http.get(CONFIGURATION)).json()
    assert document["issuer"] == service.base_url
    assert document.keys() >= CONTRACT
    assert document["authorization_endpoint"] == f"{service.base_url}/oauth2/authorize"
    assert all(document[name].startswith(service.base_url) for name in document if name.endswith(("_endpoint", "_uri")))
    assert document["code_challenge_methods_supported"] == ["S256"]
    assert document["authorization_response_iss_parameter_supported"] is True
    assert {"openid", "profile", "email", "address", "phone", "offline_access"} <= set(document["scopes_supported"])
    assert document["token_endpoint_auth_methods_supported"] == [
        *("client_secret_basic", "client_secret_post", "client_secret_jwt", "private_key_jwt", "none")
    ]
    assert document["claims_parameter_supported"] is True
    assert document["request_parameter_supported"] is True
    assert {"ES256", "PS256", "HS256"} < set(document["request_object_signing_alg_values_supported"])
    assert "none" not in document["request_object_signing_alg_values_supported"]
    for name in ("request_uri_parameter_supported", "require_signed_request_object"):
        assert document[name] is False


@pytest.mark.requirement("contract-discovery-2", "service-15")
async def test_tenant_may_be_in_path_or_query(http, tenant):
    by_path = (await http.get(f"/{tenant['id']}{CONFIGURATION}")).json()
    by_query = (await http.get(CONFIGURATION, params={"tenantId": tenant["id"]})).json()
    assert by_path == by_query
    assert by_path["issuer"] == tenant["issuer"]


@pytest.mark.requirement("oauth-4.4-8")
async def test_unknown_tenant_has_no_metadata(http):
    for tenant_id in (new_id(), "no-uuid"):
        for answer in (
            await http.get(f"/{tenant_id}{CONFIGURATION}"),
            await http.get(CONFIGURATION, params={"tenantId": tenant_id}),
        ):
            assert (answer.status_code, answer.json()["error_reason"]) == (404, "invalid_tenant_id")


async def test_changed_tenant_updates_the_metadata_immediately(http, api):
    tenant = (await api.post("/api/tenant", json={"tenant": {"name": new_id(), "issuer": "one"}})).json()["tenant"]
    first = await http.get(f"/{tenant['id']}{CONFIGURATION}")
    await api.patch(f"/api/tenant/{tenant['id']}", json={"tenant": {"issuer": "two"}})
    second = await http.get(f"/{tenant['id']}{CONFIGURATION}")
    assert (first.json()["issuer"], second.json()["issuer"]) == ("one", "two")
    assert first.headers["ETag"] != second.headers["ETag"]


@pytest.mark.requirement("design-state-23", "oauth-4.4-3")
async def test_metadata_has_an_etag_and_is_cacheable_without_host_header(http):
    for path in (CONFIGURATION, KEYS):
        answer = await http.get(path)
        assert answer.headers["Cache-Control"] == ("public, max-age=300, s-maxage=1" if path == KEYS else "no-store")
        again = await http.get(path, headers={"If-None-Match": answer.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.requirement(
    "attack-39", "certification-discovery-3", "contract-discovery-1", "core-7-key-set", "oauth-4.4-1", "service-15"
)
async def test_attack_39_key_set_has_public_members_only(http, api):
    for algorithm in ("RS256", "ES256", "ES384", "ES512", "HS256"):
        key = {
            "algorithm": algorithm,
            "name": f"{algorithm} {new_id()}",
            **({"length": 2048} if "RS" in algorithm else {}),
        }
        assert (await api.post("/api/key/generate", json={"key": key})).status_code == 200
    keys = (await http.get(KEYS)).json()["keys"]
    kids = [key["kid"] for key in keys]
    assert all(kids)
    assert len(kids) == len(set(kids))
    for key in keys:
        assert key["use"] == "sig"
        public = {"RSA": {"n", "e"}, "EC": {"crv", "x", "y"}, "OKP": {"crv", "x"}}[key["kty"]]
        assert public <= key.keys() <= public | {"alg", "kid", "kty", "use", "x5c", "x5t", "x5t#S256"}
        assert all(re.fullmatch(r"[A-Za-z0-9_-]+", key[name]) for name in public - {"crv"})


@pytest.mark.requirement("audit-b6-key-set", "oauth-4.4-2")
async def test_referenced_key_is_published(http, api, tenant):
    key = {"algorithm": "ES256", "name": new_id()}
    made = (await api.post("/api/key/generate", json={"key": key})).json()["key"]
    before = await http.get(KEYS)
    assert made["kid"] not in {key["kid"] for key in before.json()["keys"]}
    settings = {"jwtConfiguration": {"accessTokenVerificationKeyIds": [made["id"]]}}
    assert (await api.patch(f"/api/tenant/{tenant['id']}", json={"tenant": settings})).status_code == 200
    after = await http.get(KEYS)
    assert made["kid"] in {key["kid"] for key in after.json()["keys"]}
    assert before.headers["ETag"] != after.headers["ETag"]


async def test_imported_public_key_is_not_published(http, api):
    made = (await api.post("/api/key/generate", json={"key": {"algorithm": "ES256", "name": new_id()}})).json()["key"]
    foreign = {"name": new_id(), "publicKey": made["publicKey"], "kid": new_id()}
    answer = await api.post("/api/key/import", json={"key": foreign})
    assert answer.status_code == 200, answer.text
    assert foreign["kid"] not in {key["kid"] for key in (await http.get(KEYS)).json()["keys"]}


@pytest.mark.requirement("certification-discovery-4", "oauth-2.10-14")
async def test_signing_key_is_published(rp, browser, http):
    tokens = await rp.tokens(http, browser)
    keys = {key["kid"]: key for key in (await http.get(KEYS)).json()["keys"]}
    key = keys[header(tokens["id_token"])["kid"]]
    assert (key["kty"], key["alg"]) == ("RSA", "RS256")
    assert len(base64.urlsafe_b64decode(key["n"] + "==")) == 256


@pytest.mark.requirement("attack-47", "design-config-7")
async def test_attack_47_host_headers_never_reach_the_issuer(build, api):
    forged = {"Host": "evil.example.com", "X-Forwarded-Host": "evil.example.com", "X-Forwarded-Proto": "https"}
    async with build(server__base_url="https://id.example.com") as service, plain_http.client() as client:
        document = (await client.get(f"http://127.0.0.1:{service.port}{CONFIGURATION}", headers=forged)).json()
    assert document["issuer"] == "https://id.example.com"
    assert "evil" not in str(document)


@pytest.mark.requirement("contract-discovery-2", "oauth-0.3-4")
async def test_metadata_without_tenant_is_that_of_the_default_tenant(http):
    named = (await http.get(f"/{DEFAULT_TENANT}{CONFIGURATION}")).json()
    unnamed = (await http.get(CONFIGURATION)).json()
    assert named.pop("jwks_uri").endswith(f"/{DEFAULT_TENANT}/.well-known/jwks.json")
    assert unnamed.pop("jwks_uri").endswith("/.well-known/jwks.json")
    assert named == unnamed


@pytest.mark.requirement("core-7-public-key", "oauth-4.4-4")
async def test_public_keys_are_available_as_pem(rp, http, api):
    """All keys, one by its kid, and one by its application."""
    key = {"algorithm": "ES256", "name": f"Key {new_id()}"}
    made = (await api.post("/api/key/generate", json={"key": key})).json()["key"]
    settings = {"enabled": True, "accessTokenKeyId": made["id"]}
    await rp.patch(f"/api/application/{rp.client_id}", {"application": {"jwtConfiguration": settings}})

    async def metadata(**query):
        return await http.get("/api/jwt/public-key", params=query)

    published = {one["kid"] for one in (await http.get(KEYS)).json()["keys"]}
    every = (await metadata()).json()
    assert every.keys() == {"publicKeys"}
    assert set(every["publicKeys"]) >= published - {None}
    assert every["publicKeys"][made["kid"]] == made["publicKey"]
    for name in ("kid", "keyId"):
        assert (await metadata(**{name: made["kid"]})).json() == {"publicKey": made["publicKey"]}
    assert (await metadata(applicationId=rp.client_id.upper())).json() == {"publicKey": made["publicKey"]}
    assert (await metadata(kid="unknown")).status_code == (await metadata(keyId="unknown")).status_code == 404
    assert (await metadata(applicationId=new_id())).status_code == 404
    refused = await metadata(applicationId="x")
    assert refused.status_code == 400
    assert "[couldNotConvert]applicationId" in refused.text
    secret = {"algorithm": "HS256", "name": f"Key {new_id()}"}
    shared = (await api.post("/api/key/generate", json={"key": secret})).json()["key"]
    assert (await metadata(kid=shared["kid"])).status_code == 404
    settings["accessTokenKeyId"] = shared["id"]
    await rp.patch(f"/api/application/{rp.client_id}", {"application": {"jwtConfiguration": settings}})
    assert (await metadata(applicationId=rp.client_id)).status_code == 404
    assert shared["kid"] not in (await metadata()).json()["publicKeys"]


@pytest.mark.requirement("certification-logout-6")
async def test_logout_support_is_published(http):
    document = (await http.get("/.well-known/openid-configuration")).json()
    kinds = ("backchannel_logout", "frontchannel_logout")
    assert all(document[f"{kind}_supported"] and document[f"{kind}_session_supported"] for kind in kinds)
    assert document["end_session_endpoint"].endswith("/oauth2/logout")


@pytest.mark.requirement("contract-discovery-3", "oauth-4.4-5")
async def test_each_field_has_the_published_value(http, service):
    document = (await http.get(CONFIGURATION)).json()
    base = service.base_url
    algorithms = ["ES256", "ES384", "ES512", "HS256", "HS384", "HS512", "RS256", "RS384", "RS512"]
    published = {
        "authorization_endpoint": f"{base}/oauth2/authorize",
        "token_endpoint": f"{base}/oauth2/token",
        "userinfo_endpoint": f"{base}/oauth2/userinfo",
        "jwks_uri": f"{base}/.well-known/jwks.json",
        "device_authorization_endpoint": f"{base}/oauth2/device_authorize",
        "end_session_endpoint": f"{base}/oauth2/logout",
        "frontchannel_logout_supported": True,
        "id_token_signing_alg_values_supported": algorithms,
        "response_modes_supported": ["form_post", "fragment", "query"],
        "subject_types_supported": ["public"],
    }
    assert {name: document[name] for name in published} == published
    assert "userinfo_signing_alg_values_supported" not in document, "userinfo responses are not signed"
    assert {"code", "id_token", "token id_token"} <= set(document["response_types_supported"])
    grants = {"authorization_code", "password", "implicit", "refresh_token"}
    assert grants | {"urn:ietf:params:oauth:grant-type:device_code"} <= set(document["grant_types_supported"])
    claims = {
        "applicationId", "at_hash", "aud", "authenticationType", "birthdate", "c_hash", "email", "email_verified",
        "exp", "family_name", "given_name", "iat", "iss", "jti", "middle_name", "name", "nbf", "nonce", "phone_number",
        "picture", "preferred_username", "roles", "sub",
    }  # fmt: skip
    assert claims <= set(document["claims_supported"])
