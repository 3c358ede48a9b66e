"""Which claims about a user go into which token and into the userinfo response (spec: OAuth, JWT contents; userinfo).

Standard claims that have no field of their own are read from the user's free `data`, under their own names: this is
the one documented place (`_FROM_DATA`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from identity.call import Document
from identity.domain.authorization import claims_request, consent
from identity.domain.authorization.claims_request import RequestedClaims
from identity.domain.clients import scopes, security_profiles
from identity.domain.users import users

STRICT: Final = "Strict"
MINIMAL: Final = "Minimal"

_PROFILE_FIELDS: Final = {
    "given_name": "firstName",
    "middle_name": "middleName",
    "family_name": "lastName",
    "birthdate": "birthDate",
    "picture": "imageUrl",
    "preferred_username": "username",
    "zoneinfo": "timezone",
}
_COMPATIBLE_FIELDS: Final = {name: field for name, field in _PROFILE_FIELDS.items() if name != "zoneinfo"}

_FROM_DATA: Final[Mapping[str, tuple[str, type]]] = {
    "nickname": ("profile", str),
    "profile": ("profile", str),
    "website": ("profile", str),
    "gender": ("profile", str),
    "address": ("address", dict),
}
"""claim -> the scope it needs and the type it must have in `data`; an address may also be one text, its `formatted`."""

USERINFO_CLAIMS: Final = "userinfo_claims"
"""The claim of an access token that says what userinfo shall tell beyond its scopes (OpenID Connect Core 5.5)."""

_TOKEN_ONLY: Final = frozenset(
    {
        "acr",
        "amr",
        "at_hash",
        "aud",
        "auth_time",
        "authenticationType",
        "c_hash",
        "cnf",
        "exp",
        "gty",
        "iat",
        "iss",
        "jti",
    }
    | {"nbf", "nonce", "scope", "sid", "tid", "tty", USERINFO_CLAIMS}
)

CLAIMS_SUPPORTED: Final = tuple(
    sorted(
        {
            "acr",
            "amr",
            "applicationId",
            "at_hash",
            "aud",
            "auth_time",
            "authenticationType",
            "c_hash",
            "email",
            "email_verified",
        }
        | {"exp", "iat", "iss", "jti", "locale", "name", "nbf", "nonce", "phone_number", "phone_number_verified"}
        | {"roles", "sid", "sub", "updated_at", *_PROFILE_FIELDS, *_FROM_DATA}
    )
)
"""What discovery publishes as claims_supported."""


def full_name(user: Document) -> str | None:
    """The user's fullName, or what the parts of the name make."""
    if user.get("fullName"):
        return str(user["fullName"])
    return " ".join(user[part] for part in ("firstName", "middleName", "lastName") if user.get(part)) or None


def access_token_claims(user: Document, application: Document) -> Document:
    """What an access token says of the user beside the protocol's claims; roles only of the registered."""
    claims: Document = {}
    if not is_strict(application):
        claims |= _present({"preferred_username": user.get("username"), **_email(user)})
    registration = users.find_registration(user, application["id"])
    if registration is not None:
        claims |= {"applicationId": application["id"], "roles": sorted(registration["roles"])}
    return claims


def id_token_claims(user: Document, application: Document, granted: Collection[str], *, alone: bool) -> Document:
    """The claims of an ID token about the user, in addition to those of the protocol.

    `alone` says that neither a code nor an access token comes with it. With Minimal claims the client otherwise gets
    them from userinfo (OpenID Connect Core 5.4). Only an ID token that comes alone contains the address.
    """
    if has_minimal_id_token(application) and not alone:
        return {}
    if is_strict(application):
        return scope_claims(user, granted if alone else [scope for scope in granted if scope != "address"])
    return _present({"preferred_username": user.get("username"), **_email(user)})


def requested_claims(
    user: Document, application: Document, granted: Collection[str], wishes: RequestedClaims
) -> Document:
    """The claims that were asked for one by one, as far as the application may have them and the values will do.

    It may have what its granted scopes cover. A first party, which need ask nobody, may also have what its other scopes
    would cover; a third party cannot get round its users' consent in this way (docs/decisions/0027).
    """
    if not wishes:
        return {}
    known = scopes.known_scopes(application["oauthConfiguration"], application["scopes"])
    free = [
        scope for scope in scopes.PROVIDED if scope in known and not consent.scopes_to_ask_for(application, [scope])
    ]
    told = scope_claims(user, {*granted, *free})
    return {name: told[name] for name, wish in wishes.items() if name in told and wish.accepts(told[name])}


def scope_claims(user: Document, granted: Collection[str]) -> Document:
    """The standard claims of the granted scopes (OpenID Connect Core 5.1 and 5.4) that the user has values for."""
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
    """The userinfo response: by scope under Strict; under Compatibility the token's own claims and the user's.

    What the token says was asked for one by one comes on top.
    """
    wanted = requested_claims(
        user, application, granted, claims_request.claims_from_document(token.get(USERINFO_CLAIMS))
    )
    if is_strict(application):
        return {**scope_claims(user, granted), **wanted, "sub": user["id"]}
    claims = {name: value for name, value in token.items() if name not in _TOKEN_ONLY}
    claims |= _present({name: user.get(field) for name, field in _COMPATIBLE_FIELDS.items()})
    claims |= _present({"name": full_name(user), "phone_number": _phone(user).get("phone_number"), **_email(user)})
    return {**claims, **wanted, "sub": user["id"]}


def is_strict(application: Document) -> bool:
    """Whether the application handles scopes strictly."""
    return bool(application["oauthConfiguration"]["scopeHandlingPolicy"] == STRICT)


def has_minimal_id_token(application: Document) -> bool:
    """Whether ID tokens leave scope claims to userinfo: with `idTokenClaims` Minimal, and under profile strict."""
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
