"""A webhook receiver: prints every event it gets, tells repetitions, and verifies the signature where there is one.

    .venv/bin/python examples/webhook/receiver.py [--port 9081] [--issuer http://localhost:9011]

What a receiver has to do: read the raw body, verify the signature over exactly these bytes, answer 2xx quickly, and
treat an event whose id it has seen as done. Only the signature needs a package (python-jose, which does not know
EdDSA); everything else is the standard library.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import http.server
import json
import urllib.request

from jose import jwt
from jose.exceptions import JOSEError

ALGORITHMS = {"RS256", "RS384", "RS512", "ES256", "ES384", "ES512"}

_seen: set[str] = set()


class Receiver(http.server.BaseHTTPRequestHandler):
    """Answers POST with an event."""

    issuer = ""

    def do_POST(self) -> None:
        """Take one event: 401 for a bad signature, 200 for everything else."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        signature = self.headers.get("X-FusionAuth-Signature-JWT")
        if signature is not None and not is_signed(body, signature, self.issuer):
            self.answer(401)
            return
        event = json.loads(body)["event"]
        known = " (seen before, nothing done)" if event["id"] in _seen else ""
        _seen.add(event["id"])
        print(f"{event['type']:28} {event['id']}  {'signed' if signature else 'unsigned'}{known}", flush=True)
        self.answer(200)

    def answer(self, status: int) -> None:
        """A status and nothing else."""
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """No access log: the events are what is worth printing."""


def is_signed(body: bytes, signature: str, issuer: str) -> bool:
    """Whether a key that the service publishes signed the SHA-256 of exactly this body."""
    with urllib.request.urlopen(f"{issuer}/.well-known/jwks.json", timeout=5) as answer:  # noqa: S310  the caller's own
        keys = {key["kid"]: key for key in json.load(answer)["keys"] if key["alg"] in ALGORITHMS}
    try:
        key = keys[jwt.get_unverified_header(signature)["kid"]]
        claims = jwt.decode(signature, key, [key["alg"]])
    except (JOSEError, KeyError):
        return False
    digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
    return hmac.compare_digest(str(claims.get("request_body_sha256")), digest)


def main() -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(description="A webhook receiver that prints what it gets.")
    parser.add_argument("--port", type=int, default=9081)
    parser.add_argument("--issuer", default="http://localhost:9011", help="the identity service")
    given = parser.parse_args()
    Receiver.issuer = given.issuer
    server = http.server.ThreadingHTTPServer(("127.0.0.1", given.port), Receiver)
    print(f"listening on http://localhost:{server.server_address[1]}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
