"""Client authentication (RFC 6749 section 2.3): the credentials of a request, and the policy they have to meet."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Collection, Mapping
from typing import Final, Literal
from urllib.parse import unquote_plus

from identity.call import Document
from identity.domain.configuration.applications import DEVICE_GRANT
from identity.errors import InvalidClient, InvalidRequest
from identity.ids import same_secret

Method = Literal[
    "client_secret_basic",
    "client_secret_post",
    "none",
    "client_secret_jwt",
    "private_key_jwt",
    "tls_client_auth",
    "self_signed_tls_client_auth",
]

METHODS: Final[tuple[Method, ...]] = (
    "client_secret_basic",
    "client_secret_post",
    "client_secret_jwt",
    "private_key_jwt",
    "none",
)
"""The methods without mutual TLS (OpenID Connect Core 9), as in `clientAuthenticationMethods`."""
PKI_CERTIFICATE: Final = "tls_client_auth"
SELF_SIGNED_CERTIFICATE: Final = "self_signed_tls_client_auth"
CERTIFICATES: Final = frozenset({PKI_CERTIFICATE, SELF_SIGNED_CERTIFICATE})
"""The methods with a client certificate (RFC 8705 section 2), which an application has to enable."""
_DEFAULT_METHODS: Final = ("client_secret_basic", "client_secret_post", "none")
ASSERTIONS: Final = frozenset({"client_secret_jwt", "private_key_jwt"})
"""The methods with a signed assertion (RFC 7523 section 2.2), which an application has to enable."""

Substitute = Literal["NOTHING", "PKCE", "NEVER"]
"""What takes the place of credentials: nothing is required, PKCE with a verifier, or only credentials will do."""
_SUBSTITUTES: Final[Mapping[str, Substitute]] = {
    "authorization_code": "PKCE",
    "refresh_token": "PKCE",
    # A device cannot keep a secret, and is bound by its device_code.
    DEVICE_GRANT: "NOTHING",
}
"""By use, under the policy NotRequiredWhenUsingPKCE; every other use requires credentials."""


@dataclasses.dataclass(frozen=True, slots=True)
class PresentedCredentials:
    """The client id and candidate secrets of a request; no secrets with method `none`.

    Basic credentials are form-encoded (RFC 6749 section 2.3.1), but many clients do not encode them: both count.
    """

    client_id: str
    method: Method
    secrets: tuple[str, ...] = dataclasses.field(default=(), repr=False)


def read_credentials(
    authorization: str | None, client_id: str | None, client_secret: str | None
) -> PresentedCredentials:
    """Read the credentials of header and body. Raises InvalidRequest and InvalidClient."""
    if not authorization:
        if not client_id:
            raise InvalidRequest("missing_client_id", "The request is missing a required parameter: client_id.")
        if client_secret is None:
            return PresentedCredentials(client_id, "none")
        return PresentedCredentials(client_id, "client_secret_post", (client_secret,))
    basic = _basic(authorization)
    if client_id and client_id != basic.client_id:
        raise InvalidClient("client_id_mismatch", "The client_id of the body is not that of the Authorization header.")
    if client_secret is not None and not is_one_of(client_secret, basic.secrets):
        raise InvalidClient("invalid_client_authentication", "The client authenticates by two methods that differ.")
    return basic


def methods(application: Document) -> tuple[str, ...]:
    """Return the methods of an application; by default its secret or, if its policy allows, none."""
    return tuple(application["oauthConfiguration"].get("clientAuthenticationMethods", _DEFAULT_METHODS))


def require_method(method: Method, allowed: Collection[str]) -> None:
    """Raise InvalidClient for a method that is not allowed."""
    if method not in allowed:
        reason = "invalid_client_authentication_scheme"
        raise InvalidClient(reason, f"The client does not authenticate by {method}.")


def authenticate(credentials: PresentedCredentials, application: Document, use: str) -> bool:
    """Verify the credentials, and require some unless the policy accepts the use without. Raises InvalidClient.

    Return whether the client has to be bound by PKCE instead. Assertions and certificates are verified before; here
    only their method is checked.
    """
    if credentials.method == "none":
        substitute = substitute_for_credentials(application, use)
        if substitute == "NEVER":
            raise InvalidClient("client_authentication_missing", "The client must authenticate.")
        return substitute == "PKCE"
    require_method(credentials.method, methods(application))
    if credentials.method not in ASSERTIONS | CERTIFICATES:
        require_secret(credentials, application["oauthConfiguration"]["clientSecret"])
    return False


def require_secret(credentials: PresentedCredentials, expected: str) -> None:
    """Verify a required secret. Raises InvalidClient."""
    if credentials.method == "none":
        raise InvalidClient("client_authentication_missing", "The client must authenticate.")
    if not any(credentials.secrets):
        raise InvalidClient("missing_client_secret", "The client secret is blank.")
    if not is_one_of(expected, credentials.secrets):
        raise InvalidClient("invalid_client_authentication", "The client could not be authenticated.")


def substitute_for_credentials(application: Document, use: str) -> Substitute:
    """Return what a client may present for a use in place of credentials (spec: OAuth, client authentication).

    `use` is a grant type, or the name of an endpoint. An application that configures its methods has to use one,
    whatever the policy, unless `none` is among them.
    """
    if "none" not in methods(application):
        return "NEVER"
    policy = application["oauthConfiguration"]["clientAuthenticationPolicy"]
    if policy == "NotRequiredWhenUsingPKCE":
        return _SUBSTITUTES.get(use, "NEVER")
    return "NEVER" if policy == "Required" else "NOTHING"


def is_one_of(secret: str, secrets: tuple[str, ...]) -> bool:
    """Compare with all secrets, so that the time does not depend on which one matches."""
    return sum(same_secret(secret, other) for other in secrets) > 0


def _basic(authorization: str) -> PresentedCredentials:
    scheme, _, encoded = authorization.strip().partition(" ")
    if scheme.lower() != "basic":
        raise InvalidClient("invalid_client_authentication_scheme", "The Authorization scheme must be Basic.")
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode("utf-8")
    except ValueError as error:
        raise InvalidClient("invalid_client_authentication", "The Authorization header cannot be decoded.") from error
    client_id, colon, secret = text.partition(":")
    if not colon or not client_id:
        raise InvalidClient("invalid_client_authentication", "The Authorization header cannot be decoded.")
    return PresentedCredentials(
        unquote_plus(client_id), "client_secret_basic", tuple(dict.fromkeys((unquote_plus(secret), secret)))
    )
