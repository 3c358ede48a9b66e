"""Signatures verified with independent libraries: every kind of key, altered bytes, and key rotation."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import warnings
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from joserfc import jws
from joserfc.errors import BadSignatureError
from joserfc.jwk import KeySet, OctKey
from standardwebhooks import Webhook, WebhookVerificationError

from identity.ids import new_id
from tests import internals
from tests.events.test_signatures import delivered, import_hmac, make_key, signed_content
from tests.receiver import Received, answers, in_turn, receiving, until
from tests.webhooks import make_user, make_webhook

with warnings.catch_warnings(record=True):
    # The older JOSE library, which warns unconditionally: many receivers use it.
    from authlib.jose import JsonWebKey, JsonWebSignature
    from authlib.jose import errors as authlib_errors

ASYMMETRIC = ["RS256", "RS384", "RS512", "ES256", "ES384", "ES512"]
SYMMETRIC = ["HS256", "HS384", "HS512"]
SECRET = "a secret of the test suite, as long as the longest digest, which has sixty-four bytes"
NAMES = [*ASYMMETRIC, *SYMMETRIC, "Ed25519"]


def token(request: Received) -> str:
    return request.headers["x-fusionauth-signature-jwt"]


def digest(body: bytes) -> dict[str, str]:
    return {"request_body_sha256": base64.b64encode(hashlib.sha256(body).digest()).decode()}


def by_joserfc(text: str, keys: Any) -> dict[str, Any]:
    """The claims, verified; raises BadSignatureError."""
    return dict(json.loads(jws.deserialize_compact(text, keys, algorithms=NAMES).payload))


def by_authlib(text: str, keys: Any) -> dict[str, Any]:
    """The verified claims; raises its own BadSignatureError."""
    with warnings.catch_warnings(record=True):
        return dict(json.loads(JsonWebSignature(NAMES).deserialize_compact(text, keys)["payload"]))


def altered(text: str, part: int) -> str:
    """The token with one bit of one part changed."""
    parts = text.split(".")
    octets = bytearray(base64.urlsafe_b64decode(parts[part] + "=="))
    octets[len(octets) // 2] ^= 1
    parts[part] = base64.urlsafe_b64encode(octets).decode().rstrip("=")
    return ".".join(parts)


def prove(request: Received, jose_keys: Any, authlib_keys: Any) -> None:
    """Both libraries accept the token for exactly this body, and reject altered tokens."""
    for verify, keys, error in (
        (by_joserfc, jose_keys, BadSignatureError),
        (by_authlib, authlib_keys, authlib_errors.BadSignatureError),
    ):
        claims = verify(token(request), keys)
        assert claims == digest(request.body)
        changed = bytearray(request.body)
        changed[len(changed) // 2] ^= 1
        assert claims != digest(bytes(changed))
        for part in (1, 2):
            with pytest.raises(error):
                verify(altered(token(request), part), keys)


async def published(api: Any, http: Any, algorithm: str) -> tuple[Received, dict[str, Any]]:
    """A delivery signed by a new key, and the key from the key set."""
    length = 2048 if algorithm.startswith("RS") else None
    wish = {"name": new_id(), "algorithm": algorithm, "length": length}
    key = (await api.post("/api/key/generate", json={"key": wish})).json()["key"]
    request = await delivered(api, signingKeyId=key["id"])
    header = json.loads(base64.urlsafe_b64decode(token(request).split(".")[0] + "=="))
    assert header == {"alg": algorithm, "kid": key["kid"], "typ": "JWT"}
    keys = (await http.get("/.well-known/jwks.json")).json()["keys"]
    (one,) = [each for each in keys if each["kid"] == key["kid"]]
    return request, one


@pytest.mark.requirement("webhooks-15.3-39")
@pytest.mark.parametrize("algorithm", ASYMMETRIC)
async def test_published_keys_prove_the_published_signature_to_independent_libraries(api, http, algorithm):
    request, one = await published(api, http, algorithm)
    with warnings.catch_warnings(record=True):
        authlib_key = JsonWebKey.import_key(one)
    prove(request, KeySet.import_key_set({"keys": [one]}), authlib_key)


@pytest.mark.requirement("webhooks-15.3-39")
async def test_an_edwards_key_proves_the_published_signature(api, http):
    """With its name of RFC 9864, as in the key set; Authlib's older library supports only the previous name."""
    request, one = await published(api, http, "Ed25519")
    keys = KeySet.import_key_set({"keys": [one]})
    assert by_joserfc(token(request), keys) == digest(request.body)
    for part in (1, 2):
        with pytest.raises(BadSignatureError):
            by_joserfc(altered(token(request), part), keys)
    signed, _, signature = token(request).rpartition(".")
    public = Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(one["x"] + "=="))
    public.verify(base64.urlsafe_b64decode(signature + "=="), signed.encode())


@pytest.mark.requirement("webhooks-15.3-39")
@pytest.mark.parametrize("algorithm", SYMMETRIC)
async def test_shared_keys_prove_the_published_signature_to_independent_libraries(api, http, algorithm):
    wish = {"name": new_id(), "type": "HMAC", "algorithm": algorithm, "secret": SECRET}
    key = (await api.post("/api/key/import", json={"key": wish})).json()["key"]
    request = await delivered(api, signingKeyId=key["id"])
    prove(request, OctKey.import_key(SECRET), SECRET)
    keys = (await http.get("/.well-known/jwks.json")).json()["keys"]
    assert key["kid"] not in {each["kid"] for each in keys}
    # And by nothing but what Python has.
    signed, _, signature = token(request).rpartition(".")
    expected = hmac.new(SECRET.encode(), signed.encode(), f"sha{algorithm[2:]}").digest()
    assert base64.urlsafe_b64decode(signature + "==") == expected


# Standard Webhooks


def standard(secret: str) -> Webhook:
    return Webhook(f"whsec_{base64.b64encode(secret.encode()).decode()}")


@pytest.mark.requirement("webhooks-15.3-23", "webhooks-15.3-4")
async def test_secrets_and_keys_of_both_kinds_sign_in_one_header(api):
    """Two shared secrets, an Ed25519 key, and the HMAC key before it: a receiver with any of them can verify."""
    edwards, old_key = await make_key(api, "Ed25519"), await import_hmac(api, SECRET)
    signature = {"enabled": True, "signingKeyId": edwards["id"], "previousSigningKeyId": old_key["id"]}
    wanted = {"connectTimeout": 2000, "readTimeout": 2000, "signatureConfiguration": signature}
    async with receiving() as receiver:
        made = await api.post("/api/webhook", json={"webhook": {"url": receiver.url, **wanted}})
        path = f"/api/webhook/{made.json()['webhook']['id']}"
        secrets = [(await api.post(f"{path}/secret", json={})).json()["secret"] for _ in range(2)]
        await api.post(f"{path}/test", json={})
    (request,) = receiver.requests
    signatures = request.headers["webhook-signature"].split(" ")
    assert sorted(each.split(",")[0] for each in signatures) == ["v1", "v1", "v1", "v1a"]
    for verifier in (*map(Webhook, secrets), standard(SECRET)):
        assert verifier.verify(request.body, request.headers) == json.loads(request.body)
        with pytest.raises(WebhookVerificationError):
            verifier.verify(request.body.replace(b"user", b"usfr", 1), request.headers)
        for name in ("webhook-id", "webhook-timestamp"):
            moved = {
                **request.headers,
                name: request.headers[name][:-1] + ("1" if request.headers[name][-1] != "1" else "2"),
            }
            with pytest.raises(WebhookVerificationError):
                verifier.verify(request.body, moved)
    with pytest.raises(WebhookVerificationError):
        standard("a guessed secret, and a wrong one").verify(request.body, request.headers)
    public = load_pem_public_key(edwards["publicKey"].encode())
    assert isinstance(public, Ed25519PublicKey)
    (edwards_signature,) = [base64.b64decode(each[4:]) for each in signatures if each.startswith("v1a,")]
    public.verify(edwards_signature, signed_content(request))
    with pytest.raises(InvalidSignature):
        public.verify(edwards_signature, signed_content(request) + b" ")


async def test_a_secret_for_receivers_has_as_many_random_bytes_as_libraries_take(api):
    made = await api.post(
        "/api/webhook", json={"webhook": {"url": "https://example.com", "connectTimeout": 1, "readTimeout": 1}}
    )
    path = f"/api/webhook/{made.json()['webhook']['id']}/secret"
    found = {(await api.post(path, json={"overlapInSeconds": 0})).json()["secret"] for _ in range(3)}
    assert len(found) == 3
    assert all(24 <= len(base64.b64decode(each.removeprefix("whsec_"), validate=True)) <= 64 for each in found)


@pytest.mark.requirement("webhooks-15.3-39")
async def test_keys_and_secrets_that_change_between_two_attempts_sign_the_second(
    service, api, tenant, tenant_api, clock
):
    """Body and id are unchanged; the current keys of the webhook sign each attempt."""
    enabled = {"tenant": {"eventConfiguration": {"events": {"user.create.complete": {"enabled": True}}}}}
    assert (await tenant_api.patch(f"/api/tenant/{tenant['id']}", json=enabled)).status_code == 200
    keys = [await import_hmac(api, f"{SECRET} {number}") for number in (1, 2)]
    async with receiving(in_turn(answers(500), answers(200))) as receiver:
        signing = {"enabled": True, "signingKeyId": keys[0]["id"]}
        webhook = await make_webhook(api, tenant, receiver.url, signatureConfiguration=signing)
        path = f"/api/webhook/{webhook['id']}"
        first_secret = (await api.post(f"{path}/secret", json={})).json()["secret"]
        await make_user(tenant_api)
        await receiver.wait_for(1)
        second_secret = (await api.post(f"{path}/secret", json={"overlapInSeconds": 0})).json()["secret"]
        changed = {"webhook": {"signatureConfiguration": {"signingKeyId": keys[1]["id"]}}}
        assert (await api.patch(path, json=changed)).status_code == 200
        deliveries = internals.database(service).collection("deliveries")
        await until(lambda: _failed_once(deliveries, webhook["id"]))
        clock.advance(seconds=10)
        internals.store(service, "wake_workers")()
        await receiver.wait_for(2)
    one, two = receiver.requests
    assert (one.body, one.headers["webhook-id"]) == (two.body, two.headers["webhook-id"])
    for request, number, secret, other in (
        (one, 1, first_secret, second_secret),
        (two, 2, second_secret, first_secret),
    ):
        assert by_joserfc(token(request), OctKey.import_key(f"{SECRET} {number}")) == digest(request.body)
        with pytest.raises(BadSignatureError):
            by_joserfc(token(request), OctKey.import_key(f"{SECRET} {3 - number}"))
        Webhook(secret).verify(request.body, request.headers)
        with pytest.raises(WebhookVerificationError):
            Webhook(other).verify(request.body, request.headers)


async def _failed_once(deliveries: Any, webhook_id: str) -> bool:
    found = await deliveries.find_one({"webhookId": webhook_id, "lease": {"$exists": False}})
    return found is not None and len(found["attempts"]) == 1
