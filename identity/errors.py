"""What can go wrong: one class for each thing a caller can be told.

Rooms below web raise these; only the handler families of web render them. `log_detail` is for the
log and never leaves the service.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping


def with_article(noun: str) -> str:
    """The noun with its indefinite article, at the start of a sentence: `An Application`, `A User`."""
    is_vowel = noun[:1].lower() in "aeio" or noun[:2].lower() in {"un", "up"}
    return f"An {noun}" if is_vowel and not noun.lower().startswith("uni") else f"A {noun}"


@dataclasses.dataclass(frozen=True, slots=True)
class FieldError:
    """One entry of the Errors JSON: `path` is where, `code` is `[kind]path`, `message` an English sentence."""

    path: str
    code: str
    message: str

    @classmethod
    def of(cls, kind: str, path: str, message: str) -> FieldError:
        """The usual form, with the code made of kind and path; `invalidJSON` alone stands without the path."""
        return cls(path, f"[{kind}]" if kind == "invalidJSON" else f"[{kind}]{path}", message)


@dataclasses.dataclass(frozen=True, slots=True)
class GeneralError:
    """An error that belongs to no field; `code` is a bare `[Name]`."""

    code: str
    message: str


class ServiceError(Exception):
    """Base of everything that a caller may be told."""

    status = 500

    def __init__(self, message: str = "", *, log_detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.log_detail = log_detail


class Invalid(ServiceError):
    """The request is well-formed but not acceptable; carries every error found, not just the first."""

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
        """One field error."""
        return cls([FieldError.of(kind, path, message)])

    @classmethod
    def whole(cls, code: str, message: str) -> Invalid:
        """One general error."""
        return cls(general=[GeneralError(code, message)])


class NotLicensed(Invalid):
    """A feature that the operator switched off: 400 with `[NotLicensed]`, at OAuth endpoints `not_licensed`."""

    def __init__(self, message: str) -> None:
        super().__init__(general=[GeneralError("[NotLicensed]", message)])
        self.message = message


class LoginPrevented(Invalid):
    """A lambda refused a login that lacks nothing else; the errors are the lambda's, which `lambda_id` names."""

    def __init__(self, lambda_id: str, fields: Iterable[FieldError], general: Iterable[GeneralError]) -> None:
        super().__init__(fields, general)
        self.lambda_id = lambda_id

    @property
    def messages(self) -> list[str]:
        """What the lambda says to whoever wanted to log in."""
        return [error.message for error in self.general] + [error.message for error in self.fields]


class Unauthorized(ServiceError):
    """No credentials, wrong ones, or not enough authority: 401 with an empty body."""

    status = 401


class Forbidden(ServiceError):
    """A feature that an administrator switched off, or a blocked origin: 403 with an empty body."""

    status = 403


class NotFound(ServiceError):
    """The object does not exist, or not for this caller: 404 with an empty body."""

    status = 404


class MethodNotAllowed(ServiceError):
    """The path exists but not with this method: 405 with an empty body."""

    status = 405


class AlreadyLinked(ServiceError):
    """The account at the identity provider belongs to another user: 409 with an empty body."""

    status = 409


class TooLarge(ServiceError):
    """The body is larger than this endpoint reads: 413 with an Errors body."""

    status = 413


class WrongCode(ServiceError):
    """The code of a second factor is wrong, or was used before: 421 with an empty body."""

    status = 421


class Unaddressable(ServiceError):
    """A message was to go to a user who has no address: 422 with an empty body."""

    status = 422


class Unavailable(ServiceError):
    """The service, or a store it stands on, cannot answer now: 503 with an Errors body."""

    status = 503


class WebhookTransactionFailed(ServiceError):
    """A transactional webhook vetoed the change, which was not made: 504 with an Errors body."""

    status = 504


class LoopDetected(ServiceError):
    """A delivery of events has come back to where it began, or through very many services: 508 with an Errors body."""

    status = 508


class LambdaFailed(ServiceError):
    """A lambda threw, took too much, or left nonsense behind: 512 with an Errors body, and a row in the event log."""

    status = 512


class NotImported(ServiceError):
    """A value that has to be unique is taken, in a call that did not ask to be told which: nothing was done."""

    status = 500


class Duplicate(Exception):
    """A unique index refused a write; `index` names it. Operations turn it into an `Invalid`."""

    def __init__(self, index: str) -> None:
        super().__init__(index)
        self.index = index


class Conflict(Exception):
    """The document changed between being read and being replaced; read it again and retry."""


class OAuth2Error(ServiceError):
    """An error of the OAuth endpoints (RFC 6749 sections 4.1.2.1 and 5.2).

    `reason` is the error_reason of the API, or None where it has none; `extra` are further members
    of the JSON, such as change_password_id.
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
    """The code, refresh token or credentials are unknown, expired, spent or another client's."""

    error = "invalid_grant"


class ChangePasswordRequired(OAuth2Error):
    """The password is right, and has to be changed before it gives tokens."""

    error = "change_password_required"


class TwoFactorRequired(OAuth2Error):
    """The password is right, and not enough."""

    error = "two_factor_required"


class UnauthorizedClient(OAuth2Error):
    """The client may not use this grant."""

    error = "unauthorized_client"


class UnsupportedGrantType(OAuth2Error):
    """No such grant_type here."""

    error = "unsupported_grant_type"


class UnsupportedResponseType(OAuth2Error):
    """No such response_type here."""

    error = "unsupported_response_type"


class UnsupportedTokenType(OAuth2Error):
    """No such kind of token here, or not for this deed (RFC 7009 section 2.2.1)."""

    error = "unsupported_token_type"


class InvalidScope(OAuth2Error):
    """A scope is unknown, malformed or wider than granted."""

    error = "invalid_scope"


class InvalidTarget(OAuth2Error):
    """A resource is malformed, or not one that this client may have tokens for (RFC 8707 section 2)."""

    error = "invalid_target"


class InvalidToken(OAuth2Error):
    """The bearer token is missing, malformed, expired or not for this resource (RFC 6750 section 3.1)."""

    status = 401
    error = "invalid_token"


class InvalidDpopProof(OAuth2Error):
    """The DPoP proof is missing, malformed, not about this request, or was used before (RFC 9449 section 5)."""

    error = "invalid_dpop_proof"


class InvalidDpopProofAtResource(InvalidDpopProof):
    """As InvalidDpopProof, at a protected resource (RFC 9449 section 7.1)."""

    status = 401


class UseDpopNonce(InvalidDpopProof):
    """The DPoP proof lacks a fresh nonce of ours: this one will do (RFC 9449 section 8)."""

    error = "use_dpop_nonce"

    def __init__(self, nonce: str) -> None:
        super().__init__(None, "The DPoP proof needs the nonce of the header DPoP-Nonce.")
        self.nonce = nonce


class UseDpopNonceAtResource(UseDpopNonce, InvalidDpopProofAtResource):
    """As UseDpopNonce, at a protected resource (RFC 9449 section 9)."""


class AccessDenied(OAuth2Error):
    """The resource owner said no."""

    error = "access_denied"


class AuthorizationPending(OAuth2Error):
    """The user has not decided yet about a device (RFC 8628 section 3.5)."""

    error = "authorization_pending"


class SlowDown(OAuth2Error):
    """As AuthorizationPending, and the device asks too often: it has to wait five seconds longer from now on."""

    error = "slow_down"


class ExpiredToken(OAuth2Error):
    """The device code has come to its end (RFC 8628 section 3.5)."""

    error = "expired_token"


class LoginRequired(OAuth2Error):
    """prompt=none, but the user has to log in (OpenID Connect Core 3.1.2.6)."""

    error = "login_required"


class ConsentRequired(OAuth2Error):
    """The user has to be asked first (OpenID Connect Core 3.1.2.6)."""

    error = "consent_required"


class InteractionRequired(OAuth2Error):
    """prompt=none, but a page other than login or consent has to be shown (OpenID Connect Core 3.1.2.6)."""

    error = "interaction_required"


class UnmetAuthenticationRequirements(OAuth2Error):
    """The user cannot authenticate as the request has to have it (Unmet Authentication Requirements 1.0, section 2)."""

    error = "unmet_authentication_requirements"


class RequestNotSupported(OAuth2Error):
    """The `request` parameter is not supported (OpenID Connect Core 3.1.2.6)."""

    error = "request_not_supported"


class RequestUriNotSupported(OAuth2Error):
    """The `request_uri` parameter is not supported (OpenID Connect Core 3.1.2.6)."""

    error = "request_uri_not_supported"


class InvalidRequestUri(OAuth2Error):
    """The `request_uri` names nothing that can be used (OpenID Connect Core 3.1.2.6, RFC 9126 section 4)."""

    error = "invalid_request_uri"


class InvalidRequestObject(OAuth2Error):
    """The `request` is not a request of the client (OpenID Connect Core 3.1.2.6, RFC 9101 section 7).

    `signed` are the parameters in it, where at least the signature is the client's.
    """

    error = "invalid_request_object"

    def __init__(self, reason: str | None, description: str, *, signed: Mapping[str, object] | None = None) -> None:
        super().__init__(reason, description)
        self.signed = signed


class RegistrationNotSupported(OAuth2Error):
    """The `registration` parameter is not supported (OpenID Connect Core 3.1.2.6)."""

    error = "registration_not_supported"


class FeatureOff(OAuth2Error):
    """As NotLicensed, in the words of the OAuth endpoints."""

    error = "not_licensed"


class ServerError(OAuth2Error):
    """Something failed inside; the description says nothing about it."""

    status = 500
    error = "server_error"


class StartupError(Exception):
    """The service cannot start or go on: the message tells an operator what is wrong and what to do."""
