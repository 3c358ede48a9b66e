"""Tokens of one tenant at another one that has the same issuer and signs with the same key."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from identity.ids import new_id
from tests import relying_party
from tests.relying_party import RelyingParty, claims, header

SECRET = secrets.token_urlsafe(48)
SIGNING = ("accessTokenKeyId", "idTokenKeyId")


@pytest.fixture
async def pair(api) -> tuple[RelyingParty, RelyingParty]:
    """A relying party of each of two tenants with one issuer and one key."""
    key = {"type": "HMAC", "algorithm": "HS256", "name": new_id(), "secret": SECRET}
    key_id = (await api.post("/api/key/import", json={"key": key})).json()["key"]["id"]
    shared = {
        "issuer": f"https://{new_id()}.example.com",
        "jwtConfiguration": dict.fromkeys(SIGNING, key_id),
        "passwordEncryptionConfiguration": relying_party.CHEAP,
    }
    tenants = [await relying_party.make_tenant(api, **shared) for _ in range(2)]
    first, second = [await relying_party.make(api, tenant=tenant) for tenant in tenants]
    return first, second


def forged(tokens: dict[str, Any], first: RelyingParty, second: RelyingParty) -> Iterator[tuple[str, str]]:
    """Yield (description, token): both tokens of the first tenant, changed towards the second one and signed again.

    A token whose `tid` names the second tenant as well would be one of that tenant.
    """
    audiences, subjects = (first.client_id, second.client_id), (first.user["id"], second.user["id"])
    kinds = ("access_token", "id_token")
    for kind, aud, sub, tid in itertools.product(kinds, audiences, subjects, (first.tenant["id"], None)):
        token = tokens[kind]
        changed = {**claims(token), "aud": aud, "sub": sub, "tid": tid}
        named = {name: header(token)[name] for name in ("alg", "kid", "typ")}
        kept = {name: value for name, value in changed.items() if value is not None}
        yield f"{kind}: aud {aud}, sub {sub}, tid {tid}", jwt.encode(named, kept, OctKey.import_key(SECRET))


async def accepted_at(http: httpx.AsyncClient, party: RelyingParty, token: str) -> list[str]:
    """Return the endpoints of a party's tenant that accept a token; userinfo, of all tenants, as one of its user."""
    headers = {"Authorization": f"Bearer {token}", "X-FusionAuth-TenantId": party.tenant["id"]}
    form = {"client_id": party.client_id, "client_secret": party.secret, "token": token}
    userinfo = await http.get("/oauth2/userinfo", headers={"Authorization": headers["Authorization"]})
    introspected = await http.post("/oauth2/introspect", data=form)
    validated = await http.get("/api/jwt/validate", headers=headers)
    user = await http.get("/api/user", headers=headers)
    accepted = [name for name, answer in (("validate", validated), ("user", user)) if answer.is_success]
    if userinfo.is_success and userinfo.json()["sub"] == party.user["id"]:
        accepted.append("userinfo")
    return [*accepted, *(["introspect"] if introspected.is_success and introspected.json()["active"] else [])]


@pytest.mark.requirement("audit-a2-issuer")
async def test_64_forged_uses_of_tokens_at_the_other_tenant_are_refused(pair, http, browser) -> None:
    first, second = pair
    tokens = await first.tokens(http, browser)
    assert claims(tokens["access_token"])["iss"] == second.tenant["issuer"]
    candidates = list(forged(tokens, first, second))
    assert len(candidates) * 4 == 64
    found = [(described, await accepted_at(http, second, token)) for described, token in candidates]
    assert [each for each in found if each[1]] == []
    # At its own tenant the token is valid.
    assert await accepted_at(http, first, tokens["access_token"]) == ["validate", "user", "userinfo", "introspect"]
