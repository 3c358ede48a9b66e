"""One delivery on the wire: headers, credentials, signature, client certificate and result."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pytest
from joserfc import jws
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey

from identity.errors import NotFound
from identity.events.delivery import AttemptResult, DeliveryContext
from identity.ids import EventId, Secret, new_id
from identity.outbound.http import HttpClient
from tests import certificates
from tests.events.conftest import LOOPBACK
from tests.receiver import Behaviour, Received, Receiver, answers, drips, hangs, receiving, resets

BODY = '{"event":{"name":"Zoë"}}'.encode()
EVENT_ID = EventId(new_id())


async def deliver(engine: Any, receiver: Receiver, **members: Any) -> tuple[AttemptResult, Received | None]:
    webhook = engine.add_webhook(receiver.url, "user.create", **members)
    result = await engine.deliverer.attempt(webhook, EVENT_ID, BODY, DeliveryContext("user.create"))
    return result, receiver.requests[-1] if receiver.requests else None


async def received(engine: Any, **members: Any) -> Received:
    async with receiving() as receiver:
        result, request = await deliver(engine, receiver, **members)
        assert result.attempt.succeeded
        assert request is not None
        return request


@pytest.mark.requirement("webhooks-9-1", "webhooks-9-2")
async def test_plain_delivery_has_exactly_these_headers(engine: Any) -> None:
    before = engine.clock.now() // 1000
    request = await received(engine)
    timestamp = int(request.headers["webhook-timestamp"])
    assert before <= timestamp <= engine.clock.now() // 1000
    assert {name: value for name, value in request.headers.items() if name not in {"host", "webhook-timestamp"}} == {
        "accept": "application/json",
        "content-length": str(len(BODY)),
        "content-type": "application/json",
        "user-agent": "identity/1.2.3",
        "webhook-id": EVENT_ID,
        "webhook-via": "0123456789abcdef",
    }
    assert (request.method, request.version, request.body) == ("POST", "HTTP/1.1", BODY)


@pytest.mark.requirement("contract-webhook-headers", "webhooks-2-8", "webhooks-9-3")
async def test_configured_headers_are_sent_but_replace_nothing_of_ours(engine: Any) -> None:
    headers = {
        "X-Secret": " s3cret ",
        "content-type": "text/plain",
        "Header 1": "value 1",
        "Authorization": "Bearer own",
    }
    request = await received(engine, headers=headers, httpAuthenticationUsername="user")
    assert request.headers["x-secret"] == "s3cret"
    assert [value for name, value in request.header_list if name.lower() == "content-type"] == ["application/json"]
    assert request.headers["authorization"] == "Bearer own"
    assert "header 1" not in request.headers


@pytest.mark.requirement("attack-62")
async def test_attack_62_stored_header_that_forges_is_not_sent(engine: Any) -> None:
    """Invalid headers may have been stored by an earlier version."""
    headers = {"Host": "evil", "webhook-id": "forged", "X-FusionAuth-Signature-JWT": "forged"}
    request = await received(engine, headers=headers)
    assert request.headers["host"] != "evil"
    assert request.headers["webhook-id"] == EVENT_ID
    assert "x-fusionauth-signature-jwt" not in request.headers


@pytest.mark.requirement(
    "contract-authentication-10", "contract-webhook-httpAuthentication", "webhooks-2-10", "webhooks-9-3"
)
@pytest.mark.parametrize(
    ("username", "password", "expected"),
    [
        ("user", "password", "user:password"),
        ("user", None, "user:"),
        ("üser", "pässword", "üser:pässword"),
        (None, "password", None),
        (None, None, None),
    ],
)
async def test_basic_credentials(engine: Any, username: str | None, password: str | None, expected: str | None) -> None:
    members = {"httpAuthenticationUsername": username, "httpAuthenticationPassword": password}
    request = await received(engine, **members)
    encoded = None if expected is None else f"Basic {base64.b64encode(expected.encode()).decode()}"
    assert request.headers.get("authorization") == encoded


SIGNING_KEYS = {
    "RS256": RSAKey.generate_key(2048, {"kid": "rsa"}),
    "ES256": ECKey.generate_key("P-256", {"kid": "ec"}),
    "HS256": OctKey.generate_key(256, {"kid": "hmac"}),
}


@pytest.mark.requirement(
    "contract-authentication-10",
    "contract-webhook-signatureConfiguration",
    "demo-6",
    "service-19",
    "webhooks-10-3",
    "webhooks-9-3",
)
@pytest.mark.parametrize("algorithm", SIGNING_KEYS)
async def test_signature_covers_the_exact_body(engine: Any, algorithm: str) -> None:
    key = SIGNING_KEYS[algorithm]

    async def sign(key_id: str, claims: Mapping[str, Any]) -> str:
        assert key_id == signing_key_id
        return jws.serialize_compact({"alg": algorithm, "kid": key.kid}, json.dumps(claims), key)

    signing_key_id = new_id()
    engine.sign = sign
    request = await received(engine, signatureConfiguration={"enabled": True, "signingKeyId": signing_key_id})
    found = jws.deserialize_compact(
        request.headers["x-fusionauth-signature-jwt"], KeySet([key]), algorithms=[algorithm]
    )
    digest = base64.b64encode(hashlib.sha256(request.body).digest()).decode()
    assert json.loads(found.payload) == {"request_body_sha256": digest}
    altered = base64.b64encode(hashlib.sha256(request.body + b" ").digest()).decode()
    assert digest != altered


@pytest.mark.requirement("webhooks-10-7")
@pytest.mark.parametrize("error", [LookupError, ValueError, NotFound])
async def test_event_is_never_sent_unsigned(engine: Any, error: type[Exception]) -> None:
    async def sign(_key_id: str, _claims: Mapping[str, Any]) -> str:
        raise error

    engine.sign = sign
    async with receiving() as receiver:
        result, request = await deliver(
            engine, receiver, signatureConfiguration={"enabled": True, "signingKeyId": new_id()}
        )
    assert request is None
    assert not result.attempt.succeeded
    assert "key" in str(result.attempt.exception)


async def test_configured_key_without_enabled_signing_is_not_used(engine: Any) -> None:
    request = await received(engine, signatureConfiguration={"enabled": False, "signingKeyId": new_id()})
    assert "x-fusionauth-signature-jwt" not in request.headers


@pytest.mark.requirement("contract-authentication-10", "contract-webhook-sslCertificateKeyId")
async def test_client_certificate_is_presented(engine: Any, tmp_path: Any) -> None:
    authority = certificates.authority()
    client = certificates.make("client", authority, address=None)
    file = tmp_path / "ca.pem"
    file.write_text(authority.pem)
    await engine.http.close()
    engine.http = HttpClient(allowed_networks=LOOPBACK, ca_file=file)

    async def client_certificate(_key_id: str) -> tuple[str, Secret]:
        return client.pem, Secret(client.key_pem)

    context = certificates.server_context(certificates.make("server", authority), client_authority=authority)
    async with receiving(tls=context) as receiver:
        result, _ = await deliver(engine, receiver, sslCertificateKeyId=new_id())
        assert not result.attempt.succeeded
        engine.client_certificate = client_certificate
        result, request = await deliver(engine, receiver, sslCertificateKeyId=new_id())
        assert result.attempt.succeeded
        assert request is not None
        assert request.peer_certificate is not None
    await engine.http.close()


@pytest.mark.requirement("webhooks-9-12")
async def test_self_signed_client_certificate_is_trusted_too(engine: Any) -> None:
    own = certificates.make("own")

    async def client_certificate(_key_id: str) -> tuple[str, Secret]:
        return own.pem, Secret(own.key_pem)

    engine.client_certificate = client_certificate
    async with receiving(tls=certificates.server_context(own)) as receiver:
        result, _ = await deliver(engine, receiver, sslCertificateKeyId=new_id())
    assert result.attempt.succeeded


@pytest.mark.requirement("contract-webhook-sslCertificate")
async def test_deprecated_certificate_is_the_only_trust_anchor(engine: Any) -> None:
    alone, other = certificates.make("alone"), certificates.make("other")
    async with receiving(tls=certificates.server_context(alone)) as receiver:
        assert (await deliver(engine, receiver, sslCertificate=alone.pem))[0].attempt.succeeded
        assert not (await deliver(engine, receiver, sslCertificate=other.pem))[0].attempt.succeeded
        assert not (await deliver(engine, receiver))[0].attempt.succeeded


@pytest.mark.requirement("webhooks-9-4")
@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_2xx_is_success(engine: Any, status: int) -> None:
    async with receiving(answers(status)) as receiver:
        result, _ = await deliver(engine, receiver)
    assert (result.attempt.succeeded, result.attempt.status, result.attempt.exception) == (True, status, None)
    assert result.attempt.start_instant <= result.attempt.end_instant
    assert result.attempt.url == receiver.url


@pytest.mark.requirement("webhooks-9-4")
@pytest.mark.parametrize(
    "status", [300, 301, 302, 304, 307, 400, 401, 403, 404, 409, 410, 422, 429, 500, 502, 503, 504]
)
async def test_every_other_status_is_failure(engine: Any, status: int) -> None:
    async with receiving(answers(status)) as receiver:
        result, _ = await deliver(engine, receiver)
    assert (result.attempt.succeeded, result.attempt.status) == (False, status)


@pytest.mark.requirement("webhooks-9-4")
@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        (resets, "reset"),
        (hangs, "timeout"),
        (drips(b"HTTP/1.1 200 OK\r\n\r\n", b"."), "timeout"),
        (drips(b"HTTP/1.1 200 OK\r\n", b"X: " + b"y" * 4000 + b"\r\n", 0), "too_large"),
    ],
    ids=["reset", "hang", "drip", "headers"],
)
async def test_no_proper_answer_is_failure_with_a_reason(engine: Any, behaviour: Behaviour, kind: str) -> None:
    async with receiving(behaviour) as receiver:
        result, _ = await deliver(engine, receiver, connectTimeout=100, readTimeout=100)
    assert (result.attempt.succeeded, result.attempt.status) == (False, None)
    assert str(result.attempt.exception).startswith(f"{kind}: ")
    assert result.wait_seconds == (60 if kind == "timeout" else 0)


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (429, ["Retry-After: 90"], 90),
        (503, ["Retry-After: 7"], 7),
        (503, ["Retry-After: tomorrow"], 0),
        (429, [], 60),
        (500, ["Retry-After: 90"], 0),
        (200, ["Retry-After: 90"], 0),
    ],
)
async def test_retry_after_of_a_receiver_is_respected(
    engine: Any, status: int, headers: list[str], expected: float
) -> None:
    async with receiving(answers(status, headers=headers)) as receiver:
        result, _ = await deliver(engine, receiver)
    assert result.wait_seconds == expected


async def test_endless_response_with_status_2xx_is_success(engine: Any) -> None:
    async with receiving(drips(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65_536, 0)) as receiver:
        result, _ = await deliver(engine, receiver)
    assert result.attempt.succeeded


@pytest.mark.requirement("webhooks-15.3-24")
async def test_logged_response_headers_are_bounded(engine: Any) -> None:
    many = [f"X-{number}: {'v' * 90}" for number in range(100)]
    cookies = ["Set-Cookie: session=secret"]
    for lines, kept in (
        ([*cookies, "X-Long: " + "v" * 2000], {"content-length": 1, "x-long": 1000}),
        (many, {"content-length": 1} | {f"x-{number}": 90 for number in range(49)}),
        (["X: y", "n" * 9000 + ": v", "Z: z"], {"content-length": 1, "x": 1}),
    ):
        async with receiving(answers(200, headers=lines)) as receiver:
            result, _ = await deliver(engine, receiver)
        assert {name: len(value) for name, value in result.attempt.response_headers.items()} == kept


@pytest.mark.requirement("webhooks-15.3-11")
async def test_headers_are_sent_in_the_case_that_they_were_configured_in(engine: Any) -> None:
    request = await received(engine, headers={"X-oDD-cAsE": "Value", "lower": "case"})
    names = [name for name, _ in request.header_list]
    assert {"X-oDD-cAsE", "lower", "Content-Type", "webhook-id", "webhook-timestamp"} <= set(names)


async def test_address_outside_the_allowed_networks_fails_without_a_request(engine: Any) -> None:
    await engine.http.close()
    engine.http = HttpClient()
    async with receiving() as receiver:
        result, request = await deliver(engine, receiver)
        assert receiver.connections == 0
    await engine.http.close()
    assert request is None
    assert str(result.attempt.exception).startswith("blocked: ")
