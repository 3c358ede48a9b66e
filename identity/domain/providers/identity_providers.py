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
from identity.domain.objects.data_files import load_yaml
from identity.domain.providers import social_providers
from identity.domain.providers.social_providers import CLAIMS
from identity.errors import FieldError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

OPENID_CONNECT: Final = "OpenIDConnect"
EXTERNAL_JWT: Final = "ExternalJWT"

AUTHENTICATION_TYPES: Final[Mapping[str, str]] = {
    OPENID_CONNECT: "OPENID_CONNECT",
    EXTERNAL_JWT: "FEDERATED_JWT",
    **{name: row.authentication_type for name, row in social_providers.PROVIDERS.items()},
}
"""The types that users can log in with, and the authenticationType of their logins."""

_NAMED: Final = frozenset({EXTERNAL_JWT, OPENID_CONNECT, "SAMLv2", "SAMLv2IdPInitiated"})
"""The types with a name of their own. Providers of other types have the name of their type."""

_TYPES: Final = load_yaml(__file__, "identity_provider_types.yaml")
_COMMON: Final = frozenset(_TYPES["common"])
MEMBERS: Final[Mapping[str, list[str]]] = _TYPES["members"]
"""The members of each type in addition to the common ones."""

REQUIRED: Final[Mapping[str, list[str]]] = _TYPES["required"]
"""The required members of the types without `oauth2`."""

_OVERRIDES: Final = frozenset({"createRegistration", "data", "enabled"})
_OPENID_CONNECT_ONLY: Final = (
    *("clientAuthenticationMethod", "client_id", "client_secret", "emails_endpoint", "end_session_endpoint"),
    *("id_token_signed_response_alg", "issuer", "prompt", "scope", "userinfo_signed_response_alg"),
)
_NOT_OVERRIDDEN: Final = frozenset(
    {"domains", "forwardPrompt", "keys", "logoutAtProvider", "postRequest", "trustEmail"}
)
_BUTTON: Final = "Login with OpenID Connect"
_ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "userinfo_endpoint")
_SIGNED: Final = ("id_token_signed_response_alg", "userinfo_signed_response_alg")
_SECRET_BYTES: Final[Mapping[str, int]] = {"HS256": 32, "HS384": 48, "HS512": 64}
"""The minimum length of a client secret that verifies signatures (RFC 7518 section 3.2)."""
CALLED_URLS: Final = ("emails_endpoint", "issuer", "token_endpoint", "userinfo_endpoint")
"""The URLs of a provider that the service calls."""

_IMAGE: Final = re.compile(r"https://[A-Za-z0-9._-]+(:[0-9]{1,5})?(/[\x21\x23-\x7e]*)?")
"""Image URLs that a content security policy can name: https and a plain host."""

_SYMBOLS: Final[Mapping[str, str]] = _TYPES["symbols"]
_SHOWN_AT_LOOKUP: Final = ("client_id", "issuer", "scope", *_ENDPOINTS)

RECONCILE_LAMBDAS: Final[Mapping[str, str]] = {
    OPENID_CONNECT: "OpenIDReconcile",
    "SAMLv2IdPInitiated": "SAMLv2Reconcile",
    **{name: f"{name}Reconcile" for name in MEMBERS if name not in {OPENID_CONNECT, "SAMLv2IdPInitiated"}},
}
"""The type of the reconcile lambda of each provider type."""


def complete(document: Document, stored: Document | None) -> Document:
    """Return the provider with the members of its type, defaults, and canonical ids and domains.

    The type may be missing, if that is reported already.
    """
    kind = str(document.get("type"))
    members = _COMMON | frozenset(MEMBERS.get(kind, ()))
    provider = _select(document, members)
    for name in ("applicationConfiguration", "tenantConfiguration"):
        provider[name] = {str(key).lower(): value for key, value in provider.get(name, {}).items()}
    overrides = (_OVERRIDES | members) - _COMMON - _NOT_OVERRIDDEN | _OVERRIDES
    provider["applicationConfiguration"] = {
        key: _select(value, overrides) for key, value in provider["applicationConfiguration"].items()
    }
    if kind in MEMBERS and kind not in _NAMED:
        provider.setdefault("name", kind)
    if kind == OPENID_CONNECT:
        provider = _complete_openid_connect(provider)
    elif kind == EXTERNAL_JWT:
        provider = _complete_external_jwt(provider, stored or {})
    if "domains" in members and ("domains" in provider or kind not in social_providers.PROVIDERS):
        provider["domains"] = sorted(provider.get("domains", []))
    row = social_providers.PROVIDERS.get(kind)
    provider.setdefault("linkingStrategy", "LinkByEmail" if row is None else row.linking_strategy)
    return {**provider, "private": _lookup_members(provider)}


def problems(provider: Document, stored: Document | None) -> list[FieldError]:
    """Return the problems of a completed provider that do not depend on other objects."""
    kind = str(provider.get("type"))
    if stored is not None and kind != stored["type"]:
        return [_problem("invalid", "type", f"The type of this provider is {stored['type']}, and cannot be changed.")]
    required = (*(("name",) if kind in _NAMED else ()), *REQUIRED.get(kind, ()))
    errors = [_missing(name) for name in required if not provider.get(name)]
    if kind == OPENID_CONNECT:
        errors += _openid_connect_problems(provider)
    return errors


def find_enabled_settings(provider: Document, application_id: str) -> Document | None:
    """Return the settings of the provider for an application, or None if it is disabled for it."""
    settings: Document | None = provider["applicationConfiguration"].get(application_id)
    return settings if provider["enabled"] and settings is not None and settings["enabled"] else None


def is_enabled_for(provider: Document, tenant_id: str, application_id: str) -> bool:
    """Return whether users of an application of a tenant can use the provider."""
    return is_available_to(provider, tenant_id) and find_enabled_settings(provider, application_id) is not None


def effective_oauth2(provider: Document, application_id: str) -> Document:
    """Return the `oauth2` of a provider, with the overrides of an application."""
    if provider["type"] in social_providers.PROVIDERS:
        return social_providers.oauth2_of(provider, application_id)
    own = provider["applicationConfiguration"].get(application_id, {}).get("oauth2", {})
    return {**provider["oauth2"], **own}


def is_email_trusted(provider: Document, is_verified: bool | None) -> bool:
    """Return whether an email address of the provider counts as verified.

    Without a statement of the provider, `trustEmail` decides.
    """
    return bool(provider.get("trustEmail", False)) if is_verified is None else is_verified


def link_limit(provider: Document, tenant_id: str) -> int | None:
    """Return the maximum number of linked accounts of a user, or None without a limit."""
    limit = provider["tenantConfiguration"].get(tenant_id, {}).get("limitUserLinkCount", {})
    return int(limit["maximumLinks"]) if limit.get("enabled") else None


@dataclasses.dataclass(frozen=True, slots=True)
class Button:
    """The button of a provider on the login page; `image_url` is None without an image that the page may load.

    Without a text of its own, the page names the `label`; `symbol` is the name of the drawing that goes with it.
    """

    provider_id: str
    text: str | None
    image_url: str | None
    label: str = ""
    symbol: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderOptions:
    """The alternatives to a password on a login page."""

    buttons: tuple[Button, ...] = ()
    manages_domains: bool = False


NO_OPTIONS: Final = ProviderOptions()


def login_page_providers(providers: Iterable[Document], tenant_id: str, application_id: str) -> list[Document]:
    """Return the providers that the login page of an application can redirect to, sorted by name."""
    usable = [
        one
        for one in providers
        if is_enabled_for(one, tenant_id, application_id) and _is_redirectable(one, application_id)
    ]
    return sorted(usable, key=lambda one: (one["name"].lower(), one["id"]))


def options_of(providers: Iterable[Document], application_id: str) -> ProviderOptions:
    """Return the options of the login page of an application, for its login page providers."""
    known = list(providers)
    return ProviderOptions(
        # A provider with domains is reached by the address of its users.
        tuple(_button(one, application_id) for one in known if not one.get("domains")),
        any(one.get("domains") for one in known),
    )


def find_by_domain(providers: Iterable[Document], login_id: str) -> Document | None:
    """Return the provider that manages the domain of an email address, or a domain; those of the tenant come first."""
    domain = domain_of(login_id)
    managing = [one for one in providers if domain in one.get("domains", ())]
    return min(managing, key=lambda one: ("tenantId" not in one, one["id"]), default=None)


def _is_redirectable(provider: Document, application_id: str) -> bool:
    if provider["type"] in social_providers.PROVIDERS:
        return social_providers.is_redirectable(provider, application_id)
    return bool(provider["type"] == OPENID_CONNECT)


def _button(provider: Document, application_id: str) -> Button:
    settings = {**provider, **provider["applicationConfiguration"][application_id]}
    row = social_providers.PROVIDERS.get(provider["type"])
    if row is not None:
        return Button(provider["id"], settings.get("buttonText"), None, row.label, provider["type"])
    image_url = settings.get("buttonImageURL")
    is_safe = image_url is not None and _IMAGE.fullmatch(image_url) is not None
    oauth2 = effective_oauth2(provider, application_id)
    host = urllib.parse.urlsplit(oauth2.get("issuer") or oauth2.get("authorization_endpoint") or "").hostname
    return Button(
        provider["id"], settings["buttonText"], image_url if is_safe else None, symbol=_SYMBOLS.get(str(host), "")
    )


def transport_problem(url: str, networks: Sequence[Network]) -> str | None:
    """Return why secrets must not be sent to a URL, or None.

    Without TLS, its host must be localhost or an IP address in an allowed network.
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
    """Return whether a tenant can use the provider: it is shared, or belongs to the tenant."""
    return provider.get("tenantId") in {None, tenant_id}


def domain_of(text: str) -> str:
    """Return the domain of an email address; a domain is returned unchanged."""
    return text.strip().lower().rpartition("@")[2]


def manages(provider: Document, address: str) -> bool:
    """Return whether a provider may authenticate users with this address; without domains, all."""
    return not provider.get("domains") or domain_of(address) in provider["domains"]


def public_view(provider: Document) -> Document:
    """Return the public members of a provider, for the lookup by domain."""
    applications: Mapping[str, Any] = provider["applicationConfiguration"]
    oauth2 = {name: provider["oauth2"][name] for name in _SHOWN_AT_LOOKUP if name in provider.get("oauth2", {})}
    return {
        **{name: provider[name] for name in ("id", "idpEndpoint", "name", "tenantId", "type") if name in provider},
        "applicationIds": sorted(key for key, settings in applications.items() if settings["enabled"]),
        **({"oauth2": oauth2} if oauth2 else {}),
    }


def key_ids(provider: Document) -> Iterable[tuple[str, str]]:
    """Yield (member, id) of every key that the provider references."""
    for name in ("defaultKeyId", "keyId", "requestSigningKeyId"):
        if name in provider:
            yield name, provider[name]
    for application_id, settings in provider["applicationConfiguration"].items():
        if "keyId" in settings:
            yield f"applicationConfiguration.{application_id}.keyId", settings["keyId"]
    for index, key_id in enumerate(provider.get("verificationKeyIds", ())):
        yield f"verificationKeyIds[{index}]", key_id
    decryption = provider.get("assertionDecryptionConfiguration", {})
    if "keyTransportDecryptionKeyId" in decryption:
        name = "assertionDecryptionConfiguration.keyTransportDecryptionKeyId"
        yield name, decryption["keyTransportDecryptionKeyId"]


def _complete_openid_connect(provider: Document) -> Document:
    oauth2 = {**CLAIMS, "clientAuthenticationMethod": "client_secret_basic", **provider.get("oauth2", {})}
    if oauth2["clientAuthenticationMethod"] == "none":
        oauth2.pop("client_secret", None)
    return {"buttonText": _BUTTON, "postRequest": False, **provider, "oauth2": oauth2}


def _complete_external_jwt(provider: Document, stored: Document) -> Document:
    members = provider.get("oauth2", {})
    oauth2 = {**CLAIMS, **{name: value for name, value in members.items() if name not in _OPENID_CONNECT_ONLY}}
    deprecated = provider.get("uniqueIdentityClaim")
    if deprecated is not None and oauth2.get("emailClaim", "email") == "email":
        oauth2["emailClaim"] = deprecated
    # Keys are write-only, so that a request without them keeps them.
    keys = provider.get("keys", stored.get("keys", {}))
    filled = {"claimMap": {}, "headerKeyParameter": "kid", "verificationKeyIds": [], **provider}
    return {**filled, "keys": keys, "oauth2": oauth2}


def _lookup_members(provider: Document) -> Document:
    """Return the indexed members; empty lists are omitted, because the unique index would contain them."""
    lists = {"domains": provider.get("domains"), "applicationIds": sorted(provider["applicationConfiguration"])}
    return {name: value for name, value in lists.items() if value}


def _openid_connect_problems(provider: Document) -> list[FieldError]:
    oauth2 = provider["oauth2"]
    required = ["client_id"]
    if oauth2["clientAuthenticationMethod"] != "none":
        required.append("client_secret")
    if not oauth2.get("issuer"):
        required += _ENDPOINTS
    errors = [_missing(f"oauth2.{name}") for name in required if not oauth2.get(name)]
    errors += [
        _problem("invalid", f"oauth2.{name}", "It must be an absolute http or https URL.")
        for name in ("authorization_endpoint", "end_session_endpoint")
        if oauth2.get(name) is not None and not is_web_url(oauth2[name])
    ]
    for name in _SIGNED:
        minimum = _SECRET_BYTES.get(oauth2.get(name, ""), 0)
        if len(oauth2.get("client_secret", "").encode()) < minimum:
            message = f"It needs a client_secret of at least {minimum} bytes."
            errors.append(_problem("invalid", f"oauth2.{name}", message))
    return errors


def is_web_url(text: str) -> bool:
    """Return whether browsers can be redirected to a URL: absolute http or https, with a host, no credentials."""
    try:
        parts = urllib.parse.urlsplit(text)
    except ValueError:
        return False
    is_clean = text.isprintable() and not any(character in text for character in ' "<>\\')
    return is_clean and parts.scheme in {"http", "https"} and bool(parts.hostname) and "@" not in parts.netloc


def _select(document: Document, names: frozenset[str]) -> Document:
    return {name: value for name, value in document.items() if name in names}


def _missing(name: str) -> FieldError:
    return _problem(
        "missing" if name == "keyId" else "blank", name, f"You must specify the [identityProvider.{name}] property."
    )


def _problem(kind: str, name: str, message: str) -> FieldError:
    return FieldError.of(kind, f"identityProvider.{name}", message)
