"""Authlib's OAuth 2.0 client, unmodified, with keys of its own: private_key_jwt and client_secret_jwt."""

from __future__ import annotations

import pytest
from authlib.integrations.httpx_client import AsyncOAuth2Client
from authlib.oauth2.rfc7523 import ClientSecretJWT, PrivateKeyJWT

from tests import relying_party
from tests.client_signer import new_key, public
from tests.relying_party import PASSWORD


@pytest.mark.parametrize("method", ["private_key_jwt", "client_secret_jwt"])
async def test_client_that_signs_gets_a_token_and_gives_it_back(api, http, method):
    key = new_key("RS256")
    party = await relying_party.make(
        api, enabledGrants=["password", "refresh_token"], clientAuthenticationMethods=[method], jwks=public(key)
    )
    metadata = (await http.get(f"/.well-known/oauth-authorization-server/{party.tenant['id']}")).json()
    endpoint = metadata["token_endpoint"]
    is_by_key = method == "private_key_jwt"
    material = key.as_pem(private=True).decode() if is_by_key else party.secret
    signer = PrivateKeyJWT(endpoint) if is_by_key else ClientSecretJWT(endpoint)
    names = {"token_endpoint_auth_method": method, "revocation_endpoint_auth_method": method}
    async with AsyncOAuth2Client(party.client_id, material, **names) as client:
        client.register_client_auth_method(signer)
        token = await client.fetch_token(endpoint, username=party.login_id, password=PASSWORD, scope="offline_access")
        assert token["userId"] == party.user["id"]
        refreshed = await client.refresh_token(endpoint, token["refresh_token"])
        assert refreshed["access_token"] != token["access_token"]
        revoked = await client.revoke_token(metadata["revocation_endpoint"], token=token["refresh_token"])
        assert revoked.status_code == 200, revoked.text
