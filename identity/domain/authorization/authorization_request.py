"""Authorization requests: the checks that need only the request and its application, in the order they are made.

A failure is told on a page of ours until the redirect URI is proven to be the application's, and at that redirect URI
from then on (RFC 6749 section 4.1.2.1): `require_redirect_uri` is the border between the two. Client and tenant are
found before, and parameters that are repeated were refused when they were read.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from identity.call import Document
from identity.domain.authorization import claims_request, pkce, response_types
from identity.domain.authorization.claims_request import ClaimsRequest
from identity.domain.authorization.response_types import ResponseMode, ResponseType
from identity.domain.clients import dpop_proofs, redirect_uris, resource_indicators, scopes, security_profiles
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
"""Marks the parameters of a pushed request (RFC 9126); no parameter has such a name. Its value names the opened request
that a response has to delete, and is blank for a request that no page was shown for yet."""

ONE_USE: Final = "one use"
"""Names the pushed request that an authorization request came from, however often its page was shown: one response in
all is given to it."""

SIGNED: Final = "signed request"
"""Marks the parameters of a request object (RFC 9101); its value is the object, or blank when it is kept here."""

NONE: Final = "none"
LOGIN: Final = "login"
CONSENT: Final = "consent"
_PROMPTS: Final = frozenset({NONE, LOGIN, CONSENT, "select_account"})

_ANSWERS: Final = frozenset(
    {"access_token", "code", "error", "error_description", "id_token", "iss", "locale", "state", "userState"}
)
_UNDESCRIBABLE = re.compile(r"[^\x20-\x21\x23-\x5b\x5d-\x7e]")
_MAXIMUM_DESCRIPTION = 500
_DEVICE = "metaData.device."
_CARRIED = ("state", "nonce", "id_token_hint", "login_hint", "idp_hint", "user_code", "dpop_jkt")


@dataclasses.dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A request that passed every check; `scopes` are what the application's policies leave of those it asked for."""

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
        """Whether nothing may be shown (`prompt=none`)."""
        return NONE in self.prompts

    @property
    def forces_login(self) -> bool:
        """Whether the user has to authenticate again; `max_age=0` says the same as `prompt=login`."""
        return LOGIN in self.prompts or self.max_age == 0


@dataclasses.dataclass(frozen=True, slots=True)
class _Facts:
    """What the checks may look at."""

    given: Mapping[str, Any]
    application: Document
    origin: str | None
    own_origin: str
    response_type: ResponseType | None

    @property
    def oauth(self) -> Document:
        found: Document = self.application["oauthConfiguration"]
        return found

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
    """Where the answer to a request goes; without a redirect URI it is a page of ours."""

    redirect_uri: str | None
    mode: ResponseMode
    state: str | None


def channel(given: Mapping[str, Any], application: Document | None) -> Channel:
    """Where an error of this request is told, however wrong the rest of it is."""
    response_type = None if _is_token_for_openid(given) else _response_type(given, application)
    mode = response_types.answer_mode(response_type, given.get("response_mode"))
    redirect_uri = None
    if application is not None:
        try:
            redirect_uri = require_redirect_uri(given, application)
        except InvalidRequest:
            redirect_uri = None
    return Channel(redirect_uri, mode, given.get("state"))


def require_redirect_uri(given: Mapping[str, Any], application: Document) -> str:
    """The redirect URI, if it is the application's. Raises InvalidRequest, which belongs on a page."""
    redirect_uri: str | None = given.get("redirect_uri")
    if redirect_uri is None:
        raise InvalidRequest("missing_redirect_uri", "The request is missing a required parameter: redirect_uri.")
    if not security_profiles.is_authorized(redirect_uri, application) or _holds_an_answer(redirect_uri):
        raise InvalidRequest("invalid_redirect_uri", f"Invalid redirect uri {redirect_uri} (redirect_uri)")
    return redirect_uri


def validate(
    given: Mapping[str, Any], application: Document, *, origin: str | None, own_origin: str
) -> AuthorizationRequest:
    """The request, when nothing is wrong with it.

    `origin` is the Origin header of a request that came from outside (None for our own login form), `own_origin` that
    of this service. Raises OAuth2Error: the first check that fails speaks.
    """
    redirect_uri = require_redirect_uri(given, application)
    facts = _Facts(given, application, origin, own_origin, _response_type(given, application))
    for check in CHECKS:
        check(facts)
    return _accepted(facts, redirect_uri)


def _is_token_for_openid(given: Mapping[str, Any]) -> bool:
    """Whether a request combines `response_type=token` with the scope openid, which is no response type at all.

    Its error travels as that of an unknown response type: in the query, unless the request names a response mode.
    """
    return given.get("response_type") == "token" and scopes.OPENID in given.get("scope", "").split(" ")


def _response_type(given: Mapping[str, Any], application: Document | None) -> ResponseType | None:
    speaks_hybrid = application is not None and security_profiles.allows_hybrid_flow(application)
    return response_types.find(given.get("response_type"), hybrid=speaks_hybrid)


def error_parameters(error: OAuth2Error, state: str | None, issuer: str, *, with_reason: bool = True) -> dict[str, str]:
    """The parameters of an error response (RFC 6749 section 4.1.2.1, RFC 9207 section 2).

    `with_reason` adds the `error_reason` of the published API.
    """
    answer = {"error": error.error}
    if error.reason is not None and with_reason:
        answer["error_reason"] = error.reason
    answer["error_description"] = _UNDESCRIBABLE.sub("?", error.description)[:_MAXIMUM_DESCRIPTION]
    if state is not None:
        answer["state"] = state
    return {**answer, "iss": issuer}


def _require_pushed(facts: _Facts) -> None:
    if facts.oauth.get("requirePushedAuthorizationRequests") and not facts.is_pushed:
        raise InvalidRequest("unknown", "This client has to push its authorization requests (RFC 9126).")


def _require_signed(facts: _Facts) -> None:
    if facts.oauth.get("requireSignedRequestObject") and SIGNED not in facts.given and "request" not in facts.given:
        raise InvalidRequest("unknown", "This client has to sign its authorization requests (the request parameter).")


def _require_no_other_source(facts: _Facts) -> None:
    if "request" in facts.given:
        raise RequestNotSupported(None, "The parameter request is not supported for a client that has no keys.")
    if "request_uri" in facts.given and not facts.is_pushed:
        raise RequestUriNotSupported(None, "The parameter request_uri is not supported, but for a pushed request.")
    if "registration" in facts.given:
        raise RegistrationNotSupported(None, "The parameter registration is not supported.")


def _require_origin(facts: _Facts) -> None:
    allowed = [url.rstrip("/") for url in facts.oauth["authorizedOriginURLs"]]
    if not allowed or facts.origin is None or facts.origin == facts.own_origin:
        return
    if facts.origin == "null":
        raise InvalidRequest("invalid_origin_opaque", "The origin of the request is opaque.")
    if not redirect_uris.is_authorized(facts.origin, allowed, facts.oauth["authorizedURLValidationPolicy"]):
        raise InvalidRequest("invalid_origin", f"Invalid origin uri {facts.origin}")


def _require_response_type(facts: _Facts) -> None:
    wanted = facts.given.get("response_type")
    if wanted is None:
        raise InvalidRequest("missing_response_type", "The request is missing a required parameter: response_type.")
    if facts.response_type is None:
        supported = "code, token, id_token, token id_token"
        if security_profiles.allows_hybrid_flow(facts.application):
            supported += ", code id_token, code token, code id_token token"
        raise UnsupportedResponseType(
            "invalid_response_type", f"The response_type must be one of {supported}, and not {wanted}."
        )


def _require_id_token_for_openid(facts: _Facts) -> None:
    if _is_token_for_openid(facts.given):
        raise UnsupportedResponseType(
            "invalid_response_type", "The response_type token cannot go with the scope openid."
        )


def _require_bindable(facts: _Facts) -> None:
    """An access token that comes by way of the browser is bound to no key (RFC 9449 section 5)."""
    response_type = facts.response_type
    is_bound = facts.oauth.get("dpopBoundAccessTokens")
    if is_bound and response_type is not None and response_type.gives("token"):
        raise UnsupportedResponseType(
            "invalid_response_type", "The access tokens of this client are bound to keys (DPoP), which needs a code."
        )


def _require_key_form(facts: _Facts) -> None:
    if not dpop_proofs.is_thumbprint(facts.given.get("dpop_jkt", "x" * 43)):
        raise InvalidRequest("unknown", "The dpop_jkt must be the SHA-256 thumbprint of a key.")


def _require_response_mode(facts: _Facts) -> None:
    wanted, response_type = facts.given.get("response_mode"), facts.response_type
    if wanted is not None and response_type is not None and wanted not in response_type.modes:
        modes = ", ".join(response_type.modes)
        raise InvalidRequest("invalid_response_mode", f"The response_mode must be one of {modes}, and not {wanted}.")


def _require_grant(facts: _Facts) -> None:
    """A hybrid type is an answer of both grants, and needs both."""
    for grant_type in () if facts.response_type is None else facts.response_type.grant_types:
        if not security_profiles.may_use_grant(facts.application, grant_type):
            raise UnauthorizedClient("grant_type_disabled", f"The grant {grant_type} is disabled.")


def _require_challenge_method(facts: _Facts) -> None:
    method = facts.given.get("code_challenge_method")
    # Without a method the challenge would be a plain one (RFC 7636 section 4.3), which is not spoken here.
    is_plain = method is None and "code_challenge" in facts.given
    if facts.gives_code and (is_plain or method not in {None, pkce.METHOD}):
        reason = "invalid_pkce_code_challenge_method"
        raise InvalidRequest(reason, "The code_challenge_method must be S256.")


def _require_challenge_form(facts: _Facts) -> None:
    challenge = facts.given.get("code_challenge")
    if facts.gives_code and challenge is not None and not pkce.is_challenge(challenge):
        raise InvalidRequest("invalid_pkce_code_challenge", "The code_challenge is malformed.")


def _require_challenge(facts: _Facts) -> None:
    if not facts.gives_code or "code_challenge" in facts.given:
        return
    is_required = security_profiles.pkce_policy(facts.application) == "Required"
    if is_required or "code_challenge_method" in facts.given:
        raise InvalidRequest("missing_code_challenge", "The request is missing a required parameter: code_challenge.")


def _require_scopes(facts: _Facts) -> None:
    kept, response_type = _scopes(facts), facts.response_type
    if response_type is not None and response_type.gives("id_token") and scopes.OPENID not in kept:
        raise InvalidScope("missing_required_scope", "An id_token needs the scope openid (the scope parameter).")


def _require_nonce(facts: _Facts) -> None:
    response_type = facts.response_type
    if response_type is not None and response_type.gives("id_token") and "nonce" not in facts.given:
        raise InvalidRequest("unknown", "The request is missing a required parameter: nonce.")


def _require_prompt(facts: _Facts) -> None:
    prompts = _prompts(facts)
    if prompts - _PROMPTS or (NONE in prompts and len(prompts) > 1):
        raise InvalidRequest("invalid_prompt", f"The prompt is not valid: {facts.given['prompt']}")


def _require_max_age(facts: _Facts) -> None:
    if re.fullmatch(r"[0-9]{1,10}", facts.given.get("max_age", "0")) is None:
        raise InvalidRequest("unknown", "The max_age must be a number of seconds.")


def _require_claims(facts: _Facts) -> None:
    """An essential acr that nobody here can have is a failed authentication (OpenID Connect Core 5.5.1.1)."""
    acr, configured = facts.claims.acr, facts.oauth.get("authenticationContextClass")
    if acr is not None and acr.is_essential and (configured is None or not acr.accepts(configured)):
        raise UnmetAuthenticationRequirements(None, "The authentication context class (acr) cannot be had here.")


def _require_resources(facts: _Facts) -> None:
    _resources(facts)


CHECKS: Final[tuple[Callable[[_Facts], None], ...]] = (
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
"""The checks in the order of the specification; each may rely on those before it."""


def _accepted(facts: _Facts, redirect_uri: str) -> AuthorizationRequest:
    given, response_type = facts.given, facts.response_type
    assert response_type is not None, "_require_response_type saw to it"
    named = {name: given.get(name) for name in _CARRIED}
    return AuthorizationRequest(
        client_id=facts.application["id"],
        redirect_uri=redirect_uri,
        response_type=response_type,
        response_mode=response_types.answer_mode(response_type, given.get("response_mode")),
        scopes=_scopes(facts),
        code_challenge=given.get("code_challenge") if facts.gives_code else None,
        prompts=_prompts(facts),
        max_age=int(given["max_age"]) if "max_age" in given else None,
        claims=facts.claims,
        locales=tuple([given["locale"]] if "locale" in given else given.get("ui_locales", "").split()),
        device={name[len(_DEVICE) :]: value for name, value in given.items() if name.startswith(_DEVICE)},
        resources=_resources(facts),
        pushed=given.get(PUSHED, ""),
        one_use=given.get(ONE_USE, ""),
        **named,
    )


def _scopes(facts: _Facts) -> tuple[str, ...]:
    """What the policies leave; the implicit grant never gives a refresh token, so it drops offline_access."""
    kept = scopes.apply_policy(scopes.parse(facts.given.get("scope")), facts.oauth, facts.application["scopes"])
    return kept if facts.gives_code else tuple(scope for scope in kept if scope != scopes.OFFLINE_ACCESS)


def _resources(facts: _Facts) -> tuple[str, ...]:
    return resource_indicators.parse(facts.given.get("resource"), facts.oauth)


def _prompts(facts: _Facts) -> frozenset[str]:
    return frozenset(facts.given.get("prompt", "").split(" ")) - {""}


def _holds_an_answer(redirect_uri: str) -> bool:
    """Whether the query already names what an answer would add, so that a client could read the wrong one."""
    query = urlsplit(redirect_uri).query
    return any(name in _ANSWERS for name, _ in parse_qsl(query, keep_blank_values=True))
