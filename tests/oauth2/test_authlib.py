"""Authlib's unmodified OpenID client discovers the endpoints and verifies the ID token."""

from __future__ import annotations

import urllib.parse

import httpx
import pytest
from authlib.integrations.base_client.async_app import AsyncOAuth2Mixin
from authlib.integrations.base_client.async_openid import AsyncOpenIDMixin
from authlib.integrations.base_client.sync_app import BaseApp
from authlib.integrations.httpx_client import AsyncOAuth2Client
from joserfc import jwt
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

from tests import relying_party
from tests.conftest import DEFAULT_TENANT
from tests.relying_party import REDIRECT_URI


class AuthlibApp(AsyncOAuth2Mixin, AsyncOpenIDMixin, BaseApp):
    """The client that Authlib puts under every asynchronous framework."""

    client_cls = AsyncOAuth2Client


@pytest.fixture
async def client(api, service):
    """A relying party of the default tenant, whose issuer is the base URL.

    Its logout redirects immediately, regardless of logout URLs of other applications of the tenant.
    """
    tenant = {"id": DEFAULT_TENANT, "issuer": service.base_url}
    return await relying_party.make(api, tenant=tenant, logoutBehavior="RedirectOnly")


@pytest.mark.requirement("clients-1", "demo-3")
@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
async def test_login_userinfo_and_logout_through_authlib(client, browser, http, api, service, method, algorithm):
    if algorithm == "ES256":
        await sign_with(client, api, algorithm)
    app = AuthlibApp(
        None,
        "ours",
        client_id=client.client_id,
        client_secret=client.secret,
        server_metadata_url=f"{service.base_url}/.well-known/openid-configuration",
        client_kwargs={
            "scope": "openid email",
            "code_challenge_method": "S256",
            "token_endpoint_auth_method": method,
        },
    )
    flow = await app.create_authorization_url(REDIRECT_URI)
    answer = await client.submit(browser, await browser.get(flow["url"]))
    found = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(answer.headers["Location"]).query))
    assert found["state"] == flow["state"]
    token = await app.fetch_access_token(
        redirect_uri=REDIRECT_URI, code=found["code"], state=found["state"], code_verifier=flow["code_verifier"]
    )
    user = await app.parse_id_token(token, flow["nonce"])
    assert user["sub"] == client.user["id"]
    assert await app.userinfo(token=token) == {"sub": user["sub"], "email": client.login_id, "email_verified": True}
    await independently_verified(http, service.base_url, token["id_token"], client.client_id, algorithm)
    leaving = await app.create_logout_url(post_logout_redirect_uri=REDIRECT_URI, id_token_hint=token["id_token"])
    assert (await browser.get(leaving["url"])).headers["Location"].startswith(REDIRECT_URI)


async def independently_verified(
    http: httpx.AsyncClient, issuer: str, id_token: str, client_id: str, algorithm: str
) -> None:
    """Verify an ID token with another library, by the published keys alone."""
    keys = KeySet.import_key_set((await http.get("/.well-known/jwks.json")).json())
    # Unknown header parameters are to be ignored (RFC 7515 section 4): `gty` is one.
    registry = JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    token = jwt.decode(id_token, keys, registry=registry)
    jwt.JWTClaimsRegistry(
        iss={"essential": True, "value": issuer}, aud={"essential": True, "value": client_id}, exp={"essential": True}
    ).validate(token.claims)


async def sign_with(client, api: httpx.AsyncClient, algorithm: str) -> None:
    """Give the application a signing key of its own."""
    made = await api.post("/api/key/generate", json={"key": {"algorithm": algorithm, "name": client.client_id}})
    key_id = made.json()["key"]["id"]
    settings = {"enabled": True, "accessTokenKeyId": key_id, "idTokenKeyId": key_id}
    await client.patch(f"/api/application/{client.client_id}", {"application": {"jwtConfiguration": settings}})
