"""OAuth clients of others in Python, unmodified: Authlib over httpx and over requests, and requests-oauthlib.

Those that are not asynchronous run in a thread. Every JWT is verified by joserfc with the published keys.
"""

from __future__ import annotations

import asyncio
import functools
import urllib.parse
from collections.abc import Callable
from typing import Any, Self

import httpx
import pytest
from authlib.integrations.httpx_client import AsyncOAuth2Client
from authlib.integrations.requests_client import OAuth2Session as AuthlibSession
from authlib.oauth2.rfc7523 import ClientSecretJWT, PrivateKeyJWT
from joserfc import jwt
from joserfc.jwk import KeySet
from oauthlib.oauth2 import (
    BackendApplicationClient,
    DeviceClient,
    LegacyApplicationClient,
    MobileApplicationClient,
    OAuth2Error,
)
from requests_oauthlib import OAuth2Session as OauthlibSession

from tests import relying_party
from tests.client_signer import new_key, public
from tests.oauth2.devices import DEVICE_GRANT, Device, device_client
from tests.oauth2.test_client_credentials import make as make_machine
from tests.relying_party import PASSWORD, REDIRECT_URI, VERIFIER, RelyingParty

SCOPE = "openid email offline_access"


@pytest.fixture(autouse=True)
def without_tls(monkeypatch) -> None:
    """Without this oauthlib speaks to https only."""
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")


@pytest.fixture
async def metadata(rp: RelyingParty, http: httpx.AsyncClient) -> dict[str, Any]:
    return await metadata_of(rp, http)


async def metadata_of(rp: RelyingParty, http: httpx.AsyncClient) -> dict[str, Any]:
    return dict((await http.get(f"/{rp.tenant['id']}/.well-known/openid-configuration")).json())


async def sent_back(rp: RelyingParty, browser: httpx.AsyncClient, url: str) -> str:
    """The URL that the browser comes back to after a login."""
    shown = await browser.get(url)
    if shown.status_code == 302 and shown.headers["Location"].startswith("/"):
        shown = await browser.get(shown.headers["Location"])
    if shown.status_code == 200:
        shown = await rp.submit(browser, shown)
    return str(shown.headers["Location"])


async def verified(http: httpx.AsyncClient, token: str) -> dict[str, Any]:
    """The claims of a token, by another library and the published keys."""
    keys = KeySet.import_key_set((await http.get("/.well-known/jwks.json")).json())
    registry = jwt.JWSRegistry(algorithms=["RS256"], strict_check_header=False)
    return dict(jwt.decode(token, keys, registry=registry).claims)


async def is_of(rp: RelyingParty, http: httpx.AsyncClient, token: dict[str, Any], nonce: str | None = None) -> None:
    """Whether both tokens are of the user, for the client."""
    for kind in {"access_token", "id_token"} & token.keys():
        said = await verified(http, token[kind])
        assert (said["sub"], said["aud"], said["iss"]) == (rp.user["id"], rp.client_id, rp.tenant["issuer"])
    if nonce is not None:
        assert (await verified(http, token["id_token"]))["nonce"] == nonce


# Authlib


class InThread:
    """Authlib's session over requests with the face of the one over httpx: what waits is done in a thread."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self._session = AuthlibSession(*arguments, **settings)
        self._session.trust_env = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_ended: object) -> None:
        self._session.close()

    def __getattr__(self, name: str) -> Any:
        deed = getattr(self._session, name)
        if name in {"create_authorization_url", "token_from_fragment", "register_client_auth_method"}:
            return deed
        return functools.partial(asyncio.to_thread, deed)


Make = Callable[..., Any]


@pytest.fixture(params=[AsyncOAuth2Client, InThread], ids=["httpx", "requests"])
def authlib(request) -> Make:
    """Makes a client over either of the two."""

    def make(rp: RelyingParty, **settings: Any) -> Any:
        secret = settings.pop("secret", rp.secret)
        return request.param(rp.client_id, secret, redirect_uri=REDIRECT_URI, **settings)

    return make


@pytest.mark.requirement("clients-1")
async def test_authlib_code_with_pkce_refresh_and_revocation(authlib, rp, browser, http, metadata):
    method = "client_secret_basic"
    async with authlib(rp, scope=SCOPE, code_challenge_method="S256", revocation_endpoint_auth_method=method) as client:
        url, state = client.create_authorization_url(
            metadata["authorization_endpoint"], code_verifier=VERIFIER, nonce="n"
        )
        back = await sent_back(rp, browser, url)
        token = await client.fetch_token(
            metadata["token_endpoint"], authorization_response=back, code_verifier=VERIFIER, state=state
        )
        await is_of(rp, http, token, "n")
        info = await client.get(metadata["userinfo_endpoint"])
        assert info.json()["email"] == rp.login_id
        fresh = await client.refresh_token(metadata["token_endpoint"], refresh_token=token["refresh_token"])
        await is_of(rp, http, fresh)
        revoked = await client.revoke_token(metadata["revocation_endpoint"], token=token["refresh_token"])
        assert revoked.status_code == 200
        introspection = await client.introspect_token(metadata["introspection_endpoint"], token=fresh["access_token"])
        assert introspection.json() == {"active": False}


@pytest.mark.requirement("clients-2")
async def test_authlib_implicit(authlib, rp, browser, http, metadata):
    await rp.configure(enabledGrants=["implicit"])
    async with authlib(rp, scope="openid email") as client:
        url, state = client.create_authorization_url(
            metadata["authorization_endpoint"], response_type="token id_token", nonce="n"
        )
        token = client.token_from_fragment(await sent_back(rp, browser, url), state)
        await is_of(rp, http, token, "n")
        assert (await client.get(metadata["userinfo_endpoint"])).json()["sub"] == rp.user["id"]


@pytest.mark.requirement("clients-4")
async def test_authlib_device(authlib, api, http):
    rp = await device_client(api)
    metadata = await metadata_of(rp, http)
    form = {"client_id": rp.client_id, "scope": SCOPE}
    given = (await http.post(metadata["device_authorization_endpoint"], data=form)).json()
    await Device(rp, http, given).approved(http)
    async with authlib(rp, token_endpoint_auth_method="client_secret_post") as client:
        token = await client.fetch_token(
            metadata["token_endpoint"], grant_type=DEVICE_GRANT, device_code=given["device_code"]
        )
    await is_of(rp, http, token)


@pytest.mark.requirement("clients-5")
async def test_authlib_client_credentials(authlib, api, tenant_api, tenant, http):
    machine = await make_machine(api, tenant_api, http, tenant)
    target = await machine.target("read")
    scope = f"target-entity:{target['id']}"
    async with authlib(machine) as client:
        token = await client.fetch_token(
            str(http.base_url.join("/oauth2/token")), grant_type="client_credentials", scope=scope
        )
    assert (await verified(http, token["access_token"]))["permissions"] == {target["id"]: ["read"]}


@pytest.mark.requirement("clients-6")
async def test_authlib_password(authlib, api, http):
    rp = await relying_party.make(api, enabledGrants=["password"])
    async with authlib(rp, scope="openid") as client:
        token = await client.fetch_token(
            str(http.base_url.join("/oauth2/token")), username=rp.login_id, password=PASSWORD
        )
    await is_of(rp, http, token)


@pytest.mark.requirement("clients-7")
async def test_authlib_pushed_request(authlib, rp, browser, http, metadata):
    await rp.configure(requirePushedAuthorizationRequests=True)
    async with authlib(rp, scope=SCOPE, code_challenge_method="S256") as client:
        asked, state = client.create_authorization_url("https://x.example.com/", code_verifier=VERIFIER)
        form = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(asked).query))
        endpoint = metadata["pushed_authorization_request_endpoint"]
        pushed = (await http.post(endpoint, data=form, auth=(rp.client_id, rp.secret))).json()
        query = urllib.parse.urlencode({"client_id": rp.client_id, "request_uri": pushed["request_uri"]})
        back = await sent_back(rp, browser, f"{metadata['authorization_endpoint']}?{query}")
        token = await client.fetch_token(
            metadata["token_endpoint"], authorization_response=back, code_verifier=VERIFIER, state=state
        )
    await is_of(rp, http, token)


@pytest.mark.requirement("clients-8", "clients-9", "oauth-2.1-13")
@pytest.mark.parametrize("kind", [PrivateKeyJWT, ClientSecretJWT])
async def test_authlib_signed_client_authentication(authlib, rp, browser, http, metadata, kind):
    key, endpoint = new_key("ES256"), metadata["token_endpoint"]
    keys = {"jwks": public(key)} if kind is PrivateKeyJWT else {}
    await rp.configure(clientAuthenticationMethods=[kind.name], **keys)
    if kind is PrivateKeyJWT:
        secret, method = key, kind(endpoint, headers={"kid": key.kid}, alg="ES256")
    else:
        secret, method = rp.secret, kind(endpoint, alg="HS256")
    async with authlib(rp, secret=secret, scope=SCOPE, token_endpoint_auth_method=kind.name) as client:
        client.register_client_auth_method(method)
        url, state = client.create_authorization_url(metadata["authorization_endpoint"])
        back = await sent_back(rp, browser, url)
        token = await client.fetch_token(endpoint, authorization_response=back, state=state)
        await is_of(rp, http, token)
        fresh = await client.refresh_token(endpoint, refresh_token=token["refresh_token"])
        await is_of(rp, http, fresh)


# requests-oauthlib


@pytest.mark.requirement("clients-1")
async def test_requests_oauthlib_code_with_pkce_refresh_and_revocation(rp, browser, http, metadata):
    client = OauthlibSession(rp.client_id, redirect_uri=REDIRECT_URI, scope=SCOPE.split(), pkce="S256")
    client.trust_env = False
    url, _ = client.authorization_url(metadata["authorization_endpoint"], nonce="n")
    back = await sent_back(rp, browser, url)
    token = await run(
        client.fetch_token, metadata["token_endpoint"], authorization_response=back, client_secret=rp.secret
    )
    await is_of(rp, http, token, "n")
    assert (await run(client.get, metadata["userinfo_endpoint"])).json()["email"] == rp.login_id
    fresh = await run(client.refresh_token, metadata["token_endpoint"], auth=(rp.client_id, rp.secret))
    await is_of(rp, http, fresh)
    url, headers, body = client._client.prepare_token_revocation_request(
        metadata["revocation_endpoint"], token["refresh_token"], "refresh_token"
    )
    revoked = await http.post(url, headers=headers, content=body, auth=(rp.client_id, rp.secret))
    assert revoked.status_code == 200
    with pytest.raises(OAuth2Error) as refused:
        await run(client.refresh_token, metadata["token_endpoint"], auth=(rp.client_id, rp.secret))
    assert refused.value.error == "invalid_grant"
    client.close()


@pytest.mark.requirement("clients-2")
async def test_requests_oauthlib_implicit(rp, browser, http, metadata):
    await rp.configure(enabledGrants=["implicit"])
    mobile = MobileApplicationClient(rp.client_id)
    with OauthlibSession(client=mobile, redirect_uri=REDIRECT_URI, scope=["email"]) as client:
        url, _ = client.authorization_url(metadata["authorization_endpoint"])
        token = client.token_from_fragment(await sent_back(rp, browser, url))
    await is_of(rp, http, token)
    assert token["token_type"] == "Bearer"


@pytest.mark.requirement("clients-4")
async def test_requests_oauthlib_device(api, http, clock):
    rp = await device_client(api)
    metadata = await metadata_of(rp, http)
    form = {"client_id": rp.client_id, "scope": SCOPE}
    given = (await http.post(metadata["device_authorization_endpoint"], data=form)).json()
    with OauthlibSession(client=DeviceClient(rp.client_id)) as client:
        asked = {"device_code": given["device_code"], "include_client_id": True}
        with pytest.raises(OAuth2Error) as waiting:
            await run(client.fetch_token, metadata["token_endpoint"], **asked)
        assert waiting.value.error == "authorization_pending"
        await Device(rp, http, given).approved(http)
        clock.advance(seconds=given["interval"])
        token = await run(client.fetch_token, metadata["token_endpoint"], **asked)
    await is_of(rp, http, token)


@pytest.mark.requirement("clients-5")
async def test_requests_oauthlib_client_credentials(api, tenant_api, tenant, http):
    machine = await make_machine(api, tenant_api, http, tenant)
    url = str(http.base_url.join("/oauth2/token"))
    with OauthlibSession(client=BackendApplicationClient(machine.client_id)) as client:
        token = await run(client.fetch_token, url, client_id=machine.client_id, client_secret=machine.secret)
    assert (await verified(http, token["access_token"]))["sub"] == machine.entity["id"]


@pytest.mark.requirement("clients-6")
async def test_requests_oauthlib_password(api, http):
    rp = await relying_party.make(api, enabledGrants=["password"])
    url = str(http.base_url.join("/oauth2/token"))
    with OauthlibSession(client=LegacyApplicationClient(rp.client_id), scope=["openid"]) as client:
        token = await run(
            client.fetch_token, url, username=rp.login_id, password=PASSWORD, auth=(rp.client_id, rp.secret)
        )
    await is_of(rp, http, token)


@pytest.mark.requirement("clients-12")
async def test_requests_oauthlib_understands_a_refusal(rp, http, metadata):
    with OauthlibSession(rp.client_id, redirect_uri=REDIRECT_URI) as client, pytest.raises(OAuth2Error) as refused:
        await run(client.fetch_token, metadata["token_endpoint"], code="none", client_secret=rp.secret)
    assert refused.value.error == "invalid_grant"


async def run(deed: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
    """Do what waits, in a thread."""
    return await asyncio.to_thread(deed, *arguments, **settings)
