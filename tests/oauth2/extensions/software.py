"""An issuer of software statements that the operator trusts."""

from __future__ import annotations

from tests.dpop import ClientKey

ISSUER = "https://software.example.com"
SIGNER = ClientKey()


def statement(signer: ClientKey = SIGNER, **claims: object) -> str:
    """A software statement; None leaves a claim out."""
    merged = {"iss": ISSUER, "software_id": "notebook", **claims}
    given = {name: value for name, value in merged.items() if value is not None}
    return signer.signed({"alg": "ES256", "typ": "JWT"}, given)
