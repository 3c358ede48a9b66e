"""Authorization requests: the checks that need only the request and its application, in order.

Errors before the redirect URI is verified (`require_redirect_uri`) are shown on an error page, later ones are
redirected (RFC 6749 section 4.1.2.1). Client and tenant were resolved before, and repeated parameters rejected.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from identity.call import Document
from identity.domain.authorization import claims_request, pkce, response_types, step_up
from identity.domain.authorization.claims_request import ClaimsRequest
from identity.domain.authorization.response_types import ResponseMode, ResponseType
from identity.domain.clients import dpop_proofs, redirect_uris, resource_indicators, scopes, security_profiles
from identity.domain.clients.oauth_settings import OAuthSettings
from identity.errors import (
    InvalidRequest,
    InvalidScope,
    OAuth2Error,
    RegistrationNotSupported,
    RequestNotSupported,
    RequestUriNotSupported,
    UnauthorizedClient,
    UnmetAuthenticationRequirements,
    UnsupportedResponseType,
)

PUSHED: Final = "pushed request"
"""Marks the parameters of a pushed request (RFC 9126); no real parameter has such a name. Its value names the opened
request that the response deletes, and is blank if no page was shown yet."""

ONE_USE: Final = "one use"
"""Identifies the pushed request of an authorization request, which gets one response however often it was opened."""

SIGNED: Final = "signed request"
"""Marks the parameters of a request object (RFC 9101); its value is the object, or blank if it is stored here."""

NONE: Final = "none"
LOGIN: Final = "login"
CONSENT: Final = "consent"
_PROMPTS: Final = frozenset({NONE, LOGIN, CONSENT, "select_account"})

_RESPONSE_PARAMETERS: Final = frozenset(
    {"access_token", "code", "error", "error_description", "id_token", "iss", "locale", "state", "userState"}
)
_NOT_IN_DESCRIPTIONS = re.compile(r"[^\x20-\x21\x23-\x5b\x5d-\x7e]")
_MAXIMUM_DESCRIPTION_CHARACTERS = 500
_DEVICE = "metaData.device."
_UNCHECKED = ("state", "nonce", "id_token_hint", "login_hint", "idp_hint", "user_code", "dpop_jkt")


@dataclasses.dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A valid request; `scopes` are those requested that the application's policies allow."""

    client_id: str
    redirect_uri: str
    response_type: ResponseType
    response_mode: ResponseMode
    scopes: tuple[str, ...] = ()
    state: str | None = None
    nonce: str | None = None
    code_challenge: str | None = None
    prompts: frozenset[str] = frozenset()
    max_age: int | None = None
    id_token_hint: str | None = None
    login_hint: str | None = None
    idp_hint: str | None = None
    locales: tuple[str, ...] = ()
    claims: ClaimsRequest = claims_request.NO_CLAIMS
    user_code: str | None = None
    device: Mapping[str, str] = dataclasses.field(default_factory=dict)
    resources: tuple[str, ...] = ()
    dpop_jkt: str | None = None
    pushed: str = dataclasses.field(default="", repr=False)
    one_use: str = dataclasses.field(default="", repr=False)

    @property
    def forbids_pages(self) -> bool:
        """Whether no page may be shown (`prompt=none`)."""
        return NONE in self.prompts

    @property
    def forces_login(self) -> bool:
        """Whether the user has to authenticate again; `max_age=0` is equivalent to `prompt=login`."""
        return LOGIN in self.prompts or self.max_age == 0


@dataclasses.dataclass(frozen=True, slots=True)
class _Input:
    """The input of the checks."""

    given: Mapping[str, Any]
    application: Document
    oauth: OAuthSettings
    origin: str | None
    own_origin: str
    response_type: ResponseType | None

    @property
    def gives_code(self) -> bool:
        return self.response_type is not None and self.response_type.gives("code")

    @property
    def is_pushed(self) -> bool:
        return PUSHED in self.given

    @property
    def claims(self) -> ClaimsRequest:
        return claims_request.parse(self.given.get("claims"), self.given.get("acr_values"))


@dataclasses.dataclass(frozen=True, slots=True)
class Channel:
    """Where the response goes; without a redirect URI to an error page."""

    redirect_uri: str | None
    mode: ResponseMode
    state: str | None


def channel(given: Mapping[str, Any], application: Document | None) -> Channel:
    """Return where errors of this request go, even if other parameters are invalid."""
    response_type = None if _is_token_for_openid(given) else _response_type(given, application)
    mode = response_types.effective_mode(response_type, given.get("response_mode"))
    redirect_uri = None
    if application is not None:
        try:
            redirect_uri = require_redirect_uri(given, application)
        except InvalidRequest:
            redirect_uri = None
    return Channel(redirect_uri, mode, given.get("state"))


def require_redirect_uri(given: Mapping[str, Any], application: Document) -> str:
    """Return the redirect URI if it is the application's. Raises InvalidRequest, which is shown on an error page."""
    redirect_uri: str | None = given.get("redirect_uri")
    if redirect_uri is None:
        raise InvalidRequest("missing_redirect_uri", "The request is missing a required parameter: redirect_uri.")
    if not security_profiles.is_redirect_uri_authorized(redirect_uri, application) or _has_response_parameter(
        redirect_uri
    ):
        raise invalid_redirect_uri(redirect_uri)
    return redirect_uri


def invalid_redirect_uri(redirect_uri: str) -> InvalidRequest:
    """Return the error for a foreign redirect URI; the page does not repeat it, because a link can choose its text."""
    description = "Invalid redirect uri: it is not one of the application's (redirect_uri)"
    return InvalidRequest("invalid_redirect_uri", description, log_detail=f"the redirect_uri is {redirect_uri[:500]}")


def validate(
    given: Mapping[str, Any], application: Document, *, origin: str | None, own_origin: str
) -> AuthorizationRequest:
    """Validate a request. Raises the OAuth2Error of the first check that fails.

    `origin` is the Origin header of a request from another site (None for our own login form), `own_origin` that of
    this service.
    """
    redirect_uri = require_redirect_uri(given, application)
    input_ = _Input(
        given, application, OAuthSettings.of(application), origin, own_origin, _response_type(given, application)
    )
    for check in CHECKS:
        check(input_)
    return _build(input_, redirect_uri)


def _is_token_for_openid(given: Mapping[str, Any]) -> bool:
    """Whether a request combines `response_type=token` with the scope openid, which is invalid.

    Like that of an unknown response type, its error is sent in the query unless the request names a response mode.
    """
    return given.get("response_type") == "token" and scopes.OPENID in given.get("scope", "").split(" ")


def _response_type(given: Mapping[str, Any], application: Document | None) -> ResponseType | None:
    hybrid = application is not None and security_profiles.allows_hybrid_flow(application)
    return response_types.find(given.get("response_type"), hybrid=hybrid)


def error_parameters(error: OAuth2Error, state: str | None, issuer: str, *, with_reason: bool = True) -> dict[str, str]:
    """Return the parameters of an error response (RFC 6749 section 4.1.2.1, RFC 9207 section 2).

    `with_reason` adds the `error_reason` of the published API.
    """
    parameters = {"error": error.error}
    if error.reason is not None and with_reason:
        parameters["error_reason"] = error.reason
    parameters["error_description"] = _NOT_IN_DESCRIPTIONS.sub("?", error.description)[:_MAXIMUM_DESCRIPTION_CHARACTERS]
    if state is not None:
        parameters["state"] = state
    return {**parameters, "iss": issuer}


def _require_pushed(input_: _Input) -> None:
    if input_.oauth.require_pushed_authorization_requests and not input_.is_pushed:
        raise InvalidRequest("unknown", "This client has to push its authorization requests (RFC 9126).")


def _require_signed(input_: _Input) -> None:
    if input_.oauth.require_signed_request_object and SIGNED not in input_.given and "request" not in input_.given:
        raise InvalidRequest("unknown", "This client has to sign its authorization requests (the request parameter).")


def _require_no_other_source(input_: _Input) -> None:
    if "request" in input_.given:
        raise RequestNotSupported(None, "The parameter request is not supported for a client that has no keys.")
    if "request_uri" in input_.given and not input_.is_pushed:
        raise RequestUriNotSupported(None, "The parameter request_uri is supported for pushed requests only.")
    if "registration" in input_.given:
        raise RegistrationNotSupported(None, "The parameter registration is not supported.")


def _require_origin(input_: _Input) -> None:
    allowed = [url.rstrip("/") for url in input_.oauth.authorized_origin_urls]
    if not allowed or input_.origin is None or input_.origin == input_.own_origin:
        return
    if input_.origin == "null":
        raise InvalidRequest("invalid_origin_opaque", "The origin of the request is opaque.")
    if not redirect_uris.is_authorized(input_.origin, allowed, input_.oauth.authorized_url_validation_policy):
        raise InvalidRequest("invalid_origin", f"Invalid origin uri {input_.origin}")


def _require_response_type(input_: _Input) -> None:
    requested = input_.given.get("response_type")
    if requested is None:
        raise InvalidRequest("missing_response_type", "The request is missing a required parameter: response_type.")
    if input_.response_type is None:
        supported = "code, token, id_token, token id_token"
        if security_profiles.allows_hybrid_flow(input_.application):
            supported += ", code id_token, code token, code id_token token"
        raise UnsupportedResponseType(
            "invalid_response_type", f"The response_type must be one of {supported}, and not {requested}."
        )


def _require_id_token_for_openid(input_: _Input) -> None:
    if _is_token_for_openid(input_.given):
        raise UnsupportedResponseType(
            "invalid_response_type", "The response_type token cannot go with the scope openid."
        )


def _require_bindable(input_: _Input) -> None:
    """Access tokens of an authorization response cannot be bound to a key or certificate (RFC 9449 section 5)."""
    response_type = input_.response_type
    is_bound = input_.oauth.has_bound_access_tokens
    if is_bound and response_type is not None and response_type.gives("token"):
        raise UnsupportedResponseType(
            "invalid_response_type", "The access tokens of this client are bound to keys, which needs a code."
        )


def _require_key_form(input_: _Input) -> None:
    if not dpop_proofs.is_thumbprint(input_.given.get("dpop_jkt", "x" * 43)):
        raise InvalidRequest("unknown", "The dpop_jkt must be the SHA-256 thumbprint of a key.")


def _require_response_mode(input_: _Input) -> None:
    requested, response_type = input_.given.get("response_mode"), input_.response_type
    if requested is not None and response_type is not None and requested not in response_type.modes:
        modes = ", ".join(response_type.modes)
        raise InvalidRequest("invalid_response_mode", f"The response_mode must be one of {modes}, and not {requested}.")


def _require_grant(input_: _Input) -> None:
    """A hybrid response type requires both of its grants."""
    for grant_type in () if input_.response_type is None else input_.response_type.grant_types:
        if not security_profiles.may_use_grant(input_.application, grant_type):
            raise UnauthorizedClient("grant_type_disabled", f"The grant {grant_type} is disabled.")


def _require_challenge_method(input_: _Input) -> None:
    method = input_.given.get("code_challenge_method")
    # Without a method the challenge is plain (RFC 7636 section 4.3), which is not supported.
    is_plain = method is None and "code_challenge" in input_.given
    if input_.gives_code and (is_plain or method not in {None, pkce.METHOD}):
        reason = "invalid_pkce_code_challenge_method"
        raise InvalidRequest(reason, "The code_challenge_method must be S256.")


def _require_challenge_form(input_: _Input) -> None:
    challenge = input_.given.get("code_challenge")
    if input_.gives_code and challenge is not None and not pkce.is_challenge(challenge):
        raise InvalidRequest("invalid_pkce_code_challenge", "The code_challenge is malformed.")


def _require_challenge(input_: _Input) -> None:
    if not input_.gives_code or "code_challenge" in input_.given:
        return
    is_required = security_profiles.pkce_policy(input_.application) == "Required"
    if is_required or "code_challenge_method" in input_.given:
        raise InvalidRequest("missing_code_challenge", "The request is missing a required parameter: code_challenge.")


def _require_scopes(input_: _Input) -> None:
    allowed, response_type = _scopes(input_), input_.response_type
    if response_type is not None and response_type.gives("id_token") and scopes.OPENID not in allowed:
        raise InvalidScope("missing_required_scope", "An id_token needs the scope openid (the scope parameter).")


def _require_nonce(input_: _Input) -> None:
    response_type = input_.response_type
    if response_type is not None and response_type.gives("id_token") and "nonce" not in input_.given:
        raise InvalidRequest("unknown", "The request is missing a required parameter: nonce.")


def _require_prompt(input_: _Input) -> None:
    prompts = _prompts(input_)
    if prompts - _PROMPTS or (NONE in prompts and len(prompts) > 1):
        raise InvalidRequest("invalid_prompt", f"The prompt is not valid: {input_.given['prompt']}")


def _require_max_age(input_: _Input) -> None:
    if re.fullmatch(r"[0-9]{1,10}", input_.given.get("max_age", "0")) is None:
        raise InvalidRequest("unknown", "The max_age must be a number of seconds.")


def _require_claims(input_: _Input) -> None:
    """An essential acr that cannot be provided is a failed authentication (OpenID Connect Core 5.5.1.1)."""
    acr = input_.claims.acr
    if acr is not None and acr.is_essential and not any(map(acr.accepts, step_up.supported_classes(input_.oauth))):
        raise UnmetAuthenticationRequirements(None, "The authentication context class (acr) is not supported.")


def _require_resources(input_: _Input) -> None:
    _resources(input_)


CHECKS: Final[tuple[Callable[[_Input], None], ...]] = (
    _require_pushed,
    _require_signed,
    _require_no_other_source,
    _require_origin,
    _require_response_type,
    _require_id_token_for_openid,
    _require_bindable,
    _require_response_mode,
    _require_grant,
    _require_challenge_method,
    _require_challenge_form,
    _require_challenge,
    _require_key_form,
    _require_scopes,
    _require_nonce,
    _require_prompt,
    _require_max_age,
    _require_resources,
    _require_claims,
)
"""The checks in the order of the specification; each may rely on the previous ones."""


def _build(input_: _Input, redirect_uri: str) -> AuthorizationRequest:
    given, response_type = input_.given, input_.response_type
    assert response_type is not None, "_require_response_type has checked it"
    named = {name: given.get(name) for name in _UNCHECKED}
    return AuthorizationRequest(
        client_id=input_.application["id"],
        redirect_uri=redirect_uri,
        response_type=response_type,
        response_mode=response_types.effective_mode(response_type, given.get("response_mode")),
        scopes=_scopes(input_),
        code_challenge=given.get("code_challenge") if input_.gives_code else None,
        prompts=_prompts(input_),
        max_age=int(given["max_age"]) if "max_age" in given else None,
        claims=input_.claims,
        locales=tuple([given["locale"]] if "locale" in given else given.get("ui_locales", "").split()),
        device={name[len(_DEVICE) :]: value for name, value in given.items() if name.startswith(_DEVICE)},
        resources=_resources(input_),
        pushed=given.get(PUSHED, ""),
        one_use=given.get(ONE_USE, ""),
        **named,
    )


def _scopes(input_: _Input) -> tuple[str, ...]:
    """Return the allowed scopes; the implicit grant has no refresh tokens and drops offline_access."""
    allowed = scopes.apply_policy(scopes.parse(input_.given.get("scope")), input_.oauth, input_.application["scopes"])
    return allowed if input_.gives_code else tuple(scope for scope in allowed if scope != scopes.OFFLINE_ACCESS)


def _resources(input_: _Input) -> tuple[str, ...]:
    return resource_indicators.parse(input_.given.get("resource"), input_.oauth)


def _prompts(input_: _Input) -> frozenset[str]:
    return frozenset(input_.given.get("prompt", "").split(" ")) - {""}


def _has_response_parameter(redirect_uri: str) -> bool:
    """Whether the query has a parameter of responses, which a client could confuse with ours."""
    query = urlsplit(redirect_uri).query
    return any(name in _RESPONSE_PARAMETERS for name, _ in parse_qsl(query, keep_blank_values=True))
