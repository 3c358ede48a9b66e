"""Claims about a user in tokens and in the userinfo response (spec: OAuth, JWT contents; userinfo).

Standard claims without a field of their own are read from the user's free-form `data` by name (`_FROM_DATA`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from identity.call import Document
from identity.domain.authorization import claims_request, consent
from identity.domain.authorization.claims_request import RequestedClaims
from identity.domain.clients import scopes, security_profiles
from identity.domain.clients.oauth_settings import OAuthSettings
from identity.domain.objects.data_files import load_yaml
from identity.domain.users import users

STRICT: Final = "Strict"
MINIMAL: Final = "Minimal"

_CLAIMS: Final = load_yaml(__file__, "jwt_claims.yaml")
_PROFILE_FIELDS: Final[Mapping[str, str]] = _CLAIMS["profile"]
_COMPATIBLE_FIELDS: Final = {name: field for name, field in _PROFILE_FIELDS.items() if name != "zoneinfo"}

_FROM_DATA: Final[Mapping[str, tuple[str, type]]] = {
    "nickname": ("profile", str),
    "profile": ("profile", str),
    "website": ("profile", str),
    "gender": ("profile", str),
    "address": ("address", dict),
}
"""claim -> its scope and its type in `data`; an address may also be a string, the member `formatted`."""

USERINFO_CLAIMS: Final = "userinfo_claims"
"""The claim of an access token with the claims requested from userinfo individually (OpenID Connect Core 5.5)."""
_TOKEN_ONLY: Final = frozenset(_CLAIMS["token_only"])
CLAIMS_SUPPORTED: Final[list[str]] = _CLAIMS["supported"]
"""The claims_supported of the discovery document."""


def full_name(user: Document) -> str | None:
    """Return the user's fullName, else the parts of the name combined."""
    if user.get("fullName"):
        return str(user["fullName"])
    return " ".join(user[part] for part in ("firstName", "middleName", "lastName") if user.get(part)) or None


def access_token_claims(user: Document, application: Document) -> Document:
    """Return the claims of an access token about the user; roles only for registered users."""
    claims: Document = {}
    if not is_strict(application):
        claims |= _present({"preferred_username": user.get("username"), **_email(user)})
    registration = users.find_registration(user, application["id"])
    if registration is not None:
        claims |= {"applicationId": application["id"], "roles": sorted(registration["roles"])}
    return claims


def id_token_claims(user: Document, application: Document, granted: Collection[str], *, alone: bool) -> Document:
    """Return the claims of an ID token about the user.

    `alone`: it is issued without code and access token. Otherwise a client with Minimal claims gets them from userinfo
    (OpenID Connect Core 5.4). Only an ID token that is issued alone contains the address.
    """
    if has_minimal_id_token(application) and not alone:
        return {}
    if is_strict(application):
        return scope_claims(user, granted if alone else [scope for scope in granted if scope != "address"])
    return _present({"preferred_username": user.get("username"), **_email(user)})


def requested_claims(
    user: Document, application: Document, granted: Collection[str], requested: RequestedClaims
) -> Document:
    """Return the individually requested claims that the application may have and whose values are acceptable.

    It may have the claims of its granted scopes. A first party, which needs no consent, may also have those of its
    other scopes; a third party cannot bypass consent this way (docs/decisions/0027).
    """
    if not requested:
        return {}
    known = scopes.known_scopes(OAuthSettings.of(application), application["scopes"])
    free = [
        scope
        for scope in scopes.PROVIDED
        if scope in known and not consent.scopes_requiring_consent(application, [scope])
    ]
    claims = scope_claims(user, {*granted, *free})
    return {name: claims[name] for name, claim in requested.items() if name in claims and claim.accepts(claims[name])}


def scope_claims(user: Document, granted: Collection[str]) -> Document:
    """Return the standard claims of the granted scopes for which the user has values (OpenID Connect Core 5.1, 5.4)."""
    claims: Document = {}
    if "profile" in granted:
        claims |= {name: user.get(field) for name, field in _PROFILE_FIELDS.items()}
        claims["name"] = full_name(user)
        claims["locale"] = next((language.replace("_", "-") for language in user.get("preferredLanguages", ())), None)
        claims["updated_at"] = user["lastUpdateInstant"] // 1000
    if "email" in granted:
        claims |= _email(user)
    if "phone" in granted:
        claims |= _phone(user)
    data = user.get("data", {})
    for name, (scope, kind) in _FROM_DATA.items():
        if scope in granted and isinstance(data.get(name), kind):
            claims[name] = data[name]
    if isinstance(data.get("address"), str) and "address" in granted:
        claims["address"] = {"formatted": data["address"]}
    return _present(claims)


def userinfo_claims(
    user: Document, application: Document, token: Mapping[str, Any], granted: Collection[str]
) -> Document:
    """Return the userinfo response: by scope under Strict; under Compatibility the claims of the token and the user.

    Individually requested claims are added.
    """
    requested = requested_claims(
        user, application, granted, claims_request.claims_from_document(token.get(USERINFO_CLAIMS))
    )
    if is_strict(application):
        return {**scope_claims(user, granted), **requested, "sub": user["id"]}
    claims = {name: value for name, value in token.items() if name not in _TOKEN_ONLY}
    claims |= _present({name: user.get(field) for name, field in _COMPATIBLE_FIELDS.items()})
    claims |= _present({"name": full_name(user), "phone_number": _phone(user).get("phone_number"), **_email(user)})
    return {**claims, **requested, "sub": user["id"]}


def is_strict(application: Document) -> bool:
    """Whether the application handles scopes strictly."""
    return bool(application["oauthConfiguration"]["scopeHandlingPolicy"] == STRICT)


def has_minimal_id_token(application: Document) -> bool:
    """Whether ID tokens omit scope claims: with `idTokenClaims` Minimal, and under the profile strict."""
    return security_profiles.is_strict(application) or application["oauthConfiguration"].get("idTokenClaims") == MINIMAL


def _email(user: Document) -> Document:
    if not user.get("email"):
        return {}
    return {"email": user["email"], "email_verified": bool(user.get("verified"))}


def _phone(user: Document) -> Document:
    number = user.get("phoneNumber") or user.get("mobilePhone")
    if number is None:
        return {}
    if "phoneNumber" not in user:
        return {"phone_number": number}
    verified = any(
        identity.get("type") == "phoneNumber" and identity.get("verified") for identity in user.get("identities", ())
    )
    return {"phone_number": number, "phone_number_verified": verified}


def _present(claims: Mapping[str, Any]) -> Document:
    return {name: value for name, value in claims.items() if value is not None}
