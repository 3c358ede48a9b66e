"""Authlib's OAuth 2.0 client, unmodified: password grant, introspection and revocation where the metadata says."""

from __future__ import annotations

import httpx
import pytest
from authlib.integrations.httpx_client import AsyncOAuth2Client

from tests import relying_party
from tests.relying_party import PASSWORD, claims


@pytest.mark.requirement("clients-6")
@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_token_for_a_password_is_introspected_and_given_back(api, http, method):
    party = await relying_party.make(api, enabledGrants=["password", "refresh_token"])
    metadata = (await http.get(f"/.well-known/oauth-authorization-server/{party.tenant['id']}")).json()
    async with AsyncOAuth2Client(
        party.client_id, party.secret, token_endpoint_auth_method=method, revocation_endpoint_auth_method=method
    ) as client:
        token = await client.fetch_token(
            metadata["token_endpoint"], username=party.login_id, password=PASSWORD, scope="openid offline_access"
        )
        assert token["userId"] == party.user["id"]
        introspection = await introspected(client, metadata, token["access_token"], "access_token")
        assert introspection == {"active": True, **claims(token["access_token"])}
        assert (await introspected(client, metadata, token["refresh_token"], "refresh_token"))["active"] is True
        revoked = await client.revoke_token(
            metadata["revocation_endpoint"], token=token["refresh_token"], token_type_hint="refresh_token"
        )
        assert revoked.status_code == 200
        for kind in ("access_token", "refresh_token"):
            assert await introspected(client, metadata, token[kind], kind) == {"active": False}


async def introspected(client: AsyncOAuth2Client, metadata: dict, token: str, hint: str) -> dict:
    answer: httpx.Response = await client.introspect_token(
        metadata["introspection_endpoint"], token=token, token_type_hint=hint
    )
    assert answer.status_code == 200, answer.text
    return dict(answer.json())
