"""Tokens of one tenant at another one that has the same issuer, signs with the same key and knows the same keys."""

from __future__ import annotations

import dataclasses
import itertools
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from identity.ids import new_id
from tests import client_signer, relying_party, scim
from tests.oauth2.test_request_objects import request as request_object
from tests.relying_party import PASSWORD, REDIRECT_URI, RelyingParty, claims, header
from tests.scim import ScimClient

SECRET = secrets.token_urlsafe(48)
CLIENT_KEY = client_signer.new_key()
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
TYPE = "urn:ietf:params:oauth:token-type:"
LOGOUT_EVENT = {"http://schemas.openid.net/event/backchannel-logout": {}}


@dataclasses.dataclass
class Party:
    """A tenant with a relying party, a SCIM client, and the tokens that were issued there."""

    rp: RelyingParty
    scim: ScimClient
    tokens: dict[str, str]
    key_id: str = ""

    @property
    def logout_uri(self) -> str:
        """A redirect URI that only this party has."""
        return f"https://{self.rp.client_id}.example.com/logged-out"


@pytest.fixture
async def pair(service, api, http) -> AsyncIterator[tuple[Party, Party]]:
    """Parties of two tenants with one issuer and one key, whose clients have one key, too."""
    key = {"type": "HMAC", "algorithm": "HS256", "name": new_id(), "secret": SECRET}
    key_id = (await api.post("/api/key/import", json={"key": key})).json()["key"]["id"]
    shared = {
        "issuer": f"https://{new_id()}.example.com",
        "jwtConfiguration": dict.fromkeys(("accessTokenKeyId", "idTokenKeyId"), key_id),
    }
    made = [await make_party(service.base_url, api, http, shared) for _ in range(2)]
    ids = [party.rp.client_id for party in made]
    for party in made:
        policy = {"audiences": ["https://orders.example.com/"], "subjectAudiences": ids}
        await party.rp.configure(tokenExchangeConfiguration=policy)
    yield made[0], made[1]
    for party in made:
        await scim.close(party.scim)


async def make_party(base_url: str, api: httpx.AsyncClient, http: httpx.AsyncClient, shared: dict[str, Any]) -> Party:
    scim_client = await scim.make_client(base_url, api, **shared)
    rp = await relying_party.make(
        api,
        tenant=scim_client.tenant,
        enabledGrants=["authorization_code", "password", "refresh_token", EXCHANGE],
        clientAuthenticationMethods=["client_secret_post", "private_key_jwt"],
        jwks=client_signer.public(CLIENT_KEY),
    )
    party = Party(rp, scim_client, {}, shared["jwtConfiguration"]["accessTokenKeyId"])
    await rp.configure(authorizedRedirectURLs=[REDIRECT_URI, party.logout_uri])
    members = {"loginConfiguration": {"generateRefreshTokens": True, "allowTokenRefresh": True}}
    await rp.patch(f"/api/application/{rp.client_id}", {"application": members})
    party.tokens = await issued(party, http)
    return party


async def issued(party: Party, http: httpx.AsyncClient) -> dict[str, str]:
    """Return a token of each kind of a party."""
    rp = party.rp
    form = {"grant_type": "password", "username": rp.login_id, "password": PASSWORD}
    answer = await rp.token(http, **form, scope="openid email offline_access")
    assert answer.status_code == 200, answer.text
    return {
        **{name: answer.json()[name] for name in ("access_token", "id_token", "refresh_token")},
        "logout_token": logout_token(rp, rp.client_id, rp.user["id"], rp.tenant["id"]),
        "entity_token": party.scim.token,
        "request_object": request_object(rp, key=CLIENT_KEY),
        "client_assertion": client_signer.signed(CLIENT_KEY, client_signer.claims(rp)),
    }


def resigned(token: str, **changes: Any) -> str:
    """Return a token with other claims, signed with the key of both tenants; None removes a claim."""
    named = {name: header(token)[name] for name in ("alg", "kid", "typ")}
    kept = {name: value for name, value in {**claims(token), **changes}.items() if value is not None}
    return jwt.encode(named, kept, OctKey.import_key(SECRET))


def logout_token(rp: RelyingParty, audience: str, subject: str, tenant_id: str | None) -> str:
    """Return a logout token as the tenant signs it, with a tenant that real ones do not name."""
    now = int(time.time())
    body = {"iss": rp.tenant["issuer"], "aud": audience, "sub": subject, "iat": now, "exp": now + 120, "jti": new_id()}
    named = {**body, "events": LOGOUT_EVENT, **({} if tenant_id is None else {"tid": tenant_id})}
    return jwt.encode({"alg": "HS256", "typ": "logout+jwt"}, named, OctKey.import_key(SECRET))


def forged(first: Party, second: Party) -> Iterator[tuple[str, str]]:
    """Yield (description, token): tokens of the first party, also changed towards the second one and signed again.

    A token whose `tid` names the second tenant as well would be one of that tenant.
    """
    yield from ((f"genuine {kind}", token) for kind, token in first.tokens.items())
    audiences, subjects = (first.rp.client_id, second.rp.client_id), (first.rp.user["id"], second.rp.user["id"])
    tenants = (first.rp.tenant["id"], None)
    for aud, sub, tid in itertools.product(audiences, subjects, tenants):
        for kind in ("access_token", "id_token"):
            yield f"{kind}: aud {aud}, sub {sub}, tid {tid}", resigned(first.tokens[kind], aud=aud, sub=sub, tid=tid)
    for tid in tenants:
        yield f"logout_token: tid {tid}", logout_token(first.rp, second.rp.client_id, second.rp.user["id"], tid)
        yield f"entity_token: tid {tid}", resigned(second.scim.token, tid=tid)
    for issuer in audiences:
        changed = client_signer.claims(first.rp, iss=issuer, sub=first.rp.client_id)
        yield f"client_assertion: iss {issuer}", client_signer.signed(CLIENT_KEY, changed)
        yield f"request_object: iss {issuer}", request_object(first.rp, key=CLIENT_KEY, iss=issuer)


# The uses: each returns whether the party's tenant accepts a token


async def at_userinfo(party: Party, http: httpx.AsyncClient, token: str) -> bool:
    """Userinfo is an endpoint of all tenants: it must not return a user of this one."""
    answer = await http.get("/oauth2/userinfo", headers={"Authorization": f"Bearer {token}"})
    return answer.is_success and answer.json()["sub"] == party.rp.user["id"]


async def at_introspection(party: Party, http: httpx.AsyncClient, token: str) -> bool:
    form = {"client_id": party.rp.client_id, "client_secret": party.rp.secret, "token": token}
    answer = await http.post("/oauth2/introspect", data=form)
    return answer.is_success and bool(answer.json()["active"])


async def at_validation(party: Party, http: httpx.AsyncClient, token: str) -> bool:
    return (await http.get("/api/jwt/validate", headers=bearer(party, token))).is_success


async def at_user_api(party: Party, http: httpx.AsyncClient, token: str) -> bool:
    return (await http.get("/api/user", headers=bearer(party, token))).is_success


async def at_console_api(party: Party, http: httpx.AsyncClient, token: str) -> bool:
    """The calls that the console sends need an API key or the session of an administrator."""
    answers = [await http.get(path, headers=bearer(party, token)) for path in ("/api/user/search", "/admin/users")]
    return any(answer.is_success for answer in answers)


async def at_scim(party: Party, http: httpx.AsyncClient, token: str) -> bool:
    return (await http.get(f"{scim.ROOT}/Users", headers=bearer(party, token))).is_success


async def at_token_exchange(party: Party, http: httpx.AsyncClient, token: str) -> bool:
    answers = [
        await party.rp.token(http, grant_type=EXCHANGE, subject_token=token, subject_token_type=f"{TYPE}{kind}")
        for kind in ("access_token", "id_token")
    ]
    return any(answer.is_success for answer in answers)


async def at_refresh(party: Party, http: httpx.AsyncClient, token: str) -> bool:
    return (await party.rp.refresh(http, token)).is_success


async def at_refresh_api(party: Party, http: httpx.AsyncClient, token: str) -> bool:
    body = {"refreshToken": token, "token": token}
    headers = {"X-FusionAuth-TenantId": party.rp.tenant["id"]}
    return (await http.post("/api/jwt/refresh", json=body, headers=headers)).is_success


async def at_logout(party: Party, http: httpx.AsyncClient, token: str) -> bool:
    """Whether the token alone identifies the client, to whose URI a logout redirects."""
    query = {"id_token_hint": token, "post_logout_redirect_uri": party.logout_uri}
    answer = await http.get("/oauth2/logout", params=query)
    return answer.is_redirect and answer.headers["Location"].startswith(party.logout_uri)


async def at_authorization(party: Party, http: httpx.AsyncClient, token: str) -> bool:
    """Whether the token is a request object of the client."""
    query = {"client_id": party.rp.client_id, "request": token}
    answer = await http.get("/oauth2/authorize", params=query)
    return answer.is_success or (answer.is_redirect and "error=" not in answer.headers["Location"])


async def at_client_authentication(party: Party, http: httpx.AsyncClient, token: str) -> bool:
    form = client_signer.form(token, client_id=party.rp.client_id, token="x")
    answer = await http.post("/oauth2/introspect", data={name: value for name, value in form.items() if value})
    return answer.is_success


USES: Final[dict[str, Callable[[Party, httpx.AsyncClient, str], Awaitable[bool]]]] = {
    "userinfo": at_userinfo,
    "introspection": at_introspection,
    "validation": at_validation,
    "user API": at_user_api,
    "console API": at_console_api,
    "SCIM": at_scim,
    "token exchange": at_token_exchange,
    "refresh": at_refresh,
    "refresh API": at_refresh_api,
    "logout": at_logout,
    "authorization": at_authorization,
    "client authentication": at_client_authentication,
}


def bearer(party: Party, token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "X-FusionAuth-TenantId": party.rp.tenant["id"]}


async def uses_of(party: Party, http: httpx.AsyncClient, token: str) -> set[str]:
    """Return the uses of a token that a party's tenant accepts."""
    found = set()
    for name, use in USES.items():
        http.cookies.clear()
        if await use(party, http, token):
            found.add(name)
    return found


@pytest.mark.requirement("audit-a2-issuer")
async def test_forged_tokens_are_refused_by_the_other_tenant_in_every_use(pair, http) -> None:
    first, second = pair
    assert first.rp.tenant["issuer"] == second.rp.tenant["issuer"]
    candidates = list(forged(first, second))
    assert len(candidates) * len(USES) >= 64
    found = [(described, await uses_of(second, http, token)) for described, token in candidates]
    assert [each for each in found if each[1]] == []
    for _, token in candidates:
        form = {"client_id": second.rp.client_id, "client_secret": second.rp.secret, "token": token}
        assert (await http.post("/oauth2/revoke", data=form)).status_code in {200, 400}
    # The tokens were not revoked, and each is accepted by its own tenant.
    accepted = {kind: await uses_of(first, http, token) for kind, token in first.tokens.items()}
    assert accepted == {
        "access_token": {"userinfo", "introspection", "validation", "user API", "token exchange"},
        "id_token": {"introspection", "logout", "token exchange"},
        "refresh_token": {"refresh", "refresh API"},
        "logout_token": set(),
        "entity_token": {"SCIM"},
        "request_object": {"authorization"},
        "client_assertion": {"client authentication"},
    }
    assert set().union(*accepted.values()) | {"console API"} == set(USES)


@pytest.mark.requirement("audit-a2-issuer", "core-11-39")
async def test_provider_that_trusts_the_signing_key_accepts_no_token_of_a_tenant(pair, api, http) -> None:
    """A key may serve an external JWT provider as well as the tokens of tenants."""
    first, second = pair
    provider = {
        "type": "ExternalJWT",
        "name": new_id(),
        "enabled": True,
        "verificationKeyIds": [second.key_id],
        "applicationConfiguration": {second.rp.client_id: {"enabled": True, "createRegistration": True}},
    }
    made = await api.post("/api/identity-provider", json={"identityProvider": provider})
    assert made.status_code == 200, made.text
    login = {"identityProviderId": made.json()["identityProvider"]["id"], "applicationId": second.rp.client_id}

    async def is_accepted(token: str) -> bool:
        answer = await http.post("/api/identity-provider/login", json={**login, "data": {"token": token}})
        assert answer.is_success or answer.status_code in {400, 401}, answer.text
        return answer.is_success

    candidates = {**first.tokens, **{f"own {kind}": token for kind, token in second.tokens.items()}}
    assert [kind for kind, token in candidates.items() if await is_accepted(token)] == []
    email = {"email": f"{new_id()}@example.com", "email_verified": True}
    assert await is_accepted(resigned(first.tokens["id_token"], tid=None, sub=new_id(), **email))
