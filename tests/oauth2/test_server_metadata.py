"""Authorization server metadata (RFC 8414), equal to OpenID discovery."""

from __future__ import annotations

import pytest

from identity.ids import new_id

OPENID = "/.well-known/openid-configuration"
METADATA = "/.well-known/oauth-authorization-server"
METHODS = ["client_secret_basic", "client_secret_post", "client_secret_jwt", "private_key_jwt", "none"]
ASYMMETRIC = {"RS256", "PS256", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"}


@pytest.mark.requirement("oauth-12-2")
async def test_metadata_equals_openid_discovery(http, tenant):
    assert (await http.get(METADATA)).json() == (await http.get(OPENID)).json()
    by_path = await http.get(f"{METADATA}/{tenant['id']}")
    assert by_path.status_code == 200
    assert by_path.headers["Content-Type"] == "application/json"
    assert by_path.json() == (await http.get(f"/{tenant['id']}{OPENID}")).json()
    assert by_path.json()["issuer"] == tenant["issuer"]
    assert (await http.get(METADATA, params={"tenantId": tenant["id"]})).json() == by_path.json()


@pytest.mark.requirement("oauth-12-2")
@pytest.mark.parametrize("path", [METADATA, OPENID])
async def test_introspection_and_revocation_are_published(http, service, path):
    document = (await http.get(path)).json()
    assert document["introspection_endpoint"] == f"{service.base_url}/oauth2/introspect"
    assert document["introspection_endpoint_auth_methods_supported"] == METHODS
    assert document["revocation_endpoint"] == f"{service.base_url}/oauth2/revoke"
    assert document["revocation_endpoint_auth_methods_supported"] == METHODS
    for name in ("introspection_endpoint", "revocation_endpoint", "token_endpoint"):
        algorithms = set(document[f"{name}_auth_signing_alg_values_supported"])
        assert algorithms > {*ASYMMETRIC, "HS256"}
        assert "none" not in algorithms
        answer = await http.post(document[name], data={"token": "x"})
        assert (answer.status_code, answer.json()["error_reason"]) == (400, "missing_client_id")


async def test_required_members_are_present(http):
    document = (await http.get(METADATA)).json()
    assert {"issuer", "authorization_endpoint", "token_endpoint", "response_types_supported"} <= document.keys()


async def test_unknown_tenant_has_no_metadata(http):
    for tenant_id in (new_id(), "no-uuid"):
        assert (await http.get(f"{METADATA}/{tenant_id}")).status_code == 404
        assert (await http.get(METADATA, params={"tenantId": tenant_id})).status_code == 404


async def test_metadata_allows_cors_and_has_an_etag(http, tenant):
    for path in (METADATA, f"{METADATA}/{tenant['id']}"):
        answer = await http.get(path)
        # The fixtures set no server.base_url: metadata that depends on the Host header is not to be cached.
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        again = await http.get(path, headers={"If-None-Match": answer.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
