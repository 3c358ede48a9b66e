"""Identity providers: which members each type has, what is filled in, and what is wrong whatever else is stored.

provider   a service that authenticates users: an OpenID Connect provider, or an issuer of JWTs with configured keys
strategy   `linkingStrategy`: how the first login of an external identity finds or creates its user
claim map  ExternalJWT: which claims of the token are copied into which fields of the user or the registration
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from identity.call import Document
from identity.errors import FieldError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

OPENID_CONNECT: Final = "OpenIDConnect"
EXTERNAL_JWT: Final = "ExternalJWT"

AUTHENTICATION_TYPES: Final[Mapping[str, str]] = {OPENID_CONNECT: "OPENID_CONNECT", EXTERNAL_JWT: "FEDERATED_JWT"}
"""The types that users can log in through, and the authenticationType of such a login."""

_NAMED: Final = frozenset({EXTERNAL_JWT, OPENID_CONNECT, "SAMLv2", "SAMLv2IdPInitiated"})
"""The types of which there may be many; of the others one goes by the name of its type."""

_COMMON: Final = frozenset(
    {"applicationConfiguration", "attributeMappings", "data", "debug", "enabled", "id", "insertInstant", "private"}
    | {"lambdaConfiguration", "lastUpdateInstant", "linkingStrategy", "name", "source", "tenantConfiguration"}
    | {"tenantId", "type"}
)
_OAUTH: Final = ("buttonText", "client_id", "client_secret", "scope")
_SAML: Final = (
    *("assertionDecryptionConfiguration", "emailClaim", "issuer", "keyId", "uniqueIdClaim", "useNameIdForEmail"),
    "usernameClaim",
)

MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "Apple": ("bundleId", "buttonText", "keyId", "scope", "servicesId", "teamId"),
    "EpicGames": _OAUTH,
    EXTERNAL_JWT: (
        *("claimMap", "defaultKeyId", "domains", "headerKeyParameter", "keys", "oauth2", "uniqueIdentityClaim"),
        *("trustEmail", "verificationKeyIds"),
    ),
    "Facebook": ("appId", "buttonText", "client_secret", "fields", "loginMethod", "permissions"),
    "Google": (*_OAUTH, "loginMethod", "properties"),
    "HYPR": ("relyingPartyApplicationId", "relyingPartyURL"),
    "LinkedIn": _OAUTH,
    "Nintendo": (*_OAUTH, "emailClaim", "uniqueIdClaim", "usernameClaim"),
    OPENID_CONNECT: ("buttonImageURL", "buttonText", "domains", "oauth2", "postRequest", "trustEmail"),
    "SAMLv2": (
        *(*_SAML, "assertionConfiguration", "buttonImageURL", "buttonText", "domains", "idpEndpoint"),
        *("idpInitiatedConfiguration", "loginHintConfiguration", "nameIdFormat", "postRequest", "requestSigningKeyId"),
        *("signRequest", "xmlSignatureC14nMethod"),
    ),
    "SAMLv2IdPInitiated": _SAML,
    "SonyPSN": _OAUTH,
    "Steam": ("apiMode", "buttonText", "client_id", "scope", "webAPIKey"),
    "Twitch": _OAUTH,
    "Twitter": ("buttonText", "consumerKey", "consumerSecret"),
    "Xbox": _OAUTH,
}
"""type -> the members that it has in addition to those of all types (ExternalJWT shows no `keys`, but takes them)."""

REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "Apple": ("keyId", "servicesId", "teamId"),
    "Facebook": ("appId", "client_secret"),
    "SAMLv2": ("keyId",),
    "SAMLv2IdPInitiated": ("issuer", "keyId"),
    "Steam": ("client_id", "webAPIKey"),
    "Twitter": ("consumerKey", "consumerSecret"),
    **dict.fromkeys(("EpicGames", "LinkedIn", "Nintendo", "SonyPSN", "Twitch", "Xbox"), ("client_id", "client_secret")),
    "Google": ("client_id",),
}
"""What a type that is only stored cannot do without."""

_OVERRIDES: Final = frozenset({"createRegistration", "data", "enabled"})
_OF_OPENID_CONNECT: Final = ("clientAuthenticationMethod", "client_id", "client_secret", "issuer", "scope")
_NOT_OVERRIDDEN: Final = frozenset({"domains", "keys", "postRequest", "trustEmail"})
_CLAIMS: Final = {
    "emailClaim": "email",
    "emailVerifiedClaim": "email_verified",
    "uniqueIdClaim": "sub",
    "usernameClaim": "preferred_username",
}
_BUTTON: Final = "Login with OpenID Connect"
_ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "userinfo_endpoint")
CALLED_URLS: Final = ("issuer", "token_endpoint", "userinfo_endpoint")
"""The addresses of a provider that the service itself calls."""

_IMAGE: Final = re.compile(r"https://[A-Za-z0-9._-]+(:[0-9]{1,5})?(/[\x21\x23-\x7e]*)?")
"""Addresses of images that the policy of a page can name: https, and a host without anything strange."""

_SHOWN_AT_LOOKUP: Final = ("client_id", "issuer", "scope", *_ENDPOINTS)

RECONCILE_LAMBDAS: Final[Mapping[str, str]] = {
    OPENID_CONNECT: "OpenIDReconcile",
    "SAMLv2IdPInitiated": "SAMLv2Reconcile",
    **{name: f"{name}Reconcile" for name in MEMBERS if name not in {OPENID_CONNECT, "SAMLv2IdPInitiated"}},
}
"""type -> the type that its reconcile lambda must have."""


def complete(document: Document, stored: Document | None) -> Document:
    """The provider with what belongs to its type, defaults filled in, ids and domains in one form.

    The type may be missing, when its absence is known already.
    """
    kind = str(document.get("type"))
    kept = _COMMON | frozenset(MEMBERS.get(kind, ()))
    provider = {name: value for name, value in document.items() if name in kept}
    for name in ("applicationConfiguration", "tenantConfiguration"):
        provider[name] = {str(key).lower(): value for key, value in provider.get(name, {}).items()}
    overrides = (_OVERRIDES | kept) - _COMMON - _NOT_OVERRIDDEN | _OVERRIDES
    provider["applicationConfiguration"] = {
        key: _pruned(value, overrides) for key, value in provider["applicationConfiguration"].items()
    }
    if kind in MEMBERS and kind not in _NAMED:
        provider.setdefault("name", kind)
    if kind == OPENID_CONNECT:
        provider = _openid_connect(provider)
    elif kind == EXTERNAL_JWT:
        provider = _external_jwt(provider, stored or {})
    if "domains" in kept:
        provider["domains"] = sorted(provider.get("domains", []))
    return {**provider, "private": _look_ups(provider)}


def problems(provider: Document, stored: Document | None) -> list[FieldError]:
    """What is wrong with a completed provider whatever else is stored."""
    kind = str(provider.get("type"))
    if stored is not None and kind != stored["type"]:
        return [_problem("invalid", "type", f"The type of this provider is {stored['type']} and never changes.")]
    needed = (*(("name",) if kind in _NAMED else ()), *REQUIRED.get(kind, ()))
    errors = [_missing(name) for name in needed if not provider.get(name)]
    if kind == OPENID_CONNECT:
        errors += _openid_connect_problems(provider)
    return errors


def find_enabled_settings(provider: Document, application_id: str) -> Document | None:
    """What the provider is set to for an application, or None where it is not to be used."""
    found: Document | None = provider["applicationConfiguration"].get(application_id)
    return found if provider["enabled"] and found is not None and found["enabled"] else None


def effective_oauth2(provider: Document, application_id: str) -> Document:
    """The `oauth2` of a provider, with what is different for an application."""
    own = provider["applicationConfiguration"].get(application_id, {}).get("oauth2", {})
    return {**provider["oauth2"], **own}


def is_email_trusted(provider: Document, is_verified: bool | None) -> bool:
    """Whether an email address from the provider counts as verified.

    One that the provider does not state as verified counts only where the provider has `trustEmail` set.
    """
    return bool(provider.get("trustEmail", False)) if is_verified is None else is_verified


def link_limit(provider: Document, tenant_id: str) -> int | None:
    """How many accounts of the provider a user of the tenant may be linked to, or None without a limit."""
    limit = provider["tenantConfiguration"].get(tenant_id, {}).get("limitUserLinkCount", {})
    return int(limit["maximumLinks"]) if limit.get("enabled") else None


@dataclasses.dataclass(frozen=True, slots=True)
class Button:
    """What the login page shows for a provider; `image_url` is None where there is none that a page may load."""

    provider_id: str
    text: str
    image_url: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderOptions:
    """The alternatives to a password on a login page; `plain_urls` are its targets without TLS."""

    buttons: tuple[Button, ...] = ()
    manages_domains: bool = False
    plain_urls: tuple[str, ...] = ()


NO_OPTIONS: Final = ProviderOptions()


def login_page_providers(providers: Iterable[Document], tenant_id: str, application_id: str) -> list[Document]:
    """The providers that a browser of an application's user can be sent to, by name."""
    found = [
        one
        for one in providers
        if one["type"] == OPENID_CONNECT
        and is_available_to(one, tenant_id)
        and find_enabled_settings(one, application_id)
    ]
    return sorted(found, key=lambda one: (one["name"].lower(), one["id"]))


def options_of(providers: Iterable[Document], application_id: str) -> ProviderOptions:
    """What the login page of an application offers, of providers that are reachable."""
    known = list(providers)
    configurations = [effective_oauth2(one, application_id) for one in known]
    urls = [
        configuration.get(name) or ""
        for configuration in configurations
        for name in ("authorization_endpoint", "issuer")
    ]
    return ProviderOptions(
        tuple(_button(one, application_id) for one in known),
        any(one["domains"] for one in known),
        tuple(sorted({url for url in urls if url.startswith("http:")})),
    )


def find_by_domain(providers: Iterable[Document], login_id: str) -> Document | None:
    """Of reachable providers the one that manages an email address, or a bare domain; a tenant's own comes first."""
    domain = domain_of(login_id)
    found = [one for one in providers if domain in one["domains"]]
    return min(found, key=lambda one: ("tenantId" not in one, one["id"]), default=None)


def _button(provider: Document, application_id: str) -> Button:
    shown = {**provider, **provider["applicationConfiguration"][application_id]}
    image_url = shown.get("buttonImageURL")
    is_safe = image_url is not None and _IMAGE.fullmatch(image_url) is not None
    return Button(provider["id"], shown["buttonText"], image_url if is_safe else None)


def transport_problem(url: str, networks: Sequence[Network]) -> str | None:
    """Why secrets may not be sent to this address, or None when they may.

    Without TLS only to one that is named as an IP address or localhost, and lies in a network that the operator opened.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme == "https":
            return None
        address = ipaddress.ip_address("127.0.0.1" if parts.hostname == "localhost" else parts.hostname or "")
    except ValueError:
        return "it must be an https URL"
    return None if any(address in network for network in networks) else "it must be an https URL"


def is_available_to(provider: Document, tenant_id: str) -> bool:
    """Whether a tenant may use the provider: it is shared, or its own."""
    return provider.get("tenantId") in {None, tenant_id}


def domain_of(text: str) -> str:
    """The domain of a domain or of an email address."""
    return text.strip().lower().rpartition("@")[2]


def public_view(provider: Document) -> Document:
    """What anybody may learn of a provider who knows a domain that it manages."""
    applications: Mapping[str, Any] = provider["applicationConfiguration"]
    oauth2 = {name: provider["oauth2"][name] for name in _SHOWN_AT_LOOKUP if name in provider.get("oauth2", {})}
    return {
        **{name: provider[name] for name in ("id", "idpEndpoint", "name", "tenantId", "type") if name in provider},
        "applicationIds": sorted(key for key, settings in applications.items() if settings["enabled"]),
        **({"oauth2": oauth2} if oauth2 else {}),
    }


def key_ids(provider: Document) -> Iterable[tuple[str, str]]:
    """(member, id) of every key that the provider refers to."""
    for name in ("defaultKeyId", "keyId", "requestSigningKeyId"):
        if name in provider:
            yield name, provider[name]
    for index, key_id in enumerate(provider.get("verificationKeyIds", ())):
        yield f"verificationKeyIds[{index}]", key_id
    decryption = provider.get("assertionDecryptionConfiguration", {})
    if "keyTransportDecryptionKeyId" in decryption:
        name = "assertionDecryptionConfiguration.keyTransportDecryptionKeyId"
        yield name, decryption["keyTransportDecryptionKeyId"]


def _openid_connect(provider: Document) -> Document:
    oauth2 = {**_CLAIMS, "clientAuthenticationMethod": "client_secret_basic", **provider.get("oauth2", {})}
    if oauth2["clientAuthenticationMethod"] == "none":
        oauth2.pop("client_secret", None)
    return {"buttonText": _BUTTON, "postRequest": False, **provider, "oauth2": oauth2}


def _external_jwt(provider: Document, stored: Document) -> Document:
    given = provider.get("oauth2", {})
    oauth2 = {**_CLAIMS, **{name: value for name, value in given.items() if name not in _OF_OPENID_CONNECT}}
    older = provider.get("uniqueIdentityClaim")
    if older is not None and oauth2.get("emailClaim", "email") == "email":
        oauth2["emailClaim"] = older
    # Write-only: who sends a provider back that was read has no keys to send.
    keys = provider.get("keys", stored.get("keys", {}))
    filled = {"claimMap": {}, "headerKeyParameter": "kid", "verificationKeyIds": [], **provider}
    return {**filled, "keys": keys, "oauth2": oauth2}


def _look_ups(provider: Document) -> Document:
    """What the indexes and the search look at: absent where empty, which an index of arrays would take for a value."""
    lists = {"domains": provider.get("domains"), "applicationIds": sorted(provider["applicationConfiguration"])}
    return {name: value for name, value in lists.items() if value}


def _openid_connect_problems(provider: Document) -> list[FieldError]:
    oauth2 = provider["oauth2"]
    needed = ["client_id"]
    if oauth2["clientAuthenticationMethod"] != "none":
        needed.append("client_secret")
    if not oauth2.get("issuer"):
        needed += _ENDPOINTS
    errors = [_missing(f"oauth2.{name}") for name in needed if not oauth2.get(name)]
    address = oauth2.get("authorization_endpoint")
    if address is not None and not is_web_url(address):
        errors.append(_problem("invalid", "oauth2.authorization_endpoint", "It must be an absolute http or https URL."))
    return errors


def is_web_url(text: str) -> bool:
    """Whether a browser may be sent there: an absolute http or https URL with a host and without user information."""
    try:
        parts = urllib.parse.urlsplit(text)
    except ValueError:
        return False
    is_clean = text.isprintable() and not any(character in text for character in ' "<>\\')
    return is_clean and parts.scheme in {"http", "https"} and bool(parts.hostname) and "@" not in parts.netloc


def _pruned(document: Document, names: frozenset[str]) -> Document:
    return {name: value for name, value in document.items() if name in names}


def _missing(name: str) -> FieldError:
    return _problem(
        "missing" if name == "keyId" else "blank", name, f"You must specify the [identityProvider.{name}] property."
    )


def _problem(kind: str, name: str, message: str) -> FieldError:
    return FieldError.of(kind, f"identityProvider.{name}", message)
