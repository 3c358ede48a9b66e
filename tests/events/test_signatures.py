"""Signatures on the wire by every kind of key, verified with independent libraries."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from joserfc import jws
from joserfc.jwk import OctKey
from standardwebhooks import Webhook

from identity.ids import new_id
from tests.receiver import Received, receiving


async def make_key(api, algorithm: str) -> dict[str, Any]:
    wish = {"name": new_id(), "algorithm": algorithm, "length": 2048 if algorithm == "RS256" else None}
    answer = await api.post("/api/key/generate", json={"key": wish})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["key"])


async def import_hmac(api, secret: str) -> dict[str, Any]:
    wish = {"name": new_id(), "type": "HMAC", "algorithm": "HS256", "secret": secret}
    answer = await api.post("/api/key/import", json={"key": wish})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["key"])


async def delivered(api, **signature: Any) -> Received:
    """The request of a webhook with this signature configuration."""
    async with receiving() as receiver:
        wanted = {
            "url": receiver.url,
            "connectTimeout": 2000,
            "readTimeout": 2000,
            "signatureConfiguration": {"enabled": True, **signature},
        }
        made = await api.post("/api/webhook", json={"webhook": wanted})
        assert made.status_code == 200, made.text
        has_attempts = await api.post(f"/api/webhook/{made.json()['webhook']['id']}/test", json={})
        assert has_attempts.json()["webhookAttemptLog"]["attemptResult"] == "Success"
        return receiver.requests[0]


def signed_content(request: Received) -> bytes:
    headers = request.headers
    return f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + request.body


def claims(request: Received) -> dict[str, Any]:
    """The unverified claims of the published signature."""
    part = request.headers["x-fusionauth-signature-jwt"].split(".")[1]
    return dict(json.loads(base64.urlsafe_b64decode(part + "==")))


async def test_an_hmac_key_signs_the_standard_way_and_the_published_way(api):
    secret = "a secret of the test suite, long enough for HS256"
    key = await import_hmac(api, secret)
    request = await delivered(api, signingKeyId=key["id"])
    standard = f"whsec_{base64.b64encode(secret.encode()).decode()}"
    assert Webhook(standard).verify(request.body, request.headers)
    token = request.headers["x-fusionauth-signature-jwt"]
    assert jws.deserialize_compact(token, OctKey.import_key(secret), algorithms=["HS256"])


@pytest.mark.requirement("webhooks-10-4")
async def test_keys_sign_the_standard_way_when_their_algorithm_has_one(api):
    key = await make_key(api, "Ed25519")
    request = await delivered(api, signingKeyId=key["id"])
    version, _, signature = request.headers["webhook-signature"].partition(",")
    assert version == "v1a"
    public = load_pem_public_key(key["publicKey"].encode())
    assert isinstance(public, Ed25519PublicKey)
    public.verify(base64.b64decode(signature), signed_content(request))


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "HS512"])
async def test_other_keys_sign_the_published_way_alone(api, algorithm):
    request = await delivered(api, signingKeyId=(await make_key(api, algorithm))["id"])
    assert "webhook-signature" not in request.headers
    assert claims(request) == {"request_body_sha256": base64.b64encode(hashlib.sha256(request.body).digest()).decode()}


@pytest.mark.requirement("webhooks-10-5")
async def test_both_keys_sign_while_one_replaces_the_other(api):
    old, new = "the old secret of the test suite, long enough", "the new secret of the test suite, long enough"
    keys = [await import_hmac(api, secret) for secret in (new, old)]
    request = await delivered(api, signingKeyId=keys[0]["id"], previousSigningKeyId=keys[1]["id"])
    for secret in (old, new):
        assert Webhook(f"whsec_{base64.b64encode(secret.encode()).decode()}").verify(request.body, request.headers)
    header = request.headers["x-fusionauth-signature-jwt"].split(".")[0]
    assert json.loads(base64.urlsafe_b64decode(header + "=="))["kid"] == keys[0]["kid"]


async def test_previous_key_does_not_sign_after_its_expiry(api):
    keys = [await import_hmac(api, f"a secret of the test suite, long enough {number}") for number in "12"]
    request = await delivered(
        api, signingKeyId=keys[0]["id"], previousSigningKeyId=keys[1]["id"], previousSigningKeyEndInstant=1
    )
    assert len(request.headers["webhook-signature"].split()) == 1


@pytest.mark.requirement("webhooks-10-3")
async def test_timed_claims_say_when_and_for_which_event(api):
    key = await make_key(api, "ES256")
    request = await delivered(api, signingKeyId=key["id"], timedClaims=True)
    said = claims(request)
    assert said["jti"] == request.event["id"]
    assert str(said["iat"]) == request.headers["webhook-timestamp"]
    assert said["exp"] == said["iat"] + 300


async def test_previous_key_gets_an_expiry_and_must_be_able_to_sign(api):
    key = await make_key(api, "ES256")
    wanted = {"url": "https://example.com", "connectTimeout": 1, "readTimeout": 1}
    signature = {"enabled": True, "signingKeyId": key["id"], "previousSigningKeyId": key["id"]}
    made = (await api.post("/api/webhook", json={"webhook": {**wanted, "signatureConfiguration": signature}})).json()
    end = made["webhook"]["signatureConfiguration"]["previousSigningKeyEndInstant"]
    assert end == made["webhook"]["insertInstant"] + 86_400_000
    unknown = {**signature, "previousSigningKeyId": new_id()}
    refused = await api.post("/api/webhook", json={"webhook": {**wanted, "signatureConfiguration": unknown}})
    assert list(refused.json()["fieldErrors"]) == ["webhook.signatureConfiguration.previousSigningKeyId"]
    alone = {"enabled": False, "previousSigningKeyEndInstant": 5}
    made = (await api.post("/api/webhook", json={"webhook": {**wanted, "signatureConfiguration": alone}})).json()
    assert made["webhook"]["signatureConfiguration"] == {"enabled": False}
    in_use = await api.delete(f"/api/key/{key['id']}")
    assert in_use.json()["fieldErrors"]["keyId"][0]["code"] == "[inUse]keyId"
