"""The client secret of Sign in with Apple: a short-lived JWT, signed with the private key of the Apple team."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.instants import numeric_date
from identity.operations.providers import openid_connect
from identity.services import Services
from identity.tokens import jws

_ALGORITHM: Final = "ES256"
_TTL_SECONDS: Final = 300


async def sign(services: Services, call: Call, settings: Document, oauth2: Document) -> str:
    """Return a client secret for the client of `oauth2`. Raises Invalid if the key cannot sign it."""
    key = await services.tokens.issuer.key(settings["keyId"])
    if key is None or key.signer is None or key.algorithm != _ALGORITHM:
        reason = f"its key has no private half for {_ALGORITHM}"
        raise openid_connect.provider_error("OpenIDConnectToken", reason)
    now = numeric_date(call.now)
    claims = {
        "iss": settings["teamId"],
        "iat": now,
        "exp": now + _TTL_SECONDS,
        "aud": oauth2["issuer"],
        "sub": oauth2["client_id"],
    }
    return await jws.sign(key, claims)
