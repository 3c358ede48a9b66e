"""Client authentication (RFC 6749 section 2.3): what a request presents, and whether it meets the policy."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Collection
from typing import Final, Literal
from urllib.parse import unquote_plus

from identity.call import Document
from identity.domain.configuration.applications import DEVICE_GRANT
from identity.errors import InvalidClient, InvalidRequest
from identity.ids import same_secret

Method = Literal["client_secret_basic", "client_secret_post", "none", "client_secret_jwt", "private_key_jwt"]

METHODS: Final[tuple[Method, ...]] = (
    "client_secret_basic",
    "client_secret_post",
    "client_secret_jwt",
    "private_key_jwt",
    "none",
)
"""Every method there is (OpenID Connect Core 9), as `clientAuthenticationMethods` names them."""
_USUAL: Final = ("client_secret_basic", "client_secret_post", "none")
ASSERTIONS: Final = frozenset({"client_secret_jwt", "private_key_jwt"})
"""The methods by a signed assertion (RFC 7523 section 2.2), which no application has unless it names them."""


@dataclasses.dataclass(frozen=True, slots=True)
class PresentedCredentials:
    """The client id of a request and the secrets that may be meant by it; no secrets with method `none`.

    Basic credentials are form-encoded before they are joined (RFC 6749 section 2.3.1), but many clients send them
    plain: both readings count.
    """

    client_id: str
    method: Method
    secrets: tuple[str, ...] = dataclasses.field(default=(), repr=False)


def read_credentials(
    authorization: str | None, client_id: str | None, client_secret: str | None
) -> PresentedCredentials:
    """What header and body present. Raises InvalidRequest and InvalidClient."""
    if not authorization:
        if not client_id:
            raise InvalidRequest("missing_client_id", "The request is missing a required parameter: client_id.")
        if client_secret is None:
            return PresentedCredentials(client_id, "none")
        return PresentedCredentials(client_id, "client_secret_post", (client_secret,))
    basic = _basic(authorization)
    if client_id and client_id != basic.client_id:
        raise InvalidClient("client_id_mismatch", "The client_id of the body is not that of the Authorization header.")
    if client_secret is not None and not _is_one_of(client_secret, basic.secrets):
        raise InvalidClient("invalid_client_authentication", "The client authenticates in two ways that differ.")
    return basic


def methods(application: Document) -> tuple[str, ...]:
    """How an application may authenticate; without a word of its own by its secret or, as its policy says, not."""
    return tuple(application["oauthConfiguration"].get("clientAuthenticationMethods", _USUAL))


def require_method(method: Method, allowed: Collection[str]) -> None:
    """Refuse a way to authenticate that is none of these. Raises InvalidClient."""
    if method not in allowed:
        reason = "invalid_client_authentication_scheme"
        raise InvalidClient(reason, f"The client does not authenticate by {method}.")


def authenticate(credentials: PresentedCredentials, application: Document, *, is_required: bool) -> None:
    """Check the secret: always when one is presented, and demand one when it is required. Raises InvalidClient.

    An assertion was verified before; here only its method is judged.
    """
    if credentials.method == "none":
        if is_required:
            raise InvalidClient("client_authentication_missing", "The client must authenticate.")
        return
    require_method(credentials.method, methods(application))
    if credentials.method in ASSERTIONS:
        return
    require_secret(credentials, application["oauthConfiguration"]["clientSecret"])


def require_secret(credentials: PresentedCredentials, expected: str) -> None:
    """Check the secret of a client that cannot do without. Raises InvalidClient."""
    if credentials.method == "none":
        raise InvalidClient("client_authentication_missing", "The client must authenticate.")
    if not any(credentials.secrets):
        raise InvalidClient("missing_client_secret", "The client secret is blank.")
    if not _is_one_of(expected, credentials.secrets):
        raise InvalidClient("invalid_client_authentication", "The client could not be authenticated.")


def is_secret_required(application: Document, grant_type: str, *, pkce_verified: bool) -> bool:
    """What clientAuthenticationPolicy asks for a grant (spec: OAuth, client authentication).

    `has_proof`: the code (or, for a refresh token, the one it came from) was bound by PKCE and its verifier is there.
    Whatever the policy, an application that names its methods has to use one, unless `none` is among them.
    """
    if "none" not in methods(application):
        return True
    policy = application["oauthConfiguration"]["clientAuthenticationPolicy"]
    if policy == "NotRequiredWhenUsingPKCE":
        # A device has no secret to keep, and is bound by its device_code.
        return grant_type != DEVICE_GRANT and not (
            pkce_verified and grant_type in {"authorization_code", "refresh_token"}
        )
    return bool(policy == "Required")


def _is_one_of(secret: str, secrets: tuple[str, ...]) -> bool:
    """Compares with all of them, whichever matches, so that the time tells nothing."""
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
