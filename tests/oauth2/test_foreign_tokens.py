"""Access tokens with a valid signature but another purpose, issuer or time."""

from __future__ import annotations

import secrets
import time

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from identity.ids import new_id
from tests.relying_party import claims, header

SECRET = secrets.token_urlsafe(48)


@pytest.fixture
async def forge(rp, browser, http, api):
    """Signs the claims of a real access token, changed, with the key that the application signs with."""
    key = {"type": "HMAC", "algorithm": "HS256", "name": new_id(), "secret": SECRET}
    answer = await api.post("/api/key/import", json={"key": key})
    assert answer.status_code == 200, answer.text
    key_id = answer.json()["key"]["id"]
    configuration = {
        "enabled": True, "accessTokenKeyId": key_id, "idTokenKeyId": key_id,
        "timeToLiveInSeconds": 600, "refreshTokenTimeToLiveInMinutes": 60,
    }  # fmt: skip
    await rp.patch(f"/api/application/{rp.client_id}", {"application": {"jwtConfiguration": configuration}})
    token = (await rp.tokens(http, browser))["access_token"]

    def sign(**changes: object) -> str:
        changed = {name: value for name, value in {**claims(token), **changes}.items() if value is not None}
        named = {name: header(token)[name] for name in ("alg", "kid", "typ")}
        return jwt.encode(named, changed, OctKey.import_key(SECRET))

    return sign


async def get_userinfo(http, token: str):
    return await http.get("/oauth2/userinfo", headers={"Authorization": f"Bearer {token}"})


async def test_token_signed_elsewhere_with_a_stored_key_is_accepted(forge, http):
    assert (await get_userinfo(http, forge())).status_code == 200


@pytest.mark.requirement("oauth-4.2-7", "reason-access_token_unavailable_for_processing")
async def test_token_issued_in_the_future_is_rejected_with_its_reason(forge, http):
    answer = await get_userinfo(http, forge(nbf=int(time.time()) + 600))
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_token")
    assert answer.json()["error_reason"] == "access_token_unavailable_for_processing"


@pytest.mark.requirement("oauth-4.2-5")
@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://other.example.com"},
        {"iss": None},
        {"aud": "00000000-0000-0000-0000-000000000000"},
        {"aud": None},
        {"tid": "00000000-0000-0000-0000-000000000000"},
        {"tty": "id"},
        {"exp": None},
    ],
)
async def test_token_of_another_issuer_or_audience_is_invalid(forge, http, changes):
    answer = await get_userinfo(http, forge(**changes))
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_token")
    assert answer.json()["error_reason"] in {"access_token_invalid", "access_token_malformed", "id_token_invalid"}
