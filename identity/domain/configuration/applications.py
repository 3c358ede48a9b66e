"""Rules of applications: derived members and validation."""

from __future__ import annotations

from collections.abc import Iterable

from identity.call import Document
from identity.domain.clients import redirect_uris, resource_indicators, scopes, security_profiles
from identity.domain.clients.oauth_settings import client_id_of
from identity.domain.configuration import tenants as tenant_rules
from identity.domain.objects import resource_definition
from identity.errors import FieldError
from identity.ids import new_secret, parse_id

ADMINISTRATOR_APPLICATION_ID = "3c219e58-ed0e-4b18-ad48-f4f92793ae32"
ADMINISTRATOR_APPLICATION_NAME = "FusionAuth"
"""The published name, by which tools find the application."""
FORMER_ADMINISTRATOR_APPLICATION_NAME = "Administration"
"""Its name in earlier versions of the service."""
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
EXCHANGE_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
RESERVED_PREFIXES = ("idp-link:", "source-entity:", "target-entity:")


def complete(application: Document, stored: Document | None) -> Document:
    """Set what a request cannot: default client id and secret, and state; on update keep roles and scopes."""
    oauth = application["oauthConfiguration"]
    oauth["clientId"] = _client_id(application, stored)
    _mirror_authentication_policy(oauth, None if stored is None else stored["oauthConfiguration"])
    if stored is None:
        oauth.setdefault("clientSecret", new_secret(32))
        application |= {"active": True, "state": "Active"}
    else:
        oauth.setdefault("clientSecret", stored["oauthConfiguration"]["clientSecret"])
        application |= {name: stored[name] for name in ("active", "state", "roles", "scopes")}
    if application["multiFactorConfiguration"].get("loginPolicy") is None:
        application["multiFactorConfiguration"].pop("trustPolicy", None)
    return application


def _client_id(application: Document, stored: Document | None) -> str:
    """Return the client_id of an application: the requested one, else the stored one, else its id.

    A UUID stands for the id, as in requests that repeat a copied application: only an id is a UUID, so that no
    client_id is the id of another application.
    """
    requested = application["oauthConfiguration"].get("clientId")
    if requested is None and stored is not None:
        return client_id_of(stored)
    return str(application["id"] if requested is None or parse_id(requested) else requested)


def problems(application: Document) -> list[FieldError]:
    """Return the errors of an application that do not depend on other objects."""
    oauth = application["oauthConfiguration"]
    errors = list(_url_problems(oauth)) + tenant_rules.base_url_problems(application, "application")
    if DEVICE_GRANT in oauth["enabledGrants"] and "deviceVerificationURL" not in oauth:
        errors.append(FieldError.missing("application.oauthConfiguration.deviceVerificationURL"))
    if application["verifyRegistration"] and "verificationEmailTemplateId" not in application:
        errors.append(FieldError.missing("application.verificationEmailTemplateId"))
    if application["jwtConfiguration"]["enabled"]:
        errors += tenant_rules.token_problems(application["jwtConfiguration"], "application.jwtConfiguration")
    if security_profiles.is_strict(application):
        errors += [contradiction_error(found) for found in security_profiles.contradictions(application)]
    errors += resource_definition.repeated(application["roles"], "application.roles")
    errors += resource_definition.repeated(application["scopes"], "application.scopes")
    errors += [
        error for scope in application["scopes"] for error in scope_name_problems(scope["name"], "application.scopes")
    ]
    return errors


def scope_problems(_application: Document, scope: Document) -> list[FieldError]:
    """Return the errors of one scope."""
    return scope_name_problems(scope["name"], "scope.name")


def scope_name_problems(name: str, path: str) -> list[FieldError]:
    """Return an error for a custom scope with a reserved name or prefix."""
    if name in scopes.RESERVED.union(scopes.PROVIDED) or name.startswith(RESERVED_PREFIXES):
        return [FieldError.of("invalid", path, f"The scope name [{name}] is reserved.")]
    return []


def _mirror_authentication_policy(oauth: Document, stored: Document | None) -> None:
    """Synchronize the deprecated `requireClientAuthentication` with the policy.

    The changed one takes precedence, because old clients send only the deprecated member; if both changed, or for a
    new application, the policy does.
    """
    policy, switch = "clientAuthenticationPolicy", "requireClientAuthentication"
    if (
        stored is not None
        and oauth.get(policy) == stored[policy]
        and oauth.get(switch, stored[switch]) != stored[switch]
    ):
        del oauth[policy]
    if policy not in oauth:
        oauth[policy] = "Required" if oauth.get(switch, True) else "NotRequired"
    oauth[switch] = oauth[policy] == "Required"


def _url_problems(oauth: Document) -> Iterable[FieldError]:
    policy = oauth["authorizedURLValidationPolicy"]
    for name in ("authorizedRedirectURLs", "authorizedOriginURLs"):
        for index, url in enumerate(oauth[name]):
            reason = redirect_uris.registration_problem(url, policy)
            if reason is not None:
                path = f"application.oauthConfiguration.{name}[{index}]"
                yield FieldError.invalid(path, f"cannot be registered: {reason}")
    for index, url in enumerate(oauth["authorizedResourceUris"]):
        if not resource_indicators.is_absolute(url):
            path = f"application.oauthConfiguration.authorizedResourceUris[{index}]"
            yield FieldError.invalid(path, "must be an absolute URI without a fragment")
    for name in ("logoutURL", "deviceVerificationURL"):
        if name in oauth and redirect_uris.registration_problem(oauth[name], "ExactMatch") is not None:
            path = f"application.oauthConfiguration.{name}"
            yield FieldError.invalid(path, "must be an absolute URL")


def contradiction_error(found: security_profiles.Shortcoming) -> FieldError:
    """Return the error of a setting that contradicts the profile strict."""
    message = f"Under the profile strict the [{found.path}] {found.problem} ({found.rule})."
    return FieldError.of("invalid", found.path, message)
