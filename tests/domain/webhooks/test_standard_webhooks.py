"""Standard Webhooks signatures, checked by the reference library."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from standardwebhooks import Webhook, WebhookVerificationError

from identity.domain.webhooks import standard_webhooks
from identity.instants import Instant, SystemClock, later

NOW = Instant(1_700_000_000_000)
BODY = '{"event":{"name":"Zoë"}}'.encode()


def signed(secret: str, timestamp: int) -> dict[str, str]:
    content = standard_webhooks.signed_content("msg_1", timestamp, BODY)
    signature = standard_webhooks.hmac_signature(secret, content)
    return {"webhook-id": "msg_1", "webhook-timestamp": str(timestamp), "webhook-signature": signature}


@pytest.mark.requirement("webhooks-10-4", "webhooks-15.3-33")
def test_reference_library_accepts_our_signatures():
    secret = standard_webhooks.serialize_secret(bytes(range(32)))
    headers = signed(secret, SystemClock().now() // 1000)
    assert Webhook(secret).verify(BODY, headers) == {"event": {"name": "Zoë"}}
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(BODY + b" ", headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(standard_webhooks.serialize_secret(bytes(32))).verify(BODY, headers)


def test_the_signature_is_hmac_sha256_over_id_timestamp_and_body():
    content = standard_webhooks.signed_content("msg_1", 1_700_000_000, b"{}")
    assert content == b"msg_1.1700000000.{}"
    expected = base64.b64encode(hmac.new(b"k" * 32, content, hashlib.sha256).digest()).decode()
    assert standard_webhooks.hmac_signature(standard_webhooks.serialize_secret(b"k" * 32), content) == f"v1,{expected}"


VECTOR = b'{"test": 2432232314}'
"""The example that the libraries of Standard Webhooks and of Svix share: id, instant, keys and signatures below."""


@pytest.mark.requirement("webhooks-15.3-33")
def test_shared_test_vectors_of_both_versions_match():
    content = standard_webhooks.signed_content("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, VECTOR)
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    assert standard_webhooks.hmac_signature(secret, content) == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    private = base64.b64decode(
        "6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
    )
    signature = Ed25519PrivateKey.from_private_bytes(private[:32]).sign(content)
    assert standard_webhooks.serialize_signature(standard_webhooks.VERSIONS["Ed25519"], signature) == (
        "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="
    )


def test_both_secrets_sign_during_the_overlap():
    private = standard_webhooks.replace_secret({}, "whsec_one", NOW, 60)
    assert private == {"secret": "whsec_one", "previousSecrets": []}
    private = standard_webhooks.replace_secret(private, "whsec_two", NOW, 60)
    assert standard_webhooks.active_secrets(private, later(NOW, seconds=59)) == ("whsec_two", "whsec_one")
    assert standard_webhooks.active_secrets(private, later(NOW, seconds=60)) == ("whsec_two",)


def test_without_overlap_the_old_secret_is_removed():
    private = standard_webhooks.replace_secret({"secret": "whsec_one"}, "whsec_two", NOW, 0)
    assert standard_webhooks.active_secrets(private, NOW) == ("whsec_two",)


def test_expired_secrets_are_removed():
    private: dict = {}
    for number in range(4):
        private = standard_webhooks.replace_secret(private, f"whsec_{number}", NOW, 60)
    assert [old["secret"] for old in private["previousSecrets"]] == ["whsec_2", "whsec_1", "whsec_0"]
    private = standard_webhooks.replace_secret(private, "whsec_late", later(NOW, seconds=61), 60)
    assert [old["secret"] for old in private["previousSecrets"]] == ["whsec_3"]


def test_removed_secret_does_not_sign():
    private = standard_webhooks.remove_secret({"secret": "whsec_one", "previousSecrets": [], "other": 1})
    assert private == {"other": 1}
    assert standard_webhooks.active_secrets(private, NOW) == ()


@pytest.mark.requirement("webhooks-10-5")
def test_the_previous_key_signs_until_its_end():
    configuration = {
        "enabled": True,
        "signingKeyId": "new",
        "previousSigningKeyId": "old",
        "previousSigningKeyEndInstant": later(NOW, seconds=60),
    }
    assert standard_webhooks.active_key_ids(configuration, NOW) == ("new", "old")
    assert standard_webhooks.active_key_ids(configuration, later(NOW, seconds=60)) == ("new",)
    assert standard_webhooks.active_key_ids({**configuration, "enabled": False}, NOW) == ()
    assert standard_webhooks.active_key_ids({"enabled": True, "signingKeyId": "new"}, NOW) == ("new",)
