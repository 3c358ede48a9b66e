"""Tokens with unpaired surrogates, which cannot be stored or looked up."""

from __future__ import annotations

import hmac
import json
from typing import Any

import pytest

from identity.domain.clients.client_assertions import JWT_BEARER
from identity.ids import base64url
from tests import client_signer
from tests.dpop import ClientKey
from tests.relying_party import REDIRECT_URI

HALF = "\ud800"
CODE = {"grant_type": "authorization_code", "code": "c", "redirect_uri": REDIRECT_URI}


def unsigned(header: dict[str, Any], claims: dict[str, Any]) -> str:
    return ".".join(base64url(json.dumps(part).encode()) for part in (header, claims))


def signed(secret: str, claims: dict[str, Any]) -> str:
    text = unsigned({"alg": "HS256", "typ": "JWT"}, claims)
    return f"{text}.{base64url(hmac.digest(secret.encode(), text.encode(), 'sha256'))}"


@pytest.fixture
async def secretive(rp):
    """A relying party that may sign with its secret."""
    await rp.configure(clientAuthenticationMethods=["client_secret_jwt", "client_secret_post"])
    return rp


@pytest.mark.requirement("attack-67")
@pytest.mark.parametrize("member", ["sub", "jti"])
async def test_lone_surrogate_in_an_assertion_is_rejected(secretive, http, member):
    assertion = signed(secretive.secret, client_signer.claims(secretive, **{member: HALF}))
    form = {**CODE, "client_assertion_type": JWT_BEARER, "client_assertion": assertion}
    for path in ("token", "par", "introspect", "revoke", "device_authorize", "device/approve"):
        answer = await http.post(f"/oauth2/{path}", data=form)
        assert answer.status_code in {400, 401}, (path, answer.text)
        assert answer.json()["error"] == "invalid_client", path


async def test_lone_surrogate_in_a_request_object_is_rejected(secretive, http):
    for changes in ({"state": HALF}, {"claims": {"id_token": {HALF: None}}}, {"jti": HALF}):
        claims = {**secretive.query(), **client_signer.claims(secretive, sub=None), **changes}
        form = {**secretive.query(), "request": signed(secretive.secret, claims)}
        answer = await http.get("/oauth2/authorize", params=form)
        assert "error=invalid_request_object" in answer.headers["Location"]
        pushed = await http.post("/oauth2/par", data={**form, "client_secret": secretive.secret})
        assert (pushed.status_code, pushed.json()["error"]) == (400, "invalid_request_object")


@pytest.mark.parametrize("member", ["jti", "htu"])
async def test_lone_surrogate_in_a_proof_is_rejected(rp, http, member):
    proof = ClientKey().header(http, "POST", "/oauth2/token", **{member: HALF})
    form = {**CODE, "client_id": rp.client_id, "client_secret": rp.secret}
    answer = await http.post("/oauth2/token", data=form, headers=proof)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_dpop_proof")


async def test_lone_surrogate_in_an_access_token_is_rejected(rp, http):
    for members in ({"aud": HALF}, {"sub": HALF, "gty": ["client_credentials"]}):
        claims = {"sub": rp.user["id"], "aud": rp.client_id, "tty": "at", **members}
        token = f"{unsigned({'alg': 'RS256', 'kid': 'k'}, claims)}.AAAA"
        answer = await http.get("/oauth2/userinfo", headers={"Authorization": f"Bearer {token}"})
        assert (answer.status_code, answer.json()["error_reason"]) == (401, "access_token_malformed")
        form = {"client_id": rp.client_id, "client_secret": rp.secret, "token": token}
        assert (await http.post("/oauth2/introspect", data=form)).json() == {"active": False}
