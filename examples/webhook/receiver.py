"""A webhook receiver: print every event, mark repetitions, and verify signatures if there are any.

    .venv/bin/python examples/webhook/receiver.py [--port 9081] [--issuer http://localhost:9011]
                                                  [--secret whsec_...] [--signed]

What a receiver has to do: read the raw body, verify a signature over exactly these bytes, answer 2xx quickly, and
treat an event whose id it has seen as done. There are two kinds of signature, and one is enough:

    X-FusionAuth-Signature-JWT   a token, signed by a key that the service publishes, with the digest of the body
    webhook-signature            Standard Webhooks: `v1,...` by a shared secret, `v1a,...` by a published Ed25519 key,
                                 over the id, the second of the attempt and the body

Unsigned events are accepted too, so that a first test works, unless --secret or --signed is given. Only
public keys need packages (python-jose and cryptography); a shared secret needs nothing but the standard library.
"""

from __future__ import annotations

import argparse
import base64
import collections
import hashlib
import hmac
import http.server
import json
import sys
import threading
import time
import urllib.request
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from jose import jwt
from jose.exceptions import JOSEError

ALGORITHMS = {"RS256", "RS384", "RS512", "ES256", "ES384", "ES512"}
SHARED = {"HS256", "HS384", "HS512"}
TOLERANCE_SECONDS = 300
"""How old, or how far ahead, a signed attempt may be: a captured attempt cannot be replayed for longer."""
LONGEST_BODY = 26 * 1024 * 1024
REMEMBERED = 100_000

Key = dict[str, Any]


class Seen:
    """The ids of recent events. A real receiver stores them together with the effects of the events."""

    def __init__(self) -> None:
        self._ids: collections.OrderedDict[str, None] = collections.OrderedDict()
        self._lock = threading.Lock()

    def is_new(self, event_id: str) -> bool:
        """Return whether the id is new; of concurrent calls only one gets True."""
        with self._lock:
            is_new = event_id not in self._ids
            self._ids[event_id] = None
            if len(self._ids) > REMEMBERED:
                self._ids.popitem(last=False)
        return is_new


class Verifier:
    """Verifies deliveries by a shared secret or by the keys that the service publishes."""

    def __init__(self, issuer: str, secret: str | None) -> None:
        self._issuer = issuer
        self._secret = None if secret is None else base64.b64decode(secret.removeprefix("whsec_"))
        self._keys: list[Key] = []
        self._asked_at = 0.0

    def count(self, headers: dict[str, str], body: bytes) -> int:
        """How many signatures are good. Raises ValueError where one is not, though it could be checked."""
        token, standard = headers.get("x-fusionauth-signature-jwt"), headers.get("webhook-signature")
        found = 0
        if token is not None:
            found += self._require(self._is_good_token(token, body), "X-FusionAuth-Signature-JWT")
        if standard is not None:
            versions = {part.partition(",")[0] for part in standard.split()}
            if "v1a" in versions or self._secret is not None:
                found += self._require(self._is_good_standard(headers, standard, body), "webhook-signature")
        if self._secret is not None and standard is None:
            raise ValueError("webhook-signature is missing")
        return found

    @staticmethod
    def _require(is_good: bool, name: str) -> int:
        if not is_good:
            raise ValueError(f"{name} is not good")
        return 1

    def _is_good_token(self, token: str, body: bytes) -> bool:
        try:
            header = jwt.get_unverified_header(token)
            claims = self._shared(token) if header["alg"] in SHARED else self._published_claims(token, header["kid"])
        except (JOSEError, InvalidSignature, KeyError, ValueError):
            return False
        digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
        return hmac.compare_digest(str(claims.get("request_body_sha256")).encode(), digest.encode())

    def _shared(self, token: str) -> Any:
        """What a token says that was signed by an HMAC key, of which the secret is given here as whsec_..."""
        if self._secret is None:
            raise KeyError("the secret of an HMAC key is published nowhere")
        return jwt.decode(token, self._secret, list(SHARED))

    def _published_claims(self, token: str, kid: str) -> Any:
        """What a token says that was signed by a published key: by its algorithm, not by one that the token likes."""
        key = {key["kid"]: key for key in self._published(kid)}[kid]
        if key["kty"] != "OKP":
            return jwt.decode(token, key, ALGORITHMS & {key["alg"]})
        content, _, signature = token.rpartition(".")
        _public(key).verify(_decoded(signature), content.encode())
        return json.loads(_decoded(content.partition(".")[2]))

    def _is_good_standard(self, headers: dict[str, str], signatures: str, body: bytes) -> bool:
        timestamp = headers.get("webhook-timestamp", "")
        if not timestamp.isdigit() or abs(time.time() - int(timestamp)) > TOLERANCE_SECONDS:
            return False
        content = f"{headers.get('webhook-id', '')}.{timestamp}.".encode() + body
        for part in signatures.split():
            version, _, signature = part.partition(",")
            if version == "v1" and self._secret is not None and self._is_by_secret(signature, content):
                return True
            if version == "v1a" and self._secret is None and self._is_by_key(signature, content):
                return True
        return False

    def _is_by_secret(self, signature: str, content: bytes) -> bool:
        assert self._secret is not None
        expected = base64.b64encode(hmac.new(self._secret, content, hashlib.sha256).digest())
        return hmac.compare_digest(signature.encode(), expected)

    def _is_by_key(self, signature: str, content: bytes) -> bool:
        for key in self._published(None):
            try:
                if key["kty"] == "OKP":
                    _public(key).verify(base64.b64decode(signature), content)
                    return True
            except (InvalidSignature, ValueError):
                continue
        return False

    def _published(self, kid: str | None) -> list[Key]:
        """The key set; asked for again when a key is not in it, every ten seconds at the most."""
        is_known = any(kid is None or key["kid"] == kid for key in self._keys)
        age = time.monotonic() - self._asked_at
        if not self._keys or (age > 10 and not is_known) or age > TOLERANCE_SECONDS:
            where = f"{self._issuer}/.well-known/jwks.json"
            with urllib.request.urlopen(where, timeout=5) as answer:  # noqa: S310  the caller's own
                self._keys = json.load(answer)["keys"]
            self._asked_at = time.monotonic()
        return self._keys


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _public(key: Key) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(_decoded(key["x"]))


class Receiver(http.server.BaseHTTPRequestHandler):
    """Answers POST with an event."""

    verifier: Verifier
    needs_signature = False
    seen = Seen()

    def do_POST(self) -> None:
        """Take one event: 401 where its signature is not good, 400 for what is no event, 200 for everything else."""
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > LONGEST_BODY:
            self.close_connection = True
            self.answer(413 if length.isdigit() else 411)
            return
        body = self.rfile.read(int(length))
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            count = self.verifier.count(headers, body)
        except OSError:  # the key set cannot be had: the service tries again
            self.answer(503)
            return
        except ValueError as error:
            show(f"refused: {error}")
            self.answer(401)
            return
        if self.needs_signature and not count:
            show("refused: there is no signature that could be checked")
            self.answer(401)
            return
        self.answer(200 if self.take(body, is_signed=bool(count)) else 400)

    def take(self, body: bytes, *, is_signed: bool) -> bool:
        """Print an event, unless it was here before; False for what is none."""
        try:
            event = json.loads(body)["event"]
            kind, event_id = str(event["type"]), str(event["id"])
        except (ValueError, KeyError, TypeError):
            return False
        known = "" if self.seen.is_new(event_id) else " (seen before, nothing done)"
        show(f"{kind:28} {event_id}  {'signed' if is_signed else 'unsigned'}{known}")
        return True

    def answer(self, status: int) -> None:
        """A status and nothing else."""
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """No access log: the events are what is worth printing."""


def show(line: str) -> None:
    """Print a line in one write: `print` writes the line break separately, and concurrent requests would mix."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(description="A webhook receiver that prints what it gets.")
    parser.add_argument("--port", type=int, default=9081)
    parser.add_argument("--issuer", default="http://localhost:9011", help="the identity service")
    parser.add_argument("--secret", help="the shared secret, whsec_...: every event has to be signed by it")
    parser.add_argument("--signed", action="store_true", help="refuse events without a signature that can be checked")
    given = parser.parse_args()
    Receiver.verifier = Verifier(given.issuer, given.secret)
    Receiver.needs_signature = given.signed
    server = http.server.ThreadingHTTPServer(("127.0.0.1", given.port), Receiver)
    show(f"listening on http://localhost:{server.server_address[1]}")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
