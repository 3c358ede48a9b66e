"""ExternalJWT: a login with a JWT that is signed with one of the configured keys."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from identity.call import Call, Document
from identity.domain.providers import external_identities, reauthentication
from identity.domain.providers.external_identities import ExternalIdentity
from identity.errors import Invalid, Unauthorized
from identity.ids import parse_id
from identity.instants import numeric_date
from identity.operations.providers.login_trace import LoginTrace
from identity.services import Services
from identity.tokens import external_keys, id_tokens, jws
from identity.tokens.jws import VerifiedJwt
from identity.tokens.signing_keys import SigningKey

_LEEWAY_SECONDS = 60


async def identify(
    services: Services, call: Call, provider: Document, token: str | None, trace: LoginTrace
) -> ExternalIdentity:
    """Return the identity in the token. Raises Invalid without a token, Unauthorized if it cannot be trusted."""
    if not token:
        raise Invalid.field("blank", "encodedJWT", "You must specify the [encodedJWT] property.")

    verified = await jws.verify_external(token, functools.partial(_find_key, services, provider))
    if isinstance(verified, jws.Rejection):
        raise Unauthorized(log_detail=f"the token is {verified.value}")
    if await _is_issued_here(services, verified):
        raise Unauthorized(log_detail="the token was issued by this service")
    claims, now = verified.claims, numeric_date(call.now)
    if not external_identities.is_storable(claims):
        raise Unauthorized(log_detail="the claims of the token cannot be stored")
    trace.add_claims("token", claims)
    lenient = {**claims, "nbf": claims.get("nbf", 0) - _LEEWAY_SECONDS}
    if (rejection := jws.check_times(lenient, now)) is not None:
        raise Unauthorized(log_detail=f"the token is {rejection.value}")
    identity = external_identities.parse(provider["oauth2"], claims, lambda_arguments=(claims,))
    if identity is None:
        raise Unauthorized(log_detail="the token lacks the claim of the unique id")
    return dataclasses.replace(identity, auth_instant=reauthentication.auth_instant(claims, call.now))


async def _is_issued_here(services: Services, verified: VerifiedJwt) -> bool:
    """Return whether this service issued a token, whose key may serve as the key of a provider, too.

    The token of one tenant or application would log in to another one.
    """
    tenant_id = parse_id(verified.claims.get("tid"))
    is_of_tenant = tenant_id is not None and await services.configuration.tenants.find_cached(None, tenant_id)
    return bool(is_of_tenant) or verified.header.get("typ") == id_tokens.LOGOUT_TYPE


async def _find_key(services: Services, provider: Document, header: Mapping[str, object]) -> SigningKey | None:
    """Return the key that the header identifies by the configured parameter; the default key without one."""
    name = header.get(provider["headerKeyParameter"])
    default = provider.get("defaultKeyId")
    if name is None:
        return None if default is None else await services.tokens.issuer.key(default)
    if not isinstance(name, str):
        return None
    if name in provider["keys"]:
        return external_keys.from_pem(provider["keys"][name], name, header.get("alg"))
    for key_id in (*provider["verificationKeyIds"], *([] if default is None else [default])):
        key = await services.tokens.issuer.key(key_id)
        if key is not None and name in {key_id, key.kid}:
            return key
    return None
