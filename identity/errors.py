"""Errors, one class for each that a caller can receive.

Layers below web raise them; only the base handlers of web render them. `log_detail` is for the log and is never sent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping


def with_article(noun: str) -> str:
    """Return the noun with its indefinite article, capitalized: `An Application`, `A User`."""
    is_vowel = noun[:1].lower() in "aeio" or noun[:2].lower() in {"un", "up"}
    return f"An {noun}" if is_vowel and not noun.lower().startswith("uni") else f"A {noun}"


@dataclasses.dataclass(frozen=True, slots=True)
class FieldError:
    """One entry of the Errors JSON: `path` of the field, `code` (`[kind]path`) and an English message."""

    path: str
    code: str
    message: str

    @classmethod
    def of(cls, kind: str, path: str, message: str) -> FieldError:
        """Return an error with the usual code of kind and path; that of `invalidJSON` has no path."""
        return cls(path, f"[{kind}]" if kind == "invalidJSON" else f"[{kind}]{path}", message)

    @classmethod
    def invalid(cls, path: str, problem: str, kind: str = "invalid") -> FieldError:
        """Return the error of a value that is not allowed: `problem` completes "The [path] …"."""
        return cls.of(kind, path, f"The [{path}] {problem}.")

    @classmethod
    def missing(cls, path: str, kind: str = "missing") -> FieldError:
        """Return the error of an absent property."""
        return cls.of(kind, path, f"You must specify the [{path}] property.")


@dataclasses.dataclass(frozen=True, slots=True)
class GeneralError:
    """An error without a field; `code` is `[Name]`."""

    code: str
    message: str


class ServiceError(Exception):
    """Base class of the errors that are sent to callers."""

    status = 500

    def __init__(self, message: str = "", *, log_detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.log_detail = log_detail


class Invalid(ServiceError):
    """The request is invalid: 400 with every error that was found."""

    status = 400

    def __init__(
        self, fields: Iterable[FieldError] = (), general: Iterable[GeneralError] = (), *, log_detail: str = ""
    ) -> None:
        self.fields = tuple(fields)
        self.general = tuple(general)
        super().__init__(
            ", ".join([*(e.code for e in self.fields), *(e.code for e in self.general)]), log_detail=log_detail
        )

    @classmethod
    def field(cls, kind: str, path: str, message: str) -> Invalid:
        """Return the error of one field."""
        return cls([FieldError.of(kind, path, message)])

    @classmethod
    def whole(cls, code: str, message: str) -> Invalid:
        """Return one error without a field."""
        return cls(general=[GeneralError(code, message)])


class NotLicensed(Invalid):
    """The feature is disabled: 400 with `[NotLicensed]`, at OAuth endpoints `not_licensed`."""

    def __init__(self, message: str) -> None:
        super().__init__(general=[GeneralError("[NotLicensed]", message)])
        self.message = message


class LoginPrevented(Invalid):
    """A lambda rejected an otherwise valid login; `lambda_id` is the lambda that returned the errors."""

    def __init__(self, lambda_id: str, fields: Iterable[FieldError], general: Iterable[GeneralError]) -> None:
        super().__init__(fields, general)
        self.lambda_id = lambda_id

    @property
    def texts(self) -> tuple[tuple[str, str], ...]:
        """The code and the message of each error, for the user."""
        general = [(error.code, error.message) for error in self.general]
        return (*general, *((error.code, error.message) for error in self.fields))


class Unauthorized(ServiceError):
    """Missing, invalid or insufficient credentials: 401 with an empty body."""

    status = 401


class Forbidden(ServiceError):
    """A feature that an administrator disabled, or a blocked origin: 403 with an empty body."""

    status = 403


class NotFound(ServiceError):
    """The object does not exist, or is not visible to the caller: 404 with an empty body."""

    status = 404


class MethodNotAllowed(ServiceError):
    """The path does not support the method: 405 with an empty body."""

    status = 405


class AlreadyLinked(ServiceError):
    """The account at the identity provider belongs to another user: 409 with an empty body."""

    status = 409


class TooLarge(ServiceError):
    """The body exceeds the limit of the endpoint: 413 with an Errors body."""

    status = 413


class WrongCode(ServiceError):
    """The code of a second factor is incorrect or was used before: 421 with an empty body."""

    status = 421


class Unaddressable(ServiceError):
    """The user has no address for the message: 422 with an empty body."""

    status = 422


class Unavailable(ServiceError):
    """The service or one of its stores is unavailable: 503 with an Errors body.

    `retry_after_seconds` becomes the header Retry-After.
    """

    status = 503

    def __init__(self, message: str = "", *, log_detail: str = "", retry_after_seconds: int | None = None) -> None:
        super().__init__(message, log_detail=log_detail)
        self.retry_after_seconds = retry_after_seconds

    @classmethod
    def for_seconds(cls, wait_seconds: int, message: str) -> Unavailable:
        """Return the error of a limit that ends then; the message says so too."""
        return cls(f"{message} Try again in {wait_seconds} seconds.", retry_after_seconds=wait_seconds)


class WebhookTransactionFailed(ServiceError):
    """Too few transactional webhooks approved the change, which was not made: 504 with an Errors body."""

    status = 504


class LoopDetected(ServiceError):
    """The request belongs to a loop of webhook deliveries: 508 with an Errors body."""

    status = 508


class LambdaFailed(ServiceError):
    """A lambda threw, exceeded a limit, or returned an invalid result: 512 with an Errors body, and an event log."""

    status = 512


class NotImported(ServiceError):
    """A unique value is taken, in a call whose response does not state which: nothing was changed."""

    status = 500


class Duplicate(Exception):
    """A unique index rejected a write; operations turn it into `Invalid`."""

    def __init__(self, index: str) -> None:
        super().__init__(index)
        self.index = index


class Conflict(Exception):
    """The document changed between its read and its replacement; read it again and retry."""


class OAuth2Error(ServiceError):
    """An error of the OAuth endpoints (RFC 6749 sections 4.1.2.1 and 5.2).

    `reason` is the `error_reason` of the API, if any; `extra` are further members of the JSON, such as
    `change_password_id`.
    """

    status = 400
    error = "invalid_request"

    def __init__(
        self, reason: str | None, description: str, *, extra: Mapping[str, object] | None = None, log_detail: str = ""
    ) -> None:
        super().__init__(description, log_detail=log_detail)
        self.reason = reason
        self.description = description
        self.extra = dict(extra or {})


class InvalidRequest(OAuth2Error):
    """A parameter is missing, repeated or malformed."""


class InvalidClient(OAuth2Error):
    """The client could not be authenticated."""

    status = 401
    error = "invalid_client"


class InvalidGrant(OAuth2Error):
    """The code, refresh token or credentials are unknown, expired, used or another client's."""

    error = "invalid_grant"


class ChangePasswordRequired(OAuth2Error):
    """The password is correct, but must be changed before tokens are issued."""

    error = "change_password_required"


class TwoFactorRequired(OAuth2Error):
    """The password is correct, but a second factor is required."""

    error = "two_factor_required"


class UnauthorizedClient(OAuth2Error):
    """The client may not use this grant."""

    error = "unauthorized_client"


class UnsupportedGrantType(OAuth2Error):
    """The grant_type is not supported."""

    error = "unsupported_grant_type"


class UnsupportedResponseType(OAuth2Error):
    """The response_type is not supported."""

    error = "unsupported_response_type"


class UnsupportedTokenType(OAuth2Error):
    """The type of token is not supported, or not for this operation (RFC 7009 section 2.2.1)."""

    error = "unsupported_token_type"


class InvalidScope(OAuth2Error):
    """A scope is unknown, malformed or wider than granted."""

    error = "invalid_scope"


class InvalidTarget(OAuth2Error):
    """A resource is malformed, or the client may not have tokens for it (RFC 8707 section 2)."""

    error = "invalid_target"


class InvalidToken(OAuth2Error):
    """The bearer token is missing, malformed, expired or not for this resource (RFC 6750 section 3.1)."""

    status = 401
    error = "invalid_token"


class AccessTokenRequired(InvalidToken):
    """The request has no token, so that its challenge has no error code (RFC 6750 section 3.1)."""

    def __init__(self) -> None:
        super().__init__("access_token_required", "An access token is required.")


class InsufficientUserAuthentication(InvalidToken):
    """The login behind the access token is too weak or too old; `challenge` says what is required (RFC 9470)."""

    error = "insufficient_user_authentication"

    def __init__(self, challenge: Mapping[str, str]) -> None:
        super().__init__(None, "The user has to authenticate again, as the challenge requires.")
        self.challenge = challenge


class InvalidDpopProof(OAuth2Error):
    """The DPoP proof is missing, malformed, not for this request, or was used before (RFC 9449 section 5)."""

    error = "invalid_dpop_proof"


class InvalidDpopProofAtResource(InvalidDpopProof):
    """InvalidDpopProof at a protected resource (RFC 9449 section 7.1)."""

    status = 401


class UseDpopNonce(InvalidDpopProof):
    """The DPoP proof lacks a fresh nonce, which the response has (RFC 9449 section 8)."""

    error = "use_dpop_nonce"

    def __init__(self, nonce: str) -> None:
        super().__init__(None, "The DPoP proof needs the nonce of the header DPoP-Nonce.")
        self.nonce = nonce


class UseDpopNonceAtResource(UseDpopNonce, InvalidDpopProofAtResource):
    """UseDpopNonce at a protected resource (RFC 9449 section 9)."""


class AccessDenied(OAuth2Error):
    """The resource owner denied the request."""

    error = "access_denied"


class AuthorizationPending(OAuth2Error):
    """The user has not yet approved or denied the device (RFC 8628 section 3.5)."""

    error = "authorization_pending"


class SlowDown(OAuth2Error):
    """The device polls too often, and must wait five seconds longer between requests (RFC 8628 section 3.5)."""

    error = "slow_down"


class ExpiredToken(OAuth2Error):
    """The device code has expired (RFC 8628 section 3.5)."""

    error = "expired_token"


class LoginRequired(OAuth2Error):
    """prompt=none, but a login is required (OpenID Connect Core 3.1.2.6)."""

    error = "login_required"


class ConsentRequired(OAuth2Error):
    """The consent of the user is required (OpenID Connect Core 3.1.2.6)."""

    error = "consent_required"


class InteractionRequired(OAuth2Error):
    """prompt=none, but another page than login or consent is required (OpenID Connect Core 3.1.2.6)."""

    error = "interaction_required"


class UnmetAuthenticationRequirements(OAuth2Error):
    """The user cannot meet the requirements of the request (Unmet Authentication Requirements 1.0, section 2)."""

    error = "unmet_authentication_requirements"


class RequestNotSupported(OAuth2Error):
    """The `request` parameter is not supported (OpenID Connect Core 3.1.2.6)."""

    error = "request_not_supported"


class RequestUriNotSupported(OAuth2Error):
    """The `request_uri` parameter is not supported (OpenID Connect Core 3.1.2.6)."""

    error = "request_uri_not_supported"


class InvalidRequestUri(OAuth2Error):
    """The `request_uri` is unknown or invalid (OpenID Connect Core 3.1.2.6, RFC 9126 section 4)."""

    error = "invalid_request_uri"


class InvalidRequestObject(OAuth2Error):
    """The `request` object is invalid (OpenID Connect Core 3.1.2.6, RFC 9101 section 7).

    `signed` are its parameters, if its signature is valid.
    """

    error = "invalid_request_object"

    def __init__(self, reason: str | None, description: str, *, signed: Mapping[str, object] | None = None) -> None:
        super().__init__(reason, description)
        self.signed = signed


class RegistrationNotSupported(OAuth2Error):
    """The `registration` parameter is not supported (OpenID Connect Core 3.1.2.6)."""

    error = "registration_not_supported"


class InvalidRedirectUri(OAuth2Error):
    """A redirect URI cannot be registered (RFC 7591 section 3.2.2)."""

    error = "invalid_redirect_uri"


class InvalidClientMetadata(OAuth2Error):
    """The metadata of a client cannot be registered (RFC 7591 section 3.2.2)."""

    error = "invalid_client_metadata"


class InvalidSoftwareStatement(OAuth2Error):
    """A software statement is malformed, forged or expired (RFC 7591 section 3.2.2)."""

    error = "invalid_software_statement"


class UnapprovedSoftwareStatement(OAuth2Error):
    """The issuer of a software statement is not trusted (RFC 7591 section 3.2.2)."""

    error = "unapproved_software_statement"


class FeatureOff(OAuth2Error):
    """NotLicensed at the OAuth endpoints."""

    error = "not_licensed"


class ServerError(OAuth2Error):
    """An unexpected failure, without details."""

    status = 500
    error = "server_error"


class StartupError(Exception):
    """The service cannot start or continue; the message states the cause and the remedy for an operator."""
