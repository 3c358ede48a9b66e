"""The client secret of Sign in with Apple: a short-lived JWT, signed with the private key of the Apple team."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.domain.configuration import key_usage
from identity.instants import numeric_date
from identity.operations.providers import openid_connect
from identity.services import Services
from identity.tokens import jws

_ALGORITHM: Final = "ES256"
_TTL_SECONDS: Final = 300


async def sign(services: Services, call: Call, settings: Document, oauth2: Document) -> str:
    """Return a client secret for the client of `oauth2`. Raises Invalid if the key cannot sign it.

    The key must belong to identity providers: that of an application may be named by its settings alone.
    """
    key = await services.tokens.issuer.key(settings["keyId"])
    stored = await services.configuration.keys.find(None, settings["keyId"])
    is_own = stored is not None and key_usage.usage(stored) in {key_usage.IDENTITY_PROVIDERS, key_usage.MIXED}
    if key is None or key.signer is None or key.algorithm != _ALGORITHM or not is_own:
        reason = f"its key has no private half for {_ALGORITHM}, or serves another purpose"
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
