"""OpenID Authentication 2.0, with which Steam signs browsers in.

The assertion is verified directly with Steam (section 11.4.2), which accepts each one once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from identity.errors import Unauthorized
from identity.operations.providers import openid_connect
from identity.outbound.federation import FederationError
from identity.services import Services

_NAMESPACE: Final = "http://specs.openid.net/auth/2.0"
_SELECT: Final = f"{_NAMESPACE}/identifier_select"
_CLAIMED_ID: Final = re.compile(r"https://steamcommunity\.com/openid/id/([0-9]{1,20})")
_SIGNED: Final = frozenset({"assoc_handle", "claimed_id", "identity", "op_endpoint", "response_nonce", "return_to"})
_VALID: Final = b"is_valid:true"


def parameters(return_to: str, realm: str) -> dict[str, str]:
    """Return the authentication request (section 9.1)."""
    return {
        "openid.ns": _NAMESPACE,
        "openid.mode": "checkid_setup",
        "openid.claimed_id": _SELECT,
        "openid.identity": _SELECT,
        "openid.return_to": return_to,
        "openid.realm": realm,
    }


async def verify(services: Services, endpoint: str, response: Mapping[str, str], return_to: str) -> str:
    """Return the Steam id of an assertion for `return_to`.

    Raises Unauthorized for an assertion that cannot be trusted, Invalid for an unusable response of Steam.
    """
    assertion = {name: value for name, value in response.items() if name.startswith("openid.")}
    found = _CLAIMED_ID.fullmatch(assertion.get("openid.claimed_id", ""))
    expected = {
        "openid.mode": "id_res",
        "openid.ns": _NAMESPACE,
        "openid.op_endpoint": endpoint,
        "openid.return_to": return_to,
        "openid.identity": assertion.get("openid.claimed_id"),
    }
    if found is None or any(assertion.get(name) != value for name, value in expected.items()):
        raise Unauthorized(log_detail="the assertion is not of Steam, or not for this login")
    if not _SIGNED.issubset(assertion.get("openid.signed", "").split(",")):
        raise Unauthorized(log_detail="the assertion has unsigned members")
    try:
        body = await services.outbound.federation.post_form(
            endpoint, {**assertion, "openid.mode": "check_authentication"}
        )
    except FederationError as error:
        raise openid_connect.provider_error("OpenIDConnectToken", str(error)) from error
    if _VALID not in body.splitlines():
        raise Unauthorized(log_detail="Steam did not confirm the assertion")
    return found[1]
